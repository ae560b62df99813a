"""`rolloutlab sample`: draws from a model by any method, one trajectory a row."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import tyro
from jaxtyping import Array, Key

from experiments.command_line import Floats, default, program
from experiments.model_argument import LoadedModel, load_model
from experiments.output import STDOUT, check_keeps, check_writable
from experiments.progress import track
from experiments.rollout_logs.writer import write_rows
from experiments.samplers.catalogue import (
    METHODS,
    Method,
    bounded,
    find_method,
    make_settings,
    rows_side_by_side,
)
from experiments.samplers.rows import PromptBatch, Rows, Sampler, first_rows
from experiments.samplers.sequence_tables import read_reward, read_twist
from experiments.samplers.settings import Settings
from models.tabular.context_model import ContextModel
from theory.errors import InvalidInput
from theory.exact import power_law, unroll
from theory.protocols import SequenceModel
from theory.smc import LogTwist, exact_twist

MAX_IDS = 2**30  # row ids are 32-bit
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
    """A JSON model file or builtin:NAME (`rolloutlab models` lists them)."""

    method: str
    """One of the methods above."""

    num: int = 1
    """Draws, chains or populations for each prompt."""

    seed: int = 0
    """Of the random numbers; the same arguments and seed give the same bytes."""

    num_prompts: int = 1
    """Prompts; a toy model has one, which stands under several prompt ids then."""

    prompt: Annotated[str | None, default("the empty prompt")] = None
    """Tokens that stand before the first generated one, such as "0 2"."""

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
    loaded = load_model(arguments.model, arguments.prompt, arguments.max_new_tokens)
    check_writable(arguments.out)
    for source in (arguments.model, arguments.reward, arguments.twist):
        check_keeps(arguments.out, source or "")
    settings = with_tables(arguments.method, settings, loaded, given)
    write_rows(_records(arguments, method, settings, loaded), arguments.out)
    return 0


def with_tables(
    name: str, settings: Settings, loaded: LoadedModel, given: dict[str, Any]
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
        InvalidInput: a file cannot be read or lacks a prefix or a sequence, or no bound is known.
    """
    table = loaded.table
    if name == "power-exact":
        return dataclasses.replace(settings, power=power_law(unroll(table), settings.alpha))
    if name == "rejection":
        bound = bounded(settings, table.vocab_size, table.horizon)
        return dataclasses.replace(settings, log_bound=bound)
    if name == "twisted-smc" and given.get("twist") != "lookahead":
        return dataclasses.replace(settings, twist=_twist(settings, loaded, given.get("twist")))
    if name == "tilted-mh":
        reward = read_reward(given["reward"], unroll(table), table.vocab_size)
        return dataclasses.replace(settings, reward=reward)
    return settings


def draw_batches(
    key: Key[Array, ""],
    model: SequenceModel,
    prompt: tuple[int, ...],
    num_ids: int,
    batch_size: int,
    sampler: Sampler,
    settings: Settings,
) -> Iterator[Rows]:
    """Draw ids 0, 1, ... in batches of one shape; each id draws what it would draw alone.

    Args:
        key: of the run.
        model: of the tokens.
        prompt: that all rows continue.
        num_ids: draws, chains or populations.
        batch_size: of them side by side.
        sampler: of the method.
        settings: of the method, complete.

    Yields:
        The rows of one batch after the other.
    """
    tokens = jnp.broadcast_to(jnp.asarray(prompt, jnp.int32), (batch_size, len(prompt)))
    prompts = PromptBatch(tokens, jnp.full(batch_size, len(prompt), jnp.int32))
    for start in range(0, num_ids, batch_size):
        # The last batch is filled up with copies of its last id, so that nothing is compiled twice.
        ids = np.minimum(np.arange(start, start + batch_size), num_ids - 1)
        rows = sampler(key, model, prompts, jnp.asarray(ids, jnp.int32), settings)
        num_kept = min(batch_size, num_ids - start) * (len(rows.lengths) // batch_size)
        yield first_rows(rows, num_kept)


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
    num_ids = arguments.num * arguments.num_prompts * max(1, len(settings.ladder))
    if num_ids > MAX_IDS:
        raise InvalidInput(
            f"--num {arguments.num}: {num_ids} chains or draws in all, at most {MAX_IDS}, give fewer"
        )
    if not 0 <= arguments.seed < 2**32:
        raise InvalidInput(f"--seed {arguments.seed}: must be in 0..{2**32 - 1}")


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
    arguments: Arguments, method: Method, settings: Settings, loaded: LoadedModel
) -> Iterator[dict[str, Any]]:
    """The rows of the log, by prompt and then by sample."""
    model = ContextModel.from_table(loaded.table)  # starts after the prompt
    num_ids = arguments.num * arguments.num_prompts
    width = rows_side_by_side(settings, method, model.vocab_size)
    fits = _BATCH_NUMBERS // (width * (model.horizon + model.vocab_size))
    batch_size = min(num_ids, arguments.batch_size or max(1, min(_MAX_BATCH, fits)))
    key = jax.random.key(arguments.seed)
    batches = draw_batches(key, model, (), num_ids, batch_size, method.sampler, settings)
    common = _common(arguments, method, settings)
    first = 0
    for rows in track(batches, "sampling", total=-(-num_ids // batch_size)):
        per_id = (
            settings.particles if rows.log_weight is not None and rows.log_Z_hat is not None else 1
        )
        for place, values in enumerate(_plain(rows, method)):
            here, slot = divmod(place, per_id)
            prompt_id, sample = divmod(first + here, arguments.num)
            record = {"prompt_id": prompt_id, "sample_id": sample * per_id + slot}
            if method.unit != "draw":
                record[f"{method.unit}_id"] = first + here
            yield {**common, **record, **values}
        first += len(rows.lengths) // per_id


def _common(arguments: Arguments, method: Method, settings: Settings) -> dict[str, Any]:
    """What all rows say alike."""
    values = {name: getattr(settings, name) for name in method.options if name not in _WORDS}
    values |= {name: getattr(arguments, name) for name in _WORDS if name in method.options}
    if "twist" in method.options and values["twist"] is None:
        values["twist"] = "exact"
    options = {name: value for name, value in values.items() if value is not None}
    return {
        "prompt": [int(word) for word in (arguments.prompt or "").split()],
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
