"""What the two figures of estimators share: exact curves under simulated points, one panel a quantity.

Tables hold sizes: the variance of Z_hat / Z, the absolute bias of log Z_hat (nats), and the absolute bias of the self-normalised mean
(tokens where it is a length, else a probability), each exact (NaN where no exact value is known) and simulated with its
standard error. `axis` says which of `num_draws`, `alpha` and `length` is swept; the other two are fixed in a panel. Produced by the
estimator-validation experiment.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from paper_figures.columns import ALPHA, LABEL, MODEL, Column, Layout, split_rows
from paper_figures.panels import panel_figure, title_panels
from paper_figures.style import (
    ADAPTED,
    ALPHA_TEXT,
    BASE,
    INDEPENDENT_CHAIN,
    INK,
    POPULATION,
    POPULATION_FROM_BASE,
    POWER,
    TEMPERATURE,
    Look,
    mark,
    paper_style,
)

METHODS: dict[str, tuple[Look, str]] = {
    "importance_base": (BASE, "IS, base"),
    "importance_temperature": (TEMPERATURE, f"IS, temperature 1/{ALPHA_TEXT}"),
    "truncated": (POWER, f"IS, 1/{ALPHA_TEXT}, truncated"),
    "pareto": (INDEPENDENT_CHAIN, f"IS, 1/{ALPHA_TEXT}, Pareto-smoothed"),
    "smc_base": (POPULATION_FROM_BASE, "SMC every step, base"),
    "smc": (POPULATION, f"SMC every step, 1/{ALPHA_TEXT}"),
    "smc_adapted": (ADAPTED, "SMC, fully adapted"),
}
"""In the order of drawing; from temperature 1/alpha where nothing else is said."""

PANELS = {
    "variance_of_Z": "Var(Ẑ / Z)",
    "bias_of_log_Z": "|bias of log Ẑ|, nats",
    "bias_of_mean": "|bias of E[length]|, tokens",
}
"""What a panel shows."""

FIRST_TOKEN = "|bias of P(first token 0)|"
"""Its mean in the sweep over lengths, whose model has no eos, so that all of its sequences are equally long."""

AXES = {"num_draws": "draws N", "alpha": ALPHA_TEXT, "length": "length (tokens)"}

LAYOUT = Layout(
    (
        MODEL,
        LABEL,
        Column("panel", str, choices=tuple(PANELS)),
        Column("axis", str, choices=tuple(AXES)),
        ALPHA,
        Column("num_draws", int, low=1),
        Column("length", int, low=1),
        Column("method", str, choices=tuple(METHODS)),
        Column("exact", float, low=0.0, may_be_nan=True),
        Column("simulated", float, low=0.0),
        Column("standard_error", float, low=0.0),
    )
)

CLEAR = 2.0
"""A bias is drawn where it is at least so many standard errors from 0: on a logarithmic axis noise would look like a value."""

SMALLEST = 1e-12
"""What is below is 0 up to rounding, and has no place on a logarithmic axis."""

PANEL_HEIGHT = 1.75


def draw_panels(table: pa.Table) -> Figure:
    """One panel a model, quantity and axis.

    Args:
        table: columns as in `LAYOUT`.

    Returns:
        The figure.

    Raises:
        InvalidInput: the table has no rows.
    """
    groups = split_rows(table, "model", "label", "axis", "panel")
    shown = {row["method"] for row in table.to_pylist()}
    with paper_style():
        figure, panels = panel_figure(len(groups), PANEL_HEIGHT, _legend(shown))
        titles: dict[Axes, tuple[str, str]] = {}
        for panel, ((_, label, axis, quantity), rows) in zip(panels, groups.items(), strict=True):
            for method in METHODS:
                chosen = [row for row in rows if row["method"] == method]
                _draw_method(panel, method, axis, quantity, chosen)
            _set_scales(panel, axis, rows)
            panel.set_xlabel(AXES[axis])
            is_first_token = (axis, quantity) == ("length", "bias_of_mean")
            shown_quantity = FIRST_TOKEN if is_first_token else PANELS[quantity]
            titles[panel] = (label, f", {_fixed(axis, rows)}\n{shown_quantity}")
        title_panels(figure, titles)
    return figure


def _draw_method(
    panel: Axes, method: str, axis: str, quantity: str, rows: Sequence[dict[str, Any]]
) -> None:
    look, _ = METHODS[method]
    rows = sorted(rows, key=lambda row: row[axis])
    known = [(row[axis], row["exact"]) for row in rows if row["exact"] > SMALLEST]
    if known:
        panel.plot(*np.array(known, float).T, **look.line(), gid=f"exact {method}")
    clear = [
        row
        for row in rows
        if row["simulated"] > SMALLEST
        and (quantity == "variance_of_Z" or row["simulated"] > CLEAR * row["standard_error"])
    ]
    if clear:
        xs = [float(row[axis]) for row in clear]
        panel.plot(
            xs,
            [row["simulated"] for row in clear],
            color=look.color,
            marker=look.marker,
            linestyle="",
            gid=f"simulated {method}",
        )
        for x, row in zip(xs, clear, strict=True):
            ends = (row["simulated"] + sign * row["standard_error"] for sign in (-1.0, 1.0))
            panel.plot(
                [x, x], [max(end, SMALLEST) for end in ends], color=look.color, linewidth=0.8
            )


def _set_scales(panel: Axes, axis: str, rows: Sequence[dict[str, Any]]) -> None:
    values = sorted({float(row[axis]) for row in rows})
    panel.set_xscale("log", base=2)
    panel.set_xlim(values[0] / 1.3, values[-1] * 1.3)
    ticks = _few(values)
    panel.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    panel.set_xticks([], minor=True)
    sizes = [
        size
        for row in rows
        for size in (row["exact"], row["simulated"])
        if not math.isnan(size) and size > SMALLEST
    ]
    if not sizes:
        sizes = [1.0]
    low, high = math.log10(min(sizes)), math.log10(max(sizes))
    room = 0.08 * max(high - low, 0.5)
    panel.set_yscale("log")
    panel.set_ylim(10 ** (low - room), 10 ** (high + room))
    set_log_ticks(panel, low - room, high + room)


def set_log_ticks(panel: Axes, low: float, high: float) -> None:
    """Ticks of a logarithmic vertical axis: powers of ten, at most five; digits between them where there are fewer than two.

    Args:
        panel: whose limits are set.
        low: log10 of the lower limit.
        high: log10 of the upper limit.
    """
    powers = list(range(math.ceil(low), math.floor(high) + 1))
    powers = powers[:: math.ceil(len(powers) / 5) or 1]
    if len(powers) >= 2:
        ticks = {10.0**power: f"$10^{{{power}}}$" for power in powers}
    else:
        middle = math.floor(low)
        candidates = [digit * 10.0**power for power in (middle, middle + 1) for digit in (1, 2, 5)]
        inside = [tick for tick in candidates if low <= math.log10(tick) <= high]
        ticks = {tick: f"{tick:g}" for tick in inside}
    panel.set_yticks(list(ticks), list(ticks.values()))
    panel.set_yticks([], minor=True)


def _few(values: list[float]) -> list[float]:
    """Values that have room as ticks: at least a factor 1.3 apart and at most six of them."""
    kept: list[float] = []
    for value in values:
        if not kept or value >= 1.3 * kept[-1]:
            kept.append(value)
    return kept[:: math.ceil(len(kept) / 6)]


def _fixed(axis: str, rows: Sequence[dict[str, Any]]) -> str:
    row = rows[0]
    alpha, draws = f"{ALPHA_TEXT} = {row['alpha']:g}", f"N = {row['num_draws']}"
    return {"num_draws": alpha, "alpha": draws, "length": f"{alpha}, {draws}"}[axis]


def _legend(shown: set[str]) -> list[Artist]:
    looks = [mark(look, text) for method, (look, text) in METHODS.items() if method in shown]
    exact = Line2D([], [], color=INK, label="lines: exact")
    points = Line2D([], [], color=INK, marker="o", linestyle="", label="points: simulated, ±1 s.e.")
    return [*looks, exact, points]
