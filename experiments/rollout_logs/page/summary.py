"""The top of the page: what the log says in one line, what is refused and why, and what else its reader must know."""

from collections.abc import Mapping, Sequence

from experiments.rollout_logs.analysis import Analysis, Counts, Statistic, Warned
from experiments.rollout_logs.page.markup import Child, Markup, element, fragment, from_log
from experiments.rollout_logs.page.statistics import value_of
from experiments.rollout_logs.page.tables import behind, pairs, table
from experiments.rollout_logs.visible_text import LINE_LIMIT, NAME_LIMIT
from experiments.rollout_logs.wording import (
    RefusalGroup,
    code_order,
    compact,
    headlines,
    interval,
    number,
    percent,
    plural,
    refusals_of,
    samples,
    why_and_mend,
)

MOST_LISTED = 200
"""Warnings, files and fields that are listed; the rest is counted."""


def summary(analysis: Analysis) -> Markup:
    """The headline with its interval, other main numbers, rows used and numbers refused.

    Args:
        analysis: of some logs.

    Returns:
        The content of the first section.
    """
    main = headlines(analysis.statistics)
    tiles = element("ul", *map(_tile, main[1:]), class_="tiles") if main[1:] else None
    return fragment(
        _headline(main[0]) if main else element("p", "No number was asked for."),
        tiles,
        _refused_line(analysis),
        element("p", _rows(analysis.counts)),
    )


def refused(statistics: Sequence[Statistic]) -> Markup:
    """Every refusal once: the numbers, the reason, and what would make them honest.

    Args:
        statistics: of an analysis.

    Returns:
        The content of the section.
    """
    groups = refusals_of(statistics)
    if not groups:
        return element("p", "No number that was asked for is refused.")
    lead = "These numbers are not given, because this log cannot support them honestly."
    # What the log cannot support comes before what it merely does not have.
    codes = sorted(_codes(groups), key=lambda code: code == "R0")
    by_code = {code: [group for group in groups if group.code == code] for code in codes}
    return fragment(element("p", lead), *(_refusal(*one) for one in by_code.items()))


def warnings(warned: Sequence[Warned], statistics: Sequence[Statistic]) -> Markup:
    """What the reader of the numbers must know; a warning that only repeats a refusal is counted.

    Args:
        warned: of an analysis.
        statistics: of it.

    Returns:
        The content of the section.
    """
    if not warned:
        return element("p", "Nothing to warn of.")
    repeated = {
        (group.code, f"{', '.join(group.names)} refused: {group.reason}")
        for group in refusals_of(statistics)
    }
    ordered = sorted(
        (one for one in warned if (one.code, one.message) not in repeated),
        key=lambda one: code_order(one.code),
    )
    less = len(ordered) - MOST_LISTED
    rows = [
        (
            element("span", from_log(one.code, NAME_LIMIT), class_="code"),
            from_log(one.message, LINE_LIMIT),
            number(one.num_rows),
        )
        for one in ordered[:MOST_LISTED]
    ]
    headings = ("code", "what was found, and what to do", "rows, prompts or lines")
    caption = plural(len(ordered), "warning")
    if said := len(warned) - len(ordered):
        caption += f"; {said:,} more say what is refused above"
    more = element("p", f"{plural(less, 'more warning')} not shown", class_="soft")
    return fragment(
        table("warnings-caption", caption, headings, rows, numeric=frozenset({2})),
        more if less > 0 else None,
    )


def origin(analysis: Analysis) -> Markup:
    """Where the rows come from and what shaped the numbers: files, fields, rows left out, options, versions of rules.

    Args:
        analysis: of some logs.

    Returns:
        The content of the section.
    """
    counts = analysis.counts
    return fragment(
        element("h3", "Files"),
        pairs(
            [
                ("format", from_log(analysis.format, NAME_LIMIT)),
                *(("file", from_log(name, LINE_LIMIT)) for name in analysis.inputs[:MOST_LISTED]),
                *_rest(len(analysis.inputs)),
            ]
        ),
        element("h3", "Rows"),
        element("p", _rows(counts)),
        _named_counts("excluded-caption", "Rows left out", "reason", counts.excluded),
        element("h3", "Fields"),
        _field_map(analysis.field_map),
        element("p", "Never in this log: ", _listed(analysis.absent)),
        _named_counts("missing-caption", "Rows used that lack a field", "field", counts.missing),
        element("h3", "Options and versions of rules"),
        pairs(
            [
                (from_log(name, NAME_LIMIT), from_log(value, LINE_LIMIT))
                for name, value in analysis.options.items()
            ]
        ),
    )


def _headline(statistic: Statistic) -> Markup:
    name = from_log(statistic.name, NAME_LIMIT)
    if statistic.value is None:
        return element("p", name, " is ", value_of(statistic), class_="headline")
    found = statistic.interval
    range_ = f" {interval(found)}" if found else ""
    words = element(
        "p", name, " = ", element("strong", value_of(statistic)), range_, class_="headline"
    )
    return fragment(words, element("p", *_basis(statistic), class_="soft"))


def _basis(statistic: Statistic) -> list[Child]:
    found = statistic.interval
    parts: list[Child] = []
    if found is not None:
        method = from_log(found.method, NAME_LIMIT)
        parts += [f"{percent(found.level)} interval, ", method, "; "]
    else:
        parts.append("no interval; ")
    parts.append(plural(statistic.tasks, "task"))
    if statistic.samples is not None:
        parts.append(f", {samples(statistic.samples)} samples each")
    if statistic.estimator:
        parts += ["; ", from_log(statistic.estimator, NAME_LIMIT)]
    return parts


def _tile(statistic: Statistic) -> Markup:
    lines: list[Child] = [
        element("span", from_log(statistic.name, NAME_LIMIT)),
        element("b", value_of(statistic)),
    ]
    if statistic.value is not None:
        found = f"{interval(statistic.interval)}, " if statistic.interval else "no interval, "
        lines.append(element("span", found + plural(statistic.tasks, "task")))
    return element("li", *lines)


def _refused_line(analysis: Analysis) -> Markup:
    names = [found.name for found in analysis.statistics if found.refusal is not None]
    total = plural(len(analysis.statistics), "number")
    warned = plural(len(analysis.warnings), "warning")
    if not names:
        return element(
            "p", f"None of {total} refused; ", element("a", warned, href="#warnings"), "."
        )
    link = element("a", f"{len(names)} of {total} refused", href="#refused", class_="refused")
    groups = refusals_of(analysis.statistics)
    codes = [
        fragment(" " if i else None, from_log(x, NAME_LIMIT)) for i, x in enumerate(_codes(groups))
    ]
    return element("p", link, " (", *codes, "); ", element("a", warned, href="#warnings"), ".")


def _codes(groups: Sequence[RefusalGroup]) -> list[str]:
    return list(dict.fromkeys(group.code for group in groups))


def _refusal(code: str, groups: Sequence[RefusalGroup]) -> Markup:
    found = [(group.names, *why_and_mend(code, group.reason)) for group in groups]
    names = [name for group in groups for name in group.names]
    title = element("h3", from_log(code, NAME_LIMIT), ": ", plural(len(names), "number"))
    why = [
        element("p", element("b", _listed(compact(names))), ": ", from_log(words, LINE_LIMIT))
        for names, words, _ in found[:MOST_LISTED]
    ]
    less = len(found) - len(why)
    more = element("p", plural(less, "more reason"), " not shown") if less > 0 else None
    mends = dict.fromkeys(mend for _, _, mend in found if mend is not None)
    advice = [
        element("p", element("b", "To have it honestly: "), from_log(mend, LINE_LIMIT))
        for mend in mends
    ]
    content = [*why, more, *advice]
    if code == "R0":  # a log lacks many fields; its reader looks for the others first
        content = [*advice, behind("Which numbers need which field", *why, more)]
    return element("div", title, *content, class_="notice")


def _rows(counts: Counts) -> str:
    low, high = counts.samples_per_prompt
    each = samples((low, high))
    left_out = sum(counts.excluded.values())
    return (
        f"{plural(counts.rows, 'row')} read = {counts.used:,} used + {left_out:,} left out. "
        f"{plural(counts.prompts, 'task')} with {each} samples each; {counts.truncated:,} rows cut at the horizon, "
        f"{counts.errors:,} with an error, {counts.duplicates:,} duplicates."
    )


def _field_map(fields: Mapping[str, str]) -> Markup:
    rows = [
        (from_log(name, NAME_LIMIT), from_log(source, NAME_LIMIT))
        for name, source in list(fields.items())[:MOST_LISTED]
    ]
    if not rows:
        return element("p", "No field was mapped.")
    caption = "Which field of the log each field was read from"
    return table("fields-caption", caption, ("field", "field of the log"), rows)


def _named_counts(
    name: str, caption: str, heading: str, counts: Mapping[str, int]
) -> Markup | None:
    rows = [
        (from_log(term, LINE_LIMIT), number(count))
        for term, count in list(counts.items())[:MOST_LISTED]
    ]
    if not rows:
        return None
    return table(name, caption, (heading, "rows"), rows, numeric=frozenset({1}))


def _listed(names: Sequence[str]) -> Markup:
    if not names:
        return fragment("none")
    parts = [
        fragment(", " if place else None, from_log(name, NAME_LIMIT))
        for place, name in enumerate(names[:MOST_LISTED])
    ]
    less = len(names) - len(parts)
    return fragment(*parts, f" and {less:,} more" if less > 0 else None)


def _rest(count: int) -> list[tuple[Child, Child]]:
    less = count - MOST_LISTED
    return [("not listed", plural(less, "more file"))] if less > 0 else []
