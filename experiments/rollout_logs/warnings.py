"""What the reader of the numbers must know, in the order of the codes."""

from collections.abc import Mapping, Sequence

from experiments.rollout_logs.analysis import Statistic, Warned
from experiments.rollout_logs.checks import missing_of
from experiments.rollout_logs.refusals import warn
from experiments.rollout_logs.staging import Staged
from experiments.rollout_logs.task_table import Log

FEW_TASKS = 20
TRUNCATED_SHARE = 0.05


def warnings_of(
    log: Log, staged: Staged, duplicates: Mapping[str, int], statistics: Sequence[Statistic]
) -> tuple[Warned, ...]:
    """Everything that was found beside the numbers.

    Args:
        log: facts and table.
        staged: what was left out while reading.
        duplicates: prompt -> copies left out.
        statistics: with their refusals.

    Returns:
        The warnings.
    """
    facts = log.facts
    found: list[Warned] = [
        Warned(
            _code(reason),
            f"{number} left out: {reason} ({', '.join(staged.examples[reason])})",
            number,
        )
        for reason, number in sorted(staged.excluded.items())
    ]
    if duplicates:
        names = ", ".join(list(duplicates)[:5])
        found.append(
            warn(
                "R2", f"copies of rows were left out, of prompts {names}", sum(duplicates.values())
            )
        )
    missing = missing_of(log, "score")
    if facts.present["score"] and missing:
        found.append(
            warn(
                "R8",
                f"{missing} rows have no finite score and are left out of score statistics",
                missing,
            )
        )
    for name, number in facts.unusable.items():
        if number:
            found.append(
                warn(
                    "R8",
                    f"{number} rows have a {name} that is positive, not finite or a stand-in",
                    number,
                )
            )
    if facts.reward_not_finite or facts.failed:
        number = facts.reward_not_finite + facts.failed
        found.append(
            warn(
                "R11",
                f"{facts.reward_not_finite} rewards are not finite and {facts.failed} rows have an error",
                number,
            )
        )
    if facts.prompts < FEW_TASKS:
        found.append(warn("R14", f"{facts.prompts} prompts", facts.prompts))
    if facts.truncated > TRUNCATED_SHARE * facts.rows:
        found.append(
            warn(
                "R15",
                f"{facts.truncated} of {facts.rows} rows ({facts.truncated / facts.rows:.1%}) were truncated",
                facts.truncated,
            )
        )
    return tuple(sorted([*found, *_refusals(statistics)], key=_rank))


def _code(reason: str) -> str:
    return reason if reason == "unreadable" else reason.replace(" ", "-")


def _refusals(statistics: Sequence[Statistic]) -> list[Warned]:
    """Each refusal but R0 once, with the statistics that it took."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for statistic in statistics:
        if statistic.refusal not in (None, "R0") and statistic.reason is not None:
            reasons.setdefault((str(statistic.refusal), statistic.reason), []).append(
                statistic.name
            )
    return [
        Warned(code, f"{', '.join(names)} refused: {reason}", len(names))
        for (code, reason), names in reasons.items()
    ]


def _rank(warned: Warned) -> tuple[int, str]:
    code = warned.code
    return (int(code[1:]), "") if code[0] == "R" and code[1:].isdigit() else (-1, code)
