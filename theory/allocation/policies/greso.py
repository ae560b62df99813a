"""GRESO: before any rollout, skip a prompt with a probability that grows with its run of groups without signal; then dynamic sampling.

    kept with probability max(pe^c, .01), c consecutive groups with share >= .98 right     (ph, at most .11 right)
    after an update: an exploration probability falls by .01 where its kind of zero-variance groups is above its target share, else it grows by .01; in [.05, .95]
    candidates of a call: missing groups / (1 - zero-variance share) * 1.25, at least 64

Source: arXiv 2506.02177 and github.com/Infini-AI-Lab/GRESO, read as code; target share .25, a third of it easy, two thirds hard. Sign and step of the adaptation are as in the notes.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from theory.allocation.assembly import Refill, assemble
from theory.allocation.policies.dynamic_sampling import mixed_groups
from theory.allocation.records import Requests, check_whole
from theory.allocation.selection import whole_first
from theory.allocation.sources import Source
from theory.allocation.stream import Stream, start_stream, take
from theory.keys import Role, role_key
from theory.protocols import Allocator

LEAST_KEPT = 0.01
EASY_SHARE, HARD_SHARE = 0.98, 0.11
TARGET_EASY, TARGET_HARD = 0.25 / 3, 0.5 / 3
STEP, LEAST, MOST = 0.01, 0.05, 0.95


class GresoBelief(NamedTuple):
    """Runs of groups without signal, and how readily they are looked at again.

    Attributes:
        easy_run: [P] latest groups in a row that were (nearly) all right.
        hard_run: [P] that were (nearly) all wrong.
        explore_easy: pe.
        explore_hard: ph.
        zero_share: share of groups without signal in the last update.
    """

    easy_run: Int[Array, " P"]
    hard_run: Int[Array, " P"]
    explore_easy: Float[Array, ""]
    explore_hard: Float[Array, ""]
    zero_share: Float[Array, ""]


class GresoState(NamedTuple):
    """Of the source.

    Attributes:
        belief: of every prompt.
        stream: the order of the epoch.
        key: of the skips.
        calls: picks so far.
    """

    belief: GresoBelief
    stream: Stream
    key: Key[Array, ""]
    calls: Int[Array, ""]


def initial_belief(num_prompts: int) -> GresoBelief:
    """No runs; pe = ph = .5.

    Args:
        num_prompts: P.

    Returns:
        The belief.
    """
    none = jnp.zeros(num_prompts, jnp.int32)
    half = jnp.full((), 0.5)
    return GresoBelief(none, none, half, half, jnp.zeros(()))


def keep_probability(belief: GresoBelief) -> Float[Array, " P"]:
    """Probability that a prompt is not skipped.

    Args:
        belief: of every prompt.

    Returns:
        [P] in [.01, 1]; 1 for a prompt without a run.
    """
    easy = belief.explore_easy ** belief.easy_run.astype(belief.explore_easy.dtype)
    hard = belief.explore_hard ** belief.hard_run.astype(belief.explore_hard.dtype)
    return jnp.maximum(jnp.minimum(easy, hard), LEAST_KEPT)


def updated(
    belief: GresoBelief,
    visited: Bool[Array, " P"],
    successes: Int[Array, " P"],
    failures: Int[Array, " P"],
) -> GresoBelief:
    """The belief after an update.

    Args:
        belief: before it.
        visited: [P] prompts of which a group was drawn.
        successes: [P] right rollouts of the group.
        failures: [P] wrong ones.

    Returns:
        Runs go on or end where a prompt was visited; pe, ph and the share follow the groups of this update.
    """
    floats = belief.explore_easy.dtype
    size = successes + failures
    seen = visited & (size > 0)
    share = successes.astype(floats) / jnp.maximum(size, 1).astype(floats)
    easy, hard = seen & (share >= EASY_SHARE), seen & (share <= HARD_SHARE)
    num_seen = jnp.maximum(jnp.sum(seen), 1).astype(floats)
    share_easy, share_hard = (jnp.sum(each).astype(floats) / num_seen for each in (easy, hard))
    equal = seen & ((successes == 0) | (failures == 0))

    def run(before: Int[Array, " P"], goes_on: Bool[Array, " P"]) -> Int[Array, " P"]:
        return jnp.where(seen, jnp.where(goes_on, before + 1, 0), before)

    def moved(value: Float[Array, ""], found: Float[Array, ""], target: float) -> Float[Array, ""]:
        after = jnp.clip(jnp.where(found >= target, value - STEP, value + STEP), LEAST, MOST)
        return jnp.where(jnp.any(seen), after, value)

    return GresoBelief(
        run(belief.easy_run, easy),
        run(belief.hard_run, hard),
        moved(belief.explore_easy, share_easy, TARGET_EASY),
        moved(belief.explore_hard, share_hard, TARGET_HARD),
        jnp.where(jnp.any(seen), jnp.sum(equal).astype(floats) / num_seen, belief.zero_share),
    )


def allocate(
    key: Key[Array, ""],
    belief: GresoBelief,
    successes: Int[Array, " P"],
    failures: Int[Array, " P"],
    budget: Int[Array, ""] | int,
    group_size: int,
) -> Requests:
    """One step: skip at random, whole groups for the rest, in order.

    Args:
        key: of the skips.
        belief: see `updated`.
        successes: [P] right rollouts of the group under way.
        failures: [P] wrong ones.
        budget: most rollouts in all.
        group_size: n.

    Returns:
        SKIP where the prompt is left out this time, else as `theory.allocation.selection.whole_first` in the order given; the score is the
        probability to be kept.
    """
    chance = keep_probability(belief)
    kept = jax.random.uniform(key, chance.shape) < chance
    in_order = whole_first(jnp.zeros_like(chance), successes, failures, budget, group_size, kept)
    return in_order._replace(score=chance)


def source() -> Source:
    """The prompts of an epoch that are not skipped.

    Returns:
        The source. A skipped prompt's turn of the epoch is over; where all that is left was skipped, skipped ones are taken.
    """

    def init(key: Key[Array, ""], prompts: int) -> GresoState:
        return GresoState(
            initial_belief(prompts),
            start_stream(key, prompts),
            role_key(key, Role.BELIEF),
            jnp.zeros((), jnp.int32),
        )

    def pick(
        state: GresoState,
        count: Int[Array, ""],
        eligible: Bool[Array, " P"],
        visited: Bool[Array, " P"],
    ) -> tuple[GresoState, Int[Array, " P"]]:
        chance = keep_probability(state.belief)
        noise = jax.random.uniform(jax.random.fold_in(state.key, state.calls), chance.shape)
        kept = eligible & (noise < chance)
        stream, places = take(state.stream, count, kept)
        taken = jnp.max(places, initial=0)
        stream, others = take(stream, count - taken, eligible & (places == 0))
        places = places + jnp.where(others > 0, others + taken, 0)
        return state._replace(stream=stream, calls=state.calls + 1), places

    def learn(
        state: GresoState,
        visited: Bool[Array, " P"],
        successes: Int[Array, " P"],
        failures: Int[Array, " P"],
    ) -> GresoState:
        return state._replace(belief=updated(state.belief, visited, successes, failures))

    return Source(init, pick, learn, lambda state: keep_probability(state.belief))


def adaptive_batches(batch_size: int, least: int, most_batches: int) -> Refill:
    """Candidate batches sized by what is missing and by how many groups have lately been without signal.

    Args:
        batch_size: groups of a batch.
        least: candidates of a call.
        most_batches: calls of an update; after them it ends with what it has.

    Returns:
        The refill.
    """

    def refill(
        belief: GresoState,
        num_ready: Int[Array, ""],
        num_open: Int[Array, ""],
        refills: Int[Array, ""],
    ) -> Int[Array, ""]:
        share = belief.belief.zero_share
        missing = (batch_size - num_ready).astype(share.dtype)
        wanted = jnp.ceil(missing / jnp.maximum(1 - share, 0.01) * 1.25).astype(jnp.int32)
        due = (num_open == 0) & (num_ready < batch_size) & (refills < most_batches)
        return jnp.where(due, jnp.maximum(wanted, least), 0)

    return refill


def allocator(
    batch_size: int, group_size: int, least: int = 64, most_batches: int = 10
) -> Allocator:
    """GRESO in a training loop: skips, adaptive candidate batches, surplus groups dropped.

    Args:
        batch_size: B, mixed groups an update.
        group_size: n.
        least: candidates of a call.
        most_batches: calls of an update.

    Returns:
        The allocator.

    Raises:
        InvalidInput: a size below 1.
    """
    check_whole("group size", group_size, 1)
    check_whole("least candidates", least, 1)
    check_whole("most batches", most_batches, 1)
    return assemble(
        source(),
        mixed_groups(group_size),
        adaptive_batches(batch_size, least, most_batches),
        batch_size,
    )
