"""Figure: every allocation rule for the same number of updates.

Claim: rules that remember prompts get effective groups at nearly the cost of uniform allocation, where dynamic sampling pays several times as much.

Table `allocation_costs`: means over seeds with 95 % t intervals. `cost` is rollouts in units of uniform allocation, `effective_share` the share of groups
that hold a success and a failure, `accuracy` pass@1 of held-out prompts at the end. Rules that got stuck in any
seed are not in it. Produced by the allocation-bandit experiment.
"""

from typing import Any

import pyarrow as pa
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from paper_figures.columns import Column, Layout, split_rows
from paper_figures.panels import fit_text
from paper_figures.style import (
    BASE,
    DOUBLE_COLUMN,
    POWER,
    SMALLEST_FONT,
    TEMPERATURE,
    Look,
    mark,
    paper_style,
)

CLASSES: dict[str, tuple[Look, str]] = {
    "fixed": (BASE, "draws what it always draws"),
    "stream": (TEMPERATURE, "looks at the group under way"),
    "memory": (POWER, "remembers prompts"),
}
"""What a rule may look at."""

METRICS = {
    "cost": "rollouts, uniform = 1",
    "effective_share": "share of effective groups",
    "accuracy": "pass@1 at the end",
}

LAYOUT = Layout(
    (
        Column("regime", str),
        Column("method", str),
        Column("information", str, choices=tuple(CLASSES)),
        Column("metric", str, choices=tuple(METRICS)),
        Column("value", float),
        Column("low", float),
        Column("high", float),
    )
)

ROW_HEIGHT = 0.15
LABELS = 130.0
"""Points for the name of a rule."""


def draw(table: pa.Table) -> Figure:
    """A dot with its interval for each rule; one row of panels a regime, one panel a metric.

    Args:
        table: columns as in `LAYOUT`.

    Returns:
        The figure.

    Raises:
        InvalidInput: the table has no rows.
    """
    groups = split_rows(table, "regime")
    with paper_style():
        counts = [len({row["method"] for row in rows}) for rows in groups.values()]
        height = sum(0.75 + ROW_HEIGHT * count for count in counts) + 0.3
        figure = Figure(figsize=(DOUBLE_COLUMN, height), layout="constrained")
        figure.legend(handles=_legend(), loc="outside upper left", ncols=len(CLASSES))
        axes = figure.subplots(len(groups), len(METRICS), squeeze=False, height_ratios=counts)
        for row, ((regime,), rows) in zip(axes, groups.items(), strict=True):
            methods = list(dict.fromkeys(each["method"] for each in rows))
            for panel, (metric, text) in zip(row, METRICS.items(), strict=True):
                _draw_panel(panel, [each for each in rows if each["metric"] == metric], methods)
                panel.set_xlabel(text)
                panel.set_yticks(range(len(methods)), [""] * len(methods))
            row[0].set_yticks(
                range(len(methods)), [fit_text(name, LABELS, SMALLEST_FONT) for name in methods]
            )
            row[0].set_title(fit_text(str(regime), 150.0, SMALLEST_FONT), parse_math=False)
    return figure


def _draw_panel(panel: Axes, rows: list[dict[str, Any]], methods: list[str]) -> None:
    for row in rows:
        place, look = methods.index(row["method"]), CLASSES[row["information"]][0]
        panel.plot([row["low"], row["high"]], [place, place], color=look.color, linewidth=0.8)
        panel.plot(row["value"], place, color=look.color, marker=look.marker, markersize=3.0)
    panel.set_ylim(len(methods) - 0.5, -0.5)
    panel.tick_params(axis="y", length=0)


def _legend() -> list[Artist]:
    return [mark(look, text, linewidth=0.8, linestyle="-") for look, text in CLASSES.values()]
