"""Figure: where SARA gives fewer effective groups than dynamic sampling from the same budget.

Claim: it loses where too few prompts are hopeless or mastered, and a late stop loses more easily than an early one.

Table `sara_failure_region`, exact values: for families of populations with one parameter, for every stop m and size n, the parameter at which the saving of rollouts per
effective group reaches a level, less below it and more above; NaN where no member of the family reaches it. Written by `rolloutlab allocation-tables --export`.
"""

import math
from typing import Any

import pyarrow as pa
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from paper_figures.columns import Column, Layout, split_rows
from paper_figures.panels import common_scale, panel_figure, title_panels
from paper_figures.style import FAINT, INK, paper_style

FAMILIES = {
    "beta-2.5-and-atoms": ("Beta(2.5, 2.5) and atoms", "share of prompts at 0 or 1"),
    "flat-and-atoms": ("Beta(1, 1) and atoms", "share of prompts at 0 or 1"),
    "beta-a-a": ("Beta(a, a)", "1 / (2 a + 1)"),
}
"""Name and parameter."""

LEVELS: dict[float, Any] = {
    0.0: "solid",
    0.1: (0.0, (4.0, 1.4)),
    0.2: (0.0, (2.0, 0.8)),
    0.3: (0.0, (1.0, 1.2)),
}
"""Line of each level of saving."""

LAYOUT = Layout(
    (
        Column("family", str, choices=tuple(FAMILIES)),
        Column("group_size", int, low=3),
        Column("stop", int, low=2),
        Column("saving", float, low=0.0, high=1.0),
        Column("parameter", float, low=0.0, high=1.0, may_be_nan=True),
    )
)

REGION: dict[str, Any] = {"facecolor": FAINT, "alpha": 0.35, "linewidth": 0.0}


def draw(table: pa.Table) -> Figure:
    """The region where SARA loses, and lines of equal saving, by stop; one panel a family and size.

    Args:
        table: columns as in `LAYOUT`.

    Returns:
        The figure.

    Raises:
        InvalidInput: the table has no rows.
    """
    groups = split_rows(table, "group_size", "family")
    with paper_style():
        figure, panels = panel_figure(len(groups), 1.75, _legend())
        titles: dict[Axes, tuple[str, str]] = {}
        for panel, ((size, family), rows) in zip(panels, groups.items(), strict=True):
            _draw_levels(panel, size, rows)
            name, parameter = FAMILIES[family]
            panel.set_xlabel(parameter)
            place = panel.get_subplotspec()
            if place is not None and place.is_first_col():
                panel.set_ylabel("stop m / n")
            titles[panel] = (name, f", n = {size}")
        common_scale(panels)
        title_panels(figure, titles)
    return figure


def _draw_levels(panel: Axes, size: int, rows: list[dict[str, Any]]) -> None:
    for level, linestyle in LEVELS.items():
        chosen = sorted(
            (row for row in rows if row["saving"] == level), key=lambda row: row["stop"]
        )
        heights = [row["stop"] / size for row in chosen]
        # A level that no member reaches lies beyond the end of the family.
        places = [1.0 if math.isnan(row["parameter"]) else row["parameter"] for row in chosen]
        if level == 0.0:
            panel.fill_betweenx(heights, 0.0, places, **REGION)
        inside = [
            (place, height)
            for place, height, row in zip(places, heights, chosen, strict=True)
            if not math.isnan(row["parameter"])
        ]
        if inside:
            xs, ys = zip(*inside, strict=True)
            panel.plot(xs, ys, color=INK, linestyle=linestyle, gid=f"saving {level:g}")
    panel.set_xlim(0.0, 1.0)
    panel.set_ylim(0.0, 1.0)


def _legend() -> list[Artist]:
    lines: list[Artist] = [Patch(label="more rollouts than dynamic sampling", **REGION)]
    return [
        *lines,
        *(
            Line2D([], [], color=INK, linestyle=linestyle, label=f"saves {level:.0%}")
            for level, linestyle in LEVELS.items()
            if level > 0.0
        ),
    ]
