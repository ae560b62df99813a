"""noise_corrected_pass@k: pass@k of true correctness where the error rates of the verifier are known."""

from experiments.rollout_logs.drafts import Draft
from experiments.rollout_logs.statistics.coverage import counted
from experiments.rollout_logs.task_table import Log
from theory.estimators.off_policy import noise_corrected_pass_at_k


def drafts(log: Log) -> list[Draft]:
    """The statistics, where both rates are given.

    Args:
        log: facts and table.

    Returns:
        noise_corrected_pass@K for every k, or none.
    """
    rates = log.options.verifier_rates
    return [] if rates is None else [_corrected(log, k, *rates) for k in log.options.ks]


def _corrected(log: Log, k: int, tpr: float, fpr: float) -> Draft:
    draft = counted(
        log,
        f"noise_corrected_pass@{k}",
        f"pass@{k} with each verdict v replaced by (v - {fpr:g}) / ({tpr:g} - {fpr:g}), exact mean over all subsets of {k}",
        k,
        lambda sizes, passed, k: noise_corrected_pass_at_k(sizes, passed, k, tpr, fpr),
    )
    if draft.statistic.refusal is not None:
        return draft
    notes = (
        f"unbiased if the verifier passes {tpr:g} of the correct and {fpr:g} of the wrong rows, each independently of the others",
        "may leave [0, 1]: cutting it off would bias it",
    )
    return draft._replace(statistic=draft.statistic._replace(notes=notes))
