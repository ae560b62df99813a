"""`rolloutlab exact`: the exact laws of a model at any alpha."""

import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import tyro

from experiments.command_line import Floats, default, program
from experiments.exact_from_samples import from_samples
from experiments.exact_from_samples import show as show_samples
from experiments.json_output import write_json
from experiments.language_model import LanguageModel, is_transformer, load_language_model
from experiments.model_argument import LoadedModel
from experiments.output import check_keeps, check_writable
from experiments.progress import track
from experiments.prompts import PromptSource, padded
from experiments.terminal import make_table, print_table, report_console
from theory.errors import InvalidInput
from theory.exact.divergences import Bounds
from theory.exact.entropies import mode, renyi_entropy
from theory.exact.enumeration import enumerate_prefixes, enumerate_sequences, total_variation
from theory.exact.functionals import base_log_prob_moments
from theory.exact.laws import (
    base_law,
    check_alpha,
    power_law,
    temperature_law,
    token_log_normalisers,
)
from theory.exact.layers import Layers, num_sequences, unroll
from theory.exact.small_alpha import small_alpha_law
from theory.exact.summary import PowerSummary, summarise

MAX_LISTED = 100_000
_TABLE_KEYS = ("power", "temperature", "next_token_power", "log_lookahead", "log_token_normaliser")


@dataclass(frozen=True)
class Arguments:
    """Exact laws of a toy model: sequence power against token temperature and the base law.

    Dynamic programs in float64, no enumeration; natural logarithms; lengths in tokens, eos included. Laws over sequences and
    per-prefix tables are listed up to 100,000 sequences.
    """

    model: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="MODEL")]
    """A JSON model file or builtin:NAME (`rolloutlab models` lists them); with --from-samples also the folder of a transformer."""

    alpha: Floats = (2.0,)
    """Power exponents, any real above 0; the temperature law is token temperature 1/alpha."""

    from_samples: Annotated[int | None, default("exact laws, no samples")] = None
    """Draw so many base samples and predict the divergences near alpha = 1 from them (second-order law, with intervals), as one
    must for a model that can only be sampled."""

    seed: int = 0
    """Of the samples."""

    prompt: Annotated[str | None, default("the empty prompt; for transformers see --task")] = None
    """Token ids that stand before the first generated one, such as "0 2"."""

    task: Annotated[str | None, default("what the model was trained on")] = None
    """Transformers: the task whose test prompts are continued."""

    prompts: Annotated[str | None, default("those of --task")] = None
    """Transformers: JSON lines with a field prompt, as `rolloutlab sample` takes them."""

    num_prompts: Annotated[int | None, default("1; all of --prompts")] = None
    """Transformers: how many prompts; intervals are over prompts where there are several."""

    max_new_tokens: Annotated[int | None, default("that of the model")] = None
    """Horizon in tokens, eos included."""

    json: Annotated[str | None, default("a table of the scalars on stdout")] = None
    """File for the machine-readable result, - for stdout."""


def exact_result(model: LoadedModel, alphas: tuple[float, ...]) -> dict[str, Any]:
    """The exact laws of a model as one JSON document.

    Args:
        model: what MODEL named.
        alphas: exponents above 0.

    Returns:
        {"model": ..., "results": [one block per alpha]}.
    """
    layers = unroll(model.table)
    blocks = [power_block(model, layers, alpha) for alpha in track(alphas, "exact laws")]
    return {"model": _describe(model, layers), "results": blocks}


def sampled_result(loaded: LanguageModel, arguments: Arguments) -> dict[str, Any]:
    """The small-alpha law of a model from base samples as one JSON document.

    Args:
        loaded: what MODEL named, with its prompts.
        arguments: with `from_samples`.

    Returns:
        {"model": ..., "from_samples": ..., "results": [one block per alpha]}.
    """
    assert arguments.from_samples is not None
    for alpha in arguments.alpha:
        check_alpha(alpha)
    prompts = padded([prompt.read for prompt in loaded.prompts])
    model = loaded.model
    about = {
        "name": loaded.name,
        "vocab_size": model.vocab_size,
        "horizon": model.horizon,
        "eos": list(model.eos),
    }
    found = from_samples(
        model,
        np.asarray(prompts.tokens),
        np.asarray(prompts.lengths),
        arguments.alpha,
        arguments.from_samples,
        arguments.seed,
    )
    return {"model": about} | found


def power_block(model: LoadedModel, layers: Layers, alpha: float) -> dict[str, Any]:
    """Everything about one alpha, under the keys of the command contract.

    Args:
        model: what MODEL named.
        layers: its layers.
        alpha: exponent above 0.

    Returns:
        Scalars, and laws and per-prefix tables where there are at most MAX_LISTED sequences.
    """
    summary = summarise(layers, alpha)
    block = _scalars(summary)
    count = num_sequences(layers)
    if count <= MAX_LISTED or not model.horizon_is_free:
        power, temperature = power_law(layers, alpha).law, temperature_law(layers, alpha)
        block["tv_power_temperature"] = total_variation(power, temperature)
    else:
        block["tv_power_temperature"] = summary.tv_bounds
    if count <= MAX_LISTED:
        return block | _tables(layers, alpha)
    reason = f"{count:.6g} sequences, laws and per-prefix tables are listed up to {MAX_LISTED}"
    return block | {"omitted": {"keys": list(_TABLE_KEYS), "reason": reason}}


def _scalars(summary: PowerSummary) -> dict[str, Any]:
    """The summary with ratios beside their logarithms."""
    block: dict[str, Any] = {}
    for key, value in summary._asdict().items():
        if isinstance(value, Bounds):
            continue
        block[key] = value
        if key.startswith(("log_ess_fraction", "log_max_weight")):
            block |= _ratio(key.removeprefix("log_"), value)
    return block


def _ratio(key: str, log_value: float) -> dict[str, Any]:
    """A ratio, or null where only its logarithm fits a double."""
    if abs(log_value) < 708.0:
        return {key: math.exp(log_value)}
    return {key: None, f"{key}_reason": f"outside double range, see log_{key}"}


def _tables(layers: Layers, alpha: float) -> dict[str, Any]:
    power, log_z = power_law(layers, alpha), token_log_normalisers(layers, alpha)
    listed = enumerate_sequences((power.law, temperature_law(layers, alpha)))
    names = [_text(tokens) for tokens in listed.sequences]
    laws = np.exp(listed.log_probs).tolist()
    prefixes = enumerate_prefixes(layers)
    texts = [_text(prefix.tokens) for prefix in prefixes]
    at = [(prefix.depth, prefix.row) for prefix in prefixes]
    conditionals = [np.exp(power.law.log_conditional(depth)) for depth in range(len(layers))]
    values = (
        dict(zip(names, laws[0], strict=True)),
        dict(zip(names, laws[1], strict=True)),
        {text: conditionals[d][r].tolist() for text, (d, r) in zip(texts, at, strict=True)},
        {text: float(power.log_lookahead[d][r]) for text, (d, r) in zip(texts, at, strict=True)},
        {text: float(log_z(d)[r]) for text, (d, r) in zip(texts, at, strict=True)},
    )
    return dict(zip(_TABLE_KEYS, values, strict=True))


def _describe(model: LoadedModel, layers: Layers) -> dict[str, Any]:
    found, law = mode(layers), small_alpha_law(layers)
    log_prob = base_log_prob_moments(base_law(layers))
    return {
        "name": model.name,
        "vocab_size": model.table.vocab_size,
        "horizon": model.table.horizon,
        "eos": list(model.table.eos),
        "num_sequences": _count(num_sequences(layers)),
        "entropy": renyi_entropy(layers, 1.0),
        "min_entropy": renyi_entropy(layers, math.inf),
        "expected_base_logp": log_prob.mean,
        "variance_base_logp": log_prob.variance,
        "variance_entropy_sum": law.variance_entropy_sum,
        "small_alpha_radius": law.radius,
        "mode": {
            "tokens": list(found.tokens),
            "log_prob": found.log_prob,
            "num_modes": found.num_modes,
        },
    }


def _count(number: float) -> int | float:
    """A whole number where the count is exact."""
    return int(number) if number < 2**53 else number


def _text(tokens: tuple[int, ...]) -> str:
    return " ".join(map(str, tokens))


def _show(result: dict[str, Any]) -> None:
    """Scalars on stdout, one column per alpha."""
    blocks = result["results"]
    table = make_table("quantity", *(f"alpha {block['alpha']:g}" for block in blocks))
    for key, value in blocks[0].items():
        if key in ("alpha", "omitted", *_TABLE_KEYS) or key.endswith("_reason"):
            continue
        if isinstance(value, float | Bounds) or value is None:
            table.add_row(key, *(_cell(block[key]) for block in blocks))
    title = f"{result['model']['name']}: exact laws (nats, tokens)"
    print_table(report_console(), title, table)


def _cell(value: Any) -> str:
    if value is None:
        return "outside double range"
    if isinstance(value, Bounds):
        return f"{value.lower:.6g} .. {value.upper:.6g}"
    return f"{value + 0.0:.6g}"  # a zero without a sign


def run(arguments: Arguments) -> int:
    """Compute and write the exact laws.

    Args:
        arguments: of the command.

    Returns:
        Exit status 0.
    """
    if not 0 <= arguments.seed < 2**32:
        raise InvalidInput(f"--seed {arguments.seed}: must be in 0..{2**32 - 1}")
    source = PromptSource(
        arguments.prompt, arguments.task, arguments.prompts, arguments.num_prompts
    )
    if arguments.from_samples is None and is_transformer(arguments.model):
        raise InvalidInput(
            f"model '{arguments.model}': is a transformer, whose sequences cannot be listed; "
            "give --from-samples 4096 for what base samples say"
        )
    loaded = load_language_model(arguments.model, source, arguments.max_new_tokens)
    if arguments.json is not None:
        check_writable(arguments.json)
        check_keeps(arguments.json, arguments.model)
    if arguments.from_samples is None:
        assert loaded.toy is not None
        result, show_result = exact_result(loaded.toy, arguments.alpha), _show
    else:
        result, show_result = sampled_result(loaded, arguments), show_samples
    if arguments.json is None:
        show_result(result)
    else:
        write_json(result, arguments.json)
    return 0


main = program("rolloutlab exact", Arguments, run)

if __name__ == "__main__":
    raise SystemExit(main())
