"""Intervals over tasks, and estimators of what a task's samples show; see docs/estimators.md.

counts = resample_counts(np.random.default_rng(0), num_tasks=200)
mean_interval(counts, pass_at_8)
difference_interval(counts, pass_at_8, pass_at_8_of_another_method)
t_interval(pass_at_8)

pass_at_k(num_samples, num_correct, 8), majority_at_k(answer_counts, answer_values, offsets, num_samples, 8)

Weights of another policy than the sampler's are in `theory.estimators.off_policy`, the Bayesian model in `theory.estimators.hierarchical`.
"""

from theory.estimators.best_of_n import best_of_n_at_k as best_of_n_at_k
from theory.estimators.best_of_n import best_of_n_at_ks as best_of_n_at_ks
from theory.estimators.best_of_n import expected_best_of_normals as expected_best_of_normals
from theory.estimators.bootstrap import difference_interval as difference_interval
from theory.estimators.bootstrap import mean_interval as mean_interval
from theory.estimators.bootstrap import percentile_interval as percentile_interval
from theory.estimators.bootstrap import ratio_difference_interval as ratio_difference_interval
from theory.estimators.bootstrap import ratio_interval as ratio_interval
from theory.estimators.bootstrap import resample_counts as resample_counts
from theory.estimators.bootstrap import resampled_means as resampled_means
from theory.estimators.calibration import equal_mass_bins as equal_mass_bins
from theory.estimators.calibration import equal_width_bins as equal_width_bins
from theory.estimators.calibration import expected_calibration_error as expected_calibration_error
from theory.estimators.calibration import squared_errors as squared_errors
from theory.estimators.clustering import ClusteredError as ClusteredError
from theory.estimators.clustering import clustered_error as clustered_error
from theory.estimators.coverage import g_pass_at_k as g_pass_at_k
from theory.estimators.coverage import pass_at_k as pass_at_k
from theory.estimators.coverage import pass_at_k_rewards as pass_at_k_rewards
from theory.estimators.coverage import (
    pass_at_k_sampling_variance as pass_at_k_sampling_variance,
)
from theory.estimators.coverage import pass_at_k_variance as pass_at_k_variance
from theory.estimators.coverage import pass_hat_k as pass_hat_k
from theory.estimators.diversity import distinct_at_k as distinct_at_k
from theory.estimators.diversity import unique_rate as unique_rate
from theory.estimators.interval import Interval as Interval
from theory.estimators.interval import t_interval as t_interval
from theory.estimators.interval import t_interval_of_ratio as t_interval_of_ratio
from theory.estimators.order import order_sums as order_sums
from theory.estimators.order import order_test as order_test
from theory.estimators.ranks import auroc_by_task as auroc_by_task
from theory.estimators.ranks import mid_ranks as mid_ranks
from theory.estimators.ranks import spearman_by_task as spearman_by_task
from theory.estimators.votes import majority_at_k as majority_at_k
from theory.estimators.votes import majority_at_ks as majority_at_ks
from theory.estimators.votes import no_vote_probability as no_vote_probability
from theory.estimators.weighted_votes import weighted_majority_at_ks as weighted_majority_at_ks
