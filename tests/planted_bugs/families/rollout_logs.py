"""Logs of rollouts: what the catalogue lists."""

from tests.planted_bugs import rollout_logs as planted
from tests.planted_bugs.damage import rollout_logs as exact
from tests.planted_bugs.defect import RELATIVE_BIAS, SHARE, VARIANCE, Defect
from theory.estimators.coverage import pass_at_k, pass_at_k_sampling_variance
from theory.estimators.indicators import length_coupling, optimism_gap, turn_down
from theory.estimators.off_policy import exact as exact_weights
from theory.estimators.off_policy import (
    noise_corrected_pass_at_k,
    off_policy_pass_at_k,
    weight_info,
)
from theory.estimators.order import order_sums
from theory.estimators.votes import majority_at_k

HOME = "tests/theory/estimators/test_planted_bugs.py"

DEFECTS = (
    Defect(
        "truncated weights called exact",
        planted.truncated_weights_called_exact,
        exact_weights,
        exact.of_exact_mean,
        0.354542,
        RELATIVE_BIAS,
        "sequences of three bits, two draws, cap 1.5",
        f"{HOME}::test_other_policies",
    ),
    Defect(
        "effective size of truncated weights",
        planted.size_of_truncated_weights,
        weight_info,
        exact.of_effective_size,
        0.330435,
        RELATIVE_BIAS,
        "weights 1/2, 1, 2, 4, cap 1.5",
        f"{HOME}::test_other_policies",
        ("verl",),
    ),
    Defect(
        "off-policy pass@k without weights",
        planted.pass_at_k_of_the_sampler,
        off_policy_pass_at_k,
        exact.of_off_policy_pass_at_k,
        0.378403,
        RELATIVE_BIAS,
        "sequences of three bits, pass@2 of three draws",
        f"{HOME}::test_other_policies",
    ),
    Defect(
        "order test with independent outcomes",
        planted.variance_of_independent_samples,
        order_sums,
        exact.of_trend_variance,
        0.2,
        VARIANCE,
        "two of five samples correct",
        f"{HOME}::test_orders_and_subsets",
    ),
    Defect(
        "ties for the first answer seen",
        planted.majority_with_first_seen_ties,
        majority_at_k,
        exact.of_majority,
        0.268293,
        RELATIVE_BIAS,
        "answers A A B B C and none, B right, maj@4",
        f"{HOME}::test_orders_and_subsets",
        ("lm-eval", "lighteval", "search-and-learn"),
    ),
    Defect(
        "pass@k with replacement",
        planted.pass_at_k_with_replacement,
        pass_at_k,
        exact.of_pass_at_k,
        0.148943,
        RELATIVE_BIAS,
        "success rate 1/10, pass@5 of ten samples",
        f"{HOME}::test_orders_and_subsets",
        ("verl",),
    ),
    Defect(
        "variance of pass@k at the observed rate",
        planted.variance_at_the_observed_rate,
        pass_at_k_sampling_variance,
        exact.of_sampling_variance,
        0.240908,
        RELATIVE_BIAS,
        "success rate 1/10, pass@2 of ten samples",
        f"{HOME}::test_orders_and_subsets",
    ),
    Defect(
        "verdicts of a grader that errs taken for truth",
        planted.verdicts_taken_for_truth,
        noise_corrected_pass_at_k,
        exact.of_noise_corrected_pass_at_k,
        0.392857,
        RELATIVE_BIAS,
        "success rate 1/4, pass@2 of five samples, tpr 9/10, fpr 1/5",
        f"{HOME}::test_other_policies",
    ),
    Defect(
        "drop from a peak of its own choosing",
        planted.drop_from_its_own_peak,
        turn_down,
        exact.of_turn_down,
        0.136719,
        SHARE,
        "four tasks, outcomes at two numbers of samples that are alike",
        "tests/theory/estimators/test_indicators.py::test_a_drop_is_measured_where_it_was_not_looked_for",
    ),
    Defect(
        "gap baseline of one sample",
        planted.gap_beside_that_of_one_sample,
        optimism_gap,
        exact.of_gap_baseline,
        1.16667,
        RELATIVE_BIAS,
        "four scores, two correct, all orders, k = 3",
        "tests/theory/estimators/test_indicators.py::test_baselines_are_those_of_scores_dealt_out_anew",
    ),
    Defect(
        "length coupling without outcomes",
        planted.coupling_of_scores_alone,
        length_coupling,
        exact.of_coupling_baseline,
        1.0,
        RELATIVE_BIAS,
        "four scores, two correct, all orders, four lengths",
        "tests/theory/estimators/test_indicators.py::test_baselines_are_those_of_scores_dealt_out_anew",
    ),
)
