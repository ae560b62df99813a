"""The methods of `rolloutlab allocate`: the one-step rule of each, called with what STATE holds.

What each rule means is in docs/allocation.md. A method that joins is a `Method` in `METHODS`.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from experiments.allocation_state import PoolState, check_possible
from theory.allocation import learned_priors
from theory.allocation.policies import (
    ar3po,
    cures,
    dps,
    dynamic_sampling,
    greso,
    hora,
    knapsack,
    mopps,
    optimal_stopping,
    pilot_commit,
    pods,
    reinforce_ada,
    sara,
    speed,
    uniform,
    vip,
)
from theory.allocation.priors import BetaMixture, beta
from theory.allocation.records import Requests
from theory.errors import InvalidInput

_MOST_CELLS = 500_000_000  # choices that the knapsack keeps, 4 bytes each


_LONGEST_RUN = 4096  # rollouts of a group that the stopping program walks through


class Settings(NamedTuple):
    """The options of all methods, with what holds where an option was not given.

    Attributes:
        budget: R.
        group_size: n.
        seed: of the rules that draw.
        pilots: k of pilot-commit; n / 4 by default.
        commits: m of pilot-commit; n - k by default.
        lower: of pilot-commit.
        upper: of pilot-commit.
        evict: of pilot-commit.
        cap: largest group of hora, with any prior, and vip.
        mass_aware: of hora.
        tau_low: of sara.
        tau_high: of sara.
        max: largest N of knapsack.
        discount: of dps, mopps and the learned priors of hora.
        target: of mopps.
        screen: of speed.
        completion: of speed.
        per_round: of reinforce-ada.
        max_rounds: of reinforce-ada.
        kept: of reinforce-ada and pods.
        positive: of reinforce-ada: leave at the first success.
        stage: of ar3po.
        least: smallest group of vip.
    """

    budget: int
    group_size: int = 8
    seed: int = 0
    pilots: int | None = None
    commits: int | None = None
    lower: float = pilot_commit.LOWER
    upper: float = pilot_commit.UPPER
    evict: float = pilot_commit.EVICT
    cap: int | None = None
    mass_aware: bool = False
    tau_low: float = sara.TAU_LOW
    tau_high: float = sara.TAU_HIGH
    max: int = knapsack.MOST
    discount: float = dps.DISCOUNT
    target: float = mopps.TARGET
    screen: int = speed.SCREEN
    completion: int = speed.COMPLETION
    per_round: int = reinforce_ada.ROUND
    max_rounds: int = reinforce_ada.MOST_ROUNDS
    kept: int = reinforce_ada.KEPT
    positive: bool = False
    stage: int = ar3po.STAGE
    least: int = vip.LEAST


class Counts(NamedTuple):
    """The group under way, on the device.

    Attributes:
        successes: [P] right rollouts.
        failures: [P] wrong ones.
    """

    successes: Int[Array, " P"]
    failures: Int[Array, " P"]


class Method(NamedTuple):
    """One method.

    Attributes:
        description: its one-step rule in a few words.
        options: names in `Settings` that it reads, besides the budget and the group size.
        run: the rule.
    """

    description: str
    options: frozenset[str]
    run: Callable[[PoolState, Counts, Settings], Requests]


def _uniform(state: PoolState, counts: Counts, settings: Settings) -> Requests:
    return uniform.allocate(*counts, settings.budget)


def _dynamic_sampling(state: PoolState, counts: Counts, settings: Settings) -> Requests:
    return dynamic_sampling.allocate(*counts, settings.budget, settings.group_size)


def _pilot_commit(state: PoolState, counts: Counts, settings: Settings) -> Requests:
    pilots = max(settings.group_size // 4, 1) if settings.pilots is None else settings.pilots
    rest = max(settings.group_size - pilots, 1)
    return pilot_commit.allocate(
        *counts,
        settings.budget,
        pilots,
        rest if settings.commits is None else settings.commits,
        settings.lower,
        settings.upper,
        settings.evict,
    )


def _prior(state: PoolState) -> BetaMixture:
    prior = beta(1.0, 1.0) if state.prior is None else state.prior
    check_possible(state, prior)
    return prior


def _hora(state: PoolState, counts: Counts, settings: Settings) -> Requests:
    prior = _prior(state)
    return hora.allocate_many(prior, *counts, settings.budget, settings.cap, settings.mass_aware)


def _hora_population(state: PoolState, counts: Counts, settings: Settings) -> Requests:
    seen, times = np.unique(_remembered(state, settings), axis=0, return_counts=True)
    # Rows that do not occur fill up to a power of two: the steps are compiled once for all pools of like size.
    unused = (1 << (len(times) - 1).bit_length()) - len(times)
    seen, times = np.pad(seen, ((0, unused), (0, 0))), np.pad(times.astype(float), (0, unused))
    prior = learned_priors.fitted_beta(*map(jnp.asarray, (seen[:, 0], seen[:, 1], times)))
    return hora.allocate_many(prior, *counts, settings.budget, settings.cap)


def _hora_last_visit(state: PoolState, counts: Counts, settings: Settings) -> Requests:
    seen = jnp.asarray(_remembered(state, settings))
    prior = learned_priors.last_visit_prior(seen[:, 0], seen[:, 1], settings.discount)
    return hora.allocate_each(prior, *counts, settings.budget, settings.cap)


def _sara(state: PoolState, counts: Counts, settings: Settings) -> Requests:
    if settings.tau_high <= settings.tau_low:
        raise InvalidInput(
            f"--tau-high {settings.tau_high}: must be above --tau-low {settings.tau_low}"
        )
    return sara.allocate(
        _prior(state),
        *counts,
        settings.budget,
        settings.group_size,
        settings.tau_low,
        settings.tau_high,
    )


def _optimal_stopping(state: PoolState, counts: Counts, settings: Settings) -> Requests:
    if not 2 <= settings.group_size <= _LONGEST_RUN:
        raise InvalidInput(
            f"--group-size {settings.group_size}: must be from 2 to {_LONGEST_RUN} for optimal-stopping"
        )
    return optimal_stopping.allocate(_prior(state), *counts, settings.budget, settings.group_size)


def _knapsack(state: PoolState, counts: Counts, settings: Settings) -> Requests:
    num_prompts = len(state.prompt_ids)
    spendable = min(settings.budget, settings.max * num_prompts)
    if (spendable + 1) * max(num_prompts, settings.max + 1) > _MOST_CELLS:
        raise InvalidInput(
            f"--budget {settings.budget}: the exact dynamic program over {num_prompts} prompts is too large for it, split the pool or the budget"
        )
    return knapsack.allocate(*counts, settings.budget, settings.max)


def _dps(state: PoolState, counts: Counts, settings: Settings) -> Requests:
    belief = dps.initial_belief(len(state.prompt_ids))
    for update in state.history:
        visited, s, f = _update(update)
        belief = dps.updated(belief, visited, s, f, settings.discount)
    return dps.allocate(belief, *counts, settings.budget, settings.group_size)


def _mopps(state: PoolState, counts: Counts, settings: Settings) -> Requests:
    belief = mopps.initial_belief(len(state.prompt_ids))
    for update in state.history:
        belief = mopps.updated(belief, *_update(update), settings.discount)
    key = jax.random.key(settings.seed)
    return mopps.allocate(
        key, belief, *counts, settings.budget, settings.group_size, settings.target
    )


def _greso(state: PoolState, counts: Counts, settings: Settings) -> Requests:
    belief = greso.initial_belief(len(state.prompt_ids))
    for update in state.history:
        belief = greso.updated(belief, *_update(update))
    key = jax.random.key(settings.seed)
    return greso.allocate(key, belief, *counts, settings.budget, settings.group_size)


def _vip(state: PoolState, counts: Counts, settings: Settings) -> Requests:
    if settings.cap is not None and settings.cap < settings.least:
        raise InvalidInput(f"--cap {settings.cap}: must be at least --least {settings.least}")
    rates = _all_rates(state)
    return vip.allocate(rates, *counts, settings.budget, settings.least, settings.cap)


def _cures(state: PoolState, counts: Counts, settings: Settings) -> Requests:
    return cures.allocate(_all_rates(state), counts.successes, settings.budget)


def _speed(state: PoolState, counts: Counts, settings: Settings) -> Requests:
    return speed.allocate(*counts, settings.budget, settings.screen, settings.completion)


def _reinforce_ada(state: PoolState, counts: Counts, settings: Settings) -> Requests:
    leaves = (
        reinforce_ada.leaves_positive(*counts)
        if settings.positive
        else reinforce_ada.leaves_balanced(*counts, settings.kept)
    )
    return reinforce_ada.allocate(
        *counts, leaves, settings.budget, settings.per_round, settings.max_rounds
    )


def _pods(state: PoolState, counts: Counts, settings: Settings) -> Requests:
    if settings.kept > settings.group_size:
        raise InvalidInput(
            f"--kept {settings.kept}: must be at most --group-size {settings.group_size}"
        )
    return pods.allocate(*counts, settings.budget, settings.group_size, settings.kept)


def _ar3po(state: PoolState, counts: Counts, settings: Settings) -> Requests:
    stored = jnp.asarray(state.history[..., 0].sum(axis=0) > 0)
    return ar3po.allocate(*counts, stored, settings.budget, settings.group_size, settings.stage)


def _update(
    update: Int[np.ndarray, "P 2"],
) -> tuple[Array, Int[Array, " P"], Int[Array, " P"]]:
    """Who was drawn in an earlier update, and how it went."""
    return (
        jnp.asarray(update.sum(axis=1) > 0),
        jnp.asarray(update[:, 0]),
        jnp.asarray(update[:, 1]),
    )


def _remembered(state: PoolState, settings: Settings) -> Float[np.ndarray, "P 2"]:
    """Successes and failures of earlier updates, those before each visit discounted by it."""
    seen = np.zeros((len(state.prompt_ids), 2))
    for update in state.history:
        drawn = update.sum(axis=1, keepdims=True) > 0
        seen = np.where(drawn, settings.discount * seen + update, seen)
    return seen


def _all_rates(state: PoolState) -> Float[Array, " P"]:
    """Posterior means under a flat prior, from all that was seen."""
    successes = state.successes + state.history[..., 0].sum(axis=0)
    failures = state.failures + state.history[..., 1].sum(axis=0)
    return jnp.asarray((1 + successes) / (2 + successes + failures))


METHODS: dict[str, Method] = {
    "uniform": Method("the same for every prompt", frozenset(), _uniform),
    "dynamic-sampling": Method(
        "complete groups in order, keep the mixed ones", frozenset(), _dynamic_sampling
    ),
    "pilot-commit": Method(
        "pilots, then whole commits inside a band",
        frozenset({"pilots", "commits", "lower", "upper", "evict"}),
        _pilot_commit,
    ),
    "hora": Method("greedy hit utility", frozenset({"cap", "mass_aware"}), _hora),
    "hora-population": Method(
        "greedy hit utility, its prior the pool's Beta law",
        frozenset({"cap", "discount"}),
        _hora_population,
    ),
    "hora-last-visit": Method(
        "greedy hit utility, its priors from earlier visits",
        frozenset({"cap", "discount"}),
        _hora_last_visit,
    ),
    "sara": Method(
        "commit, abandon or one more, by the chance of a mixed group",
        frozenset({"tau_low", "tau_high"}),
        _sara,
    ),
    "optimal-stopping": Method(
        "give up where the next rollouts earn less than those of a fresh prompt",
        frozenset(),
        _optimal_stopping,
    ),
    "knapsack": Method("exact knapsack of group sizes", frozenset({"max"}), _knapsack),
    "dps": Method(
        "whole groups where a hidden Markov model expects a mixed one",
        frozenset({"discount"}),
        _dps,
    ),
    "mopps": Method(
        "whole groups where a sampled rate is near the target",
        frozenset({"discount", "target", "seed"}),
        _mopps,
    ),
    "greso": Method("skip runs without signal at random", frozenset({"seed"}), _greso),
    "vip": Method("least summed variance of RLOO", frozenset({"cap", "least"}), _vip),
    "speed": Method(
        "screen, then complete what is mixed", frozenset({"screen", "completion"}), _speed
    ),
    "reinforce-ada": Method(
        "rounds until both verdicts have shown",
        frozenset({"per_round", "max_rounds", "kept", "positive"}),
        _reinforce_ada,
    ),
    "pods": Method(
        "complete groups, train on the most varied rollouts", frozenset({"kept"}), _pods
    ),
    "cures": Method("shares by the deviation of rewards", frozenset(), _cures),
    "ar3po": Method("stages until the first success", frozenset({"stage"}), _ar3po),
}
