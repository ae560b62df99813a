"""Figure: what SARA saves and what it gives up, at every threshold.

Claim: the saving has an inner maximum that depends on the population, and the share of abandoned prompts whose group would have been mixed is not the threshold.

Table `sara_saving_and_errors`, exact values: for each stop m = 2 .. n, from which threshold SARA abandons after m equal outcomes, and then the share of rollouts saved per
effective group against dynamic sampling, P(a full group would have been mixed | abandoned), and the share of mixed groups missed. Written by `rolloutlab
allocation-tables --export`.
"""

from typing import Any

import pyarrow as pa
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from paper_figures.columns import Column, Layout, split_rows
from paper_figures.panels import common_scale, label_axes, panel_figure, title_panels
from paper_figures.style import FAINT, INK, paper_style

QUANTITIES: dict[str, tuple[str, Any]] = {
    "saving": ("rollouts saved", "solid"),
    "false_abandonment": ("abandoned that would have been mixed", (0.0, (4.0, 1.4))),
    "missed_share": ("mixed groups missed", (0.0, (1.0, 1.2))),
}

LAYOUT = Layout(
    (
        Column("label", str),
        Column("group_size", int, low=3),
        Column("stop", int, low=2),
        Column("threshold", float, low=0.0, high=1.0),
        Column("saving", float, high=1.0),
        Column("false_abandonment", float, low=0.0, high=1.0),
        Column("missed_share", float, low=0.0, high=1.0),
    )
)

PAPER_THRESHOLD = 0.45
"""Of arXiv 2607.26253, second-hand."""

PAPER_VALUES = (0.22, 0.086)
"""Saving (abstract) and false abandonment (second-hand) that are reported there."""

WITH_PAPER_VALUES = ("published mixture", 8)
"""The panel that they belong to."""


def draw(table: pa.Table) -> Figure:
    """Steps over the threshold, one panel a population and size.

    Args:
        table: columns as in `LAYOUT`.

    Returns:
        The figure.

    Raises:
        InvalidInput: the table has no rows.
    """
    groups = split_rows(table, "label", "group_size")
    with paper_style():
        figure, panels = panel_figure(len(groups), 1.6, _legend())
        low = min(row["saving"] for row in table.to_pylist())
        titles: dict[Axes, tuple[str, str]] = {}
        for panel, ((label, size), rows) in zip(panels, groups.items(), strict=True):
            _draw_steps(panel, sorted(rows, key=lambda row: row["threshold"]))
            panel.axvline(PAPER_THRESHOLD, color=FAINT, linewidth=0.8, zorder=0.5)
            panel.axhline(0.0, color=FAINT, linewidth=0.5, zorder=0.5)
            if (label, size) == WITH_PAPER_VALUES:
                for value in PAPER_VALUES:
                    panel.plot([PAPER_THRESHOLD], [value], color=INK, marker="o", linestyle="")
            panel.set_ylim(max(1.1 * low, -0.6), 1.0)
            titles[panel] = (label, f", n = {size}")
        label_axes(figure, panels, "threshold for abandoning", "share")
        common_scale(panels)
        title_panels(figure, titles)
    return figure


def _draw_steps(panel: Axes, rows: list[dict[str, Any]]) -> None:
    # The last stop serves up to the threshold at which no prompt is begun.
    size = rows[0]["group_size"]
    ends = [*[row["threshold"] for row in rows], (size - 1) / (size + 1)]
    for quantity, (_, linestyle) in QUANTITIES.items():
        values = [row[quantity] for row in rows]
        panel.plot(
            ends,
            [*values, values[-1]],
            color=INK,
            linestyle=linestyle,
            drawstyle="steps-post",
            gid=quantity,
        )
    panel.set_xlim(0.0, 1.0)


def _legend() -> list[Artist]:
    lines: list[Artist] = [
        Line2D([], [], color=INK, linestyle=linestyle, label=label)
        for label, linestyle in QUANTITIES.values()
    ]
    lines.append(
        Line2D([], [], color=FAINT, linewidth=0.8, label=f"reported threshold, {PAPER_THRESHOLD:g}")
    )
    return [*lines, Line2D([], [], color=INK, marker="o", linestyle="", label="reported there")]
