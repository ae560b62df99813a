"""Rollout allocation: what the catalogue lists."""

from tests.planted_bugs import allocation as planted
from tests.planted_bugs.damage import allocation as exact
from tests.planted_bugs.damage import dropped_rollouts as dropped
from tests.planted_bugs.defect import RELATIVE_BIAS, Defect
from theory.allocation.beta_binomial import next_hit_marginal
from theory.exact.allocation.fresh_stream import renewal

LAW = "tests/theory/allocation/test_rules_in_loops.py::test_planted_rules_are_rejected"
DROPPED_LAW = "tests/theory/exact/allocation/test_remembered.py::test_rollouts_that_were_drawn_and_dropped_are_paid_for"
HIT_LAW = "tests/theory/allocation/test_beta_binomial.py::test_a_planted_recurrence_is_rejected"

RULES = tuple(
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

DEFECTS = (
    *RULES,
    Defect(
        "extra failures not learnt from",
        planted.next_marginal_of_the_first_posterior,
        next_hit_marginal,
        exact.of_utility,
        0.134423,
        RELATIVE_BIAS,
        exact.HIT_TOY,
        HIT_LAW,
    ),
    Defect(
        "dropped rollouts not paid",
        planted.dropped_rollouts_not_paid,
        renewal,
        dropped.of_rate,
        1.01389,
        RELATIVE_BIAS,
        dropped.TOY,
        DROPPED_LAW,
    ),
)
