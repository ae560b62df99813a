"""Where rollouts come from: prompts whose success rates are known, and that may move as the policy learns.

A world is a pure function of its parameters. The static one stands still. In the other, prompts share skills, the policy is a logistic
regression on them, and a group moves it by the gradient of its advantages: what a group-relative trainer does, in a model small enough
that accuracy and pass@k are exact.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from experiments.allocation.regimes import (
    NUM_SKILLS,
    SKILLS_PER_PROMPT,
    Population,
    SkillRegime,
)
from theory.allocation.records import Groups

Parameters = Float[Array, " S"]


class World(NamedTuple):
    """Prompts and a policy.

    Attributes:
        parameters: [S] of the policy at the start.
        success_rate: parameters -> [P], of every prompt of the training pool.
        held_out_rate: parameters -> [E], of every prompt that is kept for evaluation.
        learn: (parameters, groups) -> parameters after one update on them.
    """

    parameters: Parameters
    success_rate: Callable[[Parameters], Float[Array, " P"]]
    held_out_rate: Callable[[Parameters], Float[Array, " E"]]
    learn: Callable[[Parameters, Groups], Parameters]


def draw_rates(key: Key[Array, ""], population: Population, num_prompts: int) -> Float[Array, " P"]:
    """Independent success rates from a population.

    Args:
        key: of this draw.
        population: the law.
        num_prompts: P.

    Returns:
        [P] in [0, 1].
    """
    of_part, of_beta, of_normal = jax.random.split(key, 3)
    parts = (*population.betas, *population.points, *population.logit_normals)
    weights = jnp.array([part[0] for part in parts])
    part = jax.random.categorical(of_part, jnp.log(weights), shape=(num_prompts,))
    columns: list[Float[Array, " P"]] = []
    for number, (_, a, b) in enumerate(population.betas):
        columns.append(jax.random.beta(jax.random.fold_in(of_beta, number), a, b, (num_prompts,)))
    for _, point in population.points:
        columns.append(jnp.full(num_prompts, point))
    for number, (_, mean, deviation) in enumerate(population.logit_normals):
        normal = jax.random.normal(jax.random.fold_in(of_normal, number), (num_prompts,))
        columns.append(jax.nn.sigmoid(mean + deviation * normal))
    return jnp.stack(columns)[part, jnp.arange(num_prompts)]


def static_world(rates: Float[Array, " P"]) -> World:
    """Success rates that stand still.

    Args:
        rates: [P].

    Returns:
        A world without parameters; nothing is held out.
    """
    return World(
        jnp.zeros(0),
        lambda parameters: rates,
        lambda parameters: rates,
        lambda parameters, groups: parameters,
    )


def skill_world(key: Key[Array, ""], regime: SkillRegime) -> World:
    """A policy that learns on prompts which share skills.

        p_i = sigmoid(x_i . w - b_i),     w <- w + lr / B sum over groups of 1/n_i sum_j A_ij grad log pi(r_ij),   grad log pi(r) = (r - p_i) x_i

    with A the std-normalised advantages of the group, so that a group of s successes and f failures moves w by sqrt(s f) / (s + f) x_i.

    Args:
        key: of features and difficulties.
        regime: sizes and rates.

    Returns:
        A world that starts at w = 0.
    """
    of_skills, of_difficulty = jax.random.split(key)
    total = 2 * regime.num_prompts
    # Three different skills a prompt: the largest of independent scores.
    scores = jax.random.uniform(of_skills, (total, NUM_SKILLS))
    _, chosen = jax.lax.top_k(scores, SKILLS_PER_PROMPT)
    features = jnp.zeros((total, NUM_SKILLS)).at[jnp.arange(total)[:, None], chosen].set(1.0)
    difficulty = regime.mean_difficulty + regime.spread * jax.random.normal(of_difficulty, (total,))
    training, held_out = slice(0, regime.num_prompts), slice(regime.num_prompts, total)

    def rate(parameters: Parameters, rows: slice) -> Float[Array, " P"]:
        return jax.nn.sigmoid(features[rows] @ parameters - difficulty[rows])

    def learn(parameters: Parameters, groups: Groups) -> Parameters:
        pushes = _group_push(groups.ready, groups.successes, groups.failures)
        return parameters + regime.learning_rate / regime.batch_size * (pushes @ features[training])

    return World(
        jnp.zeros(NUM_SKILLS),
        lambda parameters: rate(parameters, training),
        lambda parameters: rate(parameters, held_out),
        learn,
    )


def _group_push(
    ready: Bool[Array, " P"], successes: Int[Array, " P"], failures: Int[Array, " P"]
) -> Float[Array, " P"]:
    """Mean over a group of advantage times (reward - p), under std-normalised advantages, which sum to 0 over the group."""
    size = (successes + failures).astype(jnp.float32)
    product = successes.astype(jnp.float32) * failures.astype(jnp.float32)
    return jnp.where(ready, jnp.sqrt(product) / jnp.maximum(size, 1.0), 0.0)
