"""Figure: the two laws side by side, sequence by sequence.

Claim: sampling whole sequences from p(y)^alpha and sampling tokens at temperature 1/alpha give different laws; the most
likely sequence under one need not lead under the other.

Table `two_laws`, exact values by enumeration: one row a sequence, its probability under the base model, under token
temperature 1/alpha and under sequence power alpha. The last row of a model may sum all sequences that are not shown;
its text then starts with `OTHERS`. Produced by the power-versus-temperature experiment.
"""

from typing import Any

import pyarrow as pa
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import ScaledTranslation

from paper_figures.columns import ALPHA, LABEL, MODEL, Column, Layout, split_rows
from paper_figures.panels import (
    fit_text,
    fit_words,
    label_axes,
    panel_figure,
    panel_points,
    title_panels,
)
from paper_figures.style import (
    ALPHA_TEXT,
    BASE,
    FAINT,
    POWER,
    SMALLEST_FONT,
    TEMPERATURE,
    Look,
    mark,
    paper_style,
)

LAYOUT = Layout(
    (
        MODEL,
        LABEL,
        ALPHA,
        Column("rank", int, low=0, high=1e9),
        Column("sequence", str),
        Column("num_sequences", int, low=1, high=1e9),
        Column("base", float, low=0.0, high=1.0),
        Column("temperature", float, low=0.0, high=1.0),
        Column("power", float, low=0.0, high=1.0),
    )
)

BASE_MARK: dict[str, Any] = {
    "linestyle": "",
    "marker": "|",
    "markersize": 7.0,
    "markeredgewidth": 1.2,
}

MOST_LABEL_POINTS = 100.0
"""Width of the text of a sequence, which gives way to the bars."""

BAR_POINTS = 2.8
"""Thickness of a bar, points, the same in every panel."""


def draw(table: pa.Table) -> Figure:
    """Bars for temperature and power and a mark for the base, one line a sequence, most likely under power first.

    Args:
        table: columns as in `LAYOUT`; one panel for each model and alpha, in the order of the table.

    Returns:
        The figure.

    Raises:
        InvalidInput: the table has no rows.
    """
    groups = split_rows(table, "model", "label", "alpha")
    most_rows = max(len(rows) for rows in groups.values())
    with paper_style():
        height = 0.5 + 0.125 * max(most_rows, 8)
        figure, panels = panel_figure(len(groups), height, _legend())
        alphas = {alpha for _, _, alpha in groups}
        for panel, rows in zip(panels, groups.values(), strict=True):
            _draw_panel(figure, panel, sorted(rows, key=lambda row: row["rank"]))
        common = f" at {ALPHA_TEXT} = {min(alphas):g}" if len(alphas) == 1 else ""
        label_axes(figure, panels, f"probability of the sequence{common}", "")
        details = ["" if common else f"\n{ALPHA_TEXT} = {alpha:g}" for _, _, alpha in groups]
        labels = [label for _, label, _ in groups]
        title_panels(figure, dict(zip(panels, zip(labels, details, strict=True), strict=True)))
    return figure


def _legend() -> list[Artist]:
    bar: dict[str, Any] = {"marker": "", "linestyle": "solid", "linewidth": 4.0}
    return [
        mark(POWER, f"sequence power {ALPHA_TEXT}", **bar),
        mark(TEMPERATURE, f"token temperature 1/{ALPHA_TEXT}", **bar),
        mark(BASE, "base model", **BASE_MARK),
    ]


def _draw_panel(figure: Figure, panel: Axes, rows: list[dict[str, Any]]) -> None:
    positions = [float(i) for i in range(len(rows))]
    if rows[-1]["num_sequences"] > 1:
        positions[-1] += 0.5
        panel.axhline(positions[-1] - 0.75, color=FAINT, linewidth=0.5)
    laws: list[tuple[Look, str, float]] = [
        (POWER, "power", 0.5),
        (TEMPERATURE, "temperature", -0.5),
    ]
    for look, name, shift in laws:
        # Bars are lines of fixed thickness, moved apart by points, so that few sequences do not make thick bars.
        offset = ScaledTranslation(0.0, shift * BAR_POINTS / 72, figure.dpi_scale_trans)
        panel.hlines(
            positions,
            0.0,
            [row[name] for row in rows],
            colors=look.color,
            linewidth=BAR_POINTS,
            transform=panel.transData + offset,
        )
    base = [row["base"] for row in rows]
    panel.plot(base, positions, color=BASE.color, **BASE_MARK)
    room = min(0.55 * panel_points(panel), MOST_LABEL_POINTS)
    panel.set_yticks(positions, [_text(row, room) for row in rows])
    for tick_label in panel.get_yticklabels():
        tick_label.set_parse_math(False)
    panel.tick_params(axis="y", length=0)
    panel.set_ylim(positions[-1] + 0.6, -0.6)
    largest = max(max(row["base"], row["temperature"], row["power"]) for row in rows)
    panel.set_xlim(0.0, largest * 1.04)
    panel.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    panel.xaxis.set_major_formatter("{x:g}")


def _text(row: dict[str, Any], room: float) -> str:
    fit = fit_words if row["num_sequences"] == 1 else fit_text
    return fit(row["sequence"], room, SMALLEST_FONT)
