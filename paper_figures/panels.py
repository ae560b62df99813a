"""One panel a model: their grid, what is written around them, and text that users give."""

import math
from collections.abc import Mapping, Sequence
from functools import cache
from statistics import fmean

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.ft2font import LoadFlags

from paper_figures.style import DOUBLE_COLUMN, FONT, LEGEND_FONT, SINGLE_COLUMN, TITLE_FONT

MOST_LETTERS = 200
"""Tried at most when text is cut: no line of print holds more."""


def panel_figure(
    num_panels: int, panel_height: float, legend: Sequence[Artist]
) -> tuple[Figure, list[Axes]]:
    """An empty figure with one panel a model: one alone fills a column, more fill the page.

    Args:
        num_panels: at least 1.
        panel_height: inches, with the panel's own labels.
        legend: labelled, in reading order; it stands over the panels, where no data can be.

    Returns:
        The figure and its panels, row by row.
    """
    num_columns = {1: 1, 2: 2, 4: 2}.get(num_panels, 3)
    num_rows = math.ceil(num_panels / num_columns)
    width = SINGLE_COLUMN if num_panels == 1 else DOUBLE_COLUMN
    legend_columns = _legend_columns([str(handle.get_label()) for handle in legend], 72.0 * width)
    legend_height = 0.155 * math.ceil(len(legend) / legend_columns)
    height = num_rows * panel_height + legend_height + 0.1
    figure = Figure(figsize=(width, height), layout="constrained")
    figure.legend(handles=list(legend), loc="outside upper left", ncols=legend_columns)
    grid = figure.subplots(num_rows, num_columns, squeeze=False)
    axes = [panel for row in grid for panel in row]
    for unused in axes[num_panels:]:
        unused.remove()
    return figure, axes[:num_panels]


def _legend_columns(labels: list[str], room: float) -> int:
    # Points: the sample and the space around it take 33; the last column has no space after it.
    widths = [33.0 + text_width(label, LEGEND_FONT) for label in labels]
    for num_columns in range(len(labels), 1, -1):
        if sum(map(max, np.array_split(widths, num_columns))) - 12.0 <= room:
            # No more columns than that many rows need.
            return math.ceil(len(labels) / math.ceil(len(labels) / num_columns))
    return 1


def label_axes(figure: Figure, panels: Sequence[Axes], x: str, y: str) -> None:
    """Name the axes that all panels share: once below them all, and once a row.

    Args:
        figure: made by `panel_figure`.
        panels: of it.
        x: with its unit.
        y: with its unit; at most some 22 letters a line.
    """
    figure.supxlabel(x)
    for panel in panels:
        place = panel.get_subplotspec()
        if place is not None and place.is_first_col():
            panel.set_ylabel(y)
    figure.align_ylabels()


def common_scale(panels: Sequence[Axes]) -> None:
    """Leave out the tick labels that repeat those of the first panel in a row, where all share one vertical scale."""
    for panel in panels:
        place = panel.get_subplotspec()
        if place is not None and not place.is_first_col():
            panel.tick_params(axis="y", labelleft=False)


def panel_points(panel: Axes) -> float:
    """About how wide a panel of `panel_figure` is, without its labels, in points."""
    grid, figure = panel.get_subplotspec(), panel.get_figure(root=True)
    assert grid is not None and figure is not None
    return 72.0 * (figure.get_figwidth() / grid.get_gridspec().ncols - 0.5)


def title_panels(figure: Figure, titles: Mapping[Axes, tuple[str, str]], pad: float = 4.0) -> None:
    """Head each panel with the name of its model, cut to the panel's width, and fix the layout: the last thing to draw.

    Args:
        figure: made by `panel_figure`.
        titles: from a panel to a user's text, which may be cut, and what of ours follows it, which is not and may
            start a second line.
        pad: points between panel and title.
    """
    # The layout is made with titles of no width: a long one would push the panels aside.
    texts = {panel: panel.set_title(f" {detail}", pad=pad) for panel, (_, detail) in titles.items()}
    figure.draw_without_rendering()
    for panel, (label, detail) in titles.items():
        room = 72.0 * panel.get_window_extent().width / figure.dpi
        texts[panel].set_parse_math(False)
        room -= text_width(detail.partition("\n")[0], TITLE_FONT)
        texts[panel].set_text(fit_text(label, room, TITLE_FONT) + detail)
    # Laid out once, so that PDF and PNG are the same picture.
    figure.set_layout_engine("none")


def fit_text(text: str, room: float, size: float, weight: str = "normal") -> str:
    """Text of a user's, such as tokens, made fit to print.

    Args:
        text: anything; what the font lacks, and what would break a line, is written as Python escapes it.
        room: points; the middle of a wider text gives way to an ellipsis.
        size: of the font, points.
        weight: of the font.

    Returns:
        One line. Draw it with `parse_math=False`: a dollar is a dollar.
    """
    escaped = "".join(
        letter if letter.isprintable() and ord(letter) in _letters() else ascii(letter)[1:-1]
        for letter in text
    )
    shown = escaped
    for kept in range(min(len(escaped), MOST_LETTERS) - 1, -1, -1):
        if text_width(shown, size, weight) <= room:
            break
        shown = f"{escaped[: kept - kept // 2]}…{escaped[len(escaped) - kept // 2 :]}"
    return shown


def fit_words(text: str, room: float, size: float) -> str:
    """A sequence of a user's tokens made fit to print: a long one keeps whole tokens at both ends and says how many it has.

    Args:
        text: tokens with blanks between them.
        room: points.
        size: of the font, points.

    Returns:
        One line; where not even one token at each end fits, cut as by `fit_text`.
    """
    words = text.split(" ")
    whole = fit_text(text, math.inf, size)
    if text_width(whole, size) <= room:
        return whole
    for kept in range(min(len(words) - 1, MOST_LETTERS), 1, -1):
        first, last = words[: kept - kept // 2], words[len(words) - kept // 2 :]
        shown = fit_text(" ".join([*first, "…", *last]), math.inf, size)
        if text_width(shown := f"{shown} ({len(words)} tokens)", size) <= room:
            return shown
    return fit_text(text, room, size)


def text_width(text: str, size: float, weight: str = "normal") -> float:
    """How wide a line of text is.

    Args:
        text: one line.
        size: of the font, points.
        weight: of the font.

    Returns:
        Points.
    """
    font = get_font(findfont(FontProperties(family=FONT, weight=weight)))
    font.set_size(size, 72.0)
    font.set_text(text, 0.0, flags=LoadFlags.NO_HINTING)
    return font.get_width_height()[0] / 64.0


@cache
def _letters() -> frozenset[int]:
    return frozenset(get_font(findfont(FontProperties(family=FONT))).get_charmap())


def spread(places: list[float], gap: float) -> list[float]:
    """Move labels apart, as little as possible in squared distance, within [0, 1].

    Args:
        places: where the labels belong, in [0, 1].
        gap: least distance between two of them.

    Returns:
        Where they go, in the same order; past 1 where [0, 1] has no room for all.
    """
    order = sorted(range(len(places)), key=lambda i: places[i])
    # Less i gaps, the i-th place may not be below the one before it: isotonic regression by pooling neighbours.
    blocks: list[list[float]] = []
    for rank, i in enumerate(order):
        blocks.append([places[i] - rank * gap])
        while len(blocks) > 1 and fmean(blocks[-2]) > fmean(blocks[-1]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    highest = 1.0 - gap * (len(places) - 1)
    levels = [fmean(block) for block in blocks for _ in block]
    moved = list(places)
    for rank, (i, level) in enumerate(zip(order, levels, strict=True)):
        moved[i] = max(0.0, min(level, highest)) + rank * gap
    return moved
