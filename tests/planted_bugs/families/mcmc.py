"""Markov chains: what the catalogue lists."""

from typing import Any

from tests.planted_bugs import mcmc as planted
from tests.planted_bugs.damage import mcmc as exact
from tests.planted_bugs.defect import SHARE, TOTAL_VARIATION, Defect
from theory import keys
from theory.mcmc import chains as mcmc_chains
from theory.mcmc import density

HOME = "tests/theory/mcmc/test_planted_bugs.py"
RATIOS = f"{HOME}::test_wrong_ratios_fail_and_their_damage_is_known"


def _ratio(
    kind: str, twin: Any, setting: exact.Setting, damage: float, *reports: str, test: str = RATIOS
) -> Defect:
    return Defect(
        kind,
        twin,
        density.log_ratio,
        exact.of_ratio(setting),
        damage,
        TOTAL_VARIATION,
        setting.name,
        test,
        reports,
    )


KARAN_DU = "aakaran/reasoning-with-sampling"
NO_RATIO = (f"{KARAN_DU}#10", "monad-bayes#53")
CLIPPED = (f"{KARAN_DU}#11",)

DEFECTS = (
    _ratio("length ratio missing", planted.length_ratio_missing, exact.E4, 0.183801, *NO_RATIO),
    _ratio("length ratio missing", planted.length_ratio_missing, exact.F2, 0.244474, *NO_RATIO),
    _ratio("length ratio missing", planted.length_ratio_missing, exact.F4, 0.212851, *NO_RATIO),
    _ratio("cut law not in the ratio", planted.length_ratio_missing, exact.E4_ENTROPY, 0.171748),
    _ratio("clipped tail", planted.clipped_tail, exact.F2, 2.42083e-05, *CLIPPED),
    _ratio("clipped tail", planted.clipped_tail, exact.F4, 0.0124016, *CLIPPED),
    _ratio(
        "clipped tail and no length ratio",
        planted.clipped_tail_and_no_length_ratio,
        exact.F4,
        0.22546,
        *CLIPPED,
    ),
    _ratio(
        "wrong Hastings sign", planted.wrong_hastings_sign, exact.B4_START, 0.49859, f"{KARAN_DU}#8"
    ),
    _ratio("wrong Hastings sign", planted.wrong_hastings_sign, exact.E4, 0.785763, f"{KARAN_DU}#8"),
    _ratio(
        "alpha for alpha - 1 under a base proposal",
        planted.proposal_term_missing,
        exact.E4_BASE,
        0.0533364,
        "openturns#1260",
        "breeze#614",
    ),
    _ratio("log z dropped", planted.log_z_dropped, exact.E4, 0.754189, "vllm#9453"),
    _ratio("mean instead of sum", planted.mean_instead_of_sum, exact.E4, 0.801796),
    _ratio(
        "eos probability omitted",
        planted.eos_probability_omitted,
        exact.E4,
        0.452002,
        "acl-anthology#3006",
        "espnet#1211",
    ),
    _ratio("never rejects", planted.never_rejects, exact.E4, 0.840478, "walnuts#27"),
    Defect(
        "multiple-try weights without the cut",
        planted.move_weight_without_cut,
        density.log_move_weight,
        exact.of_tries("log_move_weight"),
        0.183801,
        TOTAL_VARIATION,
        exact.E4.name,
        f"{HOME}::test_multiple_try_weights_need_the_cut",
    ),
    Defect(
        "multiple-try ratio of a single try",
        planted.single_try_ratio,
        density.multiple_try_log_ratio,
        exact.of_tries("multiple_try_log_ratio"),
        0.0377356,
        TOTAL_VARIATION,
        exact.E4.name,
        f"{HOME}::test_a_chosen_try_is_not_a_single_one",
    ),
    Defect(
        "shrinking horizon",
        planted.shrinking_limits,
        exact.whole_horizon,
        exact.of_limits,
        0.893181,
        TOTAL_VARIATION,
        "E, alpha 4, after 10 steps from the target",
        "tests/theory/mcmc/test_kernels.py::test_a_shrinking_horizon_is_seen",
        (f"{KARAN_DU}#10",),
    ),
    Defect(
        "shrinking, clipped and no length ratio",
        planted.three_defects_of_a_public_sampler,
        exact.right_move,
        exact.of_move(exact.E4),
        0.977839,
        TOTAL_VARIATION,
        f"{exact.E4.name}, after 2000 steps",
        f"{HOME}::test_a_shrinking_horizon_swallows_the_chain",
        NO_RATIO,
    ),
    Defect(
        "shrinking, clipped and no length ratio",
        planted.three_defects_of_a_public_sampler,
        exact.right_move,
        exact.of_move(exact.F2),
        0.894737,
        TOTAL_VARIATION,
        f"{exact.F2.name}, after 2000 steps",
        f"{HOME}::test_a_shrinking_horizon_swallows_the_chain",
        NO_RATIO,
    ),
    Defect(
        "shrinking, clipped and no length ratio",
        planted.three_defects_of_a_public_sampler,
        exact.right_move,
        exact.of_move(exact.F4),
        0.977839,
        TOTAL_VARIATION,
        f"{exact.F4.name}, after 2000 steps",
        f"{HOME}::test_a_shrinking_horizon_swallows_the_chain",
        NO_RATIO,
    ),
    Defect(
        "rejections not counted",
        planted.averages_accepted_states,
        exact.every_state,
        exact.of_occupation,
        0.493859,
        TOTAL_VARIATION,
        exact.E4.name,
        f"{HOME}::test_an_average_counts_rejections",
        ("goncalorafaria/qalign",),
    ),
    Defect(
        "swap with the wrong sign",
        planted.swap_with_the_wrong_sign,
        density.swap_log_ratio,
        exact.of_swap,
        0.554657,
        TOTAL_VARIATION,
        "E of two tokens, rungs 1 and 4",
        "tests/theory/mcmc/test_tempering.py::test_a_swap_with_the_wrong_sign_fails",
    ),
    Defect(
        "accept noise is the cut's",
        planted.accept_reuses_cut_key,
        mcmc_chains.keys_of,
        exact.roles_that_repeat,
        0.25,
        SHARE,
        "four roles of a move",
        "tests/theory/mcmc/test_kernels.py::test_accept_and_cut_have_keys_of_their_own",
    ),
    Defect(
        "exchanges share their noise",
        planted.swaps_share_noise,
        mcmc_chains.keys_of,
        exact.swaps_that_repeat,
        0.5,
        SHARE,
        "two exchanges of three rungs",
        "tests/theory/mcmc/test_tempering.py::test_three_rungs_follow_the_joint_matrix",
    ),
    Defect(
        "third try a copy of the first",
        planted.third_try_is_the_first,
        keys.fold_rows,
        exact.tries_that_repeat,
        1 / 3,
        SHARE,
        "three tries",
        "tests/theory/mcmc/test_kernels.py::test_three_tries",
    ),
    Defect(
        "unseeded rows",
        planted.unseeded_rows,
        exact.unchanged,
        exact.rows_that_repeat,
        0.875,
        SHARE,
        "8 chains",
        "tests/theory/mcmc/test_kernels.py::test_chains_use_different_noise",
        ("vllm#7808",),
    ),
    Defect(
        "noise of a move repeated",
        planted.frozen_iteration,
        exact.unchanged,
        exact.moves_that_repeat,
        0.875,
        SHARE,
        "8 moves",
        "tests/theory/mcmc/test_kernels.py::test_iterations_use_different_noise",
    ),
)
