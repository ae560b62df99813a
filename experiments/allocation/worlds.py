"""Where rollouts come from: prompts whose success rates are known, and that may move as the policy learns.

A world is a pure function of its parameters. The static one stands still. In the other, prompts share skills, the policy is a logistic
regression on them, and a group moves it by the gradient of its advantages: what a group-relative trainer does, in a model small enough
that accuracy and pass@k are exact.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from experiments.allocation.pushes import PUSHES
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


class SkillPrompts(NamedTuple):
    """Prompts that share skills, as arrays, so that worlds of equal shapes share a compiled program. P2 = 2 P: as many are held out as are trained on.

    Attributes:
        features: [P2, S] which skills a prompt needs, training prompts first.
        difficulty: [P2] b_i, in logits.
        step: learning rate over batch size.
        form: of the advantage, a place in `PUSHES`.
    """

    features: Float[Array, "P2 S"]
    difficulty: Float[Array, " P2"]
    step: Float[Array, ""]
    form: Int[Array, ""]


def draw_skill_prompts(
    key: Key[Array, ""], regime: SkillRegime, form: str = "grpo"
) -> SkillPrompts:
    """The prompts of a regime.

    Args:
        key: of features and difficulties.
        regime: sizes and rates.
        form: of the advantage, in `PUSHES`.

    Returns:
        Their arrays.
    """
    of_skills, of_difficulty = jax.random.split(key)
    total = 2 * regime.num_prompts
    # Three different skills a prompt: the largest of independent scores.
    scores = jax.random.uniform(of_skills, (total, NUM_SKILLS))
    _, chosen = jax.lax.top_k(scores, SKILLS_PER_PROMPT)
    features = jnp.zeros((total, NUM_SKILLS)).at[jnp.arange(total)[:, None], chosen].set(1.0)
    difficulty = regime.mean_difficulty + regime.spread * jax.random.normal(of_difficulty, (total,))
    step = jnp.float32(regime.learning_rate / regime.batch_size)
    return SkillPrompts(features, difficulty, step, jnp.int32(list(PUSHES).index(form)))


def learning_world(prompts: SkillPrompts) -> World:
    """A policy that learns on prompts which share skills.

        p_i = sigmoid(x_i . w - b_i),     w <- w + lr / B sum over groups of 1/n_i sum_j A_ij grad log pi(r_ij),   grad log pi(r) = (r - p_i) x_i

    so that a group moves w by its push (`experiments.allocation.pushes`) along x_i: sqrt(s f) / (s + f) under std-normalised advantages.

    Args:
        prompts: of the world.

    Returns:
        A world that starts at w = 0.
    """
    total, num_skills = prompts.features.shape
    training, held_out = slice(0, total // 2), slice(total // 2, total)

    def rate(parameters: Parameters, rows: slice) -> Float[Array, " P"]:
        return jax.nn.sigmoid(prompts.features[rows] @ parameters - prompts.difficulty[rows])

    def learn(parameters: Parameters, groups: Groups) -> Parameters:
        push = jax.lax.switch(
            prompts.form,
            list(PUSHES.values()),
            groups.ready,
            groups.successes,
            groups.failures,
            rate(parameters, training),
        )
        return parameters + prompts.step * (push @ prompts.features[training])

    return World(
        jnp.zeros(num_skills),
        lambda parameters: rate(parameters, training),
        lambda parameters: rate(parameters, held_out),
        learn,
    )
