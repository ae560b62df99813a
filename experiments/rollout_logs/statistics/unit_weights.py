"""How much of a sample is left under weights of tokens, turns and prefixes: raw, and as trainers apply them (see `unit_weights`)."""

import numpy as np

from experiments.rollout_logs.analysis import Statistic
from experiments.rollout_logs.checks import MISSING_SHARE, Check, first_refusal, has, one_policy
from experiments.rollout_logs.drafts import (
    Draft,
    least_and_most,
    median_over_tasks,
    ratio_over_tasks,
    refused,
)
from experiments.rollout_logs.logp_checks import behavior_present, covers, processed, same_law
from experiments.rollout_logs.options import band_of
from experiments.rollout_logs.refusals import Refused, refuse
from experiments.rollout_logs.task_table import Column, Log
from experiments.rollout_logs.unit_weights import UNITS

_WORDS = {
    "token": "the ratio of each token: biased, the law of what came before is left as it is",
    "turn": "the product over the tokens of each turn",
    "prefix": "the product over all tokens up to each one: exact for the reward of that step",
}


def drafts(log: Log) -> list[Draft]:
    """The statistics.

    Args:
        log: facts and table.

    Returns:
        UNIT_ess_fraction, UNIT_tis_ess_fraction, UNIT_clipped_share and UNIT_masked_share for token, turn and prefix.
    """
    return [draft for unit in UNITS for draft in _of_unit(log, unit)]


def _of_unit(log: Log, unit: str) -> list[Draft]:
    clip = log.options.clip
    low, high = band_of(clip)
    refusal = first_refusal(log, _checks(unit))
    shapes = (
        (
            "ess_fraction",
            "(sum w)^2 / sum w^2 over the {0}s of a task, over their number, median over tasks",
        ),
        (
            "tis_ess_fraction",
            f"the same of min(w, {clip:g}), which flatters: cut weights are alike",
        ),
        ("clipped_share", f"{{0}}s with w > {clip:g} over all"),
        (
            "masked_share",
            f"{{0}}s with w outside of [{low:g}, {high:g}], which masking drops, over all",
        ),
    )
    units = "prefixe" if unit == "prefix" else unit
    return [_draft(log, unit, kind, words.format(units), refusal) for kind, words in shapes]


def _draft(log: Log, unit: str, kind: str, words: str, refusal: Refused | None) -> Draft:
    statistic = Statistic(
        f"{unit}_{kind}",
        None,
        estimator=f"{words}; w is {_WORDS[unit]}",
        unit=f"{unit}; resampled: tasks",
        policy=log.facts.policy._replace(evaluated="target policy"),
    )
    if refusal is not None:
        return refused(statistic, refusal)
    table = log.table
    rows, number = table[f"{unit}_rows"], table[f"{unit}_number"]
    missing = int(log.facts.rows - rows.sum())
    statistic = statistic._replace(
        samples=least_and_most(rows),
        excluded={"no weight": missing} if missing else {},
        missing=f"rows without a usable log probability of every token are left out ({missing})",
        nan="counts as missing",
    )
    if kind == "clipped_share":
        return ratio_over_tasks(statistic, table[f"{unit}_clipped"], number)
    if kind == "masked_share":
        return ratio_over_tasks(statistic, table[f"{unit}_masked"], number)
    applied = "applied_" if kind == "tis_ess_fraction" else ""
    sizes = _sizes(table[f"{unit}_{applied}log_total"], table[f"{unit}_{applied}log_squares"])
    known = sizes[np.isfinite(sizes)]
    notes = (
        (f"ess by task: median {np.median(known):.6g}, minimum {known.min():.6g}",)
        if known.size
        else ()
    )
    return median_over_tasks(
        statistic._replace(notes=notes), sizes / np.where(number > 0, number, np.nan)
    )


def _sizes(log_total: Column, log_squares: Column) -> Column:
    """Effective sample sizes; NaN where all weights are 0."""
    alive = np.isfinite(log_squares)
    return np.where(alive, np.exp(2 * np.where(alive, log_total, 0.0) - log_squares), np.nan)


def _checks(unit: str) -> tuple[Check, ...]:
    column = "turn_log_ratios" if unit == "turn" else "token_log_ratios"

    def by_token(log: Log) -> Refused | None:
        if log.facts.present[column]:
            return None
        lists = "target_logp_tokens and behavior_logp_tokens of one length"
        turns = " and turn_lengths that add up to it" if unit == "turn" else ""
        return refuse("R0", f"no row has {lists}{turns}, with a usable value of every token")

    def few_missing(log: Log) -> Refused | None:
        missing = log.facts.rows - log.facts.present[column]
        if missing <= MISSING_SHARE * log.facts.rows:
            return None
        return refuse(
            "R8", f"{missing} of {log.facts.rows} rows have no usable log probabilities by token"
        )

    return (
        has("target_logp"),
        behavior_present,
        by_token,
        one_policy,
        few_missing,
        processed,
        same_law("target_logp"),
        covers("target_logp"),
    )
