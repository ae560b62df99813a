"""Estimators for a policy that is not the one that drew the rows.

log_ratios = sequence_log_ratios(target_tokens - behavior_tokens, sequence_offsets)
applied = truncated(log_ratios, 2.0, "seq")
importance_mean(applied.log_weights, rewards, task_offsets), weight_info(log_ratios, task_offsets)
"""

from theory.estimators.off_policy.diagnostics import WeightInfo as WeightInfo
from theory.estimators.off_policy.diagnostics import effective_sizes as effective_sizes
from theory.estimators.off_policy.diagnostics import weigh_tasks as weigh_tasks
from theory.estimators.off_policy.diagnostics import weight_info as weight_info
from theory.estimators.off_policy.means import importance_mean as importance_mean
from theory.estimators.off_policy.means import per_decision_mean as per_decision_mean
from theory.estimators.off_policy.means import self_normalised_mean as self_normalised_mean
from theory.estimators.off_policy.means import v_trace as v_trace
from theory.estimators.off_policy.pass_at_k import corrected_verdicts as corrected_verdicts
from theory.estimators.off_policy.pass_at_k import (
    noise_corrected_pass_at_k as noise_corrected_pass_at_k,
)
from theory.estimators.off_policy.pass_at_k import off_policy_pass_at_k as off_policy_pass_at_k
from theory.estimators.off_policy.pass_at_k import off_policy_pass_at_ks as off_policy_pass_at_ks
from theory.estimators.off_policy.power import largest_alpha as largest_alpha
from theory.estimators.off_policy.power import largest_alpha_of_rank as largest_alpha_of_rank
from theory.estimators.off_policy.power import power_accuracy as power_accuracy
from theory.estimators.off_policy.power import power_log_weights as power_log_weights
from theory.estimators.off_policy.ratios import (
    length_normalised_log_ratios as length_normalised_log_ratios,
)
from theory.estimators.off_policy.ratios import missing_log_probs as missing_log_probs
from theory.estimators.off_policy.ratios import (
    missing_sequence_log_probs as missing_sequence_log_probs,
)
from theory.estimators.off_policy.ratios import prefix_log_ratios as prefix_log_ratios
from theory.estimators.off_policy.ratios import sequence_log_ratios as sequence_log_ratios
from theory.estimators.off_policy.ratios import turn_log_ratios as turn_log_ratios
from theory.estimators.off_policy.transforms import Applied as Applied
from theory.estimators.off_policy.transforms import exact as exact
from theory.estimators.off_policy.transforms import masked as masked
from theory.estimators.off_policy.transforms import truncated as truncated
