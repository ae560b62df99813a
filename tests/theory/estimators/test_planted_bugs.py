"""Laws of numbers from logs of rollouts, which right code keeps to the last digits and a planted bug does not."""

from typing import Any

import pytest

from tests.planted_bugs import rollout_logs as planted
from tests.planted_bugs.damage import rollout_logs as exact
from theory.estimators import off_policy
from theory.estimators.coverage import pass_at_k, pass_at_k_sampling_variance
from theory.estimators.order import order_sums
from theory.estimators.votes import majority_at_k


@pytest.mark.parametrize(
    ("damage", "right", "twin"),
    [
        (exact.of_exact_mean, off_policy.exact, planted.truncated_weights_called_exact),
        (exact.of_effective_size, off_policy.weight_info, planted.size_of_truncated_weights),
        (
            exact.of_off_policy_pass_at_k,
            off_policy.off_policy_pass_at_k,
            planted.pass_at_k_of_the_sampler,
        ),
        (
            exact.of_noise_corrected_pass_at_k,
            off_policy.noise_corrected_pass_at_k,
            planted.verdicts_taken_for_truth,
        ),
    ],
)
def test_other_policies(damage: Any, right: Any, twin: Any) -> None:
    assert damage(right) < 1e-12 and damage(twin) > 0.1


@pytest.mark.parametrize(
    ("damage", "right", "twin"),
    [
        (exact.of_trend_variance, order_sums, planted.variance_of_independent_samples),
        (exact.of_majority, majority_at_k, planted.majority_with_first_seen_ties),
        (exact.of_pass_at_k, pass_at_k, planted.pass_at_k_with_replacement),
        (
            exact.of_sampling_variance,
            pass_at_k_sampling_variance,
            planted.variance_at_the_observed_rate,
        ),
    ],
)
def test_orders_and_subsets(damage: Any, right: Any, twin: Any) -> None:
    assert damage(right) < 1e-12 and damage(twin) > 0.05
