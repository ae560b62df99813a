"""The tables of regret for people: every static rule below the best of its class in both currencies, and what a wrong prior costs."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from rich.table import Table

from experiments.allocation.static_methods import WITH_PRIORS, wrong_name
from theory.estimators.interval import t_interval

Row = Mapping[str, Any]

WORDS = {"effective": "effective groups", "energy": "energy, sum of sqrt(s f)"}


def regret_tables(rows: list[Row]) -> Iterator[Table]:
    """A table for each currency, and the wrong prior.

    Args:
        rows: of `regret_table.SCHEMA`.

    Yields:
        Tables for a terminal.
    """
    for currency, words in WORDS.items():
        yield _regret(words, [row for row in rows if row["currency"] == currency])
    methods = {row["method"] for row in rows}
    pairs = [
        (name, wrong_name(name)) for name in WITH_PRIORS if methods >= {name, wrong_name(name)}
    ]
    if pairs:
        yield _wrong_prior(rows, pairs)


def class_name(row: Row) -> str:
    """The class of a rule in a few words.

    Args:
        row: of `regret_table.SCHEMA`.

    Returns:
        What it may look at, and its groups.
    """
    information = "memory" if row["information"] == "memory" else "stream"
    largest = row["largest"]
    groups = {"whole": f"groups of {largest}", "stopped": f"2 to {largest}"}
    return f"{information}, {groups.get(row['groups'], f'2 to {largest}, fixed first')}"


def _regret(words: str, rows: list[Row]) -> Table:
    table = Table(
        title=f"Prompts that stand still: {words} per 1000 rollouts below the best of the rule's class (stream: exact; memory: a bound)"
    )
    populations = {row["population"]: row["held_out"] for row in rows}
    table.add_column("method")
    table.add_column("class")
    for name, held_out in populations.items():
        table.add_column(f"{name} (held out)" if held_out else name, justify="right")
    bounds: dict[str, dict[str, float]] = {}
    for row in rows:
        known = bounds.setdefault(class_name(row), {})
        known[row["population"]] = max(known.get(row["population"], 0.0), row["bound"])
    for name in sorted(bounds, key=lambda name: name.startswith("memory")):
        kind = "bound" if name.startswith("memory") else "best"
        table.add_row(kind, name, *(_number(bounds[name].get(each)) for each in populations))
    table.add_section()
    cells: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        cells.setdefault((row["method"], row["population"]), []).append(row)
    for method, name in {row["method"]: class_name(row) for row in rows}.items():
        runs = (cells.get((method, each)) for each in populations)
        shown = (
            interval(row["regret"] for row in mine) if mine else "no update came about"
            for mine in runs
        )
        table.add_row(method, name, *shown)
    return table


def _wrong_prior(rows: list[Row], pairs: list[tuple[str, str]]) -> Table:
    table = Table(
        title="What the wrong prior costs: per 1000 rollouts, the rule with its own prior (flat for sara and hora, learnt for the others) less the same rule with that of 'published'"
    )
    populations = list({row["population"]: None for row in rows})
    for name in ("method", "currency", *populations):
        table.add_column(name, justify="left" if name in ("method", "currency") else "right")
    achieved = {
        (row["method"], row["currency"], row["population"], row["seed"]): row["achieved"]
        for row in rows
    }
    for own, wrong in pairs:
        for currency in WORDS:
            gaps = (
                [
                    value - achieved[wrong, currency, each, seed]
                    for (method, unit, name, seed), value in achieved.items()
                    if (method, unit, name) == (own, currency, each)
                    and (wrong, currency, each, seed) in achieved
                ]
                for each in populations
            )
            table.add_row(own, currency, *(interval(gap) if gap else "" for gap in gaps))
    return table


def interval(values: Iterable[float]) -> str:
    """Mean and 95 % t interval over seeds.

    Args:
        values: one a seed.

    Returns:
        `1.2 [1.1, 1.4]`; without an interval for a single seed.
    """
    array = np.array(list(values), np.float64)
    if array.size < 2:
        return f"{array.mean():.1f}"
    found = t_interval(array)
    return f"{array.mean():.1f} [{found.low:.1f}, {found.high:.1f}]"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"
