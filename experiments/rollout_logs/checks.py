"""Which refusal, if any, a statistic of this log meets. Each check looks at one condition; the first that is met speaks."""

from collections.abc import Callable, Iterable

import numpy as np

from experiments.rollout_logs.refusals import Refused, refuse
from experiments.rollout_logs.task_table import Log

Check = Callable[[Log], Refused | None]

MISSING_SHARE = 0.01


def first_refusal(log: Log, checks: Iterable[Check]) -> Refused | None:
    """The first condition that is met.

    Args:
        log: its facts and table.
        checks: in the order in which they speak.

    Returns:
        The refusal, or None where the number is honest.
    """
    return next((found for check in checks if (found := check(log)) is not None), None)


def has(*names: str) -> Check:
    """R0: every one of these columns is in some row.

    Args:
        *names: of columns.

    Returns:
        The check.
    """

    def check(log: Log) -> Refused | None:
        absent = [name for name in names if not log.facts.present[name]]
        if not absent:
            return None
        return refuse("R0", f"no row has {' or '.join(shown(name) for name in absent)}")

    return check


def shown(name: str) -> str:
    """A column under the name of its field.

    Args:
        name: of the column.

    Returns:
        Its field in the schema.
    """
    fields = {
        "trajectory": "tokens or text_sha256",
        "answer_code": "answer",
        "truncated": "finish_reason",
        "failed": "error",
    }
    return fields.get(name, name)


def has_success(log: Log) -> Refused | None:
    """R0 or R10: something says what a success is."""
    if log.success.source is not None:
        return None
    if not log.facts.present["reward"]:
        return refuse("R0", "no row has correct or reward")
    if log.facts.reward_range is None:
        return refuse("R11", "no reward is finite")
    low, high = log.facts.reward_range
    return refuse("R10", f"rewards are from {low:g} to {high:g} and no row has correct")


def independent(log: Log) -> Refused | None:
    """R3: rows of a prompt are independent draws."""
    if not log.facts.related_prompts:
        return None
    return refuse(
        "R3",
        f"{log.facts.related_prompts} of {log.facts.prompts} prompts have rows that are related",
    )


def independent_or_all(column: str, k: int) -> Check:
    """R3, except where k is all rows of every task: what is then chosen was chosen from a population as it was drawn.

    Args:
        column: of the table, samples of each task.
        k: asked for.

    Returns:
        The check.
    """

    def check(log: Log) -> Refused | None:
        return None if takes_all(log, column, k) else independent(log)

    return check


def takes_all(log: Log, column: str, k: int) -> bool:
    """Whether k is all rows of every task, with or without those that a statistic leaves out.

    Args:
        log: its table.
        column: of the table, samples of each task.
        k: asked for.

    Returns:
        Whether there is one subset a task.
    """
    return bool((log.table[column] == k).all() and (log.table["rows"] == k).all())


def of_all_rows(log: Log, column: str, k: int) -> tuple[str, ...]:
    """The note that goes with `independent_or_all`.

    Args:
        log: facts and table.
        column: of the table, samples of each task.
        k: asked for.

    Returns:
        One line, or none where rows are independent.
    """
    if not log.facts.related_prompts or not takes_all(log, column, k):
        return ()
    return (
        f"chosen among all {k} related rows of each task: no estimate for {k} independent ones",
    )


def one_policy(log: Log) -> Refused | None:
    """R4: rows of a prompt come from one policy under one setting."""
    facts = log.facts
    if facts.mixed_policies:
        return refuse(
            "R4", f"{facts.mixed_policies} of {facts.prompts} prompts have several policies"
        )
    if facts.mixed_settings:
        return refuse(
            "R4", f"{facts.mixed_settings} of {facts.prompts} prompts have several sampler settings"
        )
    return None


def enough_samples(column: str, k: int) -> Check:
    """R1: every task has k samples.

    Args:
        column: of the table, samples of each task.
        k: asked for.

    Returns:
        The check.
    """

    def check(log: Log) -> Refused | None:
        sizes = log.table[column]
        short = int(np.count_nonzero(sizes < k))
        if not short:
            return None
        return refuse(
            "R1",
            f"k = {k}, and {short} of {sizes.size} prompts have fewer samples (least {int(sizes.min())})",
        )

    return check


def few_missing(name: str) -> Check:
    """R8: at most 1 % of the rows lack a usable value.

    Args:
        name: of the column: a log probability or the score.

    Returns:
        The check.
    """

    def check(log: Log) -> Refused | None:
        missing = missing_of(log, name)
        if missing <= MISSING_SHARE * log.facts.rows:
            return None
        return refuse("R8", f"{missing} of {log.facts.rows} rows have no usable {name}")

    return check


def missing_of(log: Log, name: str) -> int:
    """Rows without a usable value.

    Args:
        log: its facts.
        name: of the column.

    Returns:
        Absent, not finite, or (log probabilities) positive or a stand-in.
    """
    facts = log.facts
    odd = facts.score_not_finite if name == "score" else facts.unusable.get(name, 0)
    return facts.rows - facts.present[name] + odd


def verifiers_differ(log: Log) -> Refused | None:
    """R6: what selects is not what grades."""
    if not log.facts.same_verifier:
        return None
    return refuse(
        "R6", f"{log.facts.same_verifier} rows have verifier_id_search = verifier_id_final"
    )


def scores_not_negative(log: Log) -> Refused | None:
    """R12: weights of a vote are not negative."""
    span = log.facts.score_range
    if span is None or span[0] >= 0:
        return None
    return refuse("R12", f"scores from {span[0]:g} to {span[1]:g} are weights of a vote")


def scores_are_probabilities(log: Log) -> Refused | None:
    """R12: scores are in [0, 1]."""
    span = log.facts.score_range
    if span is None or (span[0] >= 0 and span[1] <= 1):
        return None
    return refuse("R12", f"scores are from {span[0]:g} to {span[1]:g}")
