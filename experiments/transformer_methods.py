"""What each method hands out for the same number of generated tokens, prompt by prompt.

A replicate of a method is one population or one chain for one prompt. What it hands out is a law over rows: a population with its normalised
weights, or the states of a chain after each of its moves, all alike (the start is not counted, and nothing is thrown away as burn-in).
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float32, Float64, Int, Int32, Key

from experiments.prompts import padded
from experiments.samplers.batches import draw_batches, id_batches
from experiments.samplers.catalogue import METHODS as SAMPLERS
from experiments.samplers.catalogue import make_settings
from theory.ledger import Ledger, totals
from theory.mcmc import (
    Prompts,
    blockwise,
    entropy_cut,
    num_stages,
    suffix_regeneration,
    uniform_cut,
)
from theory.protocols import Kernel, SequenceModel

BLOCK = 2
ROLLOUTS = 2
PILOT_MOVES = 8
# Rows that a batch of populations holds.
_BATCH_ROWS = 1 << 13


class Handed(NamedTuple):
    """P prompts, R replicates, N rows each.

    Attributes:
        size: of one replicate: particles, or moves of the chain.
        tokens: [P, R, N, T] 0 past a row's length.
        lengths: [P, R, N].
        log_p: [P, R, N] base log probability.
        weights: [P, R, N] sum to 1 over N.
        ess_fraction: [P, R] effective share of the rows before anything was resampled last; NaN for chains.
        accept_rate: [P] of the moves; NaN for populations.
        cost: of one replicate on average, by column of the ledger.
    """

    size: int
    tokens: Int32[np.ndarray, "P R N T"]
    lengths: Int32[np.ndarray, "P R N"]
    log_p: Float64[np.ndarray, "P R N"]
    weights: Float64[np.ndarray, "P R N"]
    ess_fraction: Float64[np.ndarray, "P R"]
    accept_rate: Float64[np.ndarray, " P"]
    cost: dict[str, float]


class Budget(NamedTuple):
    """What one replicate may spend.

    Attributes:
        tokens: generated.
        mean_length: of a row under token temperature 1/alpha, by which tokens become particles and moves.
        replicates: R.
        seed: of the run.
    """

    tokens: int
    mean_length: float
    replicates: int
    seed: int


Reads = tuple[tuple[int, ...], ...]
Run = Callable[[SequenceModel[Any], Reads, float, Budget], Handed]


def _population(
    name: str,
    options: Mapping[str, Any],
    tokens_a_particle: Callable[[float], float],
    weighted: bool,
    model: SequenceModel[Any],
    prompts: Reads,
    alpha: float,
    budget: Budget,
) -> Handed:
    size = max(2, round(budget.tokens / tokens_a_particle(budget.mean_length)))
    given = {"alpha": alpha, **options}
    if "particles" in SAMPLERS[name].options:
        given["particles"] = size
        num_per_prompt, rows_an_id = budget.replicates, size
    else:  # rows one by one: a replicate is as many of them as fit the budget
        num_per_prompt, rows_an_id = budget.replicates * size, 1
    settings = make_settings(name, given)
    key = jax.random.key(budget.seed)
    num_ids = len(prompts) * num_per_prompt
    batch_size = min(num_ids, max(1, _BATCH_ROWS // rows_an_id))
    drawn = [
        *draw_batches(
            key, model, prompts, num_per_prompt, batch_size, SAMPLERS[name].sampler, settings
        )
    ]
    shape = (len(prompts), budget.replicates, size)
    log_weights = np.concatenate([rows.log_weight for rows in drawn]).reshape(shape)  # pyright: ignore[reportCallIssue,reportArgumentType]
    weights = np.exp(log_weights - log_weights.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    ess_fraction = 1 / (weights**2).sum(axis=-1) / size
    if not weighted:
        weights = np.full(shape, 1 / size)
        ess_fraction = np.full(shape[:2], np.nan)
    return Handed(
        size,
        np.concatenate([rows.tokens for rows in drawn]).reshape(*shape, -1),
        np.concatenate([rows.lengths for rows in drawn]).reshape(shape),
        np.concatenate([rows.base_logp for rows in drawn]).reshape(shape),
        weights,
        ess_fraction,
        np.full(len(prompts), np.nan),
        # The last batch may hold ids twice: what was spent is shared by all that were drawn.
        _cost([rows.ledger for rows in drawn], len(drawn) * batch_size * rows_an_id / size),
    )


def _chain(
    kernel_of: Callable[[float], Kernel],
    num_first_steps: Callable[[int], int],
    moves_that_fit: Callable[[float, int, float], int],
    model: SequenceModel[Any],
    prompts: Reads,
    alpha: float,
    budget: Budget,
) -> Handed:
    num_moves = max(1, moves_that_fit(float(budget.tokens), model.horizon, budget.mean_length))
    num_chains = len(prompts) * budget.replicates
    (chains,) = id_batches(model, padded(prompts), budget.replicates, num_chains)
    batch = Prompts(*chains.prompts, chains.ids)
    key = jax.random.key(budget.seed)
    first = num_first_steps(model.horizon)
    states = jax.device_get(_walk(key, chains.model, batch, kernel_of(alpha), first, num_moves))
    shape = (len(prompts), budget.replicates, num_moves)
    return Handed(
        num_moves,
        states.tokens.swapaxes(0, 1).reshape(*shape, -1),
        states.lengths.T.reshape(shape),
        np.asarray(states.log_p, np.float64).T.reshape(shape),
        np.full(shape, 1 / num_moves),
        np.full(shape[:2], np.nan),
        np.asarray(states.accepted, np.float64).T.reshape(shape).mean(axis=(1, 2)),
        _cost([states.ledger], float(num_chains)),
    )


def _piloted_chain(
    kernel_of: Callable[[float], Kernel],
    model: SequenceModel[Any],
    prompts: Reads,
    alpha: float,
    budget: Budget,
) -> Handed:
    """A chain whose moves have no known length: as many as fit if they are as long as its own first ones on average."""

    def pilot_moves(tokens: float, horizon: int, mean_length: float) -> int:
        del tokens, horizon, mean_length
        return PILOT_MOVES

    first = _chain(kernel_of, _no_steps, pilot_moves, model, prompts, alpha, budget)
    tokens_a_move = (first.cost["generated_tokens"] - budget.mean_length) / PILOT_MOVES

    def moves_that_fit(tokens: float, horizon: int, mean_length: float) -> int:
        del horizon
        return round((tokens - mean_length) / tokens_a_move)

    return _chain(kernel_of, _no_steps, moves_that_fit, model, prompts, alpha, budget)


class _States(NamedTuple):
    """Chains after each of n moves: rows, log p of each, whether the move was accepted, and what was spent by the end."""

    tokens: Int[Array, "n B T"]
    lengths: Int[Array, "n B"]
    log_p: Float32[Array, "n B"]
    accepted: Float32[Array, "n B"]
    ledger: Ledger


@partial(jax.jit, static_argnames=("kernel", "num_first_steps", "num_moves"))
def _walk(
    key: Key[Array, ""],
    model: SequenceModel[Any],
    prompts: Prompts,
    kernel: Kernel,
    num_first_steps: int,
    num_moves: int,
) -> _States:
    def step(state: Any, _: None) -> tuple[Any, tuple[Array, ...]]:
        state, info = kernel.step(key, model, state)
        rows = getattr(state, "chains", state).generation.trajectories
        accepted = info.accepted.reshape(-1, rows.lengths.shape[0]).mean(axis=0)
        return state, (rows.tokens, rows.lengths, rows.log_p.sum(axis=1), accepted)

    state = kernel.init(key, model, prompts)
    state, _ = jax.lax.scan(step, state, None, length=num_first_steps)
    state, (tokens, lengths, log_p, accepted) = jax.lax.scan(step, state, None, length=num_moves)
    ledger = getattr(state, "chains", state).generation.ledger
    return _States(tokens, lengths, log_p, accepted, ledger)


def _suffix(alpha: float) -> Kernel:
    return suffix_regeneration(alpha, alpha, uniform_cut())


def _suffix_by_entropy(alpha: float) -> Kernel:
    return suffix_regeneration(alpha, alpha, entropy_cut())


def _blocks(alpha: float) -> Kernel:
    return blockwise(alpha, alpha, uniform_cut(), BLOCK, 1)


def _no_steps(horizon: int) -> int:
    del horizon
    return 0


def _all_but_the_last_stage(horizon: int) -> int:
    """From then on rows are whole."""
    return num_stages(horizon, BLOCK) - 1


def _suffix_moves(tokens: float, horizon: int, mean_length: float) -> int:
    """After one whole row, moves of (L + 1) / 2 tokens on average."""
    del horizon
    return round((tokens - mean_length) / ((mean_length + 1) / 2))


def _block_moves(tokens: float, horizon: int, mean_length: float) -> int:
    """One move also at each earlier stage, with as many tokens as there are by then."""
    ends = BLOCK * np.arange(1, num_stages(horizon, BLOCK))
    return _suffix_moves(tokens - float(((ends + 1) / 2).sum()), horizon, mean_length)


def _row(mean_length: float) -> float:
    return mean_length


def _row_with_rollouts(mean_length: float) -> float:
    """Rollouts to the end from every prefix."""
    return mean_length * (1 + ROLLOUTS * (mean_length - 1) / 2)


def _cost(ledgers: list[Ledger], num_replicates: float) -> dict[str, float]:
    spent = [totals(ledger) for ledger in ledgers]
    tokens = sum(record["generated_tokens"] for record in spent) / num_replicates
    # Batched calls are shared by all that stand side by side.
    calls = float(np.mean([record["model_calls"] for record in spent]))
    return {"generated_tokens": tokens, "model_calls": calls}


METHODS: dict[str, Run] = {
    "temperature": partial(_population, "importance", {}, _row, False),
    "importance": partial(_population, "importance", {}, _row, True),
    "smc": partial(_population, "smc", {}, _row, True),
    "smc_bridged": partial(_population, "smc", {"bridge": "linear"}, _row, True),
    "smc_lookahead": partial(
        _population, "lookahead-smc", {"rollouts": ROLLOUTS}, _row_with_rollouts, True
    ),
    "suffix": partial(_chain, _suffix, _no_steps, _suffix_moves),
    "suffix_entropy": partial(_piloted_chain, _suffix_by_entropy),
    "blockwise": partial(_chain, _blocks, _all_but_the_last_stage, _block_moves),
}
"""In the order of the tables. `temperature` draws from another law than all the others, which aim at p^alpha / Z."""
