"""Figure: power and temperature on a trained transformer, every method at the same number of generated tokens.

Claim: power is right more often than temperature 1/alpha where planning matters, and what a method hands out for a few hundred tokens is near the
power law where its proposal is.

Table `power_on_transformers`: means over prompts with 95 % bootstrap intervals over prompts; `method` holds the methods and the three exact laws, whose
interval is over prompts too. Prompts differ more than methods do: `paired_low` and `paired_high` are the interval of the difference from the power law on
the same prompts, added to the power law's mean. Produced by the power-on-transformers experiment.
"""

from typing import Any

import pyarrow as pa
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from paper_figures.columns import ALPHA, LABEL, MODEL, Column, Layout, split_rows
from paper_figures.panels import title_panels
from paper_figures.style import (
    ALPHA_TEXT,
    BASE,
    DOUBLE_COLUMN,
    INK,
    POWER,
    TEMPERATURE,
    Look,
    mark,
    paper_style,
)

LAWS: dict[str, tuple[Look, str]] = {
    "base_law": (BASE, "exact: base law"),
    "temperature_law": (TEMPERATURE, f"exact: temperature 1/{ALPHA_TEXT}"),
    "power_law": (POWER, f"exact: power {ALPHA_TEXT}"),
}

METHODS: dict[str, str] = {
    "temperature": f"temperature 1/{ALPHA_TEXT}",
    "importance": "importance sampling",
    "smc": "SMC",
    "smc_bridged": "SMC, bridged",
    "smc_lookahead": "SMC, look-ahead",
    "suffix": "suffix MH",
    "suffix_entropy": "suffix MH, entropy cuts",
    "blockwise": "blockwise MH",
}
"""From top to bottom."""

METRICS = {
    "accuracy": "probability of a right answer",
    "log_p": "mean log p, nats",
    "diversity": "P(two runs differ)",
}

LAYOUT = Layout(
    (
        MODEL,
        LABEL,
        ALPHA,
        Column("metric", str, choices=tuple(METRICS)),
        Column("method", str, choices=(*LAWS, *METHODS)),
        Column("value", float),
        Column("low", float),
        Column("high", float),
        Column("paired_low", float),
        Column("paired_high", float),
    )
)

ROW_HEIGHT = 0.19


def draw(table: pa.Table) -> Figure:
    """One row of panels an exponent, one panel a metric; dots with intervals for methods, lines for exact laws.

    Args:
        table: columns as in `LAYOUT`.

    Returns:
        The figure.

    Raises:
        InvalidInput: the table has no rows.
    """
    groups = split_rows(table, "model", "label", "alpha")
    shown = [name for name in METHODS if name in set(table["method"].to_pylist())]
    with paper_style():
        height = len(groups) * (0.75 + ROW_HEIGHT * max(len(shown), 2)) + 0.5
        figure = Figure(figsize=(DOUBLE_COLUMN, height), layout="constrained")
        figure.legend(handles=_legend(), loc="outside upper left", ncols=3)
        axes = figure.subplots(len(groups), len(METRICS), squeeze=False)
        titles: dict[Axes, tuple[str, str]] = {}
        for row, ((_, label, alpha), rows) in zip(axes, groups.items(), strict=True):
            for panel, (metric, text) in zip(row, METRICS.items(), strict=True):
                _draw_panel(panel, [one for one in rows if one["metric"] == metric], shown)
                panel.set_xlabel(text)
            titles[row[0]] = (label, f", {ALPHA_TEXT} = {alpha:g}")
            row[0].set_yticks(range(len(shown)), [METHODS[name] for name in shown])
            for panel in row[1:]:
                panel.set_yticks(range(len(shown)), [""] * len(shown))
        title_panels(figure, titles)
    return figure


def _draw_panel(panel: Axes, rows: list[dict[str, Any]], shown: list[str]) -> None:
    by_method = {row["method"]: row for row in rows}
    for name, (look, _) in LAWS.items():
        if name in by_method:
            panel.axvline(by_method[name]["value"], **look.line())
    for place, name in enumerate(shown):
        if name not in by_method:
            continue
        row = by_method[name]
        for low, high, width in (("low", "high", 0.6), ("paired_low", "paired_high", 2.6)):
            panel.plot([row[low], row[high]], [place, place], color=INK, linewidth=width)
        panel.plot(row["value"], place, color=INK, marker="o", markersize=3.5)
    panel.set_ylim(len(shown) - 0.5, -0.5)
    panel.tick_params(axis="y", length=0)


def _legend() -> list[Artist]:
    over_prompts, paired = Look(INK, "o", "solid", 0.6), Look(INK, "", "solid", 2.6)
    return [
        mark(over_prompts, "method, 95 % over prompts"),
        mark(paired, "paired with the power law"),
        *(mark(look._replace(marker=""), text) for look, text in LAWS.values()),
    ]
