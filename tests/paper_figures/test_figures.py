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
from matplotlib.patches import Rectangle
from matplotlib.text import Annotation

from paper_figures import ess_against_length
from paper_figures.build import FIGURES, HOME, LAYOUTS, read_table
from paper_figures.columns import ROUNDING, schema, split_rows
from paper_figures.style import ADAPTED, BASE, FAINT, INK, POWER, TEMPERATURE
from tests.paper_figures.legibility import drawn_texts, faults
from theory.errors import InvalidInput

AWKWARD_TOKENS = ["$x^2$ and $y$", "\n", "日本語", "<|endoftext|>", "w" * 70]
LONG_NAME = "A model whose $name$ is far longer than any panel is wide, by half a page or so"


# Of models that users may give; the others show what the house itself has made.
MODEL_FIGURES = [
    name for name, spec in FIGURES.items() if LAYOUTS[spec.tables[0]].columns[0].name == "model"
]


def committed_tables(name: str) -> list[pa.Table]:
    return [read_table(HOME / "tables" / f"{table}.csv") for table in FIGURES[name].tables]


def awkward_tables(name: str) -> list[pa.Table]:
    """What a user's own model may give: one model, a long name, tokens that are hard to print, extreme numbers."""
    rows: dict[str, list[tuple[Any, ...]]] = {
        "two_laws": [
            (0.5, rank, token, count, 0.25, 0.2 - 0.03 * rank, 0.3 - 0.05 * rank)
            for rank, (token, count) in enumerate(
                [*((token, 1) for token in AWKWARD_TOKENS), ("other 4091 sequences", 4091)]
            )
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
        "estimator_bias_and_variance": [
            (panel, axis, 0.5, 1, 1, method, exact, 1e-9, 1e-3)
            for panel, axis in (("variance_of_Z", "num_draws"), ("bias_of_mean", "alpha"))
            for method, exact in (("importance_base", 0.0), ("smc", math.nan))
        ],
        "estimator_against_length": [
            ("variance_of_Z", "length", 8.0, 256, length, "importance_base", size, size, size / 9)
            for length, size in ((4, 1e-8), (64, 1.0), (1024, 1e30))
        ],
        "power_on_transformers": [
            (4.0, metric, method, value, value - spread, value + spread, value, value + spread / 9)
            for metric, value, spread in (
                ("accuracy", 0.5, 0.5),
                ("log_p", -1e4, 1e3),
                ("diversity", 1.0, 0.0),
            )
            for method in ("power_law", "temperature", "smc_lookahead")
        ],
        "equal_cost_curves": [
            (0.5, metric, "rejection", tokens, error, 0.0)
            for metric, error in (("rmse_length", 12.0), ("tv", 0.0))
            for tokens in (1.0, 1e6)
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
@pytest.mark.parametrize("name", MODEL_FIGURES)
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
        powers = [row["power"] for row in rows if row["num_sequences"] == 1]
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


def table_of(name: str, rows: list[tuple[Any, ...]]) -> pa.Table:
    return pa.table([list(c) for c in zip(*rows, strict=True)], schema=schema(LAYOUTS[name]))


def divergences(radius: float, largest: float = 0.4) -> pa.Table:
    rows = [
        ("m", "M", alpha, quantity, largest * ((alpha - 1) / 7) ** 2, (alpha - 1) ** 2, radius)
        for alpha in (0.25, 1.0, 2.0, 8.0)
        for quantity in ("kl_power_base", "kl_power_temperature")
    ]
    return table_of("divergence_against_alpha", rows)


def test_a_band_shows_where_the_law_is_stated_to_hold_and_nothing_where_it_is_not() -> None:
    draw = FIGURES["divergence_against_alpha"].draw
    for radius, ends in ((1.5, (0.5, 1.5)), (1.0001, (0.9999, 1.0001)), (3.0, (0.25, 3.0))):
        figure = draw(divergences(radius))
        (band,) = figure.axes[0].patches
        assert isinstance(band, Rectangle)
        assert (band.get_x(), band.get_x() + band.get_width()) == pytest.approx(ends)
        # However narrow, its edge is seen; and the legend shows the same colour.
        assert band.get_linewidth() >= 1.0
        (sample,) = figure.legends[0].get_patches()
        assert sample.get_facecolor() == band.get_facecolor()
    for radius in (1.0, math.nan):
        assert len(draw(divergences(radius)).axes[0].patches) == 0


@pytest.mark.parametrize("largest", [1e-3, 0.04, 0.9, 3.3, 8.5, 47.0, 1e4])
def test_the_ticks_of_a_divergence_reach_most_of_its_height(largest: float) -> None:
    (panel,) = FIGURES["divergence_against_alpha"].draw(divergences(math.nan, largest)).axes
    ticks = sorted(panel.get_yticks())
    assert ticks[0] == 0.0 and len(ticks) >= 3
    assert largest / 3.0 < ticks[-1] < 1.1 * largest


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
            first = {token for token, share in ends.items() if share >= best - ROUNDING}
            assert bold == (first if len(first) == 1 else set())


def test_a_short_model_has_markers_in_place_of_lines() -> None:
    rows = [
        ("m", "M", 2.0, 1, method, 1.0, loss)
        for method, loss in (("importance_base", -0.2), ("smc", 0.0), ("smc_adapted", -0.1))
    ]
    (panel,) = FIGURES["ess_against_length"].draw(table_of("ess_against_length", rows)).axes
    for look in (BASE, ADAPTED):
        (line,) = [line for line in panel.lines if line.get_color() == look.color]
        assert line.get_marker() == look.marker
    for panel, _ in panels_by_model("ess_against_length", "alpha"):
        curves = [line for line in panel.lines if line.get_color() in (BASE.color, ADAPTED.color)]
        assert all(line.get_marker() == "" for line in curves)


def test_the_lines_of_populations_have_their_labels_and_the_axis_names_its_scale() -> None:
    panel, *_ = committed_figure("ess_against_length").axes
    labels = dict(
        zip(panel.get_yticks(), [t.get_text() for t in panel.get_yticklabels()], strict=True)
    )
    for power in ess_against_length.POPULATIONS:
        assert labels[power * math.log(10.0)] == f"$10^{{-{power}}}$"
    assert "log(\N{MINUS SIGN}log) scale" in panel.get_ylabel()


def test_sequences_that_begin_with_the_token_other_are_not_taken_for_the_rest() -> None:
    rows = [("m", "M", 2.0, 0, "other sharp", 1, 0.5, 0.6, 0.7)]
    (panel,) = FIGURES["two_laws"].draw(table_of("two_laws", rows)).axes
    assert lines_in(panel, FAINT) == []
    rows.append(("m", "M", 2.0, 1, "other 243 sequences", 243, 0.5, 0.4, 0.3))
    (panel,) = FIGURES["two_laws"].draw(table_of("two_laws", rows)).axes
    assert len(lines_in(panel, FAINT)) == 1
    assert [t.get_text() for t in panel.get_yticklabels()] == ["other sharp", "other 243 sequences"]


def test_in_a_tie_no_token_is_bold() -> None:
    rows = [
        ("m", "M", 2.0, token, law, probability)
        for law, shares in (
            ("base", (0.5, 0.5)),
            ("temperature", (0.5, 0.5)),
            ("power", (0.7, 0.3)),
        )
        for token, probability in zip("ab", shares, strict=True)
    ]
    table = table_of("first_token_ranking", rows)
    (panel,) = FIGURES["first_token_ranking"].draw(table).axes
    bold = [t for t in panel.texts if isinstance(t, Annotation) and t.get_fontweight() == "bold"]
    assert [(text.xy[0] > 0, text.get_text()) for text in bold] == [(True, "a")]


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
    table = table_of("first_token_ranking", rows)
    (panel,) = FIGURES["first_token_ranking"].draw(table).axes
    bold = [t for t in panel.texts if isinstance(t, Annotation) and t.get_fontweight() == "bold"]
    assert [(text.xy[0] > 0, text.get_text()) for text in bold] == [(False, "b"), (True, "a")]


def test_only_the_likeliest_tokens_are_drawn_and_the_title_says_so() -> None:
    rows = [
        ("m", "M", 2.0, f"t{i}", law, i / 36.0)
        for i in range(9)
        for law in ("base", "temperature", "power")
    ]
    table = table_of("first_token_ranking", rows)
    figure = FIGURES["first_token_ranking"].draw(table)
    shown = {text.get_text() for text in drawn_texts(figure)}
    assert {"t5", "t6", "t7", "t8", "M, 4 of 9 tokens"} <= shown and "t4" not in shown


def test_a_bar_for_each_planted_bug_ends_at_its_damage() -> None:
    (table,) = committed_tables("planted_defect_damage")
    figure = committed_figure("planted_defect_damage")
    groups = split_rows(table, "family")
    assert [panel.get_title(loc="left") for panel in figure.axes] == [name for (name,) in groups]
    for panel, rows in zip(figure.axes, groups.values(), strict=True):
        bars = [patch for patch in panel.patches if isinstance(patch, Rectangle)]
        low, high = panel.get_xlim()
        assert [bar.get_x() + bar.get_width() for bar in bars] == pytest.approx(
            [row["damage"] for row in rows], rel=1e-12
        )
        assert all(low < row["damage"] <= high for row in rows)
        assert [label.get_text() for label in panel.get_yticklabels()] == [
            row["kind"] for row in rows
        ]
        shades = {(row["unit"], bar.get_hatch()) for row, bar in zip(rows, bars, strict=True)}
        assert len(shades) == len({row["unit"] for row in rows})
        assert list(panel.get_ylim()) == sorted(panel.get_ylim(), reverse=True)


def test_planted_bugs_with_any_names_and_damages_can_be_read() -> None:
    rows = [
        (family, kind, unit, "a toy", damage)
        for family in ("$a$", LONG_NAME, "c")
        for kind, unit, damage in (
            (LONG_NAME, "total variation", 1e-9),
            ("$x^2$ and $y$", "relative bias", 1e9),
            ("日本語", "wrong share", 1.0),
        )
    ]
    layout = LAYOUTS["planted_defect_damage"]
    table = pa.table([list(c) for c in zip(*rows, strict=True)], schema=schema(layout))
    for few in (table, table.slice(0, 1)):
        assert faults(FIGURES["planted_defect_damage"].draw(few)) == []
