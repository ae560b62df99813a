"""Coupled chains: what the catalogue lists."""

from tests.planted_bugs import coupled as planted
from tests.planted_bugs.damage import coupled as exact
from tests.planted_bugs.defect import RELATIVE_BIAS, SHARE, Defect
from theory.exact.coupled import jointly_accepted
from theory.mcmc.meeting_times import (
    correction_weights,
    total_variation_estimates,
)

HOME = "tests/theory/mcmc/test_coupled.py"
UNBIASED = f"{HOME}::test_estimates_are_unbiased_exactly"
E3 = "E of three tokens, alpha 2"

DEFECTS = (
    Defect(
        "no correction for the start",
        planted.no_correction,
        correction_weights,
        exact.of_correction,
        0.184611,
        RELATIVE_BIAS,
        f"{E3}, lag 3",
        UNBIASED,
    ),
    Defect(
        "lag forgotten in the correction",
        planted.correction_at_every_time,
        correction_weights,
        exact.of_correction,
        0.311189,
        RELATIVE_BIAS,
        f"{E3}, lag 3",
        UNBIASED,
    ),
    Defect(
        "accept noise not shared by a pair",
        planted.uniforms_of_their_own,
        jointly_accepted,
        exact.of_joint_verdicts,
        0.139387,
        SHARE,
        f"{E3}, pairs that have met",
        f"{HOME}::test_uniforms_of_their_own_let_pairs_part",
    ),
    Defect(
        "bound with one term less",
        planted.one_term_less,
        total_variation_estimates,
        exact.of_bound,
        0.975912,
        RELATIVE_BIAS,
        f"{E3}, lag 20",
        f"{HOME}::test_estimates_by_hand",
    ),
)
