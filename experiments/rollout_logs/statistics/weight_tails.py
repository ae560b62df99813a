"""pareto_k and power_alpha_limit: whether weights can be trusted at all, and how far sequence power can be taken (see `weight_tails`)."""

from collections.abc import Mapping

import numpy as np

from experiments.rollout_logs.checks import Check, first_refusal
from experiments.rollout_logs.drafts import Draft, refused, wanted
from experiments.rollout_logs.refusals import refuse_for
from experiments.rollout_logs.statistics import weights
from experiments.rollout_logs.task_table import Log
from experiments.rollout_logs.weight_tails import AlphaLimit, Tail
from theory.estimators.off_policy.diagnostics import LEAST_FOR_TAIL
from theory.estimators.off_policy.power import LARGEST_ALPHA

LIMIT = 0.7


def drafts(log: Log, tails: Mapping[str, Tail], limit: AlphaLimit | None) -> list[Draft]:
    """The statistics.

    Args:
        log: facts and table.
        tails: of the weights that are there.
        limit: on the exponent, where it was searched.

    Returns:
        pareto_k, with an exponent power_pareto_k, and power_alpha_limit.
    """
    made = [("pareto_k", lambda: _shape(log, "pareto_k", "is", weights.weight_checks(log), tails))]
    if log.options.power_alpha is not None:
        checks = weights.power_checks()
        made.append(
            ("power_pareto_k", lambda: _shape(log, "power_pareto_k", "power", checks, tails))
        )
    return wanted(log.options, *made, ("power_alpha_limit", lambda: _limit(log, limit)))


def _shape(
    log: Log, name: str, kind: str, checks: tuple[Check, ...], tails: Mapping[str, Tail]
) -> Draft:
    relative = " relative to the mean of their task" if kind == "power" else ""
    statistic = weights.statistic_of(
        log,
        name,
        f"shape of a generalised Pareto law of the largest of all weights{relative}",
        "row",
        kind,
    )
    refusal = first_refusal(log, checks)
    if refusal is None:
        shape, size = tails[kind]
        if size < LEAST_FOR_TAIL:
            refusal = refuse_for(
                "R0",
                f"{size} rows have a weight, and the fit of a tail needs {LEAST_FOR_TAIL}",
                "analyze more rows",
            )
        elif np.isneginf(shape):
            refusal = refuse_for(
                "R0",
                "the largest weights are equal, so there is no tail to fit and no sign of a heavy one",
                "read ess",
            )
        elif not np.isfinite(shape):
            refusal = refuse_for(
                "R0",
                "too few of the largest weights differ for the fit of a tail",
                "read max_weight",
            )
        else:
            notes = (
                f"above {LIMIT:g} means by these weights cannot be trusted, whatever ess says; above 1 the weights have no mean",
                f"of {size} weights; what was never drawn has no weight in it",
            )
            tasks = int(np.count_nonzero(log.table[f"{kind}_number"]))
            return Draft(statistic._replace(value=shape, notes=notes, tasks=tasks))
    return refused(statistic, refusal)


def _limit(log: Log, limit: AlphaLimit | None) -> Draft:
    least = weights.LEAST_ESS
    statistic = weights.statistic_of(
        log,
        "power_alpha_limit",
        f"exponent at which the median over tasks of the ess of p^alpha falls under {least:g}, searched from 1 to {LARGEST_ALPHA:g}",
        "exponent",
        "limit",
    )
    refusal = first_refusal(log, weights.power_checks())
    if refusal is not None or limit is None:
        if refusal is None:
            refusal = refuse_for("R8", "no row has both log probabilities", "record them")
        return refused(statistic, refusal)
    if np.isnan(limit.alpha):
        refusal = refuse_for(
            "R20",
            f"the median ess is under {least:g} at alpha = 1 already",
            "draw more rows of each prompt, or from the base policy",
        )
        return refused(statistic, refusal)
    notes = (f"the limit is a median ess of {least:g}",)
    if limit.tasks < log.facts.prompts:
        notes = (*notes, f"of {limit.tasks} prompts chosen at random of {log.facts.prompts}")
    if np.isinf(limit.alpha):
        notes = (
            *notes,
            "the median ess keeps the limit up to the end of the search: at least this",
        )
    return Draft(
        statistic._replace(
            value=min(limit.alpha, LARGEST_ALPHA),
            interval=limit.interval,
            tasks=limit.tasks,
            notes=notes,
            seed=log.options.seed if limit.tasks < log.facts.prompts else None,
        )
    )
