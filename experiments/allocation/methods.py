"""Every allocation rule under one name, with the information that it uses and the largest requests that it makes.

Information classes, of `theory.exact.allocation`: a *fixed* rule draws what it always draws; a rule on a *stream* looks at the rollouts of the group under
way and forgets; a rule with *memory* remembers prompts. Each class has an optimum of its own, and a rule is judged by that of its class.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

from experiments.allocation.regimes import POPULATIONS, Population
from theory.allocation import rates
from theory.allocation.assembly import assemble, top_up
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
    pilot_commit_loop,
    pods,
    predictive_stopping,
    reinforce_ada,
    sara,
    speed,
    uniform,
    vip,
)
from theory.allocation.policies.compositions import hora_in_pilot_commit, sara_on_dps
from theory.allocation.priors import mixture
from theory.allocation.sequential import table_rule
from theory.allocation.sources import epochs
from theory.allocation.stopping_program import (
    best_rate,
    effective_worth,
    push_worth,
    stopping_problem,
    stopping_rule,
)
from theory.protocols import Allocator

Information = Literal["fixed", "stream", "memory"]

WRONG_PRIOR = "published"
"""The population that a misspecified optimal rule takes for true."""

HORA_CAP = 4
"""Most rollouts of a group of HORA and its kin, in mean group sizes: compiled programs need a largest request."""


class Shape(NamedTuple):
    """The largest requests of a rule in one round.

    Attributes:
        most: rollouts of one prompt.
        prompts: prompts that are asked at once.
    """

    most: int
    prompts: int


class Method(NamedTuple):
    """An allocation rule.

    Attributes:
        information: what it may look at.
        build: (batch size, group size) -> the allocator.
        shape: (batch size, group size, prompts of the pool) -> its largest requests.
    """

    information: Information
    build: Callable[[int, int], Allocator]
    shape: Callable[[int, int, int], Shape]


def _whole(batch: int, size: int, pool: int) -> Shape:
    """A batch of groups at once."""
    return Shape(size, batch)


def _candidates(batch: int, size: int, pool: int) -> Shape:
    """Three batches at once."""
    return Shape(size, min(3 * batch, pool))


def _pilots_beside(batch: int, size: int, pool: int) -> Shape:
    """Pilots of three batches and commits of one in the same round."""
    return Shape(HORA_CAP * size, min(4 * batch, pool))


def _uneven(batch: int, size: int, pool: int) -> Shape:
    """A batch of groups of unequal sizes."""
    return Shape(HORA_CAP * size, batch)


def _anything(batch: int, size: int, pool: int) -> Shape:
    return Shape(HORA_CAP * size, pool)


def _known_rates(build: Callable[..., Allocator]) -> Callable[[int, int], Allocator]:
    """A rule that needs predicted success rates, on those of a source that learns them."""

    def made(batch: int, size: int) -> Allocator:
        return build(batch, size, rates.remembered_epochs(), rates.predicted_rates)

    return made


_LAWS = {population.name: population for population in POPULATIONS}


def _stopping_for(population: Population) -> Callable[[int, int], Allocator]:
    """The optimal rule of a fresh stream of one population, whatever stream it runs on: nothing is learnt."""

    def made(batch: int, size: int) -> Allocator:
        prior = mixture(population.betas, population.points)
        problem = stopping_problem(prior, effective_worth(size))
        draws = stopping_rule(problem, best_rate(problem)).at[0, 0].set(True)
        return assemble(epochs(), table_rule(optimal_stopping.table(draws)), top_up(batch), batch)

    return made


METHODS: dict[str, Method] = {
    "uniform": Method("fixed", uniform.allocator, _whole),
    "hora": Method("stream", lambda b, n: hora.allocator(b, n, cap=HORA_CAP * n), _uneven),
    "pods": Method("fixed", lambda b, n: pods.allocator(b, n, n // 2), _whole),
    "ar3po": Method("stream", ar3po.allocator, _whole),
    "reinforce-ada": Method("stream", lambda b, n: reinforce_ada.allocator(b, n), _uneven),
    "dynamic-sampling": Method("stream", dynamic_sampling.allocator, _whole),
    "dapo": Method("stream", dynamic_sampling.batched_allocator, _candidates),
    "pilot-commit": Method(
        "stream", lambda b, n: pilot_commit_loop.allocator(b, n // 4, n - n // 4), _pilots_beside
    ),
    "speed": Method("stream", lambda b, n: speed.allocator(b, n // 4, n - n // 4), _anything),
    "sara": Method("stream", sara.allocator, _whole),
    "optimal-stopping": Method("stream", optimal_stopping.allocator, _whole),
    "optimal-stopping-push": Method(
        "stream", lambda b, n: optimal_stopping.allocator(b, n, push_worth(n)), _whole
    ),
    f"optimal-stopping-for-{WRONG_PRIOR}": Method(
        "stream", _stopping_for(_LAWS[WRONG_PRIOR]), _whole
    ),
    "mopps": Method("memory", mopps.allocator, _whole),
    "dps": Method("memory", dps.allocator, _whole),
    "greso": Method("memory", greso.allocator, _anything),
    "cures": Method("memory", cures.allocator, _anything),
    "vip": Method("memory", _known_rates(vip.allocator), _uneven),
    "knapsack": Method(
        "memory",
        _known_rates(lambda b, n, source, p: knapsack.allocator(b, n, source, p, HORA_CAP * n)),
        _uneven,
    ),
    "hora-in-pilot-commit": Method(
        "stream",
        lambda b, n: hora_in_pilot_commit(b, n // 4, n - n // 4, HORA_CAP * n),
        _pilots_beside,
    ),
    "sara-on-dps": Method("memory", sara_on_dps, _whole),
    "predictive-stopping": Method("memory", predictive_stopping.allocator, _whole),
}
"""Published rules, their compositions, and the two of this project (the last of each class)."""
