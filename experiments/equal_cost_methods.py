"""The methods that are compared, each run at all its sizes with what it spends.

A method has one size: rows of a weighted population, accepted rows, or moves of a chain, whose estimates average the states after each
move (the start is not counted, and nothing is thrown away as burn-in). One replicate is one population or one chain. Replicates
run side by side: the tokens of one are the batch's over its replicates, its model calls are those of the batch.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, Float64, Key

from experiments.equal_cost_chains import (
    ChainDesign,
    blockwise_design,
    independence_design,
    multiple_try_design,
    particle_gibbs_design,
    run_chain,
    suffix_design,
    tempering_design,
)
from experiments.equal_cost_problem import (
    APPROXIMATE,
    EXACT,
    WEIGHTED,
    Outcome,
    Problem,
    Sizes,
    indices,
)
from experiments.estimator_draws import cell_key, cost_of, run_populations
from models.tabular.context_model import ContextModel
from theory.decoding.rule import TokenRule
from theory.exact.divergences import log_max_ratio
from theory.exact.importance_laws import resampled_law
from theory.exact.importance_moments import weighted_draw
from theory.exact.laws import power_law, temperature_law
from theory.exact.layers import unroll
from theory.importance import self_normalised_estimate
from theory.mcmc import entropy_cut, uniform_cut
from theory.rejection import RejectionState, check_complete, rejection_sample

MAX_ROUNDS = 10_000

Law = Float64[np.ndarray, " M"]


class Method(NamedTuple):
    """One method.

    Attributes:
        kind: what its rows are.
        run: at all its sizes.
    """

    kind: str
    run: Callable[[Problem, Sizes], list[Outcome]]


def _population(method: str, tempered: bool, problem: Problem, sizes: Sizes) -> list[Outcome]:
    """Importance sampling and the SMC variants, from token temperature 1/alpha or from the base model."""
    beta = problem.alpha if tempered else 1.0
    model = ContextModel.from_table(problem.table)
    outcomes: list[Outcome] = []
    for size in sizes.rows:
        key = cell_key(sizes.seed, "cost", method, problem.name, problem.alpha, beta, size)
        runs = run_populations(key, model, method, problem.alpha, beta, size, sizes.replicates)
        length, first = (
            np.asarray(self_normalised_estimate(jnp.asarray(runs.log_weights), values), np.float64)
            for values in (
                jnp.asarray(runs.lengths, jnp.float32),
                jnp.asarray(runs.first_tokens == 0, jnp.float32),
            )
        )
        law = _law_of_weighted(problem, beta, size) if method == "importance" else None
        rows = indices(problem, runs.drawn_tokens, runs.drawn_lengths)
        outcomes.append(Outcome(size, runs.cost, length, first, rows, law))
    return outcomes


def _law_of_weighted(problem: Problem, beta: float, size: int) -> Law:
    layers = unroll(problem.table)
    target = power_law(layers, problem.alpha).law
    return resampled_law(weighted_draw(target, temperature_law(layers, beta), len), size)


def _rejection(problem: Problem, sizes: Sizes) -> list[Outcome]:
    """From the base model under the smallest bound there is, which only an exact calculation knows."""
    model = ContextModel.from_table(problem.table)
    power = power_law(unroll(problem.table), problem.alpha)
    log_bound = power.log_Z + log_max_ratio(power.law, temperature_law(power.law.layers, 1.0))
    largest = max(sizes.accepted)
    key = cell_key(sizes.seed, "cost", "rejection", problem.name, problem.alpha)
    done = _reject(
        key, model, (), jnp.float32(problem.alpha), jnp.float32(log_bound),
        sizes.replicates * largest,
    )  # fmt: skip
    check_complete(done)
    drawn = jax.device_get(done.generation.trajectories)
    rows = indices(problem, drawn.tokens, drawn.lengths).reshape(sizes.replicates, largest)
    cost = cost_of([done.generation.ledger], sizes.replicates * largest)
    return [
        Outcome(
            size,
            {name: spent * (1 if name == "model_calls" else size) for name, spent in cost.items()},
            problem.lengths[rows[:, :size]].mean(axis=1),
            problem.first[rows[:, :size]].mean(axis=1),
            rows[:, 0],
            problem.target,
        )
        for size in sizes.accepted
    ]


@partial(jax.jit, static_argnames=("num_rows",))
def _reject(
    key: Key[Array, ""],
    model: ContextModel,
    rules: tuple[TokenRule, ...],
    alpha: Float32[Array, ""],
    log_bound: Float32[Array, ""],
    num_rows: int,
) -> RejectionState:
    ids = jnp.arange(num_rows)
    prompts = jnp.zeros((num_rows, 0), jnp.int32), jnp.zeros(num_rows, jnp.int32)
    return rejection_sample(key, model, rules, alpha, log_bound, *prompts, ids, MAX_ROUNDS)


def _chain_method(name: str, design: Callable[[Problem], ChainDesign]) -> Method:
    return Method(APPROXIMATE, partial(run_chain, name, design))


METHODS: dict[str, Method] = {
    "importance_base": Method(WEIGHTED, partial(_population, "importance", False)),
    "importance_temperature": Method(WEIGHTED, partial(_population, "importance", True)),
    "rejection": Method(EXACT, _rejection),
    "smc": Method(WEIGHTED, partial(_population, "smc", True)),
    "smc_ess": Method(WEIGHTED, partial(_population, "smc_ess", True)),
    "smc_adapted": Method(WEIGHTED, partial(_population, "smc_adapted", True)),
    "independence_base": _chain_method("independence_base", partial(independence_design, False)),
    "independence": _chain_method("independence", partial(independence_design, True)),
    "suffix_base": _chain_method("suffix_base", partial(suffix_design, uniform_cut(), False)),
    "suffix": _chain_method("suffix", partial(suffix_design, uniform_cut(), True)),
    "suffix_entropy": _chain_method("suffix_entropy", partial(suffix_design, entropy_cut(), True)),
    "multiple_try": _chain_method("multiple_try", multiple_try_design),
    "blockwise": _chain_method("blockwise", blockwise_design),
    "tempering": _chain_method("tempering", tempering_design),
    "particle_gibbs": _chain_method("particle_gibbs", particle_gibbs_design),
}
"""In the order of the tables. Weighted rows of SMC estimate; the row drawn from them is an approximate draw."""
