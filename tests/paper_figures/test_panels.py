"""Text that users give, and labels that must not touch."""

from itertools import pairwise

import matplotlib as mpl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from paper_figures import style
from paper_figures.panels import fit_text, fit_words, panel_figure, spread, text_width
from paper_figures.style import (
    DOUBLE_COLUMN,
    PALETTE,
    POWER,
    RC_PARAMS,
    SINGLE_COLUMN,
    SMALLEST_FONT,
    mark,
    paper_style,
)

places = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=6)
gaps = st.floats(0.0, 0.2)


@given(places, gaps)
def test_spread_labels_keep_their_order_their_distance_and_their_range(
    wanted: list[float], gap: float
) -> None:
    assume(gap * (len(wanted) - 1) <= 1.0)
    moved = spread(wanted, gap)
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    for below, above in pairwise(order):
        assert moved[above] - moved[below] >= gap - 1e-12
    assert min(moved) >= 0.0 and max(moved) <= 1.0 + 1e-12


@given(places, gaps, st.lists(st.floats(-0.05, 0.05), min_size=6, max_size=6))
def test_no_other_placement_is_nearer_to_where_the_labels_belong(
    wanted: list[float], gap: float, moves: list[float]
) -> None:
    def distance(placed: list[float]) -> float:
        return sum((a - b) ** 2 for a, b in zip(placed, wanted, strict=True))

    assume(gap * (len(wanted) - 1) <= 1.0)
    moved = spread(wanted, gap)
    other = [place + move for place, move in zip(moved, moves, strict=False)]
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    allowed = all(other[above] - other[below] >= gap for below, above in pairwise(order))
    assume(allowed and min(other) >= 0.0 and max(other) <= 1.0)
    assert distance(moved) <= distance(other) + 1e-12


def test_spread_leaves_alone_what_has_room_and_centres_what_ties() -> None:
    assert spread([0.9, 0.1, 0.5], 0.1) == pytest.approx([0.9, 0.1, 0.5])
    assert spread([0.5, 0.5], 0.2) == pytest.approx([0.4, 0.6])


@given(st.text(), st.floats(8.0, 100.0), st.sampled_from(["normal", "bold"]))
def test_any_text_becomes_one_printable_line_that_fits(text: str, room: float, weight: str) -> None:
    shown = fit_text(text, room, SMALLEST_FONT, weight)
    assert shown.isprintable()
    assert text_width(shown, SMALLEST_FONT, weight) <= room


@pytest.mark.parametrize(
    ("text", "room", "shown"),
    [
        ("the", 50.0, "the"),
        ("\n", 50.0, r"\n"),
        ("日本", 90.0, r"\u65e5\u672c"),
        ("‖ →", 50.0, "‖ →"),
        ("abcdefghij", 30.0, "abc…hij"),
        ("abcdefghij", 0.0, "…"),
    ],
)
def test_text_is_escaped_and_cut_in_the_middle(text: str, room: float, shown: str) -> None:
    assert fit_text(text, room, SMALLEST_FONT) == shown


@pytest.mark.parametrize(
    ("text", "room", "shown"),
    [
        ("a b c", 50.0, "a b c"),
        ("sharp sharp sharp sharp sharp sharp", 100.0, "sharp … sharp (6 tokens)"),
        ("a " * 29 + "b", 100.0, "a a a a … a a b (30 tokens)"),
        ("w" * 30, 40.0, "wwwww"),
    ],
)
def test_a_long_sequence_keeps_whole_tokens_and_says_how_many(
    text: str, room: float, shown: str
) -> None:
    found = fit_words(text, room, SMALLEST_FONT)
    assert found == shown or (shown in text and found.count("…") == 1)
    assert text_width(found, SMALLEST_FONT) <= room


@given(st.lists(st.text(max_size=8), min_size=1, max_size=30), st.floats(8.0, 150.0))
def test_any_sequence_becomes_one_printable_line_that_fits(words: list[str], room: float) -> None:
    found = fit_words(" ".join(words), room, SMALLEST_FONT)
    assert found.isprintable()
    assert text_width(found, SMALLEST_FONT) <= room


def test_the_width_of_text_is_what_is_drawn() -> None:
    with paper_style():
        figure = Figure()
        for text in ("W" * 20, "il" * 10, "two laws"):
            drawn = figure.text(0.0, 0.5, text, fontsize=SMALLEST_FONT).get_window_extent()
            points = 72.0 * drawn.width / figure.dpi
            assert text_width(text, SMALLEST_FONT) == pytest.approx(points, rel=0.02)


@pytest.mark.parametrize(
    ("num_panels", "rows", "columns"), [(1, 1, 1), (2, 1, 2), (3, 1, 3), (4, 2, 2), (7, 3, 3)]
)
def test_one_panel_fills_a_column_and_more_fill_the_page(
    num_panels: int, rows: int, columns: int
) -> None:
    figure, panels = panel_figure(num_panels, 2.0, [mark(POWER, "power")])
    grid = panels[0].get_subplotspec()
    assert grid is not None
    assert len(panels) == len(figure.axes) == num_panels
    assert (grid.get_gridspec().nrows, grid.get_gridspec().ncols) == (rows, columns)
    assert figure.get_figwidth() == (SINGLE_COLUMN if num_panels == 1 else DOUBLE_COLUMN)


def test_the_style_starts_from_the_defaults_and_puts_back_what_it_found() -> None:
    with mpl.rc_context({"font.size": 31.0, "lines.dashed_pattern": (9.0, 9.0)}):
        before = dict(mpl.rcParams)
        with paper_style():
            assert mpl.rcParams["font.size"] == RC_PARAMS["font.size"]
            assert (
                mpl.rcParams["lines.dashed_pattern"] == mpl.rcParamsDefault["lines.dashed_pattern"]
            )
        assert dict(mpl.rcParams) == before


def test_no_font_of_the_style_is_too_small() -> None:
    sizes = [value for name, value in RC_PARAMS.items() if name.endswith("size") and value > 5.0]
    assert len(sizes) >= 5 and min(sizes) >= SMALLEST_FONT


def test_the_looks_are_told_apart_without_colour() -> None:
    looks = [
        *(style.BASE, style.TEMPERATURE, style.POWER),
        *(style.BEST_PROPOSAL, style.POPULATION, style.ADAPTED),
    ]
    every = [value for value in vars(style).values() if isinstance(value, style.Look)]
    assert len({look.marker for look in every}) == len(every)
    assert len({(look.linestyle, look.linewidth) for look in looks}) == len(looks)
    assert {look.color for look in every} == PALETTE
