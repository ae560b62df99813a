"""AR3PO: rollouts in stages, a prompt stops at its first success, and a stored success is replayed where all fail.

    success seen      COMMIT             n drawn, all wrong      COMMIT with a replayed success if one is stored, else ABANDON
    else              CONTINUE with the next stage

Source: arXiv 2509.25808, second-hand: that it runs in stages, stops at a first success and replays. Sizes of stages were not seen; 4 of 8 are ours.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Key

from theory.allocation.assembly import Rule, assemble, once, scores
from theory.allocation.records import Decision, Reason, Requests, check_whole, served
from theory.allocation.sources import Belief, Source, epochs
from theory.protocols import Allocator

GROUP, STAGE = 8, 4


class StoredState(NamedTuple):
    """Of the source.

    Attributes:
        belief: of the source below it.
        stored: [P] prompts of which a right rollout is kept.
    """

    belief: Belief
    stored: Bool[Array, " P"]


def allocate(
    successes: Int[Array, " P"],
    failures: Int[Array, " P"],
    stored: Bool[Array, " P"],
    budget: Int[Array, ""] | int,
    group_size: int = GROUP,
    stage: int = STAGE,
) -> Requests:
    """One stage for every prompt without a success, served in order; short of budget the decision stands.

    Args:
        successes: [P] right rollouts so far.
        failures: [P] wrong ones.
        stored: [P] prompts of which an earlier right rollout is kept.
        budget: most rollouts in all.
        group_size: n, most rollouts of a prompt.
        stage: rollouts of a stage.

    Returns:
        What to draw; no score.
    """
    size = successes + failures
    missing = jnp.minimum(stage - size % stage, group_size - size)
    active = (successes == 0) & (size < group_size)
    ended = jnp.where((successes > 0) | stored, int(Decision.COMMIT), int(Decision.ABANDON))
    return Requests(
        served(jnp.where(active, missing, 0), budget),
        jnp.where(active, int(Decision.CONTINUE), ended),
        jnp.full_like(size, int(Reason.PILOT)),
        scores(size),
    )


def remembering(below: Source) -> Source:
    """A source that keeps which prompts were ever solved.

    Args:
        below: which prompts come next.

    Returns:
        The source.
    """

    def init(key: Key[Array, ""], prompts: int) -> StoredState:
        return StoredState(below.init(key, prompts), jnp.zeros(prompts, bool))

    def pick(
        state: StoredState,
        count: Int[Array, ""],
        eligible: Bool[Array, " P"],
        visited: Bool[Array, " P"],
    ) -> tuple[StoredState, Int[Array, " P"]]:
        belief, places = below.pick(state.belief, count, eligible, visited)
        return state._replace(belief=belief), places

    def learn(
        state: StoredState,
        visited: Bool[Array, " P"],
        successes: Int[Array, " P"],
        failures: Int[Array, " P"],
    ) -> StoredState:
        belief = below.learn(state.belief, visited, successes, failures)
        return StoredState(belief, state.stored | (visited & (successes > 0)))

    return Source(init, pick, learn, lambda state: below.score(state.belief))


def _stages(group_size: int, stage: int) -> Rule:
    def rule(
        belief: StoredState,
        successes: Int[Array, " P"],
        failures: Int[Array, " P"],
        opened: Bool[Array, " P"],
    ) -> Requests:
        most = group_size * successes.size
        return allocate(successes, failures, belief.stored, most, group_size, stage)

    return rule


def replayed(
    belief: StoredState, successes: Int[Array, " P"], failures: Int[Array, " P"]
) -> tuple[Int[Array, " P"], Int[Array, " P"], Int[Array, " P"]]:
    """Add a stored success to a group that failed whole.

    Args:
        belief: has what is stored.
        successes: [P] right rollouts.
        failures: [P] wrong ones.

    Returns:
        Successes with the replayed ones, failures, and how many were replayed.
    """
    added = ((successes == 0) & belief.stored).astype(successes.dtype)
    return successes + added, failures, added


def allocator(
    batch_size: int, group_size: int = GROUP, stage: int = STAGE, source: Source | None = None
) -> Allocator:
    """AR3PO in a training loop: a prompt that is given up is not replaced.

    Args:
        batch_size: B, prompts an update.
        group_size: n.
        stage: rollouts of a stage.
        source: which prompts; every prompt once an epoch by default.

    Returns:
        The allocator.

    Raises:
        InvalidInput: a size below 1.
    """
    check_whole("group size", group_size, 1)
    check_whole("stage", stage, 1)
    prompts = remembering(epochs() if source is None else source)
    return assemble(prompts, _stages(group_size, stage), once(batch_size), batch_size, replayed)
