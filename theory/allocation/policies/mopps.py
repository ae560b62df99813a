"""MoPPS: Thompson sampling of success rates; the prompts whose sampled rate is nearest to one half are drawn.

    alpha <- lam alpha + (1 - lam) + s,    beta <- lam beta + (1 - lam) + f     after each visit
    r_hat ~ Beta(alpha, beta),   score = -|r_hat - gamma|

Source: arXiv 2507.04632 and github.com/thu-rllab/MoPPS, read as code (its `topk` selection).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from theory.allocation.policies.uniform import allocator as uniform_allocator
from theory.allocation.records import Requests, check_share
from theory.allocation.selection import ranked, whole_first
from theory.allocation.sources import Source
from theory.keys import Role, role_key
from theory.protocols import Allocator

DISCOUNT = 0.5
TARGET = 0.5


class MoppsBelief(NamedTuple):
    """Beta laws of the success rates.

    Attributes:
        alpha: [P] above 0.
        beta: [P] above 0.
    """

    alpha: Float[Array, " P"]
    beta: Float[Array, " P"]


class MoppsState(NamedTuple):
    """What the source believes and samples from.

    Attributes:
        belief: of every prompt.
        key: of the sampled rates.
        update: how many have been learned from.
    """

    belief: MoppsBelief
    key: Key[Array, ""]
    update: Int[Array, ""]


def initial_belief(num_prompts: int) -> MoppsBelief:
    """Beta(1, 1) of every prompt.

    Args:
        num_prompts: P.

    Returns:
        The belief.
    """
    return MoppsBelief(jnp.ones(num_prompts), jnp.ones(num_prompts))


def updated(
    belief: MoppsBelief,
    visited: Bool[Array, " P"],
    successes: Int[Array, " P"],
    failures: Int[Array, " P"],
    discount: float = DISCOUNT,
) -> MoppsBelief:
    """The belief after an update; prompts that were not visited keep theirs.

    Args:
        belief: before it.
        visited: [P] prompts of which a group was drawn.
        successes: [P] s.
        failures: [P] f.
        discount: lam; 1 forgets nothing.

    Returns:
        The belief after it.
    """
    floats = belief.alpha.dtype
    alpha = discount * belief.alpha + (1 - discount) + successes.astype(floats)
    beta = discount * belief.beta + (1 - discount) + failures.astype(floats)
    return MoppsBelief(
        jnp.where(visited, alpha, belief.alpha), jnp.where(visited, beta, belief.beta)
    )


def score(key: Key[Array, ""], belief: MoppsBelief, target: float = TARGET) -> Float[Array, " P"]:
    """Minus the distance of a sampled rate from the target.

    Args:
        key: of the sample.
        belief: of every prompt.
        target: gamma.

    Returns:
        [P] at most 0.
    """
    return -jnp.abs(jax.random.beta(key, belief.alpha, belief.beta) - target)


def allocate(
    key: Key[Array, ""],
    belief: MoppsBelief,
    successes: Int[Array, " P"],
    failures: Int[Array, " P"],
    budget: Int[Array, ""] | int,
    group_size: int,
    target: float = TARGET,
) -> Requests:
    """One step: whole groups for the prompts whose sampled rate is nearest to the target.

    Args:
        key: of the sample.
        belief: see `updated`.
        successes: [P] right rollouts of the group under way.
        failures: [P] wrong ones.
        budget: most rollouts in all.
        group_size: n.
        target: gamma.

    Returns:
        As `theory.allocation.selection.whole_first`.
    """
    return whole_first(score(key, belief, target), successes, failures, budget, group_size)


def source(
    batch_size: int, discount: float = DISCOUNT, target: float = TARGET, oversampling: int = 8
) -> Source:
    """The prompts that MoPPS picks, for any stopping rule.

    Args:
        batch_size: B.
        discount: lam.
        target: gamma.
        oversampling: candidates of an update, in batches; the rest of the pool comes after them.

    Returns:
        The source.

    Raises:
        InvalidInput: a discount or a target outside [0, 1].
    """
    check_share("discount", discount)
    check_share("target", target)

    def first(key: Key[Array, ""], prompts: int) -> MoppsState:
        zero = jnp.zeros((), jnp.int32)
        return MoppsState(initial_belief(prompts), role_key(key, Role.BELIEF), zero)

    def learned(
        state: MoppsState,
        visited: Bool[Array, " P"],
        successes: Int[Array, " P"],
        failures: Int[Array, " P"],
    ) -> MoppsState:
        belief = updated(state.belief, visited, successes, failures, discount)
        return state._replace(belief=belief, update=state.update + 1)

    def sampled(state: MoppsState) -> Float[Array, " P"]:
        return score(jax.random.fold_in(state.key, state.update), state.belief, target)

    return ranked(first, learned, sampled, oversampling * batch_size)


def allocator(
    batch_size: int,
    group_size: int,
    discount: float = DISCOUNT,
    target: float = TARGET,
    oversampling: int = 8,
) -> Allocator:
    """MoPPS in a training loop: B predicted prompts, n rollouts each.

    Args:
        batch_size: B.
        group_size: n.
        discount: lam.
        target: gamma.
        oversampling: see `source`.

    Returns:
        The allocator.

    Raises:
        InvalidInput: a size below 1, or a share outside [0, 1].
    """
    prompts = source(batch_size, discount, target, oversampling)
    return uniform_allocator(batch_size, group_size, prompts)
