"""Tables: what is written reads back to the last bit, and damage is named in one line."""

import math
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paper_figures.build import LAYOUTS, read_table, write_table
from paper_figures.columns import Column, Layout, read_csv, schema, split_rows, write_csv
from theory.errors import InvalidInput

LAYOUT = Layout(
    (
        Column("word", str),
        Column("kind", str, choices=("left", "right")),
        Column("count", int, low=1, high=9),
        Column("share", float, low=0.0, high=1.0),
        Column("radius", float, may_be_nan=True),
    )
)
HEADER = "word,kind,count,share,radius\n"
GOOD = "a,left,3,0.25,nan\n"


@given(
    st.lists(
        st.tuples(
            st.text(st.characters(codec="utf-8", exclude_characters="\r\0")),
            st.integers(1, 9),
            st.floats(0.0, 1.0),
            st.floats(allow_infinity=False),
        ),
        min_size=1,
    )
)
def test_what_is_written_reads_back_to_the_last_bit(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, int, float, float]]
) -> None:
    path = tmp_path_factory.mktemp("tables") / "table.csv"
    words, counts, shares, radii = (list(column) for column in zip(*rows, strict=True))
    kinds = ["left"] * len(rows)
    table = pa.table([words, kinds, counts, shares, radii], schema=schema(LAYOUT))
    write_csv(table, path, LAYOUT)
    back = read_csv(path, LAYOUT)
    assert back.schema == table.schema
    # repr tells -0.0 from 0.0 and holds NaN equal to NaN.
    assert repr(back.to_pylist()) == repr(table.to_pylist())


def test_columns_come_in_the_order_of_the_layout(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("radius,share,count,kind,word\nnan,0.25,3,left,a\n")
    assert read_csv(path, LAYOUT).column_names == [column.name for column in LAYOUT.columns]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["column word is missing"]),
        (HEADER, ["no rows"]),
        ("word,kind,count,share\na,left,3,0.25\n", ["column radius is missing"]),
        ("word,word,kind,count,share,radius\n", ["column word appears twice"]),
        (HEADER.strip() + ",colour\n", ["column 'colour' is unknown"]),
        (HEADER + GOOD + "a,left,3,0.25\n", ["line 3", "4 values, must be 5"]),
        (HEADER + GOOD + "a,left,three,0.25,nan\n", ["line 3, column count", "'three'"]),
        (HEADER + "a,left,3.5,0.25,nan\n", ["line 2, column count", "a whole number"]),
        (HEADER + "a,left,0,0.25,nan\n", ["column count", "[1, 9]"]),
        (HEADER + "a,left,3,,nan\n", ["column share", "''", "a number"]),
        (HEADER + "a,left,3,nan,nan\n", ["column share", "NaN"]),
        (HEADER + "a,left,3,1.5,nan\n", ["column share", "[0, 1]"]),
        (HEADER + "a,left,3,-0.001,nan\n", ["column share", "[0, 1]"]),
        (HEADER + "a,left,3,0.25,inf\n", ["column radius", "finite"]),
        (HEADER + "a,up,3,0.25,nan\n", ["column kind", "left, right"]),
        (HEADER + 'a,"left,3,0.25,nan\n', ["not a CSV file"]),
    ],
)
def test_damage_is_named_in_one_line(tmp_path: Path, text: str, words: list[str]) -> None:
    path = tmp_path / "table.csv"
    path.write_text(text)
    with pytest.raises(InvalidInput) as caught:
        read_csv(path, LAYOUT)
    message = str(caught.value)
    assert "\n" not in message and str(path) in message
    for word in words:
        assert word in message


def test_a_file_that_is_not_text_or_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidInput, match="not a CSV file"):
        read_csv(tmp_path / "table.csv", LAYOUT)
    with pytest.raises(InvalidInput, match="no such table"):
        read_csv(tmp_path / "absent.csv", LAYOUT)


def test_rounding_past_the_end_of_a_range_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text(HEADER + f"a,left,3,{1.0 + 4e-16!r},nan\n")
    assert read_csv(path, LAYOUT).column("share").to_pylist() == [1.0 + 4e-16]


def test_a_table_may_be_empty_only_where_its_layout_says_so(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text(HEADER)
    empty = read_csv(path, LAYOUT._replace(may_be_empty=True))
    assert empty.num_rows == 0 and empty.schema == schema(LAYOUT)


def test_tables_are_known_by_their_names(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="must be one of two_laws"):
        read_table(tmp_path / "other.csv")
    assert [name for name, layout in LAYOUTS.items() if layout.may_be_empty] == [
        "crossover_lengths"
    ]
    table = pa.table(
        [["m"], ["M"], [2.0], ["a"], ["power"], [math.pi / 4]],
        schema=schema(LAYOUTS["first_token_ranking"]),
    )
    write_table(table, tmp_path / "first_token_ranking.csv")
    assert read_table(tmp_path / "first_token_ranking.csv").equals(table)


def test_groups_and_rows_keep_the_order_of_the_table() -> None:
    table = pa.table({"model": ["b", "a", "b"], "value": [1, 2, 3]})
    groups = split_rows(table, "model")
    assert list(groups) == [("b",), ("a",)]
    assert [row["value"] for row in groups["b",]] == [1, 3]
    with pytest.raises(InvalidInput, match="without rows"):
        split_rows(table.slice(0, 0), "model")
