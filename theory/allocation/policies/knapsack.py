"""Knapsack RL: how many rollouts each prompt is worth, as a knapsack solved exactly.

    value of N more = (1 - p^N - (1 - p)^N) p (1 - p)^2,   cost N,   N = 0 or 2 <= N <= 128

p is the success rate seen before. Source: arXiv 2509.25849, second-hand. The paper hands what is left over to prompts with p = 0; here it is not spent, since
their value is 0.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from theory.allocation.assembly import Rule, assemble, once, scores
from theory.allocation.records import Decision, Reason, Requests, check_whole, filled
from theory.allocation.sources import Belief, Source
from theory.errors import InvalidInput
from theory.protocols import Allocator

MOST = 128
LEAST = 2
_EQUAL = 16  # roundings by which equal totals may differ


def seen_rates(successes: Int[Array, " P"], failures: Int[Array, " P"]) -> Float[Array, " P"]:
    """S / (s + f), 1/2 without data.

    Args:
        successes: [P] s.
        failures: [P] f.

    Returns:
        [P] in [0, 1].
    """
    floats = jnp.zeros(()).dtype
    size = successes + failures
    rate = successes.astype(floats) / jnp.maximum(size, 1).astype(floats)
    return jnp.where(size > 0, rate, 0.5)


def value(rates: Float[Array, "*#batch"], count: Int[Array, "*#batch"]) -> Float[Array, "*batch"]:
    """(1 - p^N - (1 - p)^N) p (1 - p)^2, and 0 below two rollouts.

    Args:
        rates: p.
        count: N.

    Returns:
        Not negative.
    """
    n = count.astype(rates.dtype)
    mixed = 1 - rates**n - (1 - rates) ** n
    return jnp.where(count >= LEAST, jnp.maximum(mixed, 0) * rates * (1 - rates) ** 2, 0)


def solve(
    rates: Float[Array, " P"],
    budget: int,
    most: int = MOST,
    limit: Int[Array, ""] | int | None = None,
) -> Int[Array, " P"]:
    """The best whole numbers of rollouts, by dynamic programming over prompts and budgets.

    Work and memory: P * budget * most operations, P * budget choices.

    Args:
        rates: [P] p.
        budget: largest R, which sets shapes.
        most: largest N.
        limit: R itself, at most `budget`; `budget` by default.

    Returns:
        [P] rollouts with sum at most R and the largest total value; of equal totals the one that gives least to the last prompts.
    """
    top = min(most, budget)
    counts = jnp.arange(top + 1, dtype=jnp.int32)
    allowed = (counts == 0) | (counts >= LEAST)
    before = jnp.arange(budget + 1, dtype=jnp.int32)[:, None] - counts[None, :]
    open_cells = (before >= 0) & allowed[None, :]
    slack = _EQUAL * jnp.finfo(rates.dtype).eps

    def best(
        totals: Float[Array, " R"], rate: Float[Array, ""]
    ) -> tuple[Float[Array, " R"], Int[Array, " R"]]:
        values = totals[jnp.maximum(before, 0)] + value(rate, counts)[None, :]
        values = jnp.where(open_cells, values, -1.0)
        largest = jnp.max(values, axis=1)
        choice = jnp.argmax(values >= (largest * (1 - slack))[:, None], axis=1)
        return largest, choice.astype(jnp.int32)

    def back(
        left: Int[Array, ""], choices: Int[Array, " R"]
    ) -> tuple[Int[Array, ""], Int[Array, ""]]:
        return left - choices[left], choices[left]

    _, choices = jax.lax.scan(best, jnp.zeros(budget + 1, rates.dtype), rates)
    start = jnp.asarray(budget if limit is None else limit, jnp.int32)
    _, chosen = jax.lax.scan(back, start, choices, reverse=True)
    return chosen


def allocate(
    successes: Int[Array, " P"], failures: Int[Array, " P"], budget: int, most: int = MOST
) -> Requests:
    """One step at the rates seen so far.

    Args:
        successes: [P] s.
        failures: [P] f.
        budget: R, concrete: it sets shapes.
        most: largest N.

    Returns:
        COMMIT where something is drawn, NONE elsewhere; the score is p (1 - p)^2.
    """
    rates = seen_rates(successes, failures)
    spendable = min(budget, most * successes.size)
    additional = solve(rates, spendable, most).astype(successes.dtype)
    decision = jnp.where(additional > 0, int(Decision.COMMIT), int(Decision.NONE))
    return Requests(
        additional, decision, filled(successes, Reason.COMMIT), rates * (1 - rates) ** 2
    )


def packed_groups(
    rates: Callable[[Belief], Float[Array, " P"]], batch_size: int, group_size: int, most: int
) -> Rule:
    """Pack B n rollouts into the open prompts; a prompt that gets none is given up.

    Args:
        rates: success rates that the source predicts.
        batch_size: B.
        group_size: n, mean size of a group.
        most: largest N.

    Returns:
        The rule.
    """
    budget = batch_size * group_size

    def rule(
        belief: Belief,
        successes: Int[Array, " P"],
        failures: Int[Array, " P"],
        opened: Bool[Array, " P"],
    ) -> Requests:
        at = jnp.flatnonzero(opened, size=batch_size, fill_value=opened.size)
        predicted = rates(belief).at[at].get(mode="fill", fill_value=0.0)
        sizes = solve(predicted, budget, most)
        wanted = jnp.zeros_like(successes).at[at].set(sizes.astype(successes.dtype), mode="drop")
        decision = jnp.where(wanted > 0, int(Decision.COMMIT), int(Decision.ABANDON))
        return Requests(
            jnp.maximum(wanted - successes - failures, 0),
            decision,
            filled(successes, Reason.COMMIT),
            scores(successes),
        )

    return rule


def allocator(
    batch_size: int,
    group_size: int,
    source: Source,
    rates: Callable[[Belief], Float[Array, " P"]],
    most: int = MOST,
) -> Allocator:
    """Knapsack RL in a training loop, on the predictions of a source.

    Args:
        batch_size: B.
        group_size: n, mean rollouts of an open prompt.
        source: which prompts, and what is believed of them.
        rates: belief -> [P] success rates; `theory.allocation.rates` has a source and its prediction.
        most: largest N.

    Returns:
        The allocator.

    Raises:
        InvalidInput: a largest N below 2.
    """
    if most < LEAST:
        raise InvalidInput(f"max {most}: must be at least {LEAST}")
    check_whole("group size", group_size, 1)
    rule = packed_groups(rates, batch_size, group_size, most)
    return assemble(source, rule, once(batch_size), batch_size)
