"""Figure: how much each planted bug does to a toy.

Claim: the mistakes of public samplers change what they compute, some by 1 % and some by a factor of 70.

Table `planted_defect_damage`, exact values: for each planted bug the largest damage on a toy, in one of four units, all 0 for right code:
total variation between the law that comes out and the right one; |expectation / truth - 1| of an estimate; the same of a
variance; the share of wrong outcomes. Written from the catalogue of the planted bugs.
"""

import math
from typing import Any

import pyarrow as pa
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from paper_figures.columns import Column, Layout, split_rows
from paper_figures.panels import fit_text
from paper_figures.style import DOUBLE_COLUMN, FAINT, INK, SMALLEST_FONT, TITLE_FONT, paper_style

UNITS: dict[str, dict[str, Any]] = {
    "total variation": {"facecolor": INK},
    "relative bias": {"facecolor": FAINT},
    "error of variance": {"facecolor": "white", "hatch": "......"},
    "wrong share": {"facecolor": "white", "hatch": "//////"},
}
"""Shades: the colours of the other figures mean laws and methods."""

LAYOUT = Layout(
    (
        Column("family", str),
        Column("kind", str),
        Column("unit", str, choices=tuple(UNITS)),
        Column("toy", str),
        Column("damage", float, low=1e-12),
    )
)

BAR: dict[str, Any] = {"edgecolor": INK, "linewidth": 0.4, "height": 0.7}

ROW = 0.13
"""Inches from bar to bar."""

HEAD, FOOT, GAP = 0.25, 0.4, 0.26
"""Inches above the panels, below them, and above each panel for its title."""

LABELS = 2.3
"""Inches for the names of the bugs."""

PANEL = DOUBLE_COLUMN / 2 - LABELS - 0.12
"""Inches for the bars."""


def draw(table: pa.Table) -> Figure:
    """A bar for each bug, one panel a family, in two columns with a common logarithmic axis.

    Args:
        table: columns as in `LAYOUT`.

    Returns:
        The figure.

    Raises:
        InvalidInput: the table has no rows.
    """
    families = [(str(name), rows) for (name,), rows in split_rows(table, "family").items()]
    damages = [row["damage"] for _, rows in families for row in rows]
    limits = _limits(damages)
    columns = _two_columns(families)
    heights = [sum(GAP + ROW * (len(rows) + 1) for _, rows in column) for column in columns]
    height = HEAD + max(heights) + FOOT
    with paper_style():
        figure = Figure(figsize=(DOUBLE_COLUMN, height))
        figure.legend(handles=_legend(), loc="upper left", ncols=len(UNITS))
        for place, column in enumerate(columns):
            top = height - HEAD
            for name, rows in column:
                size = ROW * (len(rows) + 1)
                top -= GAP + size
                left = place * DOUBLE_COLUMN / 2 + LABELS
                panel = figure.add_axes(
                    (left / DOUBLE_COLUMN, top / height, PANEL / DOUBLE_COLUMN, size / height)
                )
                _draw_family(panel, name, rows, limits)
                panel.tick_params(axis="x", labelbottom=(name, rows) == column[-1])
        figure.supxlabel("damage (0 for right code), logarithmic", y=0.07 / height)
    return figure


def _draw_family(
    panel: Axes, name: str, rows: list[dict[str, Any]], limits: tuple[float, float]
) -> None:
    for place, row in enumerate(rows):
        panel.barh(place, row["damage"] - limits[0], left=limits[0], **UNITS[row["unit"]], **BAR)
    room = 72.0 * LABELS - 8.0
    labels = [fit_text(row["kind"], room, SMALLEST_FONT) for row in rows]
    panel.set_yticks(range(len(rows)), labels, parse_math=False)
    panel.tick_params(axis="y", length=0.0)
    panel.set_ylim(len(rows) - 0.25, -0.75)
    panel.set_xscale("log")
    panel.set_xlim(*limits)
    first, last = (round(math.log10(limit)) for limit in limits)
    # Three or so find room.
    apart = math.ceil((last - first) / 2.5)
    panel.set_xticks([10.0**power for power in range(first, last + 1) if power % apart == 0])
    panel.set_xticks([], minor=True)
    title = fit_text(name, 72.0 * (DOUBLE_COLUMN / 2 - 0.3), TITLE_FONT)
    panel.set_title(title, parse_math=False, x=(0.1 - LABELS) / PANEL)


def _limits(damages: list[float]) -> tuple[float, float]:
    """Whole powers of ten around all bars, the smallest of which is to be seen."""
    low, high = min(damages), max(damages)
    return 10.0 ** math.floor(math.log10(low) - 0.1), 10.0 ** max(0, math.ceil(math.log10(high)))


def _two_columns(
    families: list[tuple[str, list[dict[str, Any]]]],
) -> list[list[tuple[str, list[dict[str, Any]]]]]:
    """The families in order, cut where the taller column is lowest."""

    def taller(cut: int) -> float:
        sizes = [GAP + ROW * (len(rows) + 1) for _, rows in families]
        return max(sum(sizes[:cut]), sum(sizes[cut:]))

    cut = min(range(1, len(families) + 1), key=taller)
    return [families[:cut], families[cut:]]


def _legend() -> list[Artist]:
    return [Patch(label=unit, edgecolor=INK, linewidth=0.4, **UNITS[unit]) for unit in UNITS]
