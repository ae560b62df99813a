"""Figure: what methods make of the same number of tokens.

Claim: where eos comes early, importance sampling from the base model errs least for its tokens, close to rejection under the smallest bound, which alone
gives exact draws; the same estimator from token temperature 1/alpha, SMC and the chains need many times the tokens.

Table `equal_cost_curves`: errors of one replicate against the tokens that it drew or read, with standard errors. `rmse_length` (tokens) and
`rmse_first_token` are root mean squared errors of expectations under the target; `tv` is the total variation of one row that
the method hands out (0, the exact draws of rejection, has no place on the axis), its `standard_error` what noise would show of exact draws. Produced by
the estimator-validation experiment.
"""

import math
from typing import Any

import numpy as np
import pyarrow as pa
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from paper_figures.columns import ALPHA, LABEL, MODEL, Column, Layout, split_rows
from paper_figures.estimator_panels import set_log_ticks
from paper_figures.panels import panel_figure, title_panels
from paper_figures.style import (
    ADAPTED,
    ALPHA_TEXT,
    BASE,
    INDEPENDENT_CHAIN,
    POPULATION,
    POWER,
    SUFFIX_CHAIN,
    TEMPERATURE,
    TEMPERED_CHAIN,
    Look,
    mark,
    paper_style,
)

METHODS: dict[str, tuple[Look, str]] = {
    "importance_base": (BASE, "IS, base"),
    "importance_temperature": (TEMPERATURE, f"IS, temperature 1/{ALPHA_TEXT}"),
    "rejection": (POWER, "rejection, smallest bound"),
    "smc": (POPULATION, "SMC, every step"),
    "smc_adapted": (ADAPTED, "SMC, fully adapted"),
    "independence_base": (INDEPENDENT_CHAIN, "independence MH, base"),
    "suffix_base": (SUFFIX_CHAIN, "suffix MH, base"),
    "tempering": (TEMPERED_CHAIN, "parallel tempering"),
}
"""In the order of drawing; SMC from temperature 1/alpha."""

METRICS = {
    "rmse_length": "RMSE of E[length], tokens",
    "rmse_first_token": "RMSE of P(first token)",
    "tv": "total variation of one row",
}

LAYOUT = Layout(
    (
        MODEL,
        LABEL,
        ALPHA,
        Column("metric", str, choices=tuple(METRICS)),
        Column("method", str, choices=tuple(METHODS)),
        Column("tokens", float, low=0.0),
        Column("error", float, low=0.0),
        Column("standard_error", float, low=0.0),
    )
)

SMALLEST = 1e-3
"""No error below is drawn: a total variation of 0 has no place on the axis."""

CLEAR = 2.0
"""Nor is one that is not so many times its standard error, or what noise would show of exact draws."""

PANEL_HEIGHT = 1.85


def draw(table: pa.Table) -> Figure:
    """Error against tokens on logarithmic axes, one line a method; one panel a model and metric.

    Args:
        table: columns as in `LAYOUT`.

    Returns:
        The figure.

    Raises:
        InvalidInput: the table has no rows.
    """
    groups = split_rows(table, "model", "label", "alpha", "metric")
    with paper_style():
        figure, panels = panel_figure(len(groups), PANEL_HEIGHT, _legend())
        titles: dict[Axes, tuple[str, str]] = {}
        for panel, ((_, label, alpha, metric), rows) in zip(panels, groups.items(), strict=True):
            _draw_panel(panel, rows)
            titles[panel] = (label, f", {ALPHA_TEXT} = {alpha:g}\n{METRICS[metric]}")
        figure.supxlabel("tokens drawn or read")
        title_panels(figure, titles)
    return figure


def _draw_panel(panel: Axes, rows: list[dict[str, Any]]) -> None:
    for method, (look, _) in METHODS.items():
        chosen = [row for row in rows if row["method"] == method and _is_drawn(row)]
        if chosen:
            chosen.sort(key=lambda row: row["tokens"])
            points = np.array([(row["tokens"], row["error"]) for row in chosen]).T
            panel.plot(*points, **look._asdict())
    errors = [row["error"] for row in rows if _is_drawn(row)] or [1.0]
    low, high = math.log10(min(errors)), math.log10(max(errors))
    room = 0.08 * max(high - low, 0.5)
    panel.set_yscale("log")
    panel.set_ylim(10 ** (low - room), 10 ** (high + room))
    set_log_ticks(panel, low - room, high + room)
    tokens = [row["tokens"] for row in rows]
    panel.set_xscale("log", base=2)
    panel.set_xlim(min(tokens) / 1.2, max(tokens) * 1.2)
    powers = range(math.ceil(math.log2(min(tokens))), math.floor(math.log2(max(tokens))) + 1)
    ticks = [2.0**power for power in powers][:: math.ceil(len(powers) / 5) or 1]
    panel.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    panel.set_xticks([], minor=True)


def _is_drawn(row: dict[str, Any]) -> bool:
    """Whether an error is one: not 0, and not what noise would show."""
    return row["error"] >= max(SMALLEST, CLEAR * row["standard_error"])


def _legend() -> list[Artist]:
    return [mark(look, text) for look, text in METHODS.values()]
