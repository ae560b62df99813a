"""Every figure shows the numbers of its tables, and can be read at the size of a printed column."""

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba_array
from matplotlib.figure import Figure
from matplotlib.text import Annotation

from paper_figures import ess_against_length, two_laws
from paper_figures.build import FIGURES, HOME, LAYOUTS, read_table
from paper_figures.columns import ROUNDING, schema, split_rows
from paper_figures.style import BASE, INK, POWER, TEMPERATURE
from tests.paper_figures.legibility import drawn_texts, faults
from theory.errors import InvalidInput

AWKWARD_TOKENS = ["$x^2$ and $y$", "\n", "日本語", "<|endoftext|>", "w" * 70]
LONG_NAME = "A model whose $name$ is far longer than any panel is wide, by half a page or so"


def committed_tables(name: str) -> list[pa.Table]:
    return [read_table(HOME / "tables" / f"{table}.csv") for table in FIGURES[name].tables]


def awkward_tables(name: str) -> list[pa.Table]:
    """What a user's own model may give: one model, a long name, tokens that are hard to print, extreme numbers."""
    rows: dict[str, list[tuple[Any, ...]]] = {
        "two_laws": [
            (0.5, rank, token, 0.25, 0.2 - 0.03 * rank, 0.3 - 0.05 * rank)
            for rank, token in enumerate([*AWKWARD_TOKENS, "other 4091"])
        ],
        "divergence_against_alpha": [
            (alpha, "kl_power_base", (alpha - 1) ** 2 / 3, (alpha - 1) ** 2, math.nan)
            for alpha in (0.5, 1.0, 100.0)
        ],
        "ess_against_length": [
            (2.0, length, method, 1.0, -rate * length)
            for length in (1, 30, 1000)
            for method, rate in (("importance_base", 9.0), ("smc", 0.0), ("importance_best", 3e-3))
        ],
        "crossover_lengths": [
            (2.0, "importance_best", "importance_base", length)
            for length in (1.0, 900.0, 950.0, 1000.0)
        ],
        "first_token_ranking": [
            (0.5, token, law, 0.2)
            for token in AWKWARD_TOKENS
            for law in ("base", "temperature", "power")
        ],
    }
    tables: list[pa.Table] = []
    for table in FIGURES[name].tables:
        columns = zip(*(("model.json", LONG_NAME, *row) for row in rows[table]), strict=True)
        tables.append(pa.table([list(c) for c in columns], schema=schema(LAYOUTS[table])))
    return tables


def many_tables(name: str) -> list[pa.Table]:
    """Five models, so that the last row of panels is not full."""
    first, *others = awkward_tables(name)
    models = [
        first.set_column(0, "model", pa.array([f"model {i}"] * first.num_rows)) for i in range(5)
    ]
    return [pa.concat_tables(models), *others]


@cache
def committed_figure(name: str) -> Figure:
    return FIGURES[name].draw(*committed_tables(name))


@pytest.mark.parametrize("name", FIGURES)
def test_a_committed_figure_can_be_read(name: str) -> None:
    assert faults(committed_figure(name)) == []


@pytest.mark.parametrize("source", [awkward_tables, many_tables])
@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_of_any_model_can_be_read(
    name: str, source: Callable[[str], list[pa.Table]]
) -> None:
    assert faults(FIGURES[name].draw(*source(name))) == []


def test_one_alpha_is_named_once_and_several_in_the_titles() -> None:
    (table,) = awkward_tables("two_laws")
    other = table.set_column(2, "alpha", pa.array([3.0] * table.num_rows))
    alone = FIGURES["two_laws"].draw(table)
    both = FIGURES["two_laws"].draw(pa.concat_tables([table, other]))
    assert alone.get_supxlabel().endswith("= 0.5") and both.get_supxlabel().endswith("sequence")
    titles = [panel.get_title(loc="left") for panel in both.axes]
    assert [title.partition(" = ")[2] for title in titles] == ["0.5", "3"]
    assert faults(alone) == faults(both) == []


@pytest.mark.parametrize(
    ("spoil", "fault"),
    [
        (lambda figure: figure.axes[0].set_xlabel("tiny", fontsize=6.0), "small: tiny"),
        (lambda figure: figure.text(0.99, 0.5, "outside"), "clipped: outside"),
        (lambda figure: figure.axes[0].set_title("over", loc="center", x=0.1), "overlap: "),
        (lambda figure: figure.axes[0].plot([0, 1], color="red"), "colour: #ff0000"),
    ],
)
def test_a_spoilt_figure_is_caught(spoil: Callable[[Figure], object], fault: str) -> None:
    figure = FIGURES["two_laws"].draw(*awkward_tables("two_laws"))
    spoil(figure)
    assert any(found.startswith(fault) for found in faults(figure))


@pytest.mark.parametrize("name", FIGURES)
def test_a_table_without_rows_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="nothing to draw"):
        FIGURES[name].draw(*(table.slice(0, 0) for table in committed_tables(name)))


def panels_by_model(name: str, *keys: str) -> list[tuple[Axes, list[dict[str, Any]]]]:
    tables = committed_tables(name)
    groups = split_rows(tables[0], "model", *keys)
    return list(zip(committed_figure(name).axes, groups.values(), strict=True))


def lines_in(panel: Axes, color: str) -> list[tuple[list[float], list[float]]]:
    return [
        (np.asarray(line.get_xdata()).tolist(), np.asarray(line.get_ydata()).tolist())
        for line in panel.lines
        if line.get_color() == color
    ]


def test_two_laws_shows_its_table_most_likely_under_power_first() -> None:
    for panel, rows in panels_by_model("two_laws", "alpha"):
        rows = sorted(rows, key=lambda row: row["rank"])
        bars = [bar for bar in panel.collections if isinstance(bar, LineCollection)]
        for bar, law, look in zip(
            bars, ("power", "temperature"), (POWER, TEMPERATURE), strict=True
        ):
            np.testing.assert_array_equal(bar.get_color(), to_rgba_array(look.color))
            ends = [segment[1].tolist() for segment in bar.get_segments()]
            assert [x for x, _ in ends] == [row[law] for row in rows]
            heights = [y for _, y in ends]
            assert heights == sorted(heights) and panel.yaxis_inverted()
        ((base, _),) = lines_in(panel, BASE.color)
        assert base == [row["base"] for row in rows]
        powers = [row["power"] for row in rows if not row["sequence"].startswith(two_laws.OTHERS)]
        assert powers == sorted(powers, reverse=True)


def test_divergences_and_their_laws_are_drawn_and_reach_zero_at_one() -> None:
    for panel, rows in panels_by_model("divergence_against_alpha"):
        for quantity, look in (("kl_power_base", BASE), ("kl_power_temperature", TEMPERATURE)):
            mine = sorted((r for r in rows if r["quantity"] == quantity), key=lambda r: r["alpha"])
            alphas = [row["alpha"] for row in mine]
            assert lines_in(panel, look.color) == [
                (alphas, [row["exact"] for row in mine]),
                (alphas, [row["small_alpha_law"] for row in mine]),
            ]
        _, bottom = panel.transData.transform((1.0, 0.0))
        assert bottom == pytest.approx(panel.bbox.y0)


def test_the_law_is_shaded_up_to_its_radius_and_nowhere_where_there_is_none() -> None:
    def table(radius: float) -> pa.Table:
        rows = [
            ("m", "M", alpha, "kl_power_base", 0.4 * (alpha - 1) ** 2, (alpha - 1) ** 2, radius)
            for alpha in (0.25, 1.0, 2.0, 8.0)
        ]
        layout = LAYOUTS["divergence_against_alpha"]
        return pa.table([list(c) for c in zip(*rows, strict=True)], schema=schema(layout))

    draw = FIGURES["divergence_against_alpha"].draw
    (area,) = draw(table(1.5)).axes[0].collections
    corners = np.asarray(area.get_paths()[0].vertices)
    assert (corners[:, 0].min(), corners[:, 0].max()) == pytest.approx((0.5, 1.5))
    assert corners[:, 1].max() == pytest.approx(0.25)
    assert len(draw(table(math.nan)).axes[0].collections) == 0


def test_losses_and_crossovers_are_drawn_where_the_tables_say() -> None:
    name = "ess_against_length"
    crossings = committed_tables(name)[1].to_pylist()
    for panel, rows in panels_by_model(name, "alpha"):
        for method, (look, _) in ess_against_length.METHODS.items():
            losses = sorted(
                (float(row["length"]), -row["log_ess_fraction"])
                for row in rows
                if row["method"] == method and row["log_ess_fraction"] < -ROUNDING
            )
            drawn = lines_in(panel, look.color)
            assert drawn == ([tuple(map(list, zip(*losses, strict=True)))] if losses else [])
        here = {
            crossing["length"]
            for crossing in crossings
            if (crossing["model"], crossing["alpha"]) == (rows[0]["model"], rows[0]["alpha"])
        }
        assert {xs[0] for xs, _ in lines_in(panel, INK)} == here
        labels = {text.get_text() for text in panel.texts if isinstance(text, Annotation)}
        assert labels == {ess_against_length.length_text(length) for length in here}


def test_each_side_of_a_ranking_starts_from_the_base_and_names_its_first_token_in_bold() -> None:
    for panel, rows in panels_by_model("first_token_ranking"):
        largest = max(row["alpha"] for row in rows)
        for law, look, direction in (("temperature", TEMPERATURE, -1), ("power", POWER, 1)):
            ends = {
                row["token"]: row["probability"]
                for row in rows
                if row["law"] == law and row["alpha"] == largest
            }
            drawn = lines_in(panel, look.color)
            base = {row["token"]: row["probability"] for row in rows if row["law"] == "base"}
            assert [ys[0] for _, ys in drawn] == list(base.values())
            assert [ys[-1] for _, ys in drawn] == list(ends.values())
            assert {xs[-1] for xs, _ in drawn} == {direction * math.log2(largest)}
            bold = {
                text.get_text()
                for text in panel.texts
                if isinstance(text, Annotation)
                and text.get_fontweight() == "bold"
                and text.xy[0] * direction > 0
            }
            best = max(ends.values())
            assert bold == {token for token, share in ends.items() if share >= best - ROUNDING}


def test_a_rank_swap_is_told_by_different_bold_tokens() -> None:
    rows = [
        ("m", "M", 2.0, token, law, probability)
        for law, shares in (
            ("base", (0.5, 0.5)),
            ("temperature", (0.3, 0.7)),
            ("power", (0.7, 0.3)),
        )
        for token, probability in zip("ab", shares, strict=True)
    ]
    layout = LAYOUTS["first_token_ranking"]
    table = pa.table([list(c) for c in zip(*rows, strict=True)], schema=schema(layout))
    (panel,) = FIGURES["first_token_ranking"].draw(table).axes
    bold = [t for t in panel.texts if isinstance(t, Annotation) and t.get_fontweight() == "bold"]
    assert [(text.xy[0] > 0, text.get_text()) for text in bold] == [(False, "b"), (True, "a")]


def test_only_the_likeliest_tokens_are_drawn_and_the_title_says_so() -> None:
    rows = [
        ("m", "M", 2.0, f"t{i}", law, i / 36.0)
        for i in range(9)
        for law in ("base", "temperature", "power")
    ]
    layout = LAYOUTS["first_token_ranking"]
    table = pa.table([list(c) for c in zip(*rows, strict=True)], schema=schema(layout))
    figure = FIGURES["first_token_ranking"].draw(table)
    shown = {text.get_text() for text in drawn_texts(figure)}
    assert {"t5", "t6", "t7", "t8", "M, 4 of 9 tokens"} <= shown and "t4" not in shown
