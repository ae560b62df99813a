"""Stopping rules of this project: what the catalogue lists."""

from tests.planted_bugs import stopping as planted
from tests.planted_bugs.damage import stopping as exact
from tests.planted_bugs.defect import RELATIVE_BIAS, Defect
from theory.allocation.policies.predictive_stopping import foresee

_HOME = "tests/theory/allocation/test_stopping_allocators.py"
_STREAM = f"{_HOME}::test_planted_rules_of_a_stream_are_rejected"
_POOL = f"{_HOME}::test_planted_prospects_are_rejected"

DEFECTS = (
    *(
        Defect(
            kind,
            twin,
            exact.optimal_table,
            exact.of_stream,
            damage,
            RELATIVE_BIAS,
            exact.STREAM,
            _STREAM,
        )
        for kind, twin, damage in (
            (
                "priced as if nothing were given up",
                planted.priced_as_if_nothing_were_given_up,
                0.0518321,
            ),
            (
                "posterior forgets failures",
                planted.failures_forgotten_by_the_posterior,
                0.153516,
            ),
            ("given up one outcome late", planted.given_up_one_outcome_late, 0.0295327),
            ("completion not paid for", planted.completion_not_paid_for, 0.0131999),
        )
    ),
    *(
        Defect(kind, twin, foresee, exact.of_pool, damage, RELATIVE_BIAS, exact.POOL, _POOL)
        for kind, twin, damage in (
            ("memory forgets failures", planted.failures_forgotten_by_the_memory, 0.597903),
            ("pool priced like a stream", planted.priced_like_a_stream, 0.0114268),
            ("patience one outcome too long", planted.patience_one_too_long, 0.0797696),
            (
                "poor prompts at the shared price",
                planted.poor_prompts_at_the_shared_price,
                0.0577769,
            ),
        )
    ),
)
