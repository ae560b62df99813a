"""An allocator at work: rounds of requests, one ledger, an update whenever a batch is full. One compiled program, seeds side by side.

A rule sees what it would see in a trainer: it proposes, the rollouts it asked for are drawn at the success rates of the current policy, it
observes their verdicts. Everything that a rule spends is counted, dropped groups and unfinished updates included.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from experiments.allocation.worlds import Parameters, World
from theory.allocation.records import Groups, Requests, Results
from theory.protocols import Allocator


class Limits(NamedTuple):
    """When a run ends, and the shapes it needs.

    Attributes:
        updates: most updates; the length of every curve.
        rollouts: the run ends with the first update at or beyond so many.
        rounds: most rounds of one update; a rule that needs more is stopped and its run is censored from there.
        most: largest number of rollouts asked for one prompt in one round.
        prompts: largest number of prompts asked in one round.
    """

    updates: int
    rollouts: int | Int[Array, ""]
    rounds: int
    most: int
    prompts: int


class Curve(NamedTuple):
    """What happened, by update; entries from `num_updates` on repeat the last one.

    Attributes:
        rollouts: [U] drawn so far, all of them.
        accuracy: [U] mean success rate of the held-out prompts after the update: exact pass@1.
        coverage: [U, K] mean pass@k of them, 1 - (1 - p)^k.
        groups: [U] groups trained on.
        effective: [U] of them, those that hold a success and a failure.
        push: [U] sum over the groups of sqrt(rbar (1 - rbar)).
        own_effective: [U] of the groups, those that are effective without replayed rollouts.
        own_energy: [U] sum over the groups of sqrt(s f), replayed rollouts left out.
        visited: [U] prompts asked for anything in the update.
        rounds: [U] generation calls of the update.
        num_updates: updates that were completed.
        spent: rollouts drawn when the run ended, an update cut short included.
    """

    rollouts: Int[Array, " U"]
    accuracy: Float[Array, " U"]
    coverage: Float[Array, "U K"]
    groups: Int[Array, " U"]
    effective: Int[Array, " U"]
    push: Float[Array, " U"]
    own_effective: Int[Array, " U"]
    own_energy: Float[Array, " U"]
    visited: Int[Array, " U"]
    rounds: Int[Array, " U"]
    num_updates: Int[Array, ""]
    spent: Int[Array, ""]


COVERAGE_KS = (2, 4, 8, 16, 32, 64)


class _Round(NamedTuple):
    """Inside one update."""

    state: Any
    spent: Int[Array, ""]
    rounds: Int[Array, ""]
    asked: Bool[Array, " P"]
    groups: Groups


def simulate(key: Key[Array, ""], allocator: Allocator, world: World, limits: Limits) -> Curve:
    """One run of a rule in a world.

    Args:
        key: of the rule's own choices and of all rollouts.
        allocator: the rule.
        world: prompts and policy.
        limits: when it ends.

    Returns:
        The curve. A pure function: `jax.vmap` it over keys and worlds, `jax.jit` it.
    """
    of_rule, of_rollouts = jax.random.split(key)
    num_prompts = world.success_rate(world.parameters).size
    empty = _empty_curve(limits.updates)
    start = (world.parameters, allocator.init(of_rule, num_prompts), empty, jnp.asarray(False))

    def going(carry: tuple[Parameters, Any, Curve, Bool[Array, ""]]) -> Bool[Array, ""]:
        _, _, curve, stuck = carry
        return ~stuck & (curve.num_updates < limits.updates) & (curve.spent < limits.rollouts)

    def update(
        carry: tuple[Parameters, Any, Curve, Bool[Array, ""]],
    ) -> tuple[Parameters, Any, Curve, Bool[Array, ""]]:
        parameters, state, curve, _ = carry
        rates = world.success_rate(parameters)
        key_update = jax.random.fold_in(of_rollouts, curve.num_updates)
        done = _collect(key_update, allocator, state, rates, curve.spent, limits)
        learned = world.learn(parameters, done.groups)
        parameters = jnp.where(done.groups.complete, learned, parameters)
        return (
            parameters,
            done.state,
            _recorded(curve, done, world, parameters),
            ~done.groups.complete,
        )

    _, _, curve, _ = jax.lax.while_loop(going, update, start)
    return curve


def draw(
    key: Key[Array, ""],
    rates: Float[Array, " P"],
    requests: Requests,
    limits: Limits,
) -> Results:
    """The verdicts of one round.

    Args:
        key: of the round.
        rates: [P] success rates now.
        requests: at most `limits.most` rollouts of at most `limits.prompts` prompts.
        limits: see there.

    Returns:
        Independent Bernoulli verdicts, counted by prompt.
    """
    asked = jnp.nonzero(requests.additional > 0, size=limits.prompts, fill_value=rates.size)[0]
    additional = requests.additional.at[asked].get(mode="fill", fill_value=0)
    p = rates.at[asked].get(mode="fill", fill_value=0.0)
    uniform = jax.random.uniform(key, (limits.prompts, limits.most))
    drawn = jnp.arange(limits.most)[None, :] < additional[:, None]
    right = jnp.sum((uniform < p[:, None]) & drawn, axis=1, dtype=jnp.int32)
    successes = jnp.zeros(rates.size, jnp.int32).at[asked].set(right, mode="drop")
    failures = jnp.zeros(rates.size, jnp.int32).at[asked].set(additional - right, mode="drop")
    return Results(successes, failures)


def _collect(
    key: Key[Array, ""],
    allocator: Allocator,
    state: Any,
    rates: Float[Array, " P"],
    spent: Int[Array, ""],
    limits: Limits,
) -> _Round:
    """Rounds until a batch is full."""
    no = jnp.zeros(rates.size, bool)
    zeros = jnp.zeros(rates.size, jnp.int32)
    nothing = Groups(no, zeros, zeros, jnp.asarray(False), zeros, zeros, zeros, zeros)

    def going(inside: _Round) -> Bool[Array, ""]:
        return ~inside.groups.complete & (inside.rounds < limits.rounds)

    def one(inside: _Round) -> _Round:
        requests = allocator.propose(inside.state, jnp.iinfo(jnp.int32).max)
        results = draw(jax.random.fold_in(key, inside.rounds), rates, requests, limits)
        state, groups = allocator.observe(inside.state, results)
        # What a rule asked beyond the shapes of the run would be lost: it is a fault of the limits, and must not pass unseen.
        lost = jnp.sum(requests.additional) - jnp.sum(results.successes + results.failures)
        drawn = jnp.sum(requests.additional) + jnp.where(lost != 0, jnp.int32(1 << 30), 0)
        return _Round(
            state,
            inside.spent + drawn,
            inside.rounds + 1,
            inside.asked | (requests.additional > 0),
            groups,
        )

    return jax.lax.while_loop(
        going, one, _Round(state, spent, jnp.zeros((), jnp.int32), no, nothing)
    )


def _empty_curve(updates: int) -> Curve:
    whole, real = jnp.zeros(updates, jnp.int32), jnp.zeros(updates)
    zero = jnp.zeros((), jnp.int32)
    coverage = jnp.zeros((updates, len(COVERAGE_KS)))
    return Curve(whole, real, coverage, whole, whole, real, whole, real, whole, whole, zero, zero)


def _recorded(curve: Curve, done: _Round, world: World, parameters: Parameters) -> Curve:
    groups = done.groups
    mixed = groups.ready & (groups.successes > 0) & (groups.failures > 0)
    size = jnp.maximum(groups.successes + groups.failures, 1).astype(jnp.float32)
    share = groups.successes.astype(jnp.float32) / size
    pushes = jnp.where(groups.ready, jnp.sqrt(share * (1 - share)), 0.0)
    own = jnp.where(groups.ready, (groups.successes - groups.replayed) * groups.failures, 0)
    rates = world.held_out_rate(parameters)
    missed = jnp.log1p(-jnp.minimum(rates, 1 - 1e-7))
    coverage = 1 - jnp.exp(missed[:, None] * jnp.array(COVERAGE_KS, jnp.float32)[None, :]).mean(
        axis=0
    )
    # An update that did not come about leaves no row, but its rollouts were spent.
    at = jnp.where(groups.complete, curve.num_updates, curve.rollouts.size)

    def put(column: Array, value: Array) -> Array:
        return column.at[at].set(value.astype(column.dtype), mode="drop")

    return Curve(
        put(curve.rollouts, done.spent),
        put(curve.accuracy, rates.mean()),
        put(curve.coverage, coverage),
        put(curve.groups, jnp.sum(groups.ready)),
        put(curve.effective, jnp.sum(mixed)),
        put(curve.push, jnp.sum(pushes)),
        put(curve.own_effective, jnp.sum(own > 0)),
        put(curve.own_energy, jnp.sum(jnp.sqrt(own.astype(jnp.float32)))),
        put(curve.visited, jnp.sum(done.asked)),
        put(curve.rounds, done.rounds),
        curve.num_updates + groups.complete.astype(jnp.int32),
        done.spent,
    )
