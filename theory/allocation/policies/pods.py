"""PODS: draw n rollouts, train on the m whose rewards vary most.

The best subset of m holds the i largest and the m - i smallest rewards for some i, so that sorting finds it; for binary rewards it is half and half where that can be
had. Source: arXiv 2504.13818 (its theorem on the subset) and github.com/YixuanEvenXu/pods, read as code. What is trained on is selected by reward, so its mean is not that
of the policy: another objective is optimised.
"""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from theory.allocation.assembly import assemble, once
from theory.allocation.policies.pilot_commit_state import max_variance_subset
from theory.allocation.policies.uniform import whole_group
from theory.allocation.records import Decision, Reason, Requests, check_whole, filled, served
from theory.allocation.sources import Source, epochs
from theory.errors import InvalidInput
from theory.protocols import Allocator


def max_variance_mask(rewards: Float[Array, " G"], kept: int) -> Bool[Array, " G"]:
    """The subset of m rewards whose variance is largest, in O(G log G).

    Args:
        rewards: [G] of one group, finite.
        kept: m, at most G.

    Returns:
        [G] which are kept; of equal subsets the one with most of the large ones.
    """
    order = jnp.argsort(rewards, stable=True)
    centred = rewards[order] - jnp.mean(rewards)
    sums = jnp.concatenate([jnp.zeros(1, rewards.dtype), jnp.cumsum(centred)])
    squares = jnp.concatenate([jnp.zeros(1, rewards.dtype), jnp.cumsum(centred**2)])
    low = jnp.arange(kept + 1)
    high = rewards.size - (kept - low)

    def total(running: Float[Array, " g"]) -> Float[Array, " m"]:
        return running[low] + running[-1] - running[high]

    spread = total(squares) - total(sums) ** 2 / max(kept, 1)
    best = jnp.argmax(spread)
    place = jnp.arange(rewards.size)
    chosen = (place < best) | (place >= rewards.size - (kept - best))
    return jnp.zeros(rewards.size, bool).at[order].set(chosen)


def allocate(
    successes: Int[Array, " P"],
    failures: Int[Array, " P"],
    budget: Int[Array, ""] | int,
    group_size: int,
    kept: int,
) -> Requests:
    """One step: complete the groups in order; all of them are trained on, by m rollouts each.

    Args:
        successes: [P] right rollouts so far.
        failures: [P] wrong ones.
        budget: most rollouts in all.
        group_size: n.
        kept: m.

    Returns:
        CONTINUE with n - s - f (what is left for the last one served, NONE beyond), COMMIT for a finished group; the score is the variance of its best subset.
    """
    missing = jnp.maximum(group_size - successes - failures, 0)
    additional = served(missing, budget)
    right, wrong = max_variance_subset(successes, failures, kept)
    floats = jnp.zeros(()).dtype
    size = jnp.maximum(right + wrong, 1).astype(floats)
    decision = jnp.where(additional > 0, int(Decision.CONTINUE), int(Decision.NONE))
    return Requests(
        additional,
        jnp.where(missing > 0, decision, int(Decision.COMMIT)),
        filled(missing, Reason.COMMIT),
        right.astype(floats) * wrong.astype(floats) / size**2,
    )


def allocator(
    batch_size: int, group_size: int, kept: int, source: Source | None = None
) -> Allocator:
    """PODS in a training loop: whole groups drawn, m rollouts of each trained on, the rest dropped.

    Args:
        batch_size: B.
        group_size: n.
        kept: m.
        source: which prompts; every prompt once an epoch by default.

    Returns:
        The allocator.

    Raises:
        InvalidInput: m outside 1..n.
    """
    if check_whole("kept", kept, 1) > group_size:
        raise InvalidInput(f"kept {kept}: must be at most the group size {group_size}")
    return assemble(
        epochs() if source is None else source,
        whole_group(group_size),
        once(batch_size),
        batch_size,
        lambda belief, s, f: (*max_variance_subset(s, f, kept), jnp.zeros_like(s)),
    )
