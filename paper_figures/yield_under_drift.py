"""Figure: effective groups per 1000 rollouts against the drift, of rules that remember prompts and rules that probe them.

Claim: where success rates stand still, what is remembered is worth more than any probe; where they move, it is worth less than nothing
from some rate on, and estimates that are made once are the first to fall behind.

Table `yield_under_drift`: means over seeds with 95 % t intervals of the runs of `rolloutlab allocation-drift --export`, after the first epoch; `crossing` is the rate at which DPS
falls behind SARA (NaN where it does not within the rates that were run), the same in every row of a panel.
"""

import math
from typing import Any

import numpy as np
import pyarrow as pa
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from paper_figures.columns import Column, Layout, split_rows
from paper_figures.panels import label_axes, panel_figure, title_panels
from paper_figures.style import (
    ADAPTED,
    BASE,
    FAINT,
    INDEPENDENT_CHAIN,
    POPULATION,
    POWER,
    TEMPERATURE,
    TEMPERED_CHAIN,
    Look,
    mark,
    paper_style,
)

METHODS: dict[str, tuple[Look, str]] = {
    "uniform": (BASE, "uniform"),
    "sara": (TEMPERATURE, "SARA (probes)"),
    "optimal-stopping": (ADAPTED, "optimal stopping (probes)"),
    "frozen": (INDEPENDENT_CHAIN, "estimated once"),
    "dps": (POWER, "DPS (remembers)"),
    "sara-on-dps": (TEMPERED_CHAIN, "SARA on DPS"),
    "predictive-stopping": (POPULATION, "predictive stopping"),
}
"""In the order of drawing. The looks are told apart here and mean no law."""

LAYOUT = Layout(
    (
        Column("population", str),
        Column("rate", float, low=0.0),
        Column("method", str, choices=tuple(METHODS)),
        Column("mean", float, low=0.0),
        Column("low", float),
        Column("high", float),
        Column("crossing", float, low=0.0, may_be_nan=True),
    )
)


def draw(table: pa.Table) -> Figure:
    """Means over the rate of the drift, one panel a population.

    Args:
        table: columns as in `LAYOUT`.

    Returns:
        The figure.

    Raises:
        InvalidInput: the table has no rows.
    """
    groups = split_rows(table, "population")
    with paper_style():
        figure, panels = panel_figure(len(groups), 1.5, _legend())
        titles: dict[Axes, tuple[str, str]] = {}
        for panel, ((population,), rows) in zip(panels, groups.items(), strict=True):
            _draw_panel(panel, rows)
            titles[panel] = (str(population), "")
        label_axes(
            figure, panels, "rate at which prompts exchange success rates", "groups per 1000"
        )
        title_panels(figure, titles)
    return figure


def _draw_panel(panel: Axes, rows: list[dict[str, Any]]) -> None:
    for method, (look, _) in METHODS.items():
        mine = sorted((r for r in rows if r["method"] == method), key=lambda row: row["rate"])
        rates = [row["rate"] for row in mine]
        low, high = (np.array([row[end] for row in mine]) for end in ("low", "high"))
        panel.fill_between(rates, low, high, color=look.color, alpha=0.15, linewidth=0.0)
        panel.plot(rates, [row["mean"] for row in mine], gid=method, **look._asdict())
    crossing = rows[0]["crossing"]
    if not math.isnan(crossing):
        panel.axvline(crossing, color=FAINT, linewidth=0.8, zorder=0.5, gid="crossing")
    panel.set_xlim(-0.03, 1.03)
    panel.set_ylim(0.0, 1.08 * max(row["high"] for row in rows))


def _legend() -> list[Artist]:
    lines: list[Artist] = [mark(look, text) for look, text in METHODS.values()]
    return [*lines, Line2D([], [], color=FAINT, linewidth=0.8, label="DPS falls behind SARA")]
