"""SPEED-RL: screen each prompt with a few rollouts, and complete the group only where they are mixed.

    s + f < n_init      n_init - s - f more (CONTINUE)
    mixed               up to n_init + n_cont (COMMIT)          else ABANDON

Source: arXiv 2506.09016 and github.com/Zanette-Labs/speed-rl, read as code: n_init 4, n_cont 20 (or 12). Screening of the next prompts shares each generation call with the
completion of the last ones; the program buffers what is accepted beyond a batch, here only as many prompts are in flight as groups are missing.
"""

import jax.numpy as jnp
from jaxtyping import Array, Int

from theory.allocation.assembly import assemble, top_up
from theory.allocation.policies.sara import probe_table
from theory.allocation.records import Decision, Reason, Requests, served
from theory.allocation.sequential import ActionTable, table_rule
from theory.allocation.sources import Source, epochs
from theory.protocols import Allocator

SCREEN, COMPLETION = 4, 20


def allocate(
    successes: Int[Array, " P"],
    failures: Int[Array, " P"],
    budget: Int[Array, ""] | int,
    screen: int = SCREEN,
    completion: int = COMPLETION,
) -> Requests:
    """One step for every prompt, served in order; short of budget the decision stands.

    Args:
        successes: [P] right rollouts so far.
        failures: [P] wrong ones.
        budget: most rollouts in all.
        screen: n_init.
        completion: n_cont.

    Returns:
        What to draw; the score is 1 for a mixed prompt.
    """
    size = successes + failures
    screened = size >= screen
    mixed = (successes > 0) & (failures > 0)
    commits = screened & mixed
    more = jnp.where(screened, screen + completion - size, screen - size)
    more = jnp.where(screened & ~mixed, 0, jnp.maximum(more, 0))
    decision = jnp.where(screened, int(Decision.ABANDON), int(Decision.CONTINUE))
    return Requests(
        served(more, budget),
        jnp.where(commits, int(Decision.COMMIT), decision),
        jnp.where(commits, int(Reason.COMMIT), int(Reason.PILOT)),
        mixed.astype(jnp.zeros(()).dtype),
    )


def table(screen: int = SCREEN, completion: int = COMPLETION) -> ActionTable:
    """The rule on the lattice: SARA's probe form under another name, with its own sizes.

    Args:
        screen: n_init.
        completion: n_cont.

    Returns:
        Its action table.
    """
    return probe_table(screen + completion, screen)


def allocator(
    batch_size: int,
    screen: int = SCREEN,
    completion: int = COMPLETION,
    source: Source | None = None,
) -> Allocator:
    """SPEED-RL in a training loop.

    Args:
        batch_size: B, groups an update.
        screen: n_init, at least 2.
        completion: n_cont.
        source: which prompts; every prompt once an epoch by default.

    Returns:
        The allocator.

    Raises:
        InvalidInput: a size that makes no sense.
    """
    return assemble(
        epochs() if source is None else source,
        table_rule(table(screen, completion)),
        top_up(batch_size),
        batch_size,
    )
