"""DPS: predict each prompt's state by a hidden Markov model of its own, and draw the prompts that are most likely partly solved.

A prompt is in one of three states: no rollout of its group right, some, all. A group shows the state itself, so the model is a chain that is looked at now and then;
its transition matrix has a Dirichlet law that forgets:

    Q[next, previous] = alpha / column sums
    looked at, state e:   alpha <- lam alpha + (1 - lam) alpha0 + outer(e, before) Q / sum,    before <- e,       belief <- Q' e
    not looked at:        alpha <- lam alpha + (1 - lam) alpha0,                               before <- belief,  belief <- Q' belief

with Q' after the change of alpha, and Q before it. Source: arXiv 2603.10887 (ICLR 2026) and github.com/maoyixiu/DPS, read as code.
"""

from functools import partial
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from theory.allocation.policies.uniform import allocator as uniform_allocator
from theory.allocation.records import Requests, check_share
from theory.allocation.selection import ranked, whole_first
from theory.allocation.sources import Source
from theory.protocols import Allocator

DISCOUNT = 0.5
_PARTLY = 1


class DpsBelief(NamedTuple):
    """What is believed of every prompt.

    Attributes:
        alpha: [P, 3, 3] of the Dirichlet laws of transitions, [next, previous].
        belief: [P, 3] law of the state at the next look: none, some, all right.
        before: [P, 3] law of the state at the last update.
    """

    alpha: Float[Array, "P 3 3"]
    belief: Float[Array, "P 3"]
    before: Float[Array, "P 3"]


def initial_belief(num_prompts: int) -> DpsBelief:
    """Nothing is known: uniform states, a Dirichlet law of ones.

    Args:
        num_prompts: P.

    Returns:
        The belief; its ranking is by position.
    """
    third = jnp.full((num_prompts, 3), 1 / 3)
    return DpsBelief(jnp.ones((num_prompts, 3, 3)), third, third)


def observed_state(successes: Int[Array, " P"], failures: Int[Array, " P"]) -> Float[Array, "P 3"]:
    """One-hot: no rollout right, some, all.

    Args:
        successes: [P] right ones.
        failures: [P] wrong ones.

    Returns:
        [P, 3].
    """
    state = jnp.where(successes == 0, 0, jnp.where(failures == 0, 2, _PARTLY))
    return (state[:, None] == jnp.arange(3)[None, :]).astype(jnp.zeros(()).dtype)


def updated(
    state: DpsBelief,
    visited: Bool[Array, " P"],
    successes: Int[Array, " P"],
    failures: Int[Array, " P"],
    discount: float = DISCOUNT,
) -> DpsBelief:
    """The belief after an update.

    Args:
        state: before it.
        visited: [P] prompts of which a group was drawn.
        successes: [P] right rollouts of the group.
        failures: [P] wrong ones. A group that was given up counts as none or all.
        discount: lam; the code uses .5 and .7.

    Returns:
        The belief at the next update.
    """
    seen = (visited & (successes + failures > 0))[:, None]
    shown = observed_state(successes, failures)
    joint = shown[:, :, None] * state.before[:, None, :] * _transitions(state.alpha)
    counted = joint / jnp.sum(joint, axis=(1, 2), keepdims=True)
    alpha = discount * state.alpha + (1 - discount) + jnp.where(seen[:, :, None], counted, 0)
    now = jnp.where(seen, shown, state.belief)
    following = jnp.einsum("pij,pj->pi", _transitions(alpha), now)
    return DpsBelief(alpha, following / jnp.sum(following, axis=1, keepdims=True), now)


def _transitions(alpha: Float[Array, "P 3 3"]) -> Float[Array, "P 3 3"]:
    return alpha / jnp.sum(alpha, axis=1, keepdims=True)


def score(belief: DpsBelief) -> Float[Array, " P"]:
    """Probability that the next group is partly solved.

    Args:
        belief: of every prompt.

    Returns:
        [P].
    """
    return belief.belief[:, _PARTLY]


def allocate(
    belief: DpsBelief,
    successes: Int[Array, " P"],
    failures: Int[Array, " P"],
    budget: Int[Array, ""] | int,
    group_size: int,
) -> Requests:
    """One step: whole groups for the prompts that are most likely partly solved.

    Args:
        belief: see `updated`.
        successes: [P] right rollouts of the group under way.
        failures: [P] wrong ones.
        budget: most rollouts in all.
        group_size: n.

    Returns:
        Prompts by score, ties by position: COMMIT with what its group lacks while that fits whole, then DEFER; NONE for a finished group.
    """
    return whole_first(score(belief), successes, failures, budget, group_size)


def source(batch_size: int, discount: float = DISCOUNT, oversampling: int = 8) -> Source:
    """The prompts that DPS picks, for any stopping rule.

    Args:
        batch_size: B.
        discount: lam.
        oversampling: candidates of an update, in batches; those are the prompts that are ranked, the rest of the pool comes after them.

    Returns:
        The source; SARA on it is SARA + DPS.

    Raises:
        InvalidInput: a discount outside [0, 1].
    """
    check_share("discount", discount)
    return ranked(
        lambda _, prompts: initial_belief(prompts),
        partial(updated, discount=discount),
        score,
        oversampling * batch_size,
    )


def allocator(
    batch_size: int, group_size: int, discount: float = DISCOUNT, oversampling: int = 8
) -> Allocator:
    """DPS in a training loop: B predicted prompts, n rollouts each.

    Args:
        batch_size: B.
        group_size: n.
        discount: lam.
        oversampling: see `source`.

    Returns:
        The allocator.

    Raises:
        InvalidInput: a size below 1, or a discount outside [0, 1].
    """
    return uniform_allocator(batch_size, group_size, source(batch_size, discount, oversampling))
