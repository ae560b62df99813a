"""log Z and all token marginals of the power law of a Markov model, against the physical floor.

The floor: what any exact method must do is read the matrix once per token forward and once backward, so the reference is two
jitted scans of bare float64 matrix-vector products, each rescaled by its largest entry, and nothing else: no logarithms, no
marginals, no check. It is handed p^alpha ready-made; ours starts from log p.
"""

import math
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa

from experiments.benchmarks.pairing import BenchmarkReport, compare
from experiments.tables import column, from_rows, schema
from models.tabular.random_tables import random_markov_table
from theory.exact.context_table import ContextTable, with_horizon
from theory.exact.dense_chain import power_marginals
from theory.exact.semiring import log_sum_exp

ALPHA = 2.0
SHARP_ALPHA = 100.0
_GROWTH = schema(V=int, T=int, seconds=float, per_T=float, log10_sequences=float)


def run(quick: bool) -> BenchmarkReport:
    """Time ours against the floor, check the numbers, and show how cost grows.

    Args:
        quick: V = T = 256 instead of 1024.

    Returns:
        The report.
    """
    size = 256 if quick else 1024
    table = _chain(size, size)
    reference = _floor(table, ALPHA)
    result = compare(
        "exact_markov", lambda: power_marginals(table, ALPHA), reference, {"V": size, "T": size}
    )
    notes = [_error(table, alpha) for alpha in (ALPHA, SHARP_ALPHA)]
    sizes = (64, 128, 256, 512) if quick else (256, 512, 1024, 2048)
    middle = sizes[1]
    against_T = _growth([(middle, T) for T in sizes])
    against_V = _growth([(V, middle) for V in sizes])
    tables = {
        f"cost against T at V = {middle}: {power_text(against_T, 'T')}, 1 is linear": against_T,
        f"cost against V at T = {middle}: {power_text(against_V, 'V')}, 2 is quadratic": against_V,
    }
    return BenchmarkReport(result, tuple(notes), tables)


def power_text(growth: pa.Table, size: str) -> str:
    """The power of a size that the seconds grow with, by least squares on logarithms.

    Args:
        growth: with columns `size` and seconds.
        size: name of a column.

    Returns:
        Such as "seconds ~ T^0.98".
    """
    logs = [np.log(column(growth, name).astype(float)) for name in (size, "seconds")]
    return f"seconds ~ {size}^{np.polyfit(logs[0], logs[1], 1)[0]:.2f}"


def _chain(vocab_size: int, horizon: int) -> ContextTable:
    return random_markov_table(np.random.default_rng(0), vocab_size, (), horizon, concentration=1.0)


def _floor(table: ContextTable, alpha: float) -> Callable[[], object]:
    """One forward and one backward scan of bare matrix-vector products."""

    def both(matrix: jax.Array, first: jax.Array) -> Any:
        def rescaled(vector: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
            scale = vector.max()
            return vector / scale, (vector / scale, scale)

        steps = table.horizon - 1
        ones = jnp.ones_like(first)
        backward = jax.lax.scan(lambda h, _: rescaled(matrix @ h), ones, None, length=steps)
        forward = jax.lax.scan(lambda g, _: rescaled(g @ matrix), first, None, length=steps)
        return backward, forward

    vocab_size = table.vocab_size
    with jax.enable_x64(True):
        matrix = jnp.asarray(np.exp(alpha * table.log_probs[:vocab_size]))
        first = jnp.asarray(np.exp(alpha * table.log_probs[table.initial]))
        compiled = jax.jit(both).lower(matrix, first).compile()

    def call() -> object:
        with jax.enable_x64(True):
            return jax.block_until_ready(compiled(matrix, first))

    return call


def _error(table: ContextTable, alpha: float) -> str:
    """Our log Z against a log-space recursion that cannot underflow."""
    weights = alpha * table.log_probs
    value = np.zeros(table.vocab_size)
    for _ in range(table.horizon - 1):
        value = log_sum_exp(weights[: table.vocab_size] + value)
    truth = float(log_sum_exp((weights[table.initial] + value)[None, :])[0])
    found = power_marginals(table, alpha)
    relative = abs(found.log_Z - truth) / abs(truth)
    rows = float(np.abs(found.marginals.sum(axis=1) - 1).max())
    return (
        f"alpha {alpha:g}: log Z = {found.log_Z:.12g}, relative error {relative:.1e} against the log-space recursion; "
        f"marginals sum to 1 within {rows:.1e}"
    )


def _growth(sizes: list[tuple[int, int]]) -> pa.Table:
    rows: list[dict[str, Any]] = []
    for vocab_size, horizon in sizes:
        table = with_horizon(_chain(vocab_size, 1), horizon)
        seconds = min(_seconds(table) for _ in range(5))
        rows.append(
            {
                "V": vocab_size,
                "T": horizon,
                "seconds": seconds,
                "per_T": seconds / horizon,
                "log10_sequences": horizon * math.log10(vocab_size),
            }
        )
    return from_rows(_GROWTH, rows)


def _seconds(table: ContextTable) -> float:
    start = time.perf_counter()
    power_marginals(table, ALPHA)
    return time.perf_counter() - start
