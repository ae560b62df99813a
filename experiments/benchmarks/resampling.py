"""Systematic and multinomial resampling of many populations, against blackjax.

The reference is `blackjax.smc.resampling` as its users write it: jit of vmap over populations. It is handed
normalised weights ready-made and returns ancestors only; ours starts from log weights, normalises them, and returns the log weights that
the offspring carry as well.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from blackjax.smc import resampling as blackjax
from jaxtyping import Array, Float, Int, Key

from experiments.benchmarks.pairing import BenchmarkReport, compare
from theory.protocols import Resampler
from theory.resampling import multinomial, num_offspring, systematic

# (key, normalised weights, number of draws) -> ancestors of one population.
PeerResampler = Callable[[Key[Array, ""], Float[Array, " N"], int], Int[Array, " N"]]


def run_systematic(quick: bool) -> BenchmarkReport:
    """Time ours against blackjax.

    Args:
        quick: 16 populations of 1024 instead of 64 of 4096.

    Returns:
        The report, with how far each one's numbers of offspring are from N w: less than 1 by definition.
    """

    def note(name: str, ancestors: Array, weights: Array) -> str:
        size = weights.shape[1]
        gap = jnp.abs(num_offspring(ancestors, size) - size * weights).max()
        return f"{name}: offspring differ from N w by at most {float(gap):.4f}"

    return _run("systematic_vs_blackjax", systematic, blackjax.systematic, note, quick)


def run_multinomial(quick: bool) -> BenchmarkReport:
    """Time ours against blackjax.

    Args:
        quick: 16 populations of 1024 instead of 64 of 4096.

    Returns:
        The report, with a z-score of the mean log weight of each one's offspring.
    """

    def note(name: str, ancestors: Array, weights: Array) -> str:
        w = np.asarray(weights, np.float64)
        values = np.log(w)
        found = np.take_along_axis(values, np.asarray(ancestors), axis=1).mean(axis=1)
        mean = (w * values).sum(axis=1)
        variance = (w * (values - mean[:, None]) ** 2).sum(axis=1) / w.shape[1]
        z = (found - mean).sum() / np.sqrt(variance.sum())
        return f"{name}: the mean log weight of the offspring has z = {z:.2f}"

    return _run("multinomial_vs_blackjax", multinomial, blackjax.multinomial, note, quick)


def _run(
    name: str,
    ours: Resampler,
    theirs: PeerResampler,
    note: Callable[[str, Array, Array], str],
    quick: bool,
) -> BenchmarkReport:
    num_populations, size = (16, 1024) if quick else (64, 4096)
    log_weights = jax.random.normal(jax.random.key(0), (num_populations, size))
    weights = jax.nn.softmax(log_weights, axis=1)
    keys = jax.random.split(jax.random.key(1), num_populations)
    batched = jax.jit(ours)
    mapped = jax.jit(jax.vmap(lambda key, row: theirs(key, row, size)))
    result = compare(
        name,
        lambda: jax.block_until_ready(batched(keys, log_weights)),
        lambda: jax.block_until_ready(mapped(keys, weights)),
        {"populations": num_populations, "particles": size},
    )
    notes = (
        note("ours", batched(keys, log_weights)[0], weights),
        note("blackjax", mapped(keys, weights), weights),
    )
    return BenchmarkReport(result, notes)
