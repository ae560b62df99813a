"""Figure: sharpening by temperature and by power can rank first tokens in opposite orders.

Claim: both laws start from the base model at alpha = 1, yet as alpha moves away temperature favours the token that is
likely by itself and power the token that begins a likely sequence; where the two differ, so may the ranking. Of tokens that
tie for the first place none is set in bold.

Table `first_token_ranking`, exact values: the probability of each first token under the base model, token temperature
1/alpha and sequence power alpha, for each alpha. Produced by the power-versus-temperature experiment.
"""

import math
from typing import Any, NamedTuple

import pyarrow as pa
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from paper_figures.columns import ALPHA, LABEL, MODEL, ROUNDING, Column, Layout, split_rows
from paper_figures.panels import (
    common_scale,
    fit_text,
    label_axes,
    panel_figure,
    panel_points,
    spread,
    text_width,
    title_panels,
)
from paper_figures.style import (
    ALPHA_TEXT,
    BASE,
    FAINT,
    POWER,
    SMALLEST_FONT,
    TEMPERATURE,
    mark,
    paper_style,
)

LAYOUT = Layout(
    (
        MODEL,
        LABEL,
        ALPHA,
        Column("token", str),
        Column("law", str, choices=("base", "temperature", "power")),
        Column("probability", float, low=0.0, high=1.0),
    )
)

TOKEN_STYLES = ("solid", (0.0, (4.0, 1.4)), (0.0, (1.0, 1.2)), (0.0, (6.0, 1.2, 1.2, 1.2)))
"""One line style a token; of more tokens those are drawn that come to the largest probability under any law."""


class Curve(NamedTuple):
    """One token under one law.

    Attributes:
        distances: |log2 alpha|, ascending from 0.
        probabilities: as many; the first is the base model's, which both laws are at alpha = 1.
    """

    distances: list[float]
    probabilities: list[float]


def draw(table: pa.Table) -> Figure:
    """Temperature to the left, power to the right, the base model between them; one line a token, one panel a model.

    Drawn is the side of alpha = 1 on which the table goes further in log alpha: sharpening (alpha > 1) as a rule.

    Args:
        table: columns as in `LAYOUT`.

    Returns:
        The figure.

    Raises:
        InvalidInput: the table has no rows.
    """
    groups = split_rows(table, "model", "label")
    with paper_style():
        figure, panels = panel_figure(len(groups), 1.8, _legend())
        for panel, rows in zip(panels, groups.values(), strict=True):
            _draw_panel(panel, rows)
        directions = f"temperature 1/{ALPHA_TEXT}  ←  {ALPHA_TEXT}  →  power {ALPHA_TEXT}"
        x = f"{directions}     (bold: ranked first)"
        common_scale(panels)
        label_axes(figure, panels, x, "probability of\nthe first token")
        titles = [(label, _count(rows)) for (_, label), rows in groups.items()]
        title_panels(figure, dict(zip(panels, titles, strict=True)))
    return figure


def _legend() -> list[Artist]:
    return [
        mark(TEMPERATURE, f"token temperature 1/{ALPHA_TEXT}", marker="", linestyle="solid"),
        mark(BASE, "base model", linestyle=""),
        mark(POWER, f"sequence power {ALPHA_TEXT}", marker=""),
    ]


def _draw_panel(panel: Axes, rows: list[dict[str, Any]]) -> None:
    logs = [math.log2(row["alpha"]) for row in rows]
    side = 1.0 if max(logs) >= -min(logs) else -1.0
    extent = max(0.5, *(side * log for log in logs))
    tokens = _most_likely_tokens(rows)
    for law, look, direction in (("temperature", TEMPERATURE, -1.0), ("power", POWER, 1.0)):
        panel.axvspan(0.0, 3.0 * direction * extent, color=look.color, alpha=0.08, linewidth=0.0)
        curves = [_curve(rows, token, law, side) for token in tokens]
        for curve, style in zip(curves, TOKEN_STYLES, strict=False):
            positions = [direction * distance for distance in curve.distances]
            panel.plot(positions, curve.probabilities, color=look.color, linestyle=style)
        _label_ends(
            panel, tokens, [curve.probabilities[-1] for curve in curves], direction * extent
        )
    starts = [_curve(rows, token, "power", side).probabilities[0] for token in tokens]
    panel.axvline(0.0, color=FAINT, linewidth=0.5)
    panel.plot([0.0] * len(starts), starts, linestyle="", color=BASE.color, marker=BASE.marker)
    _set_scales(panel, tokens, extent, side)


def _most_likely_tokens(rows: list[dict[str, Any]]) -> list[str]:
    largest: dict[str, float] = {}
    for row in rows:
        largest[row["token"]] = max(row["probability"], largest.get(row["token"], 0.0))
    kept = sorted(largest, key=lambda token: -largest[token])[: len(TOKEN_STYLES)]
    return [token for token in largest if token in kept]


def _count(rows: list[dict[str, Any]]) -> str:
    num_tokens = len({row["token"] for row in rows})
    return f", {len(TOKEN_STYLES)} of {num_tokens} tokens" if num_tokens > len(TOKEN_STYLES) else ""


def _curve(rows: list[dict[str, Any]], token: str, law: str, side: float) -> Curve:
    mine = [row for row in rows if row["token"] == token]
    base = next(row["probability"] for row in mine if row["law"] == "base")
    points = sorted(
        (side * math.log2(row["alpha"]), row["probability"])
        for row in mine
        if row["law"] == law and side * math.log2(row["alpha"]) > 0.0
    )
    return Curve([0.0, *(x for x, _ in points)], [base, *(y for _, y in points)])


def _label_ends(panel: Axes, tokens: list[str], ends: list[float], position: float) -> None:
    outward = 3 if position > 0.0 else -3
    leaders = [end for end in ends if end >= max(ends) - ROUNDING]
    for token, end, height in zip(tokens, ends, spread(ends, 0.13), strict=True):
        panel.annotate(
            _shown(panel, token),
            (position, height),
            xytext=(outward, 0),
            textcoords="offset points",
            horizontalalignment="left" if position > 0.0 else "right",
            verticalalignment="center",
            fontsize=SMALLEST_FONT,
            fontweight="bold" if [end] == leaders else "normal",
            parse_math=False,
        )


def _shown(panel: Axes, token: str) -> str:
    return fit_text(token, 0.23 * panel_points(panel), SMALLEST_FONT, "bold")


def _set_scales(panel: Axes, tokens: list[str], extent: float, side: float) -> None:
    steps = range(-int(extent), int(extent) + 1)
    panel.set_xticks(
        [float(step) for step in steps], [f"{2.0 ** (side * abs(step)):g}" for step in steps]
    )
    # Room for the labels at both ends, with 3 points on either side of them.
    widest = max(text_width(_shown(panel, token), SMALLEST_FONT, "bold") for token in tokens)
    share = (widest + 6.0) / panel_points(panel)
    panel.set_xlim(-extent / (1.0 - 2.0 * share), extent / (1.0 - 2.0 * share))
    panel.set_ylim(-0.03, 1.03)
    panel.set_yticks([0.0, 0.5, 1.0])
