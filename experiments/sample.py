"""`rolloutlab sample`: draws from a model by any method, one trajectory a row."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import jax
import numpy as np
import tyro

from experiments.command_line import Floats, default, program
from experiments.language_model import LanguageModel, load_language_model
from experiments.model_argument import LoadedModel
from experiments.output import STDOUT, check_keeps, check_writable
from experiments.progress import track
from experiments.prompts import PromptSource
from experiments.rollout_logs.writer import write_rows
from experiments.samplers.batches import MAX_IDS, draw_batches
from experiments.samplers.catalogue import (
    METHODS,
    Method,
    bounded,
    find_method,
    make_settings,
    rows_side_by_side,
)
from experiments.samplers.rows import Rows
from experiments.samplers.sequence_tables import read_reward, read_twist
from experiments.samplers.settings import Settings
from experiments.samplers.verdicts import verdicts_of
from theory.errors import InvalidInput
from theory.exact import power_law, unroll
from theory.smc import LogTwist, exact_twist

_MAX_BATCH = 1 << 14
# Numbers that a batch holds on the device, some tens of bytes each.
_BATCH_NUMBERS = 1 << 22
_MAX_TWIST = 50_000_000
_WORDS = ("twist", "reward")


@dataclass(frozen=True)
class Arguments:
    """Draw trajectories: JSON lines, one row each, from the base model, by token rules, or for the power law p(y)^alpha.

    Methods: ancestral, temperature, power-exact, importance, rejection, independence-mh, suffix-mh, multiple-try-mh, blockwise-mh, smc,
    adapted-smc, lookahead-smc, twisted-smc, particle-gibbs, parallel-tempering, tilted-mh. A row says whether it is an exact, a weighted or an approximate
    draw. Natural logarithms; lengths in tokens, eos included. Options that a method does not take are refused.
    """

    model: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="MODEL")]
    """A JSON model file, builtin:NAME (`rolloutlab models` lists them), or the folder of a transformer: a checkpoint, or a Hugging Face one."""

    method: str
    """One of the methods above."""

    num: int = 1
    """Draws, chains or populations for each prompt."""

    seed: int = 0
    """Of the random numbers; the same arguments and seed give the same bytes."""

    num_prompts: Annotated[int | None, default("1; all of --prompts")] = None
    """Prompts; a toy model has one, which stands under several prompt ids then."""

    prompt: Annotated[str | None, default("the empty prompt; for transformers see --task")] = None
    """Token ids that stand before the first generated one, such as "0 2"."""

    task: Annotated[str | None, default("what the model was trained on")] = None
    """Transformers: the task whose test prompts are continued and whose verifier judges the rows."""

    prompts: Annotated[str | None, default("those of --task")] = None
    """Transformers: JSON lines with a field prompt (token ids, or text where there is a tokenizer), and perhaps prompt_id."""

    max_new_tokens: Annotated[int | None, default("that of the model")] = None
    """Horizon in tokens, eos included."""

    out: str = STDOUT
    """File for the rows, - for stdout."""

    batch_size: Annotated[int | None, default("what fits")] = None
    """Draws, chains or populations side by side. The rows are the same for any."""

    alpha: Annotated[float | None, default(f"{Settings.alpha:g}")] = None
    """Exponent of the target p(y)^alpha, any real above 0."""

    proposal_alpha: Annotated[float | None, default("alpha; 1 for rejection and tilted-mh")] = None
    """Exponent of the proposal's next-token laws, token temperature 1/proposal_alpha. With twisted-smc it replaces the twist's own proposal."""

    temperature: Annotated[float | None, default(f"{Settings.temperature:g}")] = None
    """temperature: token temperature, 0 is greedy."""

    top_k: Annotated[int | None, default("all")] = None
    """temperature: most likely tokens kept."""

    top_p: Annotated[float | None, default("1")] = None
    """temperature: probability mass kept."""

    min_p: Annotated[float | None, default("0")] = None
    """temperature: least probability kept, relative to the largest."""

    order: Annotated[str | None, default("default")] = None
    """temperature: order of these rules: default, a library (transformers, vllm, sglang, llama.cpp, tunix, easydel, maxtext), or rules with commas between them."""

    log_bound: Annotated[float | None, default("the proven one if there is one")] = None
    """rejection: natural log of a bound on p(y)^alpha / q(y)."""

    max_rounds: Annotated[int | None, default(str(Settings.max_rounds))] = None
    """rejection: proposals of one row at most."""

    steps: Annotated[int | None, default(str(Settings.steps))] = None
    """Markov chains: moves of each chain; of each block for blockwise-mh."""

    cut: Annotated[str | None, default(Settings.cut)] = None
    """Markov chains: where a move cuts, uniform or entropy; independence-mh always cuts at the start."""

    tries: Annotated[int | None, default(str(Settings.tries))] = None
    """multiple-try-mh: candidates in a move."""

    block: Annotated[
        int | None,
        default(f"{Settings.block}; {METHODS['blockwise-mh'].defaults['block']} for blockwise-mh"),
    ] = None
    """Tokens between resamplings, or in a block of blockwise-mh."""

    particles: Annotated[int | None, default(str(Settings.particles))] = None
    """Populations: particles in each; in a sweep of particle-gibbs."""

    resample: Annotated[str | None, default(Settings.resample)] = None
    """Populations: every (block but the last), never, or ess."""

    ess_threshold: Annotated[float | None, default(f"{Settings.ess_threshold:g}")] = None
    """Populations: share of the particles below which --resample ess resamples."""

    resampler: Annotated[str | None, default(Settings.resampler)] = None
    """Populations: systematic, stratified, multinomial, residual, ssp, killing or chopthin; particle-gibbs takes no residual, ssp or chopthin."""

    bridge: Annotated[str | None, default(Settings.bridge)] = None
    """smc: none, or linear: resample under exponents that rise from 1 to alpha."""

    ramp: Annotated[int | None, default("half the horizon")] = None
    """smc: tokens over which --bridge linear rises."""

    draw_one: bool = False
    """Populations: one row of each, drawn by weight, instead of all its weighted rows."""

    twist: Annotated[str | None, default("exact")] = None
    """twisted-smc: exact, lookahead, or a JSON file of prefix -> log psi."""

    rollouts: Annotated[int | None, default(str(Settings.rollouts))] = None
    """lookahead: continuations of each particle that estimate its twist."""

    rollout_tokens: Annotated[int | None, default("the horizon")] = None
    """lookahead: most tokens of a continuation."""

    ladder: Annotated[Floats, default("1, 2, ..., alpha")] = ()
    """parallel-tempering: exponents, ascending to alpha."""

    reward: Annotated[str | None, default("none, but tilted-mh needs one")] = None
    """tilted-mh: JSON file of sequence -> number; -Infinity forbids a sequence."""

    beta: Annotated[float | None, default(f"{Settings.beta:g}")] = None
    """tilted-mh: b in p(y) exp(reward(y) / b)."""


_OPTIONS = tuple(
    field.name
    for field in dataclasses.fields(Arguments)
    if any(field.name in method.options for method in METHODS.values())
)


def run(arguments: Arguments) -> int:
    """Draw and write the rows.

    Args:
        arguments: of the command.

    Returns:
        Exit status 0.
    """
    method, given = find_method(arguments.method), _given(arguments)
    settings = make_settings(arguments.method, given)
    _check_counts(arguments, settings)
    source = PromptSource(
        arguments.prompt, arguments.task, arguments.prompts, arguments.num_prompts
    )
    loaded = load_language_model(arguments.model, source, arguments.max_new_tokens)
    _check_ids(arguments, settings, len(loaded.prompts))
    check_writable(arguments.out)
    for source in (arguments.model, arguments.prompts, arguments.reward, arguments.twist):
        check_keeps(arguments.out, source or "")
    settings = with_tables(arguments.method, settings, loaded, given)
    write_rows(_records(arguments, method, settings, loaded), arguments.out)
    return 0


def with_tables(
    name: str, settings: Settings, loaded: LanguageModel, given: dict[str, Any]
) -> Settings:
    """Put in what depends on the model: the exact law, a twist, a reward, a proven bound.

    Args:
        name: of the method.
        settings: checked.
        loaded: the model.
        given: options of the command line; `twist` and `reward` are words.

    Returns:
        The settings, complete.

    Raises:
        InvalidInput: a file cannot be read or lacks a prefix or a sequence, no bound is known, or the method needs a table and
            the model is none.
    """
    if name == "rejection":
        bound = bounded(settings, loaded.model.vocab_size, loaded.model.horizon)
        return dataclasses.replace(settings, log_bound=bound)
    if name == "power-exact":
        table = _toy(loaded, "--method power-exact", "another --method").table
        return dataclasses.replace(settings, power=power_law(unroll(table), settings.alpha))
    if name == "twisted-smc" and given.get("twist") != "lookahead":
        word = given.get("twist")
        toy = _toy(loaded, f"--twist {word or 'exact'}", "--twist lookahead")
        return dataclasses.replace(settings, twist=_twist(settings, toy, word))
    if name == "tilted-mh":
        table = _toy(loaded, "--method tilted-mh", "a toy model").table
        reward = read_reward(given["reward"], unroll(table), table.vocab_size)
        return dataclasses.replace(settings, reward=reward)
    return settings


def _toy(loaded: LanguageModel, option: str, mend: str) -> LoadedModel:
    """The table of a toy model, which a transformer does not have."""
    if loaded.toy is None:
        raise InvalidInput(
            f"{option}: needs all sequences of the model in a table, '{loaded.name}' is a transformer; give {mend}"
        )
    return loaded.toy


def _given(arguments: Arguments) -> dict[str, Any]:
    """The options of methods that were given."""
    values = {name: getattr(arguments, name) for name in _OPTIONS}
    return {
        name: value
        for name, value in values.items()
        if value is not None and value is not False and value != ()
    }


def _check_counts(arguments: Arguments, settings: Settings) -> None:
    for option, count in (
        ("--num", arguments.num),
        ("--num-prompts", arguments.num_prompts),
        ("--batch-size", arguments.batch_size),
    ):
        if count is not None and count < 1:
            raise InvalidInput(f"{option} {count}: must be at least 1")
    _check_ids(arguments, settings, arguments.num_prompts or 1)
    if not 0 <= arguments.seed < 2**32:
        raise InvalidInput(f"--seed {arguments.seed}: must be in 0..{2**32 - 1}")


def _check_ids(arguments: Arguments, settings: Settings, num_prompts: int) -> None:
    num_ids = arguments.num * num_prompts * max(1, len(settings.ladder))
    if num_ids > MAX_IDS:
        raise InvalidInput(
            f"--num {arguments.num}: {num_ids} chains or draws in all, at most {MAX_IDS}, give fewer"
        )


def _twist(settings: Settings, loaded: LoadedModel, word: str | None) -> LogTwist:
    layers, vocab_size = unroll(loaded.table), loaded.table.vocab_size
    if word is not None and word != "exact":
        return read_twist(word, layers, vocab_size)
    size = len(layers) * max(layer.contexts.size for layer in layers) * vocab_size
    if size > _MAX_TWIST:
        raise InvalidInput(
            f"--twist exact: {size} entries for '{loaded.name}', at most {_MAX_TWIST}, lower --max-new-tokens"
        )
    return exact_twist(power_law(layers, settings.alpha))


def _records(
    arguments: Arguments, method: Method, settings: Settings, loaded: LanguageModel
) -> Iterator[dict[str, Any]]:
    """The rows of the log, by prompt and then by sample."""
    model, prompts = loaded.model, loaded.prompts
    num_ids = arguments.num * len(prompts)
    width = rows_side_by_side(settings, method, model.vocab_size)
    fits = _BATCH_NUMBERS // (width * loaded.row_numbers)
    batch_size = min(num_ids, arguments.batch_size or max(1, min(_MAX_BATCH, fits)))
    key = jax.random.key(arguments.seed)
    read = [prompt.read for prompt in prompts]
    batches = draw_batches(key, model, read, arguments.num, batch_size, method.sampler, settings)
    common = _common(arguments, method, settings)
    first = 0
    for rows in track(batches, "sampling", total=-(-num_ids // batch_size)):
        per_id = (
            settings.particles if rows.log_weight is not None and rows.log_Z_hat is not None else 1
        )
        here = [
            prompts[(first + place // per_id) // arguments.num]
            for place in range(len(rows.lengths))
        ]
        verdicts = verdicts_of(loaded.task, here, rows)
        for place, values in enumerate(_plain(rows, method)):
            id_here, slot = first + place // per_id, place % per_id
            prompt, sample = here[place], id_here % arguments.num
            record: dict[str, Any] = {
                "prompt_id": prompt.prompt_id,
                "prompt": list(prompt.tokens),
                "sample_id": sample * per_id + slot,
            }
            if method.unit != "draw":
                record[f"{method.unit}_id"] = id_here
            yield {**common, **record, **values, **verdicts[place]}
        first += len(rows.lengths) // per_id


def _common(arguments: Arguments, method: Method, settings: Settings) -> dict[str, Any]:
    """What all rows say alike."""
    values = {name: getattr(settings, name) for name in method.options if name not in _WORDS}
    values |= {name: getattr(arguments, name) for name in _WORDS if name in method.options}
    if "twist" in method.options and values["twist"] is None:
        values["twist"] = "exact"
    options = {name: value for name, value in values.items() if value is not None}
    return {
        "policy_id": arguments.model,
        "sampler": {"method": arguments.method, **options},
        "seed": arguments.seed,
        "logp_reduction": "sum",
    }


def _plain(rows: Rows, method: Method) -> Iterator[dict[str, Any]]:
    """What each row says for itself."""
    columns: dict[str, list[Any]] = {
        "base_logp": rows.base_logp.tolist(),
        "behavior_logp": _column(rows.behavior_logp, len(rows.lengths)),
        "log_z_sum": rows.log_z_sum.tolist(),
        "finish_reason": ["eos" if ended else "length" for ended in rows.ended.tolist()],
    }
    if rows.proposal_logp is not None:
        columns["proposal_logp"] = rows.proposal_logp.tolist()
    if rows.log_Z_hat is not None:
        columns["log_Z_hat"] = rows.log_Z_hat.tolist()
    law = method.law if rows.log_weight is None else "weighted"
    fixed = 0.0 if law == "exact" else None
    weights = _column(rows.log_weight, len(rows.lengths), fixed)
    lists = zip(rows.tokens.tolist(), rows.lengths.tolist(), weights, strict=True)
    for place, (tokens, length, log_weight) in enumerate(lists):
        numbers = {name: column[place] for name, column in columns.items()}
        yield {"tokens": tokens[:length], **numbers, "law": law, "log_weight": log_weight}


def _column(values: np.ndarray | None, size: int, otherwise: float | None = None) -> list[Any]:
    return [otherwise] * size if values is None else values.tolist()


main = program("rolloutlab sample", Arguments, run)

if __name__ == "__main__":
    raise SystemExit(main())
