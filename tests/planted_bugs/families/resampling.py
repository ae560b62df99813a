"""Resampling: what the catalogue lists."""

from typing import Any

from tests.planted_bugs import resampling as planted
from tests.planted_bugs.damage import resampling as exact
from tests.planted_bugs.defect import RELATIVE_BIAS, SHARE, VARIANCE, Defect
from theory.resampling.adaptive import needs_resampling

LAWS = "tests/theory/resampling/test_laws.py::test_planted_bug_is_rejected"


def _bias(
    kind: str, twin: Any, damage: float, *reports: str, right: Any = exact.systematic
) -> Defect:
    return Defect(
        kind, twin, right, exact.of_weight, damage, RELATIVE_BIAS, exact.TOY, LAWS, reports
    )


def _evidence(kind: str, twin: Any, damage: float, *reports: str) -> Defect:
    return Defect(
        kind,
        twin,
        exact.systematic,
        exact.of_evidence,
        damage,
        RELATIVE_BIAS,
        exact.TOY,
        LAWS,
        reports,
    )


DEFECTS = (
    _bias("ancestor off by one", planted.ancestor_off_by_one, 1.0),
    _bias("weights ignored", planted.weights_ignored, 1.14286),
    _bias(
        "first particle always kept", planted.first_particle_always_kept, 0.857143, "mcl_3dl#232"
    ),
    _evidence(
        "evidence lost at resampling", planted.evidence_lost, 0.333333, "ArminAzizi98/Power-SMC"
    ),
    _evidence("sum instead of mean of weights", planted.sum_instead_of_mean, 3.0),
    _bias(
        "weights not set to the mean",
        planted.weights_kept,
        0.485714,
        "Kalman-book#146",
        "pfilter#8",
    ),
    _bias("weights inherited by children", planted.weights_inherited, 1.93333),
    _bias(
        "residual without the remainder",
        planted.residual_without_the_remainder,
        1.0,
        right=exact.residual,
    ),
    _bias(
        "residual drawn by the weights",
        planted.residual_drawn_by_the_weights,
        0.5,
        "Kalman-book#481",
        "filterpy#186",
        right=exact.residual,
    )._replace(
        test="tests/theory/resampling/test_laws.py::test_a_remainder_drawn_by_the_weights_is_rejected"
    ),
    Defect(
        "one uniform where N are needed",
        planted.one_uniform_for_all_draws,
        exact.multinomial,
        exact.of_variance,
        3.0,
        VARIANCE,
        exact.TOY,
        "tests/theory/resampling/test_laws.py::test_one_uniform_for_all_draws_is_seen_in_the_variance",
    ),
    Defect(
        "zero weight chosen at u = 0",
        planted.zero_weight_chosen_at_zero,
        exact.systematic,
        exact.dead_parents,
        0.25,
        SHARE,
        "weights 0, 1, 1, 1 at u = 0",
        LAWS,
        ("jax#25498",),
    ),
    Defect(
        "float32 cumulative end",
        planted.float32_cumulative_end,
        exact.systematic,
        exact.parents_out_of_range,
        0.2,
        SHARE,
        "five equal weights, u just below 1",
        LAWS,
        ("dynesty#336", "pyfilter#35"),
    ),
    Defect(
        "NaN weight as largest",
        planted.nan_weight_as_largest,
        exact.systematic,
        exact.parents_without_weight,
        0.666667,
        SHARE,
        "weights 1, NaN, 3",
        LAWS,
        ("pymc#7292", "particles#79"),
    ),
    Defect(
        "all dead collapses to particle 0",
        planted.all_dead_collapses,
        exact.systematic,
        exact.lost_particles,
        0.75,
        SHARE,
        "four dead particles",
        LAWS,
        ("pymc#7292", "llamppl#39"),
    ),
    Defect(
        "share of N taken for an effective size",
        planted.resamples_below_one_particle,
        needs_resampling,
        exact.left_alone,
        1.0,
        SHARE,
        "four degenerate populations, threshold 1/2",
        "tests/theory/resampling/test_public.py::test_the_threshold_is_a_share_of_the_particles",
    ),
)
