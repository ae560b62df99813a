import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.tables import (
    column,
    from_rows,
    read_parquet,
    read_unfinished,
    schema,
    write_parquet,
)
from theory.errors import InvalidInput

SCHEMA = schema(model=str, length=int, log_z=float, exact=bool)
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=6)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "model": TEXT,
            "length": st.integers(-(2**63), 2**63 - 1),
            "log_z": st.floats(),
            "exact": st.booleans(),
        }
    ),
    max_size=6,
)
ROW: dict[str, Any] = {"model": "a", "length": 3, "log_z": -0.5, "exact": True}


def same(a: pa.Table, b: pa.Table) -> bool:
    return a.schema == b.schema and repr(a.to_pylist()) == repr(b.to_pylist())


@given(ROWS)
def test_rows_go_in_and_come_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]]
) -> None:
    folder = tmp_path_factory.getbasetemp()
    table = from_rows(SCHEMA, rows)
    assert repr(table.to_pylist()) == repr([{name: row[name] for name in ROW} for row in rows])
    write_parquet(table, folder / "table.parquet")
    assert same(read_parquet(folder / "table.parquet"), table)


@given(ROWS)
def test_equal_tables_give_equal_bytes(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]]
) -> None:
    folder = tmp_path_factory.getbasetemp()
    whole = from_rows(SCHEMA, rows)
    chunked = pa.concat_tables([from_rows(SCHEMA, [row]) for row in rows] or [whole])
    write_parquet(whole, folder / "whole")
    write_parquet(chunked, folder / "chunked")
    assert (folder / "whole").read_bytes() == (folder / "chunked").read_bytes()


@pytest.mark.parametrize(
    "change",
    [
        {"length": None},
        {"log_z": None},
        {"extra": 1},
        {"length": 2.0},
        {"length": True},
        {"length": "2"},
        {"log_z": "0.5"},
        {"log_z": True},
        {"exact": 1},
        {"model": 3},
    ],
)
def test_a_row_that_does_not_fit_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"row 1.*{next(iter(change))}"):
        from_rows(SCHEMA, [ROW, ROW | change])


def test_a_missing_column_is_refused() -> None:
    for name in ROW:
        row = {key: value for key, value in ROW.items() if key != name}
        with pytest.raises(ValueError, match=name):
            from_rows(SCHEMA, [row])


def test_numpy_scalars_and_whole_numbers_in_float_columns_are_taken() -> None:
    row = {"model": np.str_("a"), "length": np.int32(3), "log_z": 2, "exact": np.bool_(True)}
    assert from_rows(SCHEMA, [row]).to_pylist() == [
        {"model": "a", "length": 3, "log_z": 2.0, "exact": True}
    ]


@given(ROWS)
def test_columns_can_be_looked_up(rows: list[dict[str, Any]]) -> None:
    table = from_rows(SCHEMA, rows)
    np.testing.assert_array_equal(column(table, "log_z"), [row["log_z"] for row in rows])
    wanted = [row["length"] for row in rows if row["exact"] and row["model"] == ""]
    found = column(table, "length", exact=True, model="")
    assert found.dtype == np.int64
    assert found.tolist() == wanted


def test_a_column_that_does_not_exist_is_refused() -> None:
    table = from_rows(SCHEMA, [ROW])
    with pytest.raises(KeyError):
        column(table, "nope")
    with pytest.raises(KeyError):
        column(table, "length", nope=1)


def test_nan_and_infinities_are_values(tmp_path: Path) -> None:
    rows = [ROW | {"log_z": value} for value in (math.nan, math.inf, -math.inf)]
    write_parquet(from_rows(SCHEMA, rows), tmp_path / "t.parquet")
    np.testing.assert_array_equal(
        column(read_parquet(tmp_path / "t.parquet"), "log_z"), [math.nan, math.inf, -math.inf]
    )


def test_a_bit_that_changed_among_the_values_is_noticed(tmp_path: Path) -> None:
    """Unless nothing was changed by it. The footer holds names and places, no values."""
    rows = from_rows(SCHEMA, [ROW | {"length": n, "log_z": n / 7} for n in range(40)])
    path = tmp_path / "t.parquet"
    write_parquet(rows, path)
    data = path.read_bytes()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    noticed = 0
    for place in range(4, footer, 2):
        path.write_bytes(data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :])
        try:
            assert same(read_unfinished(path), rows)
        except InvalidInput as error:
            assert "begin again with --force" in str(error)
            noticed += 1
    assert noticed > footer / 4
