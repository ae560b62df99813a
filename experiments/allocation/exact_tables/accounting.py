"""PC-2: what Pilot-Commit's loop spends, round by round, and the identities that its ledger keeps. The one table with random rollouts."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from experiments.allocation.exact_tables import comparison
from experiments.allocation.exact_tables.comparison import Compared, Row
from experiments.tables import schema
from theory.allocation.policies import pilot_commit_loop
from theory.allocation.records import Groups, Reason, Results
from theory.protocols import Allocator

SCHEMA = schema(
    seed=int,
    update=int,
    rounds=int,
    explore=int,
    commit=int,
    sampled=int,
    groups=int,
    trained=int,
    dropped=int,
    held=int,
    epochs_ended=int,
)
"""explore: pilots drawn; commit: commits drawn; sampled: all that was drawn, counted on its own; groups: trained on; trained, dropped: rollouts trained on and thrown away;
held: that the loop's state keeps for later; epochs_ended: in this update, which throws away what was half done."""

BATCH = 4
PILOTS = 4
COMMITS = 12
CANDIDATES = 3 * BATCH
PROMPTS = 96

Step = Callable[[Any, Key[Array, ""]], tuple[Any, dict[str, Array]]]


def _stepper(allocator: Allocator, rates: Float[Array, " P"]) -> Step:
    def step(state: Any, key: Key[Array, ""]) -> tuple[Any, dict[str, Array]]:
        requests = allocator.propose(state, jnp.iinfo(jnp.int32).max)
        coins = jax.random.uniform(key, (rates.size, COMMITS)) < rates[:, None]
        drawn = jnp.arange(COMMITS)[None, :] < requests.additional[:, None]
        right = jnp.sum(coins & drawn, axis=1, dtype=jnp.int32)
        results = Results(right, jnp.sum(drawn, axis=1, dtype=jnp.int32) - right)
        after, groups = allocator.observe(state, results)
        kept = (after.pilot_successes, after.pilot_failures)
        kept += (after.commit_successes, after.commit_failures)
        counted = _counted(requests.additional, requests.reason, results, groups)
        counted["held"] = jnp.sum(jnp.stack(kept))
        counted["epochs_ended"] = after.epoch - state.epoch
        return after, counted

    return jax.jit(step)


def _counted(
    additional: Array, reason: Array, results: Results, groups: Groups
) -> dict[str, Array]:
    return {
        "explore": jnp.sum(jnp.where(reason == int(Reason.PILOT), additional, 0)),
        "commit": jnp.sum(jnp.where(reason == int(Reason.COMMIT), additional, 0)),
        "sampled": jnp.sum(results.successes + results.failures),
        "groups": jnp.sum(groups.ready),
        "trained": jnp.sum(jnp.where(groups.ready, groups.successes + groups.failures, 0)),
        "dropped": jnp.sum(groups.dropped),
        "complete": groups.complete.astype(jnp.int32),
    }


def rows(seeds: int, updates: int) -> list[Row]:
    """The ledger of every update.

    Args:
        seeds: runs.
        updates: of each.

    Returns:
        Rows of `SCHEMA`.
    """
    allocator = pilot_commit_loop.allocator(BATCH, PILOTS, COMMITS)
    # Every kind of prompt: hopeless, mastered, and rates in between.
    rates = jnp.clip(jnp.linspace(-0.3, 1.3, PROMPTS), 0.0, 1.0)
    step = _stepper(allocator, rates)
    return [row for seed in range(seeds) for row in _run(allocator, step, seed, updates)]


def _run(allocator: Allocator, step: Step, seed: int, updates: int) -> Iterator[Row]:
    key = jax.random.key(seed)
    state = allocator.init(jax.random.fold_in(key, 0), PROMPTS)
    sums = ("explore", "commit", "sampled", "groups", "trained", "dropped", "epochs_ended")
    update, rounds, call = 0, 0, 0
    total = dict.fromkeys(sums, 0)
    while update < updates:
        state, found = step(state, jax.random.fold_in(key, 1 + call))
        counted = {name: int(np.asarray(value)) for name, value in found.items()}
        call, rounds = call + 1, rounds + 1
        total = {name: total[name] + counted[name] for name in sums}
        if counted["complete"]:
            held = counted["held"]
            yield {"seed": seed, "update": update, "rounds": rounds, **total, "held": held}
            update, rounds, total = update + 1, 0, dict.fromkeys(sums, 0)


def comparisons(found: list[Row]) -> list[Row]:
    """The identities, as the largest violation over all updates: each is exact, to the rollout.

    The first two hold inside an epoch; at its end a partial batch and the buffer are thrown away, and the last candidate batch may be short.

    Args:
        found: rows.

    Returns:
        Rows of `comparison.SCHEMA`.
    """
    before = [0, *[row["held"] for row in found]]
    growth = [
        row["held"] - (earlier if row["update"] else 0)
        for row, earlier in zip(found, before, strict=False)
    ]
    inside = [row for row in found if not row["epochs_ended"]]
    broken = {
        "explore less C k rounds": [
            row["explore"] - CANDIDATES * PILOTS * row["rounds"] for row in inside
        ],
        "commit less B m": [row["commit"] - BATCH * COMMITS for row in inside],
        "sampled less explore and commit": [
            row["sampled"] - row["explore"] - row["commit"] for row in found
        ],
        "trained less B (k + m)": [row["trained"] - BATCH * (PILOTS + COMMITS) for row in found],
        "sampled less trained, dropped and growth of held": [
            row["sampled"] - row["trained"] - row["dropped"] - grown
            for row, grown in zip(found, growth, strict=True)
        ],
    }
    setting = f"B = {BATCH}, C = {CANDIDATES}, k = {PILOTS}, m = {COMMITS}"
    out = [
        Compared(setting, name, max(map(abs, values), default=0), "0", "reconstruction")
        for name, values in broken.items()
    ]
    return comparison.rows("PC-2", out)
