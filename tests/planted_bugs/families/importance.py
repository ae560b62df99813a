"""Importance weights and rejection: what the catalogue lists."""

from typing import Any

from tests.planted_bugs import importance as planted
from tests.planted_bugs.damage import importance as exact
from tests.planted_bugs.defect import (
    RELATIVE_BIAS,
    TOTAL_VARIATION,
    Defect,
)
from theory import log_weights as lw
from theory.importance import (
    check_full_support,
    self_normalised_estimate,
    token_log_weights,
)
from theory.rejection import proven_log_bound

HOME = "tests/theory/test_importance_twins.py"


def _weights(
    kind: str, twin: Any, damage: float, *reports: str, proposal_alpha: float = exact.ALPHA
) -> Defect:
    proposal = "base" if proposal_alpha == 1.0 else "temperature 1/2"
    test = f"{HOME}::test_wrong_weights_have_another_mean"
    toy = f"E, alpha 2, {proposal}"
    measure = exact.of_weights(proposal_alpha)
    return Defect(kind, twin, token_log_weights, measure, damage, RELATIVE_BIAS, toy, test, reports)


def _other(
    kind: str,
    twin: Any,
    right: Any,
    measure: Any,
    damage: float,
    toy: str,
    test: str,
    *reports: str,
    unit: str = RELATIVE_BIAS,
) -> Defect:
    return Defect(kind, twin, right, measure, damage, unit, toy, f"{HOME}::{test}", reports)


SIZES = "test_sizes_of_weights"
DEFECTS = (
    _weights("alpha missing in the weight", planted.alpha_missing, 7.2202),
    _weights(
        "alpha for alpha - 1 under a base proposal",
        planted.alpha_for_alpha_minus_one,
        0.840056,
        "tatami-galaxy/power-sampling",
        proposal_alpha=1.0,
    ),
    _weights(
        "mean instead of sum",
        planted.mean_over_tokens,
        2.04633,
        "deep-spin/quest-decoding",
        proposal_alpha=1.0,
    ),
    _weights(
        "processed log prob for the base one",
        planted.processed_log_prob_for_base,
        0.494655,
        "vllm#9453",
        "trl#4159",
    ),
    _weights(
        "log prob divided by T, not normalised",
        planted.log_prob_divided_by_temperature,
        7.2202,
        "prime-rl#697",
    ),
    _weights(
        "scored at temperature 1",
        planted.scored_at_temperature_one,
        0.0224239,
        "trl#4159",
        "OpenRLHF#853",
    ),
    _weights("log z counted twice", planted.log_z_counted_twice, 0.786395),
    _weights(
        "eos probability omitted",
        planted.eos_omitted_from_the_target,
        11.2273,
        "acl-anthology#3006",
        "espnet#1211",
    ),
    _weights(
        "eos masked as padding", planted.eos_masked_as_padding, 1.23075, "trl#6357", "MemGen#33"
    ),
    _other(
        "forced eos at the horizon",
        planted.eos_forced_at_the_horizon,
        exact.as_drawn,
        exact.of_forced_eos,
        0.1898,
        "E, base",
        "test_a_forced_eos_is_another_law",
        "genlm-control#145",
        unit=TOTAL_VARIATION,
    ),
    _other(
        "truncated proposal, full support",
        planted.no_support_check,
        check_full_support,
        exact.of_support,
        0.35482,
        "E, alpha 2, top-k 2",
        "test_a_truncated_proposal_misses_mass",
        "transformers#38549",
        "prime-rl#679",
    ),
    _other(
        "self-normalised by N - 1",
        planted.over_n_minus_one,
        self_normalised_estimate,
        exact.of_constants,
        0.142857,
        "eight weights",
        SIZES,
    ),
    _other(
        "mean of logs for log of mean",
        planted.geometric_mean_weight,
        lw.log_mean_weight,
        exact.of_pairs,
        0.121141,
        "E, alpha 2, two base draws",
        SIZES,
    ),
    _other(
        "evidence underflows",
        planted.mean_weight_in_linear_space,
        lw.log_mean_weight,
        exact.of_small_weights,
        1.0,
        "weights near e^-200",
        SIZES,
        "genlm-control#102",
    ),
    _other(
        "effective size of unnormalised weights",
        planted.ess_of_unnormalised_weights,
        lw.ess,
        exact.of_size,
        0.99,
        "weights 1, 2, 3, 4",
        SIZES,
        "pyprob#36",
    ),
    _other(
        "effective size always 1",
        planted.ess_always_one,
        lw.ess,
        exact.of_size,
        0.7,
        "weights 1, 2, 3, 4",
        SIZES,
    ),
    _other(
        "effective size normalises in place",
        planted.ess_that_normalises_in_place,
        exact.ess_of_a_copy,
        exact.of_evidence_after,
        0.9,
        "weights 1, 2, 3, 4",
        SIZES,
        "pyro#2486",
    ),
    _other(
        "a bound that is none",
        planted.bound_of_one,
        proven_log_bound,
        exact.of_bound,
        0.249354,
        "E, alpha 1/2 from temperature 2",
        "test_rejection_needs_its_bound_and_counts_all_proposals",
        unit=TOTAL_VARIATION,
    ),
    _other(
        "acceptance counted row by row",
        planted.rate_of_rows,
        exact.rate_of_all,
        exact.of_rate,
        1.39836,
        "E, alpha 2, base, bound 1",
        "test_rejection_needs_its_bound_and_counts_all_proposals",
    ),
)
