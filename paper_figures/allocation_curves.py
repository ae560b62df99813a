"""Figure: what a policy has learnt for its rollouts, by the rule that spent them.

Claim: rules that give prompts up early, or remember them, reach the same accuracy for fewer rollouts; batched dynamic sampling needs more than uniform allocation.

Table `allocation_curves`: mean pass@1 of held-out prompts over seeds with a 95 % t interval, at the rollouts drawn so far, while every seed's run goes on. Produced
by the allocation-bandit experiment.
"""

from typing import Any

import pyarrow as pa
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from paper_figures.columns import Column, Layout, split_rows
from paper_figures.panels import label_axes, panel_figure, title_panels
from paper_figures.style import (
    ADAPTED,
    BASE,
    BEST_PROPOSAL,
    INDEPENDENT_CHAIN,
    POPULATION,
    POWER,
    TEMPERATURE,
    Look,
    mark,
    paper_style,
)

METHODS: dict[str, tuple[Look, str]] = {
    "uniform": (Look(BASE.color, "", (0.0, (1.0, 1.2))), "uniform"),
    "dapo": (Look(TEMPERATURE.color, "", (0.0, (4.0, 1.4))), "DAPO (batched)"),
    "dynamic-sampling": (
        Look(INDEPENDENT_CHAIN.color, "", (0.0, (4.0, 1.4))),
        "dynamic sampling, exact",
    ),
    "pilot-commit": (Look(POPULATION.color, "", (0.0, (5.0, 1.0, 1.2, 1.0))), "Pilot-Commit"),
    "sara": (Look(ADAPTED.color, "", (0.0, (2.0, 0.8))), "SARA"),
    "sara-on-dps": (Look(BEST_PROPOSAL.color, "", "solid"), "SARA on DPS"),
    "predictive-stopping": (Look(POWER.color, "", "solid"), "predictive stopping"),
}
"""In the order of drawing. Colours of the palette; they stand for rules here."""

LAYOUT = Layout(
    (
        Column("regime", str),
        Column("method", str, choices=tuple(METHODS)),
        Column("rollouts", float, low=0.0),
        Column("accuracy", float, low=0.0, high=1.0),
        Column("low", float),
        Column("high", float),
    )
)

PANEL_HEIGHT = 1.75


def draw(table: pa.Table) -> Figure:
    """Pass@1 against rollouts, a band for the seeds; one panel a regime.

    Args:
        table: columns as in `LAYOUT`.

    Returns:
        The figure.

    Raises:
        InvalidInput: the table has no rows.
    """
    groups = split_rows(table, "regime")
    with paper_style():
        figure, panels = panel_figure(len(groups), PANEL_HEIGHT, _legend())
        for panel, rows in zip(panels, groups.values(), strict=True):
            _draw_panel(panel, rows)
        label_axes(figure, panels, "rollouts drawn, thousands", "pass@1, held out")
        titles = {
            panel: (f"regime {regime}", "") for panel, (regime,) in zip(panels, groups, strict=True)
        }
        title_panels(figure, titles)
    return figure


def _draw_panel(panel: Axes, rows: list[dict[str, Any]]) -> None:
    for method, (look, _) in METHODS.items():
        mine = sorted(
            (row for row in rows if row["method"] == method), key=lambda row: row["rollouts"]
        )
        if mine:
            x = [row["rollouts"] / 1000 for row in mine]
            low, high = ([row[side] for row in mine] for side in ("low", "high"))
            panel.fill_between(x, low, high, color=look.color, alpha=0.15, linewidth=0.0)
            panel.plot(x, [row["accuracy"] for row in mine], **look.line())
    panel.set_xlim(left=0.0)


def _legend() -> list[Artist]:
    return [mark(look, text) for look, text in METHODS.values()]
