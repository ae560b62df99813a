"""Which statistics there are, by family, and which columns of the rows each needs: for analyses of a few of them alone.

What says how many rows there are, whether they are independent draws and whether they are successes belongs to every statistic and is always read.
"""

import re
from collections.abc import Collection, Iterable

from experiments.command_line import unknown
from experiments.rollout_logs.narrow_columns import NARROW_COLUMNS, fields_of

FAMILIES: dict[str, tuple[str, ...]] = {
    "coverage": ("pass@K", "pass^K", "g_pass@K", "noise_corrected_pass@K", "oracle@N"),
    "selection": ("majority@K", "weighted_majority@K", "best_of_n@K", "selected_proxy_score@K"),
    "reward": ("mean_reward",),
    "beyond": ("model_pass@K", "least_pass@K", "greatest_pass@K"),
    "diversity": ("unique_answer_rate", "unique_trajectory_rate", "distinct_answers@K"),
    "calibration": ("brier", "ece", "auroc_within", "auroc_pooled"),
    "indicators": (
        "optimism_gap@K",
        "length_coupling",
        "truncation_pay",
        "repeated_answer_pay",
        "expected_proxy@K",
        "best_of_n_peak",
        "best_of_n_drop",
        "selected_proxy_rise",
        "proxy_truth_divergence",
    ),
    "length": ("tokens_mean", "tokens_median", "truncated_rate"),
    "cost": ("wall_s_mean", "model_calls", "verifier_calls", "tool_calls", "env_steps"),
    "weights": (
        "is_mean",
        "snis_mean",
        "tis_mean",
        "masked_mean",
        "ess",
        "ess_fraction",
        "max_weight",
        "clipped_share",
        "tis_ess_fraction",
        "masked_share",
        "pareto_k",
        "off_policy_pass@K",
    ),
    "power": (
        "power_ess",
        "power_max_weight",
        "power_accuracy",
        "power_pareto_k",
        "power_alpha_limit",
    ),
    "units": tuple(
        f"{unit}_{kind}"
        for unit in ("token", "turn", "prefix")
        for kind in ("ess_fraction", "tis_ess_fraction", "clipped_share", "masked_share")
    ),
}
"""Family -> names of its statistics, with K for any number of samples."""

NAMES = tuple(name for names in FAMILIES.values() for name in names)

# Statistics of the score and the outcome of what is selected, beside those of scores that say nothing.
OF_THE_SELECTED = (
    "optimism_gap@K",
    "expected_proxy@K",
    "best_of_n_peak",
    "best_of_n_drop",
    "selected_proxy_rise",
)
_ANSWERED = (
    "majority@K",
    "weighted_majority@K",
    "repeated_answer_pay",
    "unique_answer_rate",
    "distinct_answers@K",
)
_SCORED = (
    "weighted_majority@K",
    "best_of_n@K",
    "selected_proxy_score@K",
    *FAMILIES["calibration"],
    *OF_THE_SELECTED,
    "length_coupling",
    "repeated_answer_pay",
    "proxy_truth_divergence",
)
_WEIGHED = (*FAMILIES["weights"], *FAMILIES["power"], *FAMILIES["units"])

# Columns that only some statistics need -> those statistics. Weights need lengths and every log probability to see what they are of (R7, R19).
_NEEDED_BY: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("answer_code", "answer", "answer_raw"), _ANSWERED),
    (("score",), _SCORED),
    (("base_logp", "behavior_logp", "target_logp", "log_weight"), _WEIGHED),
    (("token_log_ratios", "turn_log_ratios"), FAMILIES["units"]),
    (("completion_tokens",), ("tokens_mean", "tokens_median", "length_coupling", *_WEIGHED)),
    (("wall_s",), ("wall_s_mean",)),
    *(((name,), (name,)) for name in ("model_calls", "verifier_calls", "tool_calls", "env_steps")),
    (("step", "version_number"), ("proxy_truth_divergence",)),
)


def kind_of(name: str) -> str:
    """The name of a statistic with K for its number of samples.

    Args:
        name: such as pass@8.

    Returns:
        Such as pass@K.
    """
    return re.sub(r"(?<=[@^])[0-9]+$", "K", name)


def chosen(words: Iterable[str]) -> frozenset[str]:
    """The statistics that words of the command line mean.

    Args:
        words: families and names of statistics, with @K or without.

    Returns:
        Names of `NAMES`.

    Raises:
        InvalidInput: a word that means nothing.
    """
    meant = {name.split("@")[0].lower(): (name,) for name in NAMES}
    meant |= {name.lower(): (name,) for name in NAMES} | FAMILIES
    found: set[str] = set()
    for word in words:
        if word.lower() not in meant:
            raise unknown("statistic in --only", word, [*FAMILIES, *NAMES])
        found.update(meant[word.lower()])
    return frozenset(found)


def hidden_columns(only: Collection[str] | None) -> frozenset[str]:
    """The columns that no chosen statistic needs.

    Args:
        only: names of `NAMES`, or None for all.

    Returns:
        Names of columns.
    """
    if only is None:
        return frozenset()
    return frozenset(
        column for columns, names in _NEEDED_BY if not {*names} & {*only} for column in columns
    )


def unread_fields(hidden: Collection[str]) -> frozenset[str]:
    """The fields of rows that are in hidden columns alone.

    Args:
        hidden: of `hidden_columns`.

    Returns:
        Names of fields.
    """
    inside, outside = set[str](), set[str]()
    for column in NARROW_COLUMNS:
        (inside if column.name in hidden else outside).update(fields_of(column))
    return frozenset(inside - outside)
