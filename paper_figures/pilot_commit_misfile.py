"""Figure: which prompts Pilot-Commit's screen turns away, and which mixed groups that loses.

Claim: the band stays while larger groups are mixed at ever more extreme rates, so that with 32 pilots nearly every mixed group of rates outside the band is lost.

Table `pilot_commit_misfile`, exact values by success rate p: P(screened out | p), and of a full group of n = 4 k, P(mixed | p) and P(mixed and screened out | p). Written by
`rolloutlab allocation-tables --export`.
"""

from typing import Any

import pyarrow as pa
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from paper_figures.columns import Column, Layout, split_rows
from paper_figures.panels import common_scale, label_axes, panel_figure, title_panels
from paper_figures.style import FAINT, INK, paper_style

LAYOUT = Layout(
    (
        Column("pilots", int, low=1),
        Column("group_size", int, low=1),
        Column("rate", float, low=0.0, high=1.0),
        Column("screened_out", float, low=0.0, high=1.0),
        Column("mixed", float, low=0.0, high=1.0),
        Column("mixed_lost", float, low=0.0, high=1.0),
    )
)

LINES: dict[str, tuple[str, Any]] = {
    "screened_out": ("screened out", "solid"),
    "mixed": ("a full group is mixed", (0.0, (4.0, 1.4))),
}

LOST: dict[str, Any] = {"facecolor": FAINT, "alpha": 0.35, "linewidth": 0.0}


def draw(table: pa.Table) -> Figure:
    """Probabilities over the success rate; one panel a number of pilots.

    Args:
        table: columns as in `LAYOUT`.

    Returns:
        The figure.

    Raises:
        InvalidInput: the table has no rows.
    """
    groups = split_rows(table, "pilots", "group_size")
    with paper_style():
        figure, panels = panel_figure(len(groups), 1.5, _legend())
        titles: dict[Axes, tuple[str, str]] = {}
        for panel, ((pilots, size), rows) in zip(panels, groups.items(), strict=True):
            rates = [row["rate"] for row in rows]
            for column, (_, linestyle) in LINES.items():
                values = [row[column] for row in rows]
                panel.plot(rates, values, color=INK, linestyle=linestyle, gid=column)
            panel.fill_between(rates, [row["mixed_lost"] for row in rows], 0.0, **LOST)
            panel.set_xlim(0.0, 1.0)
            panel.set_ylim(0.0, 1.05)
            titles[panel] = (f"{pilots} pilots", f", n = {size}")
        label_axes(figure, panels, "success rate p", "probability")
        common_scale(panels)
        title_panels(figure, titles)
    return figure


def _legend() -> list[Artist]:
    lines: list[Artist] = [
        Line2D([], [], color=INK, linestyle=linestyle, label=label)
        for label, linestyle in LINES.values()
    ]
    return [*lines, Patch(label="mixed and screened out", **LOST)]
