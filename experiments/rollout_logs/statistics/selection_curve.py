"""expected_proxy@k and whether what is selected turns down while its score rises: indicators, no verdicts."""

import numpy as np

from experiments.rollout_logs.analysis import Statistic
from experiments.rollout_logs.checks import (
    enough_samples,
    few_missing,
    first_refusal,
    has,
    has_success,
    independent,
    one_policy,
    verifiers_differ,
)
from experiments.rollout_logs.drafts import Draft, least_and_most, mean_over_tasks, refused
from experiments.rollout_logs.refusals import Refused, refuse_for
from experiments.rollout_logs.statistics.calibration import noise_rise
from experiments.rollout_logs.statistics.of_scores import INDICATOR, of_scores
from experiments.rollout_logs.task_table import Column, Log
from theory.estimators.indicators import turn_down

_OF_THE_CURVE = ("best_of_n_peak", "best_of_n_drop", "selected_proxy_rise")


def drafts(log: Log) -> list[Draft]:
    """The statistics.

    Args:
        log: facts and table.

    Returns:
        expected_proxy@K for every k, then best_of_n_peak, best_of_n_drop and selected_proxy_rise.
    """
    wants = log.options.wants
    made = [_proxy(log, k) for k in log.options.ks if wants("expected_proxy@K")]
    return made + (_shape(log) if wants(*_OF_THE_CURVE) else [])


def _statistic(log: Log, name: str, estimator: str, unit: str) -> Statistic:
    return of_scores(log, name, f"{estimator}: {INDICATOR}", unit)._replace(ties="averaged")


def _refusal(log: Log, k: int) -> Refused | None:
    checks = (
        has("score"),
        has_success,
        verifiers_differ,
        independent,
        one_policy,
        few_missing("score"),
        enough_samples("scored_known", k),
    )
    return first_refusal(log, checks)


def _greatest(log: Log, k: int) -> Column:
    return log.table[f"optimism@{k}"] + log.table[f"best_of_n@{k}"]


def _proxy(log: Log, k: int) -> Draft:
    statistic = _statistic(
        log,
        f"expected_proxy@{k}",
        f"greatest score among {k} rows, exact mean over all subsets of {k}, then over tasks, beside best_of_n@{k}",
        "score",
    )
    refusal = _refusal(log, k)
    if refusal is not None:
        return refused(statistic, refusal)
    sizes = log.table["scored_known"]
    number = log.table["score_known"]
    mean = float(np.mean((log.table["score_sum"] / np.maximum(number, 1.0))[number > 0]))
    note = f"normal scores of noise with this mean and this spread within tasks would reach about {mean + noise_rise(log, k):.4g}"
    made = statistic._replace(samples=least_and_most(sizes), notes=(note,))
    return mean_over_tasks(made, _greatest(log, k))


def _shape(log: Log) -> list[Draft]:
    ks = [k for k in sorted(log.options.ks) if _refusal(log, k) is None]
    made = [
        _statistic(log, "best_of_n_peak", "the k with the greatest best_of_n@k", "k"),
        _statistic(
            log,
            "best_of_n_drop",
            "best_of_n@k from its peak to the greatest k, mean over tasks, each after the peak that the other half of the tasks shows",
            "task",
        ),
        _statistic(
            log,
            "selected_proxy_rise",
            "expected_proxy@k over the same k as best_of_n_drop, mean over tasks",
            "score",
        ),
    ]
    refusal = _refusal(log, min(log.options.ks))
    if refusal is None and (len(ks) < 2 or log.facts.prompts < 2):
        refusal = refuse_for(
            "R1",
            "a curve that turns needs at least two k with enough rows, and two prompts",
            "ask for several k with --k",
        )
    if refusal is not None:
        return [refused(each, refusal) for each in made]
    gold = np.stack([log.table[f"best_of_n@{k}"] for k in ks], axis=1)
    found = turn_down(gold, np.stack([_greatest(log, k) for k in ks], axis=1))
    peak = ks[int(gold.mean(axis=0).argmax())]
    noise = float(
        np.mean([noise_rise(log, ks[-1]) - noise_rise(log, ks[place]) for place in found.peaks])
    )
    words = (
        f"peaks of the two halves: k = {ks[found.peaks[0]]} and {ks[found.peaks[1]]}, of {', '.join(map(str, ks))}",
        "scores that say nothing would give 0; it is below 0 where the curve still rises",
    )
    rise = (
        f"normal scores of noise with this spread within tasks would rise by about {noise:.4g}",
    )
    sizes = log.table["scored_known"]
    samples = least_and_most(sizes)
    first, second, third = (each._replace(samples=samples) for each in made)
    note = "chosen from these tasks: another log may have its peak elsewhere"
    return [
        Draft(first._replace(value=float(peak), tasks=log.facts.prompts, notes=(note,))),
        mean_over_tasks(second._replace(notes=words), found.drop),
        mean_over_tasks(third._replace(notes=rise), found.rise),
    ]
