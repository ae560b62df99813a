"""What the figure of power sampling on transformers shows is what its table says."""

import numpy as np
from matplotlib.axes import Axes

from paper_figures import power_on_transformers
from paper_figures.build import HOME, read_table
from paper_figures.columns import split_rows
from paper_figures.style import BASE, INK, POWER, TEMPERATURE


def lines_in(panel: Axes, color: str) -> list[tuple[list[float], list[float]]]:
    return [
        (np.asarray(line.get_xdata()).tolist(), np.asarray(line.get_ydata()).tolist())
        for line in panel.lines
        if line.get_color() == color
    ]


def test_methods_on_transformers_are_dots_beside_exact_lines() -> None:
    """A row of panels an exponent, a panel a metric; methods from top to bottom."""
    table = read_table(HOME / "tables" / "power_on_transformers.csv")
    groups = split_rows(table, "alpha", "metric")
    axes = power_on_transformers.draw(table).axes
    assert len(axes) == len(groups)
    labels = power_on_transformers.METHODS
    order = ("accuracy", "log_p", "diversity")
    alphas = list(dict.fromkeys(alpha for alpha, _ in groups))
    for place, panel in enumerate(axes):
        rows = groups[alphas[place // 3], order[place % 3]]
        value = {row["method"]: row for row in rows}
        for law, color in (
            ("base_law", BASE),
            ("temperature_law", TEMPERATURE),
            ("power_law", POWER),
        ):
            ((found, _),) = lines_in(panel, color.color)
            assert found == [value[law]["value"]] * 2
        shown = [method for method in labels if method in value]
        expected = [
            ends
            for at, method in enumerate(shown)
            for ends in (
                ([value[method]["low"], value[method]["high"]], [at, at]),
                ([value[method]["paired_low"], value[method]["paired_high"]], [at, at]),
                ([value[method]["value"]], [at]),
            )
        ]
        assert lines_in(panel, INK) == expected
        if place % 3 == 0:
            texts = [label.get_text() for label in panel.get_yticklabels()]
            assert texts == [labels[method] for method in shown]
            assert f"= {alphas[place // 3]:g}" in panel.get_title(loc="left")
        bottom, top = panel.get_ylim()
        assert bottom > top
