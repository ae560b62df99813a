"""Pilot-Commit, one step: k pilots of every prompt, m more of those whose pilots lie in a band of intermediate success.

    k (pilots)  ->  p_hat in [lower, 1 - upper]  commit m          p_hat > 1 - upper  skip (at >= evict: leave out for good)
                                                                   p_hat < lower      defer to the next epoch

Source: "Spend Your Rollouts Where It Counts", arXiv 2605.26606 (2026), and its program, github.com/databricks/pilot-commit, read as code. Its rule for a training loop, with
buffer, staleness and eviction, is `theory.allocation.policies.pilot_commit_loop`.
"""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from theory.allocation.records import Decision, Reason, Requests, rank_by, served

LOWER = 0.125
UPPER = 0.25
EVICT = 1.0


def allocate(
    successes: Int[Array, " P"],
    failures: Int[Array, " P"],
    budget: Int[Array, ""] | int,
    pilots: int,
    commits: int,
    lower: float = LOWER,
    upper: float = UPPER,
    evict: float = EVICT,
) -> Requests:
    """One step for every prompt: its missing pilots, or its commits, or nothing.

    Pilots are served first, in order, the last one served what is left; then commits, most pilot variance first, ties by position. Commits are whole: a prompt
    whose m no longer fits gets 0 and is deferred.

    Args:
        successes: [P] right rollouts so far.
        failures: [P] wrong ones.
        budget: most rollouts in all.
        pilots: k.
        commits: m.
        lower: least pilot mean that is committed.
        upper: 1 - upper is the largest.
        evict: pilot mean at or above which a prompt above the band is left out for good.

    Returns:
        What to draw; the score is the variance of the pilots, p_hat (1 - p_hat), and 0 without any.
    """
    size = successes + failures
    missing = jnp.maximum(pilots - size, 0)
    piloted = missing == 0
    mean = pilot_mean(successes, failures)
    passes = piloted & in_band(successes, failures, lower, upper)
    score = pilot_variance(successes, failures)
    above = pilot_mean(failures, successes) < upper
    decision = jnp.where(above, int(Decision.SKIP), int(Decision.DEFER))
    decision = jnp.where(above & (mean >= evict), int(Decision.EVICT), decision)
    decision = jnp.where(piloted, decision, int(Decision.CONTINUE))
    drawn = served(missing, budget)
    room = (jnp.asarray(budget, size.dtype) - jnp.sum(drawn)) // max(commits, 1)
    # The places of those that pass, among themselves.
    place = rank_by(jnp.where(passes, score, -1.0))
    fits = passes & (place < room)
    decision = jnp.where(fits, int(Decision.COMMIT), decision)
    return Requests(
        jnp.where(fits, jnp.asarray(commits, size.dtype), drawn),
        decision,
        jnp.where(piloted, int(Reason.COMMIT), int(Reason.PILOT)),
        score,
    )


def pilot_mean(successes: Int[Array, " P"], failures: Int[Array, " P"]) -> Float[Array, " P"]:
    """Share of right rollouts; 0 without any.

    Args:
        successes: [P] right ones.
        failures: [P] wrong ones.

    Returns:
        [P] in [0, 1].
    """
    size = jnp.maximum(successes + failures, 1)
    floats = jnp.zeros(()).dtype
    return successes.astype(floats) / size.astype(floats)


def pilot_variance(successes: Int[Array, " P"], failures: Int[Array, " P"]) -> Float[Array, " P"]:
    """Variance of the rewards, s f / (s + f)^2: whole numbers divided once, so that p and 1 - p have the same; 0 without any.

    Args:
        successes: [P] right ones.
        failures: [P] wrong ones.

    Returns:
        [P] in [0, 1/4].
    """
    floats = jnp.zeros(()).dtype
    right, wrong = successes.astype(floats), failures.astype(floats)
    return right * wrong / jnp.maximum(right + wrong, 1) ** 2


def in_band(
    successes: Int[Array, " P"], failures: Int[Array, " P"], lower: float, upper: float
) -> Bool[Array, " P"]:
    """Whether pilots pass, both ends included; the upper end by the share of wrong ones, since 1 - upper is rounded.

    Args:
        successes: [P] right pilots.
        failures: [P] wrong ones.
        lower: see `allocate`.
        upper: see `allocate`.

    Returns:
        [P].
    """
    return (pilot_mean(successes, failures) >= lower) & (pilot_mean(failures, successes) >= upper)
