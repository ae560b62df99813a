"""The figure of a validation run: which limits are drawn where, and which rows."""

from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

from experiments import tables
from paper_figures import validation_overview
from tests.paper_figures.legibility import faults

LEVEL = 1e-6


def row(kind: str, z: float, share: float, verdict: str = "ok") -> dict[str, Any]:
    return {"kernel": "k", "kind": kind, "z": z, "share_of_limit": share, "verdict": verdict}


def dots(panel: Axes) -> list[float]:
    drawn = [np.asarray(each.get_offsets())[:, 0] for each in panel.collections]
    return sorted(np.concatenate(drawn).tolist())


def limits(panel: Axes) -> list[float]:
    return [float(np.asarray(line.get_xdata())[0]) for line in panel.lines]


@pytest.fixture
def figure() -> Figure:
    rows = [
        row("mean", 1.0, 0.3),
        row("mean", 7.0, 0.4, "biased"),
        row("law", -5.0, 0.5),
        row("law", 0.5, 1e9, "underpowered"),
        row("exact", 0.0, 1.0),
        row("exact", np.inf, 1.0, "biased"),
    ]
    return validation_overview.draw(tables.from_rows(validation_overview.SCHEMA, rows), LEVEL)


def test_laws_have_a_limit_on_the_right_alone(figure: Figure) -> None:
    means, laws, seen = figure.axes
    edge = stats.norm.isf(LEVEL / 2)
    assert limits(means) == pytest.approx([-edge, edge])
    assert limits(laws) == pytest.approx([stats.norm.isf(LEVEL)])
    assert limits(seen) == [1.0]


def test_every_row_is_drawn_and_exact_ones_have_no_share(figure: Figure) -> None:
    means, laws, seen = figure.axes
    assert dots(means) == [0.0, 1.0, 7.0, 12.0]
    assert dots(laws) == [-5.0, 0.5]
    assert dots(seen) == pytest.approx([0.3, 0.4, 0.5, 10.0])


def test_shares_are_readable_and_verdicts_named(figure: Figure) -> None:
    labels = [tick.get_text() for tick in figure.axes[2].get_xticklabels()]
    assert labels == ["0.01", "0.1", "1", "10"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "ok", "biased", "underpowered",
    ]  # fmt: skip
    assert faults(figure) == []
