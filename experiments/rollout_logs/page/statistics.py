"""Statistics on the page: each with estimator, unit, tasks and interval, and how it was made."""

from collections.abc import Sequence

from experiments.rollout_logs.analysis import Statistic
from experiments.rollout_logs.page.markup import Child, Markup, element, fragment, from_log
from experiments.rollout_logs.page.tables import behind, pairs, table
from experiments.rollout_logs.visible_text import LINE_LIMIT, NAME_LIMIT
from experiments.rollout_logs.wording import (
    code_order,
    interval,
    number,
    percent,
    plural,
    samples,
)

HEADINGS = (
    "number",
    "value",
    "interval",
    "tasks",
    "samples a task",
    "estimator",
    "details",
)
NUMERIC = frozenset({1, 2, 3, 4})


def statistics_tables(name: str, title: str, statistics: Sequence[Statistic]) -> Markup:
    """Some statistics: those with a value, and behind a line that counts them those without.

    Args:
        name: id of the caption.
        title: of the section, for the caption.
        statistics: in order.

    Returns:
        One table or two.
    """
    given = [found for found in statistics if found.value is not None]
    without = [found for found in statistics if found.value is None]
    codes = sorted({found.refusal or "no code" for found in without}, key=code_order)
    levels = sorted({found.interval.level for found in given if found.interval})
    stated = " and ".join(percent(level) for level in levels)
    words = f", with {stated} intervals over tasks" if stated else ", without intervals"
    line = fragment(plural(len(without), "number"), " refused (", *_joined(codes), ")")
    return fragment(
        _table(name, f"{title}{words}", given) if given else None,
        behind(line, _table(f"{name}-refused", f"{title}, refused", without)) if without else None,
    )


def _table(name: str, caption: str, statistics: Sequence[Statistic]) -> Markup:
    return table(name, caption, HEADINGS, [_row(found) for found in statistics], numeric=NUMERIC)


def value_of(statistic: Statistic) -> Markup:
    """The value, or that it is refused, with the code.

    Args:
        statistic: of an analysis.

    Returns:
        Text; a refusal leads to its reason.
    """
    if statistic.value is not None:
        return element("data", number(statistic.value), value=repr(statistic.value))
    if statistic.refusal is None:
        return element("span", "no value", class_="soft")
    return element(
        "a", "refused ", from_log(statistic.refusal, NAME_LIMIT), href="#refused", class_="refused"
    )


def _row(statistic: Statistic) -> Sequence[Child]:
    return (
        element("span", from_log(statistic.name, NAME_LIMIT), class_="name"),
        value_of(statistic),
        interval(statistic.interval),
        number(statistic.tasks),
        samples(statistic.samples),
        element("span", from_log(statistic.estimator or "-", LINE_LIMIT), class_="words"),
        _made(statistic),
    )


def _made(statistic: Statistic) -> Markup | None:
    entries: list[tuple[Child, Child]] = []
    if statistic.unit:
        entries.append(("unit", from_log(statistic.unit, NAME_LIMIT)))
    if statistic.reason is not None:
        entries.append(("refused because", from_log(statistic.reason, LINE_LIMIT)))
    if statistic.interval is not None:
        found = statistic.interval
        words = f"{found.method}, {percent(found.level)}"
        entries.append(("interval", from_log(words, LINE_LIMIT)))
    if statistic.seed is not None:
        entries.append(("seed", number(statistic.seed)))
    for term, text in (
        ("ties", statistic.ties),
        ("missing values", statistic.missing),
        ("not a number", statistic.nan),
    ):
        if text is not None:
            entries.append((term, from_log(text, LINE_LIMIT)))
    for reason, count in statistic.excluded.items():
        words = fragment(from_log(reason, NAME_LIMIT), f": {number(count)}")
        entries.append(("rows left out", words))
    entries += _policy(statistic)
    entries += [("note", from_log(note, LINE_LIMIT)) for note in statistic.notes]
    if not entries:
        return None
    return behind("how it was made", pairs(entries))


def _policy(statistic: Statistic) -> list[tuple[Child, Child]]:
    policy = statistic.policy
    if policy is None:
        return []
    entries: list[tuple[Child, Child]] = []
    if policy.collected:
        names = policy.collected[:10]
        more = len(policy.collected) - len(names)
        words = fragment(*_joined(names), f" and {more:,} more" if more else None)
        entries.append(("drawn by", words))
    if policy.evaluated is not None:
        entries.append(("about the policy", from_log(policy.evaluated, NAME_LIMIT)))
    if policy.lag is not None:
        entries.append(("versions between oldest and newest row", number(policy.lag)))
    return entries


def _joined(names: Sequence[str]) -> list[Markup]:
    return [fragment(" " if i else None, from_log(x, NAME_LIMIT)) for i, x in enumerate(names)]
