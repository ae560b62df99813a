"""An analysis on a terminal or in a pipe: the headline, what is refused and why, and every number with its interval."""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from experiments.rollout_logs.analysis import Analysis, Statistic
from experiments.rollout_logs.visible_text import LINE_LIMIT, NAME_LIMIT, on_one_line
from experiments.rollout_logs.wording import (
    LEADS,
    code_order,
    compact,
    headlines,
    in_sections,
    interval,
    number,
    percent,
    plural,
    refusals_of,
    samples,
    why_and_mend,
    without_k,
)
from experiments.terminal import make_table, print_table

MOST_FILES = 3
MOST_WARNINGS = 50


def print_analysis(analysis: Analysis, console: Console) -> None:
    """Print what a log says.

    Args:
        analysis: of some logs; text of the log is made visible, so that it cannot steer the terminal.
        console: made by `experiments.terminal.report_console`.
    """
    for line in _opening(analysis):
        _say(console, line)
    console.print()
    for group in in_sections(analysis.statistics):
        given = [one for one in group.statistics if _is_given(one)]
        if given:
            table = make_table("number", "value", "interval", "tasks", "samples")
            for statistic in given:
                table.add_row(*(_encodable(console, cell) for cell in _cells(statistic)))
            print_table(console, group.title, table)
            if lead := LEADS.get(group.title):
                _say(console, lead, indent=2)
        else:
            _say(console, group.title)
        if refused := list(_refused(group.statistics)):
            for line in refused:
                _say(console, line, indent=2)
            console.print()
    _say(console, "How they were made")
    for line in _making(analysis.statistics):
        _say(console, line, indent=2)
    if refusals := refusals_of(analysis.statistics):
        console.print()
        _say(console, "Refused, because this log cannot support them honestly")
    parted = [(one, *why_and_mend(one.code, one.reason)) for one in refusals]
    for (code, mend), members in groupby(parted, lambda one: (one[0].code, one[2])):
        for refusal, why, _ in members:
            names = ", ".join(on_one_line(name, NAME_LIMIT) for name in compact(refusal.names))
            _say(console, f"{on_one_line(code, NAME_LIMIT)}: {names}", indent=2)
            _say(console, on_one_line(why, LINE_LIMIT), indent=6)
        if mend is not None:
            _say(console, f"To have it honestly: {on_one_line(mend, LINE_LIMIT)}", indent=4)
    _print_warnings(analysis, console)


def _opening(analysis: Analysis) -> Iterable[str]:
    counts = analysis.counts
    names = [on_one_line(name, NAME_LIMIT) for name in analysis.inputs[:MOST_FILES]]
    more = len(analysis.inputs) - len(names)
    others = f" and {plural(more, 'more file')}" if more else ""
    yield f"{', '.join(names)}{others} ({on_one_line(analysis.format, NAME_LIMIT)})"
    left_out = sum(counts.excluded.values())
    yield (
        f"{plural(counts.rows, 'row')} read = {counts.used:,} used + {left_out:,} left out; "
        f"{plural(counts.prompts, 'task')}, {samples(counts.samples_per_prompt)} samples each"
    )
    for reason, count in counts.excluded.items():
        yield f"  left out, {on_one_line(reason, NAME_LIMIT)}: {number(count)}"
    if analysis.field_map:
        yield f"read: {', '.join(_fields(analysis.field_map))}"
    if analysis.absent:
        absent = ", ".join(on_one_line(name, NAME_LIMIT) for name in analysis.absent)
        yield f"not in this log: {absent}"
    for name in ("success", "answer rules"):
        if name in analysis.options:
            yield f"{name}: {on_one_line(analysis.options[name], LINE_LIMIT)}"
    for main in headlines(analysis.statistics)[:1]:
        if main.value is not None:
            yield f"{on_one_line(main.name, NAME_LIMIT)} = {number(main.value)} {interval(main.interval)}"
    refused = sum(one.refusal is not None for one in analysis.statistics)
    total = plural(len(analysis.statistics), "number")
    yield f"{refused} of {total} refused, {plural(len(analysis.warnings), 'warning')}"


def _fields(field_map: Mapping[str, str]) -> Iterable[str]:
    """Canonical fields, and the field of the log where that has another name."""
    for name, source in field_map.items():
        field, origin = on_one_line(name, NAME_LIMIT), on_one_line(source, NAME_LIMIT)
        yield field if name == source else f"{field} from {origin}"


def _is_given(statistic: Statistic) -> bool:
    return statistic.value is not None or statistic.refusal is None


def _refused(statistics: Iterable[Statistic]) -> Iterable[str]:
    """A line a code; the reasons follow further down."""
    found: dict[str, list[str]] = {}
    for statistic in statistics:
        if not _is_given(statistic):
            found.setdefault(str(statistic.refusal), []).append(statistic.name)
    for code, names in found.items():
        words = ", ".join(on_one_line(name, NAME_LIMIT) for name in compact(names))
        yield f"refused {on_one_line(code, NAME_LIMIT)}: {words}"


def _cells(statistic: Statistic) -> tuple[str, ...]:
    return (
        on_one_line(statistic.name, NAME_LIMIT),
        number(statistic.value),
        interval(statistic.interval),
        number(statistic.tasks),
        samples(statistic.samples),
    )


def _making(statistics: Iterable[Statistic]) -> Iterable[str]:
    """Estimator, unit and kind of interval, once for all numbers that share them."""
    kinds: dict[str, list[Statistic]] = {}
    for statistic in statistics:
        if statistic.value is not None:
            kinds.setdefault(without_k(statistic.name)[0], []).append(statistic)
    found: dict[str, list[str]] = {}
    for members in kinds.values():
        shared = _for_all_k(members)
        for statistic in members:
            found.setdefault(shared or _made(statistic), []).append(statistic.name)
    for made, names in found.items():
        yield f"{', '.join(on_one_line(name, NAME_LIMIT) for name in compact(names))}: {made}"


def _made(statistic: Statistic) -> str:
    parts = [f"unit {on_one_line(statistic.unit, NAME_LIMIT)}"]
    if statistic.estimator:
        parts.insert(0, on_one_line(statistic.estimator, LINE_LIMIT))
    if statistic.interval is not None:
        record = statistic.interval
        method = on_one_line(record.method, NAME_LIMIT)
        parts.append(f"{percent(record.level)} interval, {method}")
    else:
        parts.append("no interval")
    return "; ".join(parts)


def _for_all_k(statistics: Sequence[Statistic]) -> str | None:
    """How statistics that differ in k alone were made, in terms of k; None where that is not what they differ in."""
    made = {without_k(one.name)[1]: _made(one) for one in statistics}
    if len(made) < 2:
        return None
    greatest = max(made, key=lambda k: (len(k), k))
    words = re.sub(rf"\b{greatest}\b", "k", made[greatest])
    fits = (re.sub(r"\bk\b", k, words) == text for k, text in made.items())
    return words if all(fits) else None


def _print_warnings(analysis: Analysis, console: Console) -> None:
    if not analysis.warnings:
        return
    console.print()
    _say(console, "Warnings")
    ordered = sorted(analysis.warnings, key=lambda warned: code_order(warned.code))
    for warned in ordered[:MOST_WARNINGS]:
        code, message = (
            on_one_line(warned.code, NAME_LIMIT),
            on_one_line(warned.message, LINE_LIMIT),
        )
        _say(console, f"{code} ({number(warned.num_rows)}): {message}", indent=2)
    if len(ordered) > MOST_WARNINGS:
        _say(console, f"and {len(ordered) - MOST_WARNINGS:,} more", indent=2)


def _say(console: Console, line: str, indent: int = 0) -> None:
    text = Text(_encodable(console, line))
    console.print(Padding(text, (0, 0, 0, indent), expand=False))


def _encodable(console: Console, text: str) -> str:
    """What the stream cannot encode is written as Python escapes it."""
    return text.encode(console.encoding, "backslashreplace").decode(console.encoding)
