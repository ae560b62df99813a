"""A sampler is compiled once for each shape: other keys, prompts and exponents, and the state it has itself returned, are the same program.

What decides that a program is compiled anew is that its function is traced anew, so traces are counted, and nothing is compiled here.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from models.tabular.context_model import ContextModel
from models.tabular.toys import toy_e
from theory.decoding import temperature
from theory.decoding.stochastic_beam import stochastic_beam
from theory.generation import Generation, generate, start
from theory.importance import trajectory_log_weights
from theory.keys import Role, role_key, row_keys
from theory.mcmc import (
    Prompts,
    asynchronous_suffix,
    blockwise,
    coupled_suffix_regeneration,
    entropy_cut,
    independence,
    multiple_try,
    parallel_tempering,
    particle_gibbs,
    reward_tilted,
    suffix_regeneration,
    uniform_cut,
)
from theory.protocols import Kernel
from theory.rejection import rejection_sample
from theory.resampling.adaptive import ess_adaptive
from theory.resampling.conditional import conditional_multinomial
from theory.resampling.systematic import systematic
from theory.smc import (
    HiddenMarkovModel,
    Population,
    adapted_smc,
    bootstrap_filter,
    bridged_smc,
    conditional_smc,
    every,
    lookahead_power_sampling,
    lookahead_smc,
    smc,
    start_populations,
    temperature_proposal,
    twisted_smc,
    twisted_targets_smc,
)

MODEL = ContextModel.from_table(toy_e())
NUM = 6
STEPS = every(MODEL.horizon)
HALF = (temperature(0.5),)
RESAMPLER = ess_adaptive(systematic, 0.5)


def traces(function: Callable[..., Any], *calls: tuple[Any, ...]) -> int:
    """How often a function under jit is traced by these calls."""
    count = 0

    def counted(*arguments: Any) -> Any:
        nonlocal count
        count += 1
        return function(*arguments)

    jitted = jax.jit(counted)
    for arguments in calls:
        jitted.trace(*arguments)
    return count


def settings(number: int) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """A key, an exponent, prompts and their lengths."""
    prompts = (jnp.arange(NUM)[:, None] + jnp.arange(2)[None] + number) % 2
    lengths = (jnp.arange(NUM, dtype=jnp.int32) + number) % 3
    return jax.random.key(number), jnp.float32(1.5 + number), prompts, lengths


def rows(key: jax.Array, alpha: jax.Array, prompts: jax.Array, lengths: jax.Array) -> Generation:
    keys = row_keys(role_key(key, Role.TOKEN), jnp.arange(NUM))
    limits = jnp.full(NUM, MODEL.horizon, jnp.int32)
    return generate(keys, MODEL, HALF, alpha, start(MODEL, prompts, lengths), limits)


def weighted(key: jax.Array, alpha: jax.Array, prompts: jax.Array, lengths: jax.Array) -> Any:
    return trajectory_log_weights(rows(key, alpha, prompts, lengths).trajectories, alpha)


def rejected(key: jax.Array, alpha: jax.Array, prompts: jax.Array, lengths: jax.Array) -> Any:
    bound = jnp.zeros((), jnp.float32)
    ids, rounds = jnp.arange(NUM), jnp.int32(9)
    return rejection_sample(key, MODEL, (), alpha, bound, prompts, lengths, ids, rounds)


def population(prompts: jax.Array, lengths: jax.Array) -> Population:
    return start_populations(MODEL, prompts, lengths, jnp.arange(NUM), 4)


def plain_smc(key: jax.Array, alpha: jax.Array, prompts: jax.Array, lengths: jax.Array) -> Any:
    rules = temperature_proposal(2.0)
    return smc(key, MODEL, rules, alpha, population(prompts, lengths), RESAMPLER, STEPS)


def adapted(key: jax.Array, alpha: jax.Array, prompts: jax.Array, lengths: jax.Array) -> Any:
    return adapted_smc(key, MODEL, alpha, population(prompts, lengths), RESAMPLER)


def bridged(key: jax.Array, alpha: jax.Array, prompts: jax.Array, lengths: jax.Array) -> Any:
    exponents = jnp.linspace(1.0, alpha, len(STEPS) + 1)
    start = population(prompts, lengths)
    return bridged_smc(key, MODEL, exponents, alpha, start, RESAMPLER, STEPS)


def twisted(key: jax.Array, alpha: jax.Array, prompts: jax.Array, lengths: jax.Array) -> Any:
    def log_twist(tokens: jax.Array, lengths: jax.Array) -> jax.Array:
        return -0.1 * lengths.astype(jnp.float32)

    start = population(prompts, lengths)
    return twisted_smc(key, MODEL, log_twist, alpha, start, RESAMPLER, STEPS)


def twisted_targets(
    key: jax.Array, alpha: jax.Array, prompts: jax.Array, lengths: jax.Array
) -> Any:
    def log_twist(tokens: jax.Array, lengths: jax.Array) -> jax.Array:
        return -0.1 * lengths.astype(jnp.float32)

    start = population(prompts, lengths)
    return twisted_targets_smc(key, MODEL, HALF, log_twist, alpha, start, RESAMPLER, STEPS)


def conditional(key: jax.Array, alpha: jax.Array, prompts: jax.Array, lengths: jax.Array) -> Any:
    reference, start = rows(key, alpha, prompts, lengths), population(prompts, lengths)
    return conditional_smc(
        key, MODEL, HALF, alpha, reference, start, conditional_multinomial, STEPS
    )


def looked_ahead(key: jax.Array, alpha: jax.Array, prompts: jax.Array, lengths: jax.Array) -> Any:
    start = population(prompts, lengths)
    return lookahead_smc(key, MODEL, HALF, alpha, start, RESAMPLER, STEPS, 2, 2)


def jackknifed(key: jax.Array, alpha: jax.Array, prompts: jax.Array, lengths: jax.Array) -> Any:
    ids = jnp.arange(NUM)
    return lookahead_power_sampling(key, MODEL, alpha, prompts, lengths, ids, 2, 2, 2)


def beam(key: jax.Array, alpha: jax.Array, prompts: jax.Array, lengths: jax.Array) -> Any:
    del alpha  # it has no exponent of its own
    keys = row_keys(role_key(key, Role.TOKEN), jnp.arange(NUM))
    return stochastic_beam(keys, MODEL, prompts, lengths, HALF, 3)


def states(key: jax.Array, alpha: jax.Array, prompts: jax.Array, lengths: jax.Array) -> Any:
    del alpha, lengths  # the symbols are all that it is given
    chain = HiddenMarkovModel(
        np.full(2, 0.5), np.full((2, 2), 0.5), np.array([[0.9, 0.1], [0.2, 0.8]])
    )
    return bootstrap_filter(key, chain, prompts[:, 0], 4, RESAMPLER, jnp.arange(NUM))


SAMPLERS = [
    *(rows, weighted, rejected, jackknifed, beam),
    *(plain_smc, adapted, bridged, twisted, twisted_targets, conditional, looked_ahead, states),
]


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_other_keys_exponents_and_prompts_are_the_same_program(
    sampler: Callable[..., Any],
) -> None:
    assert traces(sampler, settings(0), settings(1)) == 1


def count_of_b(tokens: jax.Array, lengths: jax.Array) -> jax.Array:
    inside = jnp.arange(tokens.shape[1])[None] < lengths[:, None]
    return (inside & (tokens == 1)).sum(axis=1).astype(jnp.float32)


KERNELS = {
    "suffix": suffix_regeneration(4.0, 2.0, entropy_cut()),
    "multiple try": multiple_try(4.0, 2.0, uniform_cut(), 2),
    "blockwise": blockwise(4.0, 2.0, uniform_cut(), 2, 1),
    "tempering": parallel_tempering((1.0, 2.0), uniform_cut()),
    "independence": independence(4.0, 2.0),
    "tilted": reward_tilted(count_of_b, 0.5, 1.0, uniform_cut()),
    "coupled": coupled_suffix_regeneration(4.0, 2.0, uniform_cut(), 1),
    "particle Gibbs": particle_gibbs(4.0, 2.0, 3, STEPS, conditional_multinomial),
    "asynchronous": asynchronous_suffix(4.0, 2.0, uniform_cut(), 2, fewest_rows=2),
}


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_goes_on_from_its_own_state_in_the_same_program(name: str) -> None:
    kernel: Kernel = KERNELS[name]

    def begin(key: jax.Array, prompts: jax.Array, lengths: jax.Array) -> Any:
        return kernel.init(key, MODEL, Prompts(prompts, lengths, jnp.arange(NUM)))

    (key, _, *prompts), (other, _, *others) = settings(0), settings(1)
    assert traces(begin, (key, *prompts), (other, *others)) == 1
    state = jax.eval_shape(begin, key, *prompts)
    after, _ = jax.eval_shape(kernel.step, key, MODEL, state)
    # A state of another type, were it only a weak one, would be another program at the second step.
    assert jax.tree.structure(state) == jax.tree.structure(after)
    assert jax.tree.leaves(state) == jax.tree.leaves(after)
    assert traces(kernel.step, (key, MODEL, state), (other, MODEL, after)) == 1


def test_another_shape_and_a_number_of_another_type_are_other_programs() -> None:
    key, alpha, prompts, lengths = settings(0)
    assert traces(rows, settings(0), (key, alpha, prompts[:, :1], lengths % 2)) == 2
    assert traces(rows, settings(0), (key, 1.5, prompts, lengths)) == 2
