"""What resampling costs beyond the model: SMC on the power path against plain ancestral sampling of as many rows.

Both draw 512 rows of 128 tokens from the same transformer with a key-value cache. The population looks at its effective sample size every
16 tokens and is resampled where it is below half. Survivors stay in their slots, so that only the dead are written, and of
their cache only what is filled; the state is donated, and no step copies all of it.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int32, Key

from experiments.benchmarks.ancestral import ancestral_rows
from experiments.benchmarks.pairing import BenchmarkReport, compare
from experiments.benchmarks.random_model import random_model
from models.transformer import Transformer
from theory.resampling.adaptive import ess_adaptive
from theory.resampling.ancestors import in_place
from theory.resampling.systematic import systematic
from theory.smc import Population, StepInfo, every, smc, start_populations, temperature_proposal

ALPHA = 4.0
BLOCK = 16
THRESHOLD = 0.5
# Standard deviation of the logits: enough that most checks find too small a sample size.
SHARPNESS = 0.5


def run(quick: bool) -> BenchmarkReport:
    """Time SMC against ancestral sampling.

    Args:
        quick: 128 particles of 64 tokens.

    Returns:
        The report; its note says how many checks fired.
    """
    num_rows, horizon = (128, 64) if quick else (512, 128)
    model = random_model(jax.random.key(0), horizon=horizon, sharpness=SHARPNESS)
    key = jax.random.key(1)
    sizes = {"N": num_rows, "T": horizon, "V": model.vocab_size}

    def ours() -> StepInfo:
        population, info = _smc(key, model, _start_population(model, num_rows))
        jax.block_until_ready(population)
        return info

    def reference() -> None:
        ancestral_rows(key, model, num_rows)

    result = compare("smc_overhead", ours, reference, sizes)
    return BenchmarkReport(result, (_note(ours(), num_rows),))


def _note(info: StepInfo, num_rows: int) -> str:
    """How many checks fired, and how many rows each of them moved."""
    sizes, ancestors = np.asarray(info.ess)[:-1, 0], np.asarray(info.ancestors)[:-1, 0]
    fired = int((sizes < THRESHOLD * num_rows).sum())
    moved = (ancestors != np.arange(num_rows)).mean()
    return (
        f"resampled at {fired} of {len(sizes)} checks (effective sample sizes {sizes.min():.0f} to {sizes.max():.0f} "
        f"of {num_rows}); {moved:.0%} of the rows copied at a check"
    )


def _stay(
    key: Key[Array, "*#batch"], log_weights: Float[Array, "*batch N"]
) -> tuple[Int32[Array, "*batch N"], Float[Array, "*batch N"]]:
    """Systematic resampling with survivors in their own slots."""
    ancestors, carried = systematic(key, log_weights)
    return in_place(ancestors), carried


@functools.partial(jax.jit, static_argnums=1)
def _start_population(model: Transformer, num_rows: int) -> Population:
    none = jnp.zeros((1, 0), jnp.int32)
    return start_populations(
        model, none, jnp.zeros(1, jnp.int32), jnp.zeros(1, jnp.int32), num_rows
    )


@functools.partial(jax.jit, donate_argnums=2)
def _smc(
    key: Key[Array, ""], model: Transformer, population: Population
) -> tuple[Population, StepInfo]:
    rules, resampler = temperature_proposal(ALPHA), ess_adaptive(_stay, THRESHOLD)
    return smc(key, model, rules, ALPHA, population, resampler, every(model.horizon, block=BLOCK))
