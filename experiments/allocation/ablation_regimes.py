"""Regimes and variants of the ablations, written down before any of them ran; all are reported."""

from collections.abc import Callable

from experiments.allocation.regimes import FIXED_UPDATE_REGIMES, TARGET_REGIMES, SkillRegime
from theory.allocation.policies import pilot_commit_loop
from theory.allocation.policies.pilot_commit import EVICT, LOWER, UPPER
from theory.allocation.policies.pilot_commit_state import Preference, max_variance, random
from theory.protocols import Allocator

PILOT_REGIMES = tuple(regime for regime in TARGET_REGIMES if regime.name in ("C", "E"))
"""Of n = 16, where a quarter of the group is four pilots."""

PUBLISHED = "as published"

PILOT_VARIANTS: dict[str, Callable[[int, int], Allocator]] = {
    PUBLISHED: lambda b, n: _pilots(b, n, n // 4),
    "k = n / 8": lambda b, n: _pilots(b, n, n // 8),
    "k = n / 2": lambda b, n: _pilots(b, n, n // 2),
    "band 0 to 3/4": lambda b, n: _pilots(b, n, n // 4, lower=0.0),
    "band 1/8 to 1": lambda b, n: _pilots(b, n, n // 4, upper=0.0),
    "band 3/8 to 5/8": lambda b, n: _pilots(b, n, n // 4, lower=0.375, upper=0.375),
    "no eviction": lambda b, n: _pilots(b, n, n // 4, evict=None),
    "staleness 0": lambda b, n: _pilots(b, n, n // 4, most_stale=0),
    "staleness 1": lambda b, n: _pilots(b, n, n // 4, most_stale=1),
    "staleness 2": lambda b, n: _pilots(b, n, n // 4, most_stale=2),
    "staleness 8": lambda b, n: _pilots(b, n, n // 4, most_stale=8),
    "random choice": lambda b, n: _pilots(b, n, n // 4, preference=random),
}
"""Pilot-Commit with one switch turned each; as published: k = n / 4, band [1/8, 3/4], eviction at 1, staleness 4, most variance first. No name has a comma: they
are named in a list."""

COVERAGE_REGIMES = tuple(
    SkillRegime(f"{family}-rate-{rate}", spread, mean, 16, 1024, learning_rate=rate)
    for family, mean, spread in (
        ("easy", 0.0, 2.0),
        ("hard", 4.0, 2.0),
        ("spread", 2.0, 8.0),
        ("hard-and-spread", 6.0, 6.0),
    )
    for rate in (0.05, 0.15, 0.45)
)
"""Twelve cells, as the paper of HORA has: four families of difficulty, and three learning rates for its three sizes of model."""

PRIOR_RATE = 0.15
PRIOR_REGIMES = tuple(each for each in COVERAGE_REGIMES if each.learning_rate == PRIOR_RATE)
"""The four families of difficulty, where HORA's flat prior meets the learned ones of `prior_variants`."""

FORM_REGIME = FIXED_UPDATE_REGIMES[0]
"""Where forms of the advantage are compared."""

HORA_FORMS = ("grpo", "dr-grpo", "rloo")
SARA_FORMS = ("grpo", "ppo", "rloo", "reinforce-plus-plus")


def _pilots(
    batch_size: int,
    group_size: int,
    pilots: int,
    lower: float = LOWER,
    upper: float = UPPER,
    evict: float | None = EVICT,
    most_stale: int = 4,
    preference: Preference = max_variance,
) -> Allocator:
    return pilot_commit_loop.allocator(
        batch_size,
        pilots,
        group_size - pilots,
        lower=lower,
        upper=upper,
        evict=evict,
        most_stale=most_stale,
        preference=preference,
    )
