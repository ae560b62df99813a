"""Figure: how far the laws drift apart as alpha leaves 1, and how far the small-alpha law tells it.

Claim: KL(power || temperature) and KL(power || base) vanish to second order at alpha = 1, with coefficients that base
samples alone can estimate; further away the law is wrong, too large or too small, so it is stated within a radius only.

Table `divergence_against_alpha`, exact values: KL in nats and the law (alpha - 1)^2 / 2 times the variance, under the
base model, of the summed next-token entropies (temperature) or of log p (base). `radius_alpha` r says where the law
is stated to hold: |alpha - 1| <= r - 1; NaN: nowhere. Produced by the power-versus-temperature experiment.
"""

import math
from typing import Any

import numpy as np
import pyarrow as pa
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from paper_figures.columns import ALPHA, LABEL, MODEL, Column, Layout, split_rows
from paper_figures.panels import (
    label_axes,
    panel_figure,
    title_panels,
)
from paper_figures.style import (
    ALPHA_TEXT,
    BASE,
    FAINT,
    INK,
    TEMPERATURE,
    Look,
    mark,
    paper_style,
)

QUANTITIES: dict[str, tuple[Look, str]] = {
    "kl_power_base": (BASE, "KL(power ‖ base)"),
    "kl_power_temperature": (TEMPERATURE, f"KL(power ‖ temperature 1/{ALPHA_TEXT})"),
}
"""Each divergence in the colour of the law that power is compared with."""

LAYOUT = Layout(
    (
        MODEL,
        LABEL,
        ALPHA,
        Column("quantity", str, choices=tuple(QUANTITIES)),
        Column("exact", float, low=0.0),
        Column("small_alpha_law", float, low=0.0),
        Column("radius_alpha", float, low=1.0, may_be_nan=True),
    )
)

LAW: dict[str, Any] = {"linestyle": (0.0, (3.0, 1.5)), "linewidth": 0.9}

ALPHA_TICKS = tuple(2.0**power for power in range(-6, 11))

DIVERGENCE_TICKS = tuple(digit * 10.0**power for power in range(5, -6, -1) for digit in (5, 2, 1))
"""Candidates, largest first."""

TICK_DISTANCE = 0.13
"""Least distance of two ticks, as a fraction of the panel's height."""

HELD: dict[str, Any] = {"color": FAINT, "alpha": 0.35, "linewidth": 1.0}
"""The band where the law is stated to hold; its edge keeps a narrow one visible."""


def draw(table: pa.Table) -> Figure:
    """Exact divergence as a line, the law dashed, a band where it is stated to hold; one panel a model.

    The vertical axis is a square-root scale: it shows the zero at alpha = 1, and there the law is straight.

    Args:
        table: columns as in `LAYOUT`.

    Returns:
        The figure.

    Raises:
        InvalidInput: the table has no rows.
    """
    groups = split_rows(table, "model", "label")
    with paper_style():
        figure, panels = panel_figure(len(groups), 1.75, _legend())
        for panel, rows in zip(panels, groups.values(), strict=True):
            for quantity, (look, _) in QUANTITIES.items():
                chosen = [row for row in rows if row["quantity"] == quantity]
                if chosen:
                    _draw_quantity(panel, look, sorted(chosen, key=lambda row: row["alpha"]))
            _draw_band(panel, rows)
            _set_scales(panel, rows)
        label_axes(figure, panels, ALPHA_TEXT, "divergence (nats),\nsquare-root scale")
        title_panels(
            figure, {panel: (label, "") for panel, (_, label) in zip(panels, groups, strict=True)}
        )
    return figure


def _draw_quantity(panel: Axes, look: Look, rows: list[dict[str, Any]]) -> None:
    alphas = [row["alpha"] for row in rows]
    panel.plot(alphas, [row["exact"] for row in rows], color=look.color)
    panel.plot(alphas, [row["small_alpha_law"] for row in rows], color=look.color, **LAW)


def _draw_band(panel: Axes, rows: list[dict[str, Any]]) -> None:
    alphas = [row["alpha"] for row in rows]
    radius = rows[0]["radius_alpha"] - 1.0
    low, high = max(1.0 - radius, min(alphas)), min(1.0 + radius, max(alphas))
    if radius > 0.0 and low < high:
        panel.axvspan(low, high, zorder=0.5, **HELD)


def _set_scales(panel: Axes, rows: list[dict[str, Any]]) -> None:
    alphas = [row["alpha"] for row in rows]
    ticks = [alpha for alpha in ALPHA_TICKS if min(alphas) <= alpha <= max(alphas)]
    panel.set_xscale("log")
    panel.set_xticks(ticks, [f"{alpha:g}" for alpha in ticks])
    panel.set_xticks([], minor=True)
    top = 1.1 * max(1e-3, *(row["exact"] for row in rows))
    panel.set_yscale("function", functions=(_signed_root, np.square))
    panel.set_ylim(0.0, top)
    panel.set_yticks(_divergence_ticks(top))
    panel.yaxis.set_major_formatter("{x:g}")


def _divergence_ticks(top: float) -> list[float]:
    """From the top down, each as near to the last as can be read."""
    ticks = [0.0]
    highest = math.inf
    for tick in DIVERGENCE_TICKS:
        height = math.sqrt(tick / top)
        if tick < top and TICK_DISTANCE <= height <= highest - TICK_DISTANCE:
            ticks.append(tick)
            highest = height
    return ticks


def _signed_root(values: Any) -> Any:
    return np.sign(values) * np.sqrt(np.abs(values))


def _legend() -> list[Artist]:
    exact = [mark(look, name, marker="", linestyle="solid") for look, name in QUANTITIES.values()]
    law = Line2D([], [], color=INK, label=f"small-{ALPHA_TEXT} law", **LAW)
    held = Patch(label="where it is stated to hold", **HELD)
    return [*exact, law, held]
