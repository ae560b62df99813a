"""Look-ahead estimates: what the catalogue lists."""

from tests.planted_bugs import lookahead as planted
from tests.planted_bugs.damage import lookahead as exact
from tests.planted_bugs.defect import RELATIVE_BIAS, SHARE, TOTAL_VARIATION, Defect
from theory.smc.lookahead_law import jackknife
from theory.smc.zeta import log_zeta_hat, roll_out

HOME = "tests/theory/smc/test_lookahead.py"
MEAN = f"{HOME}::test_the_mean_of_terms_is_zeta_and_its_twins_are_not"
TREE = "tree of two tokens, alpha 3"
RUNS = "8 particles, 30 tokens to come"

DEFECTS = (
    Defect(
        "alpha for alpha - 1 in a future's weight",
        planted.log_zeta_with_alpha,
        log_zeta_hat,
        exact.of_zeta,
        0.485388,
        RELATIVE_BIAS,
        TREE,
        MEAN,
        ("tatami-galaxy/power-sampling",),
    ),
    Defect(
        "mean of logs for a future's weight",
        planted.log_zeta_as_mean_of_logs,
        log_zeta_hat,
        exact.of_zeta,
        0.127179,
        RELATIVE_BIAS,
        TREE,
        MEAN,
    ),
    Defect(
        "jackknife with a wrong factor",
        planted.jackknife_with_wrong_factor,
        jackknife,
        exact.of_jackknife,
        0.0510642,
        TOTAL_VARIATION,
        "two candidates, three rollouts",
        f"{HOME}::test_a_jackknife_with_a_wrong_factor_keeps_the_bias",
    ),
    Defect(
        "score carried on by children",
        planted.carried_with_score,
        exact.score_taken_out,
        exact.of_carried,
        0.7425,
        RELATIVE_BIAS,
        TREE,
        f"{HOME}::test_a_score_that_stays_in_the_weights_is_seen",
    ),
    Defect(
        "one future for all particles",
        planted.roll_out_with_one_key,
        roll_out,
        exact.futures_that_repeat,
        0.875,
        SHARE,
        RUNS,
        f"{HOME}::test_particles_at_one_prefix_look_into_different_futures",
    ),
    Defect(
        "future of one token",
        planted.roll_out_of_one_token,
        roll_out,
        exact.futures_cut_short,
        1.0,
        SHARE,
        RUNS,
        f"{HOME}::test_a_future_of_one_token_is_not_the_whole_one",
    ),
)
