"""Particle Gibbs: what the catalogue lists."""

from tests.planted_bugs import particle_gibbs as planted
from tests.planted_bugs.damage import particle_gibbs as exact
from tests.planted_bugs.defect import SHARE, TOTAL_VARIATION, Defect
from theory.exact import conditional_stratified_offspring
from theory.exact.particle_gibbs import reference_gain

HOME = "tests/theory/mcmc/test_particle_gibbs.py"
E4 = "E, alpha 2, two particles, multinomial"
WHOLE_ROW = f"{HOME}::test_the_weight_of_the_whole_row_has_no_place"

DEFECTS = (
    Defect(
        "reference with its whole weight",
        planted.gain_of_the_whole_row,
        reference_gain,
        exact.of_gain,
        0.183636,
        TOTAL_VARIATION,
        E4,
        WHOLE_ROW,
        ("its_hub#54",),
    ),
    Defect(
        "reference with its whole weight, recorded",
        planted.weighing_the_whole_row,
        exact.as_recorded,
        exact.wrong_gains,
        1.0,
        SHARE,
        "references of two tokens",
        WHOLE_ROW,
        ("its_hub#54",),
    ),
    Defect(
        "reference forgotten",
        planted.forgotten_reference,
        exact.sweep,
        exact.of_sweep,
        0.296184,
        TOTAL_VARIATION,
        E4,
        f"{HOME}::test_a_reference_that_is_not_kept_is_seen",
    ),
    Defect(
        "strata begin with the reference",
        planted.strata_begin_with_the_reference,
        conditional_stratified_offspring,
        exact.of_offspring,
        0.00176853,
        TOTAL_VARIATION,
        "E of three tokens, alpha 2, three particles",
        f"{HOME}::test_strata_that_begin_with_the_reference_are_seen",
    ),
    Defect(
        "noise of a sweep repeated",
        planted.frozen_iteration,
        exact.unchanged,
        exact.sweeps_that_repeat,
        0.875,
        SHARE,
        "8 sweeps",
        f"{HOME}::test_sweeps_use_fresh_numbers",
    ),
)
