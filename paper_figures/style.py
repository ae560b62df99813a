"""How every figure looks: sizes, fonts, and colours with a fixed meaning.

Sizes are those of a printed column, so that a figure is never scaled: what is 8 pt here is 8 pt on paper. Nothing here
changes the settings of the process: a figure is drawn and saved inside `paper_style()`, which starts from
matplotlib's own defaults (never from a user's) and puts back what it found.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, NamedTuple

import matplotlib.style
from matplotlib.lines import Line2D

SINGLE_COLUMN = 3.25
"""Width of one column of a two-column paper, inches."""

DOUBLE_COLUMN = 6.75
"""Width of the whole page, inches."""

SMALLEST_FONT = 7.0
"""Points; no text is smaller, exponents excepted."""

ALPHA_TEXT = "\N{GREEK SMALL LETTER ALPHA}"
"""The power exponent in print."""

TITLE_FONT = 8.0
"""Points, of panel titles."""

LEGEND_FONT = 7.5
"""Points, of the legend and the names of the axes."""

INK = "#1A1A1A"
"""Text and frames."""

FAINT = "#8C8C8C"
"""Reference lines."""

FONT = "DejaVu Sans"
"""Comes with matplotlib, so that no machine lacks it."""

# Type 42 keeps text selectable and is what publishers accept.
RC_PARAMS: dict[str, Any] = {
    "font.family": FONT,
    "font.size": LEGEND_FONT,
    "axes.titlesize": TITLE_FONT,
    "axes.titlelocation": "left",
    "axes.titlepad": 4.0,
    "axes.labelsize": LEGEND_FONT,
    "xtick.labelsize": SMALLEST_FONT,
    "ytick.labelsize": SMALLEST_FONT,
    "legend.fontsize": LEGEND_FONT,
    "text.color": INK,
    "axes.titlecolor": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.linewidth": 0.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "xtick.major.width": 0.5,
    "ytick.major.width": 0.5,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.major.pad": 2.0,
    "ytick.major.pad": 2.0,
    "lines.linewidth": 1.3,
    "lines.markersize": 3.5,
    "figure.labelsize": LEGEND_FONT,
    "legend.frameon": False,
    "legend.handlelength": 2.0,
    "legend.borderpad": 0.2,
    "legend.labelspacing": 0.35,
    "legend.columnspacing": 1.6,
    "figure.facecolor": "white",
    "figure.constrained_layout.h_pad": 0.03,
    "figure.constrained_layout.w_pad": 0.03,
    # One resolution for layout and PNG, and letters as wide there as in the PDF.
    "figure.dpi": 300.0,
    "savefig.dpi": "figure",
    "text.hinting": "no_hinting",
    "pdf.fonttype": 42,
    "pdf.compression": 9,
}


class Look(NamedTuple):
    """What one law or method looks like in every figure: told apart by any two of the three.

    Attributes:
        color: from the palette of Okabe and Ito (2008), plus a dark grey.
        marker: a matplotlib marker.
        linestyle: a matplotlib line style.
        linewidth: points.
        alpha: opacity.
    """

    color: str
    marker: str
    linestyle: str | tuple[float, tuple[float, ...]]
    linewidth: float = 1.3
    alpha: float = 1.0

    def line(self) -> dict[str, Any]:
        """Properties of a line without markers."""
        return self._asdict() | {"marker": ""}


BASE = Look("#595959", "s", (0.0, (1.0, 1.2)))
TEMPERATURE = Look("#E69F00", "^", (0.0, (4.0, 1.4)))
POWER = Look("#0072B2", "o", "solid")
# The best proposal often coincides with the base or the temperature: it is drawn as a wide line behind them.
BEST_PROPOSAL = Look("#009E73", "D", "solid", 3.2, 0.5)
POPULATION = Look("#CC79A7", "v", (0.0, (5.0, 1.0, 1.2, 1.0)), 1.6)
ADAPTED = Look("#D55E00", "P", (0.0, (2.0, 0.8)), 1.2)
POPULATION_FROM_BASE = Look("#CC79A7", "p", (0.0, (1.0, 1.2)), 1.6)
# Chains share a colour; marker and line tell them apart.
INDEPENDENT_CHAIN = Look("#56B4E9", "<", (0.0, (1.0, 1.2)))
SUFFIX_CHAIN = Look("#56B4E9", ">", "solid")
TEMPERED_CHAIN = Look("#56B4E9", "X", (0.0, (4.0, 1.4)))

PALETTE = frozenset(
    look.color
    for look in (BASE, TEMPERATURE, POWER, BEST_PROPOSAL, POPULATION, ADAPTED, SUFFIX_CHAIN)
)
"""The colours that carry meaning; everything else is INK, FAINT or white."""


@contextmanager
def paper_style() -> Generator[None, None, None]:
    """Draw or save with the settings of this module, whatever those of the process are."""
    with matplotlib.style.context(RC_PARAMS, after_reset=True):
        yield


def mark(look: Look, label: str, **changes: Any) -> Line2D:
    """A legend entry.

    Args:
        look: of the law or method.
        label: its name.
        **changes: line properties that differ from the look.

    Returns:
        A line that belongs to no panel.
    """
    properties = look._asdict()
    return Line2D([], [], label=label, **(properties | changes))
