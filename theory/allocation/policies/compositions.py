"""Compositions: the prompts of one method under the rule of another."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from theory.allocation.marginals import largest
from theory.allocation.policies import dps, pilot_commit_loop, sara
from theory.allocation.policies.hora import hit_rows, room
from theory.allocation.policies.pilot_commit_state import CommitSizes
from theory.allocation.priors import BetaMixture, beta
from theory.errors import InvalidInput
from theory.protocols import Allocator


def sara_on_dps(
    batch_size: int,
    group_size: int,
    tau_low: float = sara.TAU_LOW,
    discount: float = dps.DISCOUNT,
    oversampling: int = 8,
) -> Allocator:
    """DPS ranks the prompts, SARA stops their groups; what is given up is learned as none or all right.

    Source: the SARA paper names the composition; how an abandoned group is learned from was not seen and is ours.

    Args:
        batch_size: B.
        group_size: n.
        tau_low: of SARA.
        discount: of DPS.
        oversampling: of DPS.

    Returns:
        The allocator.

    Raises:
        InvalidInput: as the two.
    """
    prompts = dps.source(batch_size, discount, oversampling)
    return sara.allocator(batch_size, group_size, tau_low, source=prompts)


def hit_commits(
    batch_size: int, commits: int, cap: int | None, prior: BetaMixture | None = None
) -> CommitSizes:
    """Share a round's commits out by hit utility, given the pilots.

    Args:
        batch_size: B, most prompts of a round.
        commits: m, in the mean.
        cap: most rollouts of a group, pilots included.
        prior: of the success rate; flat by default.

    Returns:
        The sizes, with sum m a chosen prompt.
    """
    law = beta(1.0, 1.0) if prior is None else prior

    def sizes(
        chosen: Bool[Array, " P"], successes: Int[Array, " P"], failures: Int[Array, " P"]
    ) -> Int[Array, " P"]:
        at = jnp.flatnonzero(chosen, size=batch_size, fill_value=chosen.size)
        s, f = (part.at[at].get(mode="fill", fill_value=0) for part in (successes, failures))
        inside = at < chosen.size
        budget = jnp.sum(inside, dtype=s.dtype) * commits
        limits = jnp.where(inside, room(s, f, budget, cap), 0)
        found = largest(hit_rows(law, s, f, jnp.zeros_like(s)), limits, budget)
        return jnp.zeros_like(successes).at[at].set(found, mode="drop")

    return sizes


def hora_in_pilot_commit(
    batch_size: int,
    pilots: int,
    commits: int,
    cap: int | None = None,
    num_candidates: int | None = None,
) -> Allocator:
    """Pilot-Commit chooses the prompts, HORA the sizes of their groups; every round spends what Pilot-Commit would.

    Args:
        batch_size: B.
        pilots: k.
        commits: m, in the mean.
        cap: most rollouts of a group.
        num_candidates: C.

    Returns:
        The allocator.

    Raises:
        InvalidInput: as Pilot-Commit; a cap below k + m.
    """
    if cap is not None and cap < pilots + commits:
        raise InvalidInput(f"cap {cap}: must be at least pilots and commits, {pilots + commits}")
    return pilot_commit_loop.allocator(
        batch_size,
        pilots,
        commits,
        num_candidates,
        sizes=hit_commits(batch_size, commits, cap),
    )
