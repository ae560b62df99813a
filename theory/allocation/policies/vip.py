"""VIP: sizes of groups that minimise the summed gradient variance at predicted success rates.

    minimise sum_i p_i (1 - p_i) / (n_i - 1)   over whole n_i with sum C, L <= n_i <= U        (RLOO; in units of 4 sigma^2)

Each term is convex in n_i, so the C - sum L largest decreases p (1 - p) / (n (n - 1)) are the optimum itself; the paper finds it by bisection on the multiplier and
rounding. Its Dr. GRPO variance (n - 1) / n^2 is not convex at n = 2 and is left out. Source: arXiv 2602.01601 (ICLR 2026); README and notes were seen, the
program was not. The predictor is a Gaussian process over embeddings there; here it is any vector of rates, and `theory.allocation.learned_priors` has one by embeddings.
"""

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from theory.allocation.assembly import Rule, assemble, filled_groups, once
from theory.allocation.marginals import largest
from theory.allocation.records import Decision, Reason, Requests, check_whole, filled, served
from theory.allocation.sources import Belief, Source
from theory.errors import InvalidInput
from theory.protocols import Allocator

LEAST = 2


def allocate(
    rates: Float[Array, " P"],
    successes: Int[Array, " P"],
    failures: Int[Array, " P"],
    budget: Int[Array, ""] | int,
    least: int = LEAST,
    most: Int[Array, ""] | int | None = None,
) -> Requests:
    """One step: bring every group to L, in order, then spend the rest where the variance falls most.

    Args:
        rates: [P] predicted success rates.
        successes: [P] right rollouts of the group under way.
        failures: [P] wrong ones.
        budget: spent exactly unless every group is at U.
        least: L, at least 2: with one rollout RLOO is not defined.
        most: U, largest group; none by default.

    Returns:
        COMMIT where something is drawn, NONE elsewhere; the score is p (1 - p).
    """
    size = successes + failures
    first = served(jnp.maximum(least - size, 0), budget)
    left = jnp.asarray(budget, size.dtype) - jnp.sum(first)
    start = jnp.maximum(size + first, 2)
    limit = jnp.full_like(size, left)
    if most is not None:
        limit = jnp.minimum(limit, jnp.maximum(most - size - first, 0))
    variance = rates * (1 - rates)

    def log_marginal(columns: Int[Array, " P"]) -> Float[Array, " P"]:
        n = (start + columns).astype(variance.dtype)
        return jnp.log(variance) - jnp.log(n) - jnp.log(n - 1)

    additional = first + largest(log_marginal, limit, left)
    decision = jnp.where(additional > 0, int(Decision.COMMIT), int(Decision.NONE))
    return Requests(additional, decision, filled(size, Reason.COMMIT), variance)


def sized_groups(
    rates: Callable[[Belief], Float[Array, " P"]],
    batch_size: int,
    group_size: int,
    least: int,
    most: int,
) -> Rule:
    """Share B n rollouts out over the open prompts; every group is trained on.

    Args:
        rates: success rates that the source predicts.
        batch_size: B.
        group_size: n, mean size of a group.
        least: L.
        most: U.

    Returns:
        The rule.
    """

    def sizes(belief: Belief, opened: Bool[Array, " P"]) -> Int[Array, " P"]:
        at = jnp.flatnonzero(opened, size=batch_size, fill_value=opened.size)
        predicted = rates(belief).at[at].get(mode="fill", fill_value=0.5)
        none = jnp.zeros(batch_size, jnp.int32)
        budget = jnp.sum(at < opened.size, dtype=none.dtype) * group_size
        found = allocate(predicted, none, none, budget, least, most).additional
        return jnp.zeros(opened.shape, found.dtype).at[at].set(found, mode="drop")

    return filled_groups(sizes)


def allocator(
    batch_size: int,
    group_size: int,
    source: Source,
    rates: Callable[[Belief], Float[Array, " P"]],
    least: int = LEAST,
    most: int | None = None,
) -> Allocator:
    """VIP in a training loop, on the predictions of a source.

    Args:
        batch_size: B.
        group_size: n, mean size of a group.
        source: which prompts, and what is believed of them.
        rates: belief -> [P] predicted success rates; `theory.allocation.rates` has a source and its prediction.
        least: L.
        most: U; 4 n by default.

    Returns:
        The allocator.

    Raises:
        InvalidInput: not 2 <= L <= n <= U.
    """
    largest_group = 4 * group_size if most is None else most
    if not check_whole("least", least, 2) <= group_size <= largest_group:
        raise InvalidInput(
            f"group size {group_size}: must be from {least} (least) to {largest_group} (most)"
        )
    rule = sized_groups(rates, batch_size, group_size, least, largest_group)
    return assemble(source, rule, once(batch_size), batch_size)
