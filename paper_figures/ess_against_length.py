"""Figure: how fast each method uses up a population as sequences grow.

Claim: while sequences keep growing, the effective sample size of importance sampling decays exponentially in the
length, at a rate that depends on the proposal. Resampling can turn that into a slow decay; on short sequences, and
where sequences end early, it can be worse than no resampling. The best method changes at the crossover lengths marked.

Table `ess_against_length`, exact values: the natural logarithm of the effective sample size as a fraction of the
population, 1 / E[w^2] for importance sampling (w: weights of mean 1) and 1 / (1 + N Var(Z_hat / Z)) in the limit of many
particles for sequential Monte Carlo, whose proposals are those of temperature 1/alpha. Table `crossover_lengths`: the length from which `second` has the larger fraction
than `first`. `proposal_alpha` (proposals at temperature 1/proposal_alpha) is recorded and not drawn. Produced by the power-versus-temperature experiment.
"""

import math
from typing import Any

import numpy as np
import pyarrow as pa
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from paper_figures.columns import ALPHA, LABEL, MODEL, ROUNDING, Column, Layout, split_rows
from paper_figures.panels import (
    common_scale,
    label_axes,
    panel_figure,
    panel_points,
    spread,
    text_width,
    title_panels,
)
from paper_figures.style import (
    ADAPTED,
    ALPHA_TEXT,
    BASE,
    BEST_PROPOSAL,
    FAINT,
    INK,
    POPULATION,
    SMALLEST_FONT,
    TEMPERATURE,
    Look,
    mark,
    paper_style,
)

METHODS: dict[str, tuple[Look, str]] = {
    "importance_best": (BEST_PROPOSAL, "IS, best temperature"),
    "importance_base": (BASE, "IS, base"),
    "importance_temperature": (TEMPERATURE, f"IS, temperature 1/{ALPHA_TEXT}"),
    "smc": (POPULATION, "SMC"),
    "smc_adapted": (ADAPTED, "SMC, fully adapted"),
}
"""In the order of drawing; IS is importance sampling."""

LAYOUT = Layout(
    (
        MODEL,
        LABEL,
        ALPHA,
        Column("length", int, low=1, high=1e9),
        Column("method", str, choices=tuple(METHODS)),
        Column("proposal_alpha", float, low=0.0, may_be_nan=True),
        Column("log_ess_fraction", float, high=0.0),
    )
)

CROSSOVER_LAYOUT = Layout(
    (
        MODEL,
        LABEL,
        ALPHA,
        Column("first", str, choices=tuple(METHODS)),
        Column("second", str, choices=tuple(METHODS)),
        Column("length", float, low=1.0),
    ),
    may_be_empty=True,
)

RING: dict[str, Any] = {
    "marker": "o",
    "markersize": 5.0,
    "markerfacecolor": "none",
    "color": INK,
    "linestyle": "",
}

Y_LABEL = "effective sample size\n/ population,\nlog(\N{MINUS SIGN}log) scale"

PANEL_HEIGHT = 2.1
"""Inches, with what stands around a panel."""

BESIDE_PANEL = 45.0
"""Points that title, crossover lengths and tick labels take of it, about."""

POPULATIONS = (3, 6)
"""log10 of the population sizes that have a reference line."""

TICKS = {-math.log(fraction): f"{fraction:g}" for fraction in (0.99, 0.9, 0.5, 0.1)} | {
    power * math.log(10.0): f"$10^{{-{power}}}$" for power in (3, 6, 20, 100, 1000, 10000)
}
"""From -log(fraction) to the fraction as text."""

TICK_DISTANCE = 8.0
"""Least distance of two ticks, points."""

FEW_POINTS = 4
"""A curve of at most so many points has markers: a single point makes no line."""


def draw(table: pa.Table, crossover_lengths: pa.Table | None = None) -> Figure:
    """One line a method against the length, rings where one method overtakes another; one panel a model and alpha.

    The vertical axis is logarithmic in -log(fraction): there exponential decay is a straight line, its height is the
    rate, and a fraction far below the smallest float64 still has a place.

    Args:
        table: columns as in `LAYOUT`.
        crossover_lengths: columns as in `CROSSOVER_LAYOUT`; those of curves that are not drawn are passed over.

    Returns:
        The figure.

    Raises:
        InvalidInput: the table has no rows.
    """
    groups = split_rows(table, "model", "label", "alpha")
    crossings = [] if crossover_lengths is None else crossover_lengths.to_pylist()
    with paper_style():
        figure, panels = panel_figure(len(groups), PANEL_HEIGHT, _legend())
        longest = max(table.column("length").to_pylist())
        losses = _loss_range(table)
        for panel, ((model, _, alpha), rows) in zip(panels, groups.items(), strict=True):
            _set_scales(panel, longest, losses)
            curves = _draw_curves(panel, rows)
            mine = [c for c in crossings if (c["model"], c["alpha"]) == (model, alpha)]
            _mark_crossings(panel, mine, curves)
        common_scale(panels)
        label_axes(figure, panels, "length (tokens)", Y_LABEL)
        titles = [(label, f", {ALPHA_TEXT} = {alpha:g}") for _, label, alpha in groups]
        # The lengths of the crossovers stand between the panel and its title.
        pad = 12.0 if crossings else 4.0
        title_panels(figure, dict(zip(panels, titles, strict=True)), pad)
    return figure


def _legend() -> list[Artist]:
    return [
        *(mark(look, name, marker="") for look, name in METHODS.values()),
        Line2D([], [], color=FAINT, linewidth=0.5, label="10³, 10⁶ draws used up"),
        Line2D([], [], **RING, label="crossover length"),
    ]


Curves = dict[str, tuple[np.ndarray, np.ndarray]]
"""From a method to its lengths and its losses, -log(fraction)."""


def _loss_range(table: pa.Table) -> tuple[float, float]:
    # Every curve that comes to lose a thousandth is seen, at least where it loses most.
    curves = split_rows(table, "model", "alpha", "method").values()
    most = [max(-row["log_ess_fraction"] for row in rows) for rows in curves]
    return min(max(0.7 * min(most), 1e-3), 0.03), max(1.1 * max(most), 20.0)


def _set_scales(panel: Axes, longest: int, losses: tuple[float, float]) -> None:
    panel.set_xscale("log", base=2)
    lengths = [2**k for k in range(0, 31, 3 if longest >= 8 else 1) if 2**k <= longest]
    panel.set_xticks(lengths, [str(length) for length in lengths])
    panel.set_xlim(0.9, max(longest, 2) * 1.1)
    smallest, largest = losses
    panel.set_yscale("log")
    panel.set_ylim(largest, smallest)
    losses_shown = _tick_losses(smallest, largest)
    panel.set_yticks(losses_shown, [TICKS[loss] for loss in losses_shown])
    panel.set_yticks([], minor=True)
    for power in POPULATIONS:
        panel.axhline(power * math.log(10.0), color=FAINT, linewidth=0.5)


def _tick_losses(smallest: float, largest: float) -> list[float]:
    """The ticks that have room, those of the reference lines before others."""
    near = TICK_DISTANCE / (72.0 * PANEL_HEIGHT - BESIDE_PANEL) * math.log(largest / smallest)
    lines = [power * math.log(10.0) for power in POPULATIONS]
    chosen: list[float] = []
    for loss in [*lines, *TICKS]:
        crowded = any(abs(math.log(loss / other)) < near for other in chosen)
        if smallest <= loss <= largest and not crowded:
            chosen.append(loss)
    return chosen


def _draw_curves(panel: Axes, rows: list[dict[str, Any]]) -> Curves:
    curves: Curves = {}
    for method, (look, _) in METHODS.items():
        # A loss of 0 has no place on the scale: such a curve starts at the first length that loses something.
        points = sorted(
            (row["length"], -row["log_ess_fraction"])
            for row in rows
            if row["method"] == method and row["log_ess_fraction"] < -ROUNDING
        )
        if points:
            lengths, losses = np.array(points).T
            curves[method] = lengths, losses
            properties = look._asdict() if len(points) <= FEW_POINTS else look.line()
            panel.plot(lengths, losses, **properties)
    if not curves:
        panel.text(0.5, 0.5, "nothing lost at any length", transform=panel.transAxes, ha="center")
    return curves


def _mark_crossings(panel: Axes, crossings: list[dict[str, Any]], curves: Curves) -> None:
    top = min(panel.get_ylim())
    left, right = (math.log(end) for end in panel.get_xlim())
    places: dict[str, float] = {}
    for crossing in crossings:
        if crossing["second"] not in curves:
            continue
        length = crossing["length"]
        lengths, losses = curves[crossing["second"]]
        loss = math.exp(float(np.interp(math.log(length), np.log(lengths), np.log(losses))))
        panel.plot([length, length], [top, max(loss, top)], color=FAINT, linewidth=0.5)
        panel.plot(length, max(loss, top), **RING)
        places[length_text(length)] = (math.log(length) - left) / (right - left)
    widest = max((text_width(text, SMALLEST_FONT) for text in places), default=0.0) + 4.0
    shifted = spread(list(places.values()), widest / panel_points(panel))
    for text, place in zip(places, shifted, strict=True):
        panel.annotate(
            text,
            (place, 1.0),
            xycoords="axes fraction",
            xytext=(0, 1.5),
            textcoords="offset points",
            horizontalalignment="center",
            verticalalignment="bottom",
            fontsize=SMALLEST_FONT,
        )


def length_text(length: float) -> str:
    """A crossover length in print: whole tokens, with one decimal below 10 where there is one."""
    return f"{length:.0f}" if length >= 10.0 else f"{length:.2g}"
