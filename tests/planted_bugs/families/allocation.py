"""Rollout allocation: what the catalogue lists."""

from tests.planted_bugs import allocation as planted
from tests.planted_bugs.damage import allocation as exact
from tests.planted_bugs.defect import RELATIVE_BIAS, Defect

LAW = "tests/theory/allocation/test_rules_in_loops.py::test_planted_rules_are_rejected"

DEFECTS = tuple(
    Defect(kind, twin, exact.sara, exact.of_cost, damage, RELATIVE_BIAS, exact.TOY, LAW)
    for kind, twin, damage in (
        (
            "outcomes counted without the prior",
            planted.outcomes_counted_without_the_prior,
            0.0348922,
        ),
        ("first outcome counted twice", planted.first_outcome_counted_twice, 0.0155198),
        ("committed at the first success", planted.committed_at_the_first_success, 0.0952758),
    )
)
