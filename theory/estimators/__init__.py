"""Intervals over tasks.

counts = resample_counts(np.random.default_rng(0), num_tasks=200)
mean_interval(counts, pass_at_8)
difference_interval(counts, pass_at_8, pass_at_8_of_another_method)
t_interval(pass_at_8)
"""

from theory.estimators.bootstrap import difference_interval as difference_interval
from theory.estimators.bootstrap import mean_interval as mean_interval
from theory.estimators.bootstrap import percentile_interval as percentile_interval
from theory.estimators.bootstrap import ratio_difference_interval as ratio_difference_interval
from theory.estimators.bootstrap import ratio_interval as ratio_interval
from theory.estimators.bootstrap import resample_counts as resample_counts
from theory.estimators.bootstrap import resampled_means as resampled_means
from theory.estimators.interval import Interval as Interval
from theory.estimators.interval import t_interval as t_interval
from theory.estimators.interval import t_interval_of_ratio as t_interval_of_ratio
