"""Figure: what each allocation rule climbs.

Claim: the expected update per visited prompt is phi(p) grad p, and rules that give up early no longer learn prompts that are rarely or nearly always solved.

Table `objective_of_rules`, exact values: phi by success rate p, rule, size and advantage. Leave-one-out advantages with every group drawn in full have phi = 1: the success rate itself is
climbed. Written by `rolloutlab allocation-tables --export`.
"""

from typing import Any

import pyarrow as pa
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from paper_figures.columns import Column, Layout, split_rows
from paper_figures.panels import panel_figure, title_panels
from paper_figures.style import FAINT, INK, paper_style

RULES: dict[str, dict[str, Any]] = {
    "dynamic-sampling": {"color": FAINT, "linestyle": "solid"},
    "sara, tau .45": {"color": INK, "linestyle": (0.0, (1.0, 1.2))},
    "pilot-commit, k = 4": {"color": INK, "linestyle": "solid"},
    "pilot-commit, k = 16": {"color": INK, "linestyle": (0.0, (4.0, 1.4))},
    "pilot-commit, k = 32": {"color": FAINT, "linestyle": (0.0, (4.0, 1.4))},
}
"""In the order of drawing."""

ADVANTAGES = {"leave-one-out": "leave-one-out", "standardised": "standardised (GRPO)"}

LAYOUT = Layout(
    (
        Column("rule", str, choices=tuple(RULES)),
        Column("group_size", int, low=2),
        Column("advantage", str, choices=tuple(ADVANTAGES)),
        Column("rate", float, low=0.0, high=1.0),
        Column("phi", float, low=0.0),
    )
)


def draw(table: pa.Table) -> Figure:
    """Phi over the success rate; one panel an advantage.

    Args:
        table: columns as in `LAYOUT`.

    Returns:
        The figure.

    Raises:
        InvalidInput: the table has no rows.
    """
    groups = split_rows(table, "advantage")
    sizes = {row["rule"]: row["group_size"] for row in table.to_pylist()}
    with paper_style():
        figure, panels = panel_figure(len(groups), 2.0, _legend(sizes))
        titles: dict[Axes, tuple[str, str]] = {}
        for panel, ((advantage,), rows) in zip(panels, groups.items(), strict=True):
            for rule, line in RULES.items():
                mine = [row for row in rows if row["rule"] == rule]
                if mine:
                    rates, values = ([row[name] for row in mine] for name in ("rate", "phi"))
                    panel.plot(rates, values, **line, gid=rule)
            panel.set_xlim(0.0, 1.0)
            panel.set_ylim(0.0, 1.1 * min(max(row["phi"] for row in rows), 4.0))
            panel.set_xlabel("success rate p")
            titles[panel] = (ADVANTAGES[advantage], "")
        panels[0].set_ylabel("\N{GREEK SMALL LETTER PHI}(p)")
        title_panels(figure, titles)
    return figure


def _legend(sizes: dict[str, int]) -> list[Artist]:
    return [
        Line2D([], [], label=f"{rule}, n = {sizes[rule]}", **line)
        for rule, line in RULES.items()
        if rule in sizes
    ]
