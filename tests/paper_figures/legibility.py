"""What makes a figure unreadable, as a list of faults."""

from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import Collection
from matplotlib.colors import to_hex, to_rgba_array
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.text import Text

from paper_figures.style import FAINT, INK, PALETTE, SMALLEST_FONT, paper_style

ALLOWED_COLORS = {color.lower() for color in (*PALETTE, INK, FAINT, "#FFFFFF")}


def faults(figure: Figure) -> list[str]:
    """Small, clipped or overlapping text, and colours without a meaning."""
    figure.set_dpi(100.0)
    canvas = FigureCanvasAgg(figure)
    with paper_style():
        canvas.draw()
    width, height = canvas.get_width_height()
    shown = drawn_texts(figure)
    # Half a point of slack: boxes include the empty edge of a glyph.
    slack = 0.5 * figure.dpi / 72.0
    boxes = [text.get_window_extent().padded(-slack) for text in shown]
    found = [
        f"small: {text.get_text()}" for text in shown if float(text.get_fontsize()) < SMALLEST_FONT
    ]
    found += [
        f"clipped: {text.get_text()}"
        for text, box in zip(shown, boxes, strict=True)
        if box.x0 < 0 or box.y0 < 0 or box.x1 > width or box.y1 > height
    ]
    found += [
        f"overlap: {shown[j].get_text()}, {shown[i].get_text()}"
        for i, box in enumerate(boxes)
        for j in range(i)
        if box.overlaps(boxes[j])
    ]
    return found + [f"colour: {color}" for color in sorted(used_colors(figure) - ALLOWED_COLORS)]


def drawn_texts(figure: Figure) -> list[Text]:
    """Texts that are drawn: an axis keeps labels beyond its limits and does not draw them."""
    beyond: set[int] = set()
    for panel in figure.axes:
        for axis in (panel.xaxis, panel.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
                if not low <= tick.get_loc() <= high:
                    beyond |= {id(tick.label1), id(tick.label2)}
    return [
        text
        for text in figure.findobj(Text)
        if text.get_text() and text.get_visible() and id(text) not in beyond
    ]


def used_colors(figure: Figure) -> set[str]:
    """Colours of texts, lines, markers, bars and areas, without their opacity."""
    colors: list[Any] = [text.get_color() for text in drawn_texts(figure)]
    for artist in figure.findobj(lambda artist: artist.get_visible()):
        if isinstance(artist, Line2D):
            colors += [artist.get_color(), artist.get_markerfacecolor()]
        elif isinstance(artist, Patch):
            colors += [artist.get_facecolor()]
        elif isinstance(artist, Collection):
            colors += [*artist.get_facecolor(), *artist.get_edgecolor()]
    rows = np.concatenate([to_rgba_array(color) for color in colors])
    return {to_hex(row) for row in rows if row[3] > 0.0}
