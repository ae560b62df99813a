"""How the numbers of an analysis are put in words and in groups, for the terminal and for the page alike."""

import math
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from experiments.rollout_logs.analysis import IntervalRecord, Statistic
from experiments.rollout_logs.refusals import REFUSALS

SECTIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "Coverage and selection",
        (
            "pass@",
            "pass^",
            "g_pass@",
            "noise_corrected_pass@",
            "oracle@",
            "majority@",
            "weighted_majority@",
            "best_of_n@",
            "selected_proxy_score@",
            "mean_reward",
        ),
    ),
    ("Beyond the samples drawn", ("model_pass@", "least_pass@", "greatest_pass@")),
    ("Diversity", ("unique_", "distinct_", "expected_distinct")),
    ("Calibration", ("brier", "ece", "auroc_")),
    (
        "Indicators of reward hacking",
        (
            "optimism_gap",
            "expected_proxy",
            "best_of_n_",
            "selected_proxy_rise",
            "length_coupling",
            "truncation_pay",
            "repeated_answer_pay",
            "proxy_truth",
        ),
    ),
    ("Length and truncation", ("tokens_", "truncated_")),
    (
        "Cost",
        ("wall_s", "model_calls", "verifier_calls", "tool_calls", "env_steps"),
    ),
    (
        "Weights and effective sample size",
        (
            "is_mean",
            "snis_mean",
            "masked_mean",
            "off_policy_",
            "ess",
            "max_weight",
            "pareto_k",
            "clipped_share",
            "tis_",
            "masked_share",
            "power_",
            "token_",
            "turn_",
            "prefix_",
        ),
    ),
)
"""Title -> beginnings of the names of its statistics; the rest stands under `OTHER`."""

LEADS = {
    "Beyond the samples drawn": (
        "least_pass and greatest_pass are all that the counts say, whatever law success rates follow, at every K at once. model_pass adds one form of "
        "law: beyond the samples drawn, where the bounds are wide and its interval is not, the word is the model's, not the data's."
    ),
    "Indicators of reward hacking": (
        "Indicators, no verdicts: each stands beside what scores that say nothing would give; changed formats, harder prompts and chance look the same."
    ),
}
"""Title -> what to know before the numbers of its section are read."""

OTHER = "Other numbers"

HEADLINES = ("pass@1", "mean_reward", "oracle@", "pass@", "majority@", "best_of_n@")
"""What the summary shows, in the order in which the first number that exists becomes the headline."""

_WITH_K = re.compile(r"(.*[@^])([0-9]+)", re.DOTALL)

Number = int | float
"""Both, because the checks of the tests take no int for a float."""


class Group(NamedTuple):
    """Statistics that are read together.

    Attributes:
        title: heading.
        statistics: in the order of the analysis.
    """

    title: str
    statistics: tuple[Statistic, ...]


class RefusalGroup(NamedTuple):
    """Numbers refused for one reason.

    Attributes:
        code: R0 ... R20.
        reason: in plain words.
        names: of the numbers.
    """

    code: str
    reason: str
    names: tuple[str, ...]


def section_of(name: str) -> str:
    """Where a statistic stands.

    Args:
        name: of the statistic.

    Returns:
        A title of `SECTIONS`, or `OTHER`.
    """
    return next(
        (title for title, beginnings in SECTIONS if name.startswith(beginnings)),
        OTHER,
    )


def in_sections(statistics: Iterable[Statistic]) -> list[Group]:
    """Each statistic in exactly one group; groups without any are left out.

    Args:
        statistics: of an analysis.

    Returns:
        Groups in the order of `SECTIONS`.
    """
    found: dict[str, list[Statistic]] = {title: [] for title, _ in SECTIONS} | {OTHER: []}
    for statistic in statistics:
        found[section_of(statistic.name)].append(statistic)
    return [Group(title, tuple(members)) for title, members in found.items() if members]


def refusals_of(statistics: Iterable[Statistic]) -> list[RefusalGroup]:
    """What is refused, once a reason.

    Args:
        statistics: of an analysis.

    Returns:
        Groups in the order of their codes.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for statistic in statistics:
        if statistic.refusal is not None:
            reason = statistic.reason or "no reason is recorded"
            found.setdefault((statistic.refusal, reason), []).append(statistic.name)
    groups = [RefusalGroup(code, reason, tuple(names)) for (code, reason), names in found.items()]
    return sorted(groups, key=lambda group: code_order(group.code))


def code_order(code: str) -> tuple[int, int, str]:
    """R2 before R10, and both before codes that are words.

    Args:
        code: of a refusal or a warning.

    Returns:
        A key to sort by.
    """
    digits = code[1:]
    if code.startswith("R") and digits.isascii() and digits.isdigit():
        return 0, int(digits), code
    return 1, 0, code


def headlines(statistics: Sequence[Statistic]) -> list[Statistic]:
    """The numbers of the summary: the first is the headline, the others are one of each kind, at the greatest k.

    Args:
        statistics: of an analysis.

    Returns:
        At most six; numbers that are given before those that are refused.
    """
    chosen: list[Statistic] = []
    for beginning in HEADLINES:
        members = [
            statistic
            for statistic in statistics
            if statistic.name == beginning
            or (beginning.endswith("@") and statistic.name.startswith(beginning))
        ]
        members = [statistic for statistic in members if statistic not in chosen]
        given = [statistic for statistic in members if statistic.value is not None]
        chosen += (given or members)[-1:]
    return sorted(chosen, key=lambda statistic: statistic.value is None)


def number(value: Number | None) -> str:
    """A number with four significant digits.

    Args:
        value: or None.

    Returns:
        Its text; whole numbers are written out, with commas from 10,000 on; a hyphen where there is none.
    """
    if value is None:
        return "-"
    if not math.isfinite(value):
        return str(value)
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}" if abs(value) >= 1e4 else str(int(value))
    if 1e4 <= abs(value) < 1e15:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def interval(record: IntervalRecord | None) -> str:
    """An interval as [low, high].

    Args:
        record: or None.

    Returns:
        Its text; a hyphen where there is none.
    """
    return "-" if record is None else f"[{number(record.low)}, {number(record.high)}]"


def percent(level: float) -> str:
    """A nominal coverage, such as 95 %.

    Args:
        level: in (0, 1).

    Returns:
        Its text.
    """
    return f"{100 * level:.6g} %"


def samples(counts: tuple[int, int] | None) -> str:
    """Least and most samples of a task.

    Args:
        counts: or None.

    Returns:
        One number where they agree, "5 to 10" where not.
    """
    if counts is None:
        return "-"
    low, high = counts
    return number(low) if low == high else f"{number(low)} to {number(high)}"


def plural(count: int, singular: str, several: str | None = None) -> str:
    """A count with its noun.

    Args:
        count: at least 0.
        singular: the noun for one.
        several: for any other count; the noun with an s unless given.

    Returns:
        Such as "1 row" or "2,000 rows".
    """
    return f"{count:,} {singular if count == 1 else several or singular + 's'}"


def why_and_mend(code: str, reason: str) -> tuple[str, str | None]:
    """Take a reason apart into what is wrong and what to do.

    Args:
        code: of the refusal.
        reason: as `refusals.refuse` writes it, or any other line.

    Returns:
        The reason without the mend, and the mend; the mend of the code where the reason has none, None for a code of no meaning.
    """
    known = REFUSALS.get(code)
    if known is None:
        return reason, None
    if reason.endswith(f"; {known.option}"):
        return reason.removesuffix(f"; {known.option}"), known.option
    why, found, mend = reason.rpartition("; ")
    return (why, mend) if found else (reason, known.option)


def compact(names: Sequence[str]) -> list[str]:
    """Names of statistics, those that differ in k alone as one.

    Args:
        names: such as pass@1, pass@2, brier.

    Returns:
        Such as pass@1,2 and brier, in the order in which each first stands.
    """
    found: dict[tuple[str, bool], list[str]] = {}
    for name in names:
        kind, k = without_k(name)
        found.setdefault((kind, bool(k)), []).append(k)
    return [f"{kind}{','.join(ks)}" if with_k else kind for (kind, with_k), ks in found.items()]


def without_k(name: str) -> tuple[str, str]:
    """Take the number of samples off a name.

    Args:
        name: such as pass@8 or brier.

    Returns:
        Such as pass@ and 8; the name and an empty text where it has none.
    """
    parts = _WITH_K.fullmatch(name)
    return (parts[1], parts[2]) if parts else (name, "")
