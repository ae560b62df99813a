"""Reinforce-Ada: rounds of rollouts for every prompt that has not shown enough, then a balanced subset.

    leave "positive" with a success, or "balanced" with n / 2 successes and n / 2 failures; else another round of 8, at most 4 rounds
    train on n rollouts, as balanced as can be; the baseline is the mean of all that was drawn, and there is no division by the deviation

Source: arXiv 2510.04996 and github.com/RLHFlow/Reinforce-Ada, read as code; n = 4. A prompt that never leaves is trained on if it is mixed.
"""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from theory.allocation.assembly import Rule, assemble, once, scores
from theory.allocation.policies.pilot_commit_state import max_variance_subset
from theory.allocation.records import Decision, Reason, Requests, check_whole, served
from theory.allocation.sources import Belief, Source, epochs
from theory.protocols import Allocator

ROUND, MOST_ROUNDS, KEPT = 8, 4, 4


def leaves_positive(successes: Int[Array, " P"], failures: Int[Array, " P"]) -> Bool[Array, " P"]:
    """Whether a prompt has a success.

    Args:
        successes: [P] right rollouts so far.
        failures: [P] wrong ones.

    Returns:
        [P].
    """
    return successes > 0


def leaves_balanced(
    successes: Int[Array, " P"], failures: Int[Array, " P"], kept: int = KEPT
) -> Bool[Array, " P"]:
    """Whether a prompt has both halves of a balanced group.

    Args:
        successes: [P] right rollouts so far.
        failures: [P] wrong ones.
        kept: n, size of the group.

    Returns:
        [P].
    """
    return (successes >= kept // 2) & (failures >= kept - kept // 2)


def allocate(
    successes: Int[Array, " P"],
    failures: Int[Array, " P"],
    leaves: Bool[Array, " P"],
    budget: Int[Array, ""] | int,
    per_round: int = ROUND,
    most_rounds: int = MOST_ROUNDS,
) -> Requests:
    """One round for every prompt that is still active, served in order; short of budget the decision stands.

    Args:
        successes: [P] right rollouts so far.
        failures: [P] wrong ones.
        leaves: [P] `leaves_positive` or `leaves_balanced`.
        budget: most rollouts in all.
        per_round: rollouts of a round.
        most_rounds: rounds of a prompt.

    Returns:
        CONTINUE with a round (what is missing of a broken one), COMMIT where it leaves or is mixed at the end, else ABANDON.
    """
    size = successes + failures
    started = (size > 0) & (size % per_round == 0)
    active = (size < per_round * most_rounds) & ~(leaves & started)
    missing = per_round - size % per_round
    mixed = (successes > 0) & (failures > 0)
    ended = jnp.where(leaves | mixed, int(Decision.COMMIT), int(Decision.ABANDON))
    return Requests(
        served(jnp.where(active, missing, 0), budget),
        jnp.where(active, int(Decision.CONTINUE), ended),
        jnp.full_like(size, int(Reason.PILOT)),
        scores(size),
    )


def allocator(
    batch_size: int,
    kept: int = KEPT,
    balanced: bool = True,
    per_round: int = ROUND,
    most_rounds: int = MOST_ROUNDS,
    source: Source | None = None,
) -> Allocator:
    """Reinforce-Ada in a training loop: a prompt that shows nothing is not replaced.

    Args:
        batch_size: B, prompts an update.
        kept: n, rollouts of a group that are trained on; `Groups.pool_successes` has all of them for the baseline.
        balanced: leave when both halves are there; else at the first success.
        per_round: rollouts of a round.
        most_rounds: rounds of a prompt.
        source: which prompts; every prompt once an epoch by default.

    Returns:
        The allocator.

    Raises:
        InvalidInput: a size below 1.
    """
    for name, size in (("kept", kept), ("per round", per_round), ("most rounds", most_rounds)):
        check_whole(name, size, 1)
    return assemble(
        epochs() if source is None else source,
        _rounds(kept, balanced, per_round, most_rounds),
        once(batch_size),
        batch_size,
        lambda belief, s, f: (*max_variance_subset(s, f, kept), jnp.zeros_like(s)),
    )


def _rounds(kept: int, balanced: bool, per_round: int, most_rounds: int) -> Rule:
    def rule(
        belief: Belief,
        successes: Int[Array, " P"],
        failures: Int[Array, " P"],
        opened: Bool[Array, " P"],
    ) -> Requests:
        enough = (
            leaves_balanced(successes, failures, kept)
            if balanced
            else leaves_positive(successes, failures)
        )
        most = per_round * most_rounds * successes.size
        return allocate(successes, failures, enough, most, per_round, most_rounds)

    return rule
