"""Independent replicates of every estimator, from the samplers themselves.

A replicate is one population of N rows. Populations are addressed by their ids, so that the numbers of a cell do not depend on which other
cells are run, nor on how many populations are run at a time.
"""

import zlib
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, Float64, Int, Int32, Key

from experiments.estimator_cells import ESS_THRESHOLD, Cell, Estimator, methods_of
from models.tabular.context_model import ContextModel
from theory.decoding.rule import TokenRule
from theory.decoding.temperature import Temperature
from theory.exact.laws import power_law
from theory.exact.layers import unroll
from theory.generation import Trajectories
from theory.importance import (
    plain_estimate,
    self_normalised_estimate,
    smoothed_estimate,
    truncate,
    truncated_estimate,
)
from theory.ledger import Ledger, totals
from theory.log_weights import MIN_TAIL, log_mean_weight
from theory.resampling import ess_adaptive, multinomial, systematic
from theory.smc import adapted_smc, draw_one, every, smc, start_populations

ROWS_AT_A_TIME = 2**17
"""Bounds the memory of a run."""

MIN_SMOOTHED = 5 * MIN_TAIL - 4
"""Rows that Pareto smoothing needs before it fits a tail (a fifth of them, rounded up)."""


class Populations(NamedTuple):
    """R populations of N rows.

    Attributes:
        log_weights: [R, N] natural log, unnormalised.
        lengths: [R, N] tokens.
        first_tokens: [R, N].
        drawn_tokens: [R, T] one row of each population, drawn in proportion to its weights.
        drawn_lengths: [R].
        cost: what one population spent, by columns of the ledger; model calls are those of a batch of populations, which share them.
    """

    log_weights: Float32[np.ndarray, "R N"]
    lengths: Int32[np.ndarray, "R N"]
    first_tokens: Int32[np.ndarray, "R N"]
    drawn_tokens: Int32[np.ndarray, "R T"]
    drawn_lengths: Int32[np.ndarray, " R"]
    cost: dict[str, float]


def cell_key(seed: int, *words: object) -> Key[Array, ""]:
    """The key of a setting, from what it is and not from its place in a list.

    Args:
        seed: of the run.
        words: which tell the settings apart.

    Returns:
        A run's key.
    """
    return jax.random.fold_in(jax.random.key(seed), zlib.crc32(repr(words).encode()))


def run_populations(
    key: Key[Array, ""],
    model: ContextModel,
    method: str,
    alpha: float,
    proposal_alpha: float,
    num_rows: int,
    num_populations: int,
) -> Populations:
    """Run a method, a bounded number of rows at a time.

    Args:
        key: of the run.
        model: of the tokens.
        method: of `experiments.estimator_cells.METHODS`.
        alpha: target exponent.
        proposal_alpha: exponent of the proposal; not read by the fully adapted filter.
        num_rows: N.
        num_populations: R.

    Returns:
        All populations, on the host.
    """
    batch = min(num_populations, max(1, ROWS_AT_A_TIME // num_rows))
    rules = (Temperature(jnp.float32(1.0 / proposal_alpha)),)
    parts: list[tuple[tuple[np.ndarray, ...], Ledger]] = []
    for begin in range(0, num_populations, batch):
        # The last batch may run on into populations that nobody asked for: one shape, compiled once.
        ids = jnp.arange(begin, begin + batch)
        weights, rows, drawn, ledger = _run(
            key, model, rules, jnp.float32(alpha), ids, num_rows, method
        )
        shape = weights.shape
        first = rows.tokens[:, 0].reshape(shape)
        arrays = weights, rows.lengths.reshape(shape), first, drawn.tokens, drawn.lengths
        parts.append((jax.device_get(arrays), ledger))

    def joined(place: int) -> np.ndarray:
        return np.concatenate([arrays[place] for arrays, _ in parts])[:num_populations]

    cost = cost_of([ledger for _, ledger in parts], batch)
    return Populations(joined(0), joined(1), joined(2), joined(3), joined(4), cost)


def cost_of(ledgers: list[Ledger], replicates: int) -> dict[str, float]:
    """What one replicate spent, on average.

    Args:
        ledgers: of batches.
        replicates: in each batch.

    Returns:
        Tokens of one replicate, and forward passes of one batch, which its replicates share.
    """
    spent = [totals(ledger) for ledger in ledgers]
    shares = {"generated_tokens": replicates, "prefill_tokens": replicates, "model_calls": 1}
    return {
        name: sum(each[name] for each in spent) / len(spent) / share
        for name, share in shares.items()
    }


@partial(jax.jit, static_argnames=("num_rows", "method"))
def _run(
    key: Key[Array, ""],
    model: ContextModel,
    rules: tuple[TokenRule, ...],
    alpha: Float32[Array, ""],
    ids: Int[Array, " M"],
    num_rows: int,
    method: str,
) -> tuple[Float32[Array, "M N"], Trajectories, Trajectories, Ledger]:
    prompts = jnp.zeros((ids.shape[0], 0), jnp.int32), jnp.zeros(ids.shape, jnp.int32)
    begun = start_populations(model, *prompts, ids, num_rows)
    if method == "smc_adapted":
        done, _ = adapted_smc(key, model, alpha, begun, multinomial)
    else:
        rarely = ess_adaptive(systematic, ESS_THRESHOLD)
        resampler = rarely if method == "smc_ess" else multinomial
        schedule = () if method == "importance" else every(model.horizon)
        done, _ = smc(key, model, rules, alpha, begun, resampler, schedule)
    drawn, _ = draw_one(key, model, done)
    rows = done.generation
    return done.log_weights, rows.trajectories, drawn.trajectories, rows.ledger


def simulate(
    cell: Cell, num_replicates: int, seed: int, *, alpha: float | None = None
) -> dict[Estimator, Float64[np.ndarray, " R"]]:
    """Replicates of every estimator of a cell.

    Args:
        cell: a setting.
        num_replicates: R, independent.
        seed: of the run.
        alpha: what the sampler takes for the target's exponent; that of the cell by default, and a planted bug elsewhere.

    Returns:
        By method and quantity; Pareto smoothing only for populations in which it fits a tail.
    """
    model = ContextModel.from_table(cell.table)
    alpha = cell.alpha if alpha is None else alpha
    log_Z = power_law(unroll(cell.table), cell.alpha).log_Z
    found: dict[Estimator, np.ndarray] = {}
    for method in methods_of(cell):
        key = cell_key(
            seed, method, cell.model, cell.table.horizon, cell.alpha, cell.proposal_alpha,
            cell.num_draws,
        )  # fmt: skip
        runs = run_populations(
            key, model, method, alpha, cell.proposal_alpha, cell.num_draws, num_replicates
        )
        found |= _estimates(cell, method, runs, log_Z)
    return {name: np.asarray(each, np.float64) for name, each in found.items()}


def _estimates(
    cell: Cell, method: str, runs: Populations, log_Z: float
) -> dict[Estimator, np.ndarray]:
    weights = jnp.asarray(runs.log_weights)
    values = jnp.asarray(_values(cell, runs.lengths, runs.first_tokens), jnp.float32)
    log_evidence = np.asarray(log_mean_weight(weights), np.float64) - log_Z
    found: dict[Estimator, np.ndarray] = {
        (method, "evidence"): np.exp(log_evidence),
        (method, "log_evidence"): log_evidence,
        (method, "mean"): np.asarray(self_normalised_estimate(weights, values)),
        (method, "draw"): _values(cell, runs.drawn_lengths, runs.drawn_tokens[:, 0]),
    }
    if method != "importance":
        return found
    found["importance", "known_Z"] = np.asarray(plain_estimate(weights, values, log_Z))
    capped = np.asarray(log_mean_weight(truncate(weights)), np.float64)
    found["truncated", "evidence"] = np.exp(capped - log_Z)
    found["truncated", "mean"] = np.asarray(truncated_estimate(weights, values))
    if cell.num_draws >= MIN_SMOOTHED:
        smoothed = smoothed_estimate(runs.log_weights, np.asarray(values))
        found["pareto", "mean"] = smoothed.value
    return found


def _values(cell: Cell, lengths: np.ndarray, first_tokens: np.ndarray) -> np.ndarray:
    """`experiments.estimator_cells.value_of` of many rows."""
    return lengths if cell.table.eos else first_tokens == 0
