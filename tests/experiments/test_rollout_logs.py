import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.rollout_logs import schema as row_schema
from experiments.rollout_logs.schema import BY_NAME, FIELDS, json_schema, ordered, validate_row
from experiments.rollout_logs.writer import append_rows, read_rows, write_rows, write_rows_parquet
from theory.errors import InvalidInput

ROOT = Path(__file__).resolve().parents[2]

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
WHOLE = st.integers(-(2**63), 2**63 - 1)
COUNT = st.integers(0, 2**63 - 1)
VALUES: dict[int, st.SearchStrategy[Any]] = {
    id(row_schema.IDENTIFIER): TEXTS,
    id(row_schema.TEXT): TEXTS,
    id(row_schema.FLAG): st.booleans(),
    id(row_schema.WHOLE): WHOLE,
    id(row_schema.COUNT): COUNT,
    id(row_schema.NUMBER): st.floats(),
    id(row_schema.COUNTS): st.lists(COUNT, max_size=3),
    id(row_schema.NUMBERS): st.lists(st.floats(), max_size=3),
    id(row_schema.TEXTS): st.lists(TEXTS, max_size=3),
    id(row_schema.SETTINGS): st.dictionaries(TEXTS, TEXTS, max_size=2),
}
BY_FIELD = {
    field.name: st.sampled_from(field.choices) if field.choices else VALUES[id(field.kind)]
    for field in FIELDS
}
ROWS = st.lists(
    st.fixed_dictionaries(
        {"prompt_id": BY_FIELD["prompt_id"]},
        optional={name: values for name, values in BY_FIELD.items() if name != "prompt_id"},
    ),
    max_size=4,
)


def conforms(value: Any, schema: dict[str, Any]) -> bool:
    """Whether a value fits a JSON schema, for the keywords that ours uses."""
    types = {
        "string": isinstance(value, str),
        "boolean": isinstance(value, bool),
        "integer": isinstance(value, int) and not isinstance(value, bool),
        "number": isinstance(value, int | float) and not isinstance(value, bool),
        "array": isinstance(value, list),
        "object": isinstance(value, dict),
        "null": value is None,
    }
    wanted = schema.get("type", list(types))
    if not any(types[name] for name in ([wanted] if isinstance(wanted, str) else wanted)):
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    if "minimum" in schema and value is not None and value < schema["minimum"]:
        return False
    if isinstance(value, list):
        return all(conforms(item, schema.get("items", {})) for item in value)
    if isinstance(value, dict) and "properties" in schema:
        known = schema["properties"]
        return (
            all(name in value for name in schema["required"])
            and value.keys() <= known.keys()
            and all(conforms(item, known[name]) for name, item in value.items())
        )
    return True


@given(ROWS)
def test_rows_come_back_as_they_went(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]]
) -> None:
    folder = tmp_path_factory.getbasetemp()
    for name, write in (("log.jsonl", write_rows), ("log.parquet", write_rows_parquet)):
        write(rows, folder / name)
        back = read_rows(folder / name)
        assert repr(back) == repr([ordered(row) for row in rows])
        data = (folder / name).read_bytes()
        write(back, folder / name)
        assert (folder / name).read_bytes() == data


@given(ROWS)
def test_every_line_conforms_to_the_published_schema(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "log.jsonl"
    write_rows(rows, path)
    lines = path.read_text().splitlines()
    assert len(lines) == len(rows)
    schema = json_schema()
    assert all(conforms(json.loads(line), schema) for line in lines)


OTHER_VALUES: list[Any] = [
    None, True, 0, 1, -1, 0.5, "", "sum", "exact", "raw", [], [0], [-1], [0.5], ["a"], [None], {}, {"a": 1},
]  # fmt: skip


def test_validator_and_published_schema_agree() -> None:
    schema = json_schema()
    for name in [*BY_NAME, "base_logp_reason", "answer_reason", "base_lopg"]:
        for value in OTHER_VALUES:
            row = {"prompt_id": "p", name: value}
            try:
                validate_row(row, "row 1")
                valid = True
            except InvalidInput:
                valid = False
            assert valid == conforms(row, schema), row


def test_the_committed_schema_is_the_one_in_force() -> None:
    committed = (ROOT / "docs" / "rollout_log.schema.json").read_text()
    assert json.loads(committed) == json_schema()
    assert list(json.loads(committed)["properties"]) == list(json_schema()["properties"])


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({}, "field 'prompt_id': missing"),
        ({"prompt_id": None}, "field 'prompt_id': missing"),
        ({"prompt_id": "p", "base_lopg": 0.0}, "unknown field 'base_lopg': did you mean 'base_logp'"),
        ({"prompt_id": "p", "reward": "1"}, "field 'reward': '1' must be a number"),
        ({"prompt_id": "p", "reward": True}, "field 'reward': True must be a number"),
        ({"prompt_id": "p", "correct": 1}, "field 'correct': 1 must be true or false"),
        ({"prompt_id": "p", "law": "exakt"}, "must be one of exact, weighted, approximate"),
        ({"prompt_id": "p", "tokens": [3, -1]}, "must be a list of whole numbers >= 0"),
        ({"prompt_id": "p", "seed": 2**63}, "field 'seed'"),
        ({"prompt_id": "p", "env_steps": -1}, "must be a whole number >= 0"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("write", [write_rows, write_rows_parquet, append_rows])
def test_a_row_that_is_not_canonical_is_refused_and_nothing_is_written(
    tmp_path: Path, write: Callable[..., None], row: dict[str, Any], says: str
) -> None:
    path = tmp_path / "log"
    with pytest.raises(InvalidInput) as refused:
        write([{"prompt_id": "p"}, row], path)
    assert str(refused.value).startswith(f"{path}, row 2")
    assert says in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_fields_stand_in_the_order_of_the_schema(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    row = {"log_weight": -math.inf, "tokens": np.array([1, 2]), "prompt_id": 3, "law": "weighted"}
    write_rows([row], path)
    assert path.read_text() == (
        '{"prompt_id": 3, "tokens": [1, 2], "law": "weighted", '
        '"log_weight": null, "log_weight_reason": "-infinity"}\n'
    )


def test_nulls_and_absent_fields_are_different_things_in_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    rows: list[dict[str, Any]] = [{"prompt_id": 1, "behavior_logp": None}, {"prompt_id": 1}]
    write_rows(rows, path)
    assert read_rows(path) == rows


def test_identifiers_are_texts_or_numbers_but_not_both_in_parquet(tmp_path: Path) -> None:
    numbers = [{"prompt_id": 1, "group_id": "a"}, {"prompt_id": 2}]
    write_rows_parquet(numbers, tmp_path / "log.parquet")
    assert read_rows(tmp_path / "log.parquet") == numbers
    with pytest.raises(InvalidInput, match="field 'prompt_id': a text in one row"):
        write_rows_parquet([{"prompt_id": 1}, {"prompt_id": "1"}], tmp_path / "mixed.parquet")


def test_a_reason_of_the_writers_own_survives(tmp_path: Path) -> None:
    row = {"prompt_id": 1, "log_weight": None, "log_weight_reason": "outside double range"}
    write_rows([row], tmp_path / "log.jsonl")
    assert read_rows(tmp_path / "log.jsonl") == [row]
    write_rows_parquet([row], tmp_path / "log.parquet")
    assert pq.read_table(tmp_path / "log.parquet").column("log_weight_reason").to_pylist() == [
        "outside double range"
    ]


def test_stdout_gets_the_lines(capfd: pytest.CaptureFixture[str]) -> None:
    write_rows([{"prompt_id": "a"}, {"prompt_id": "b"}], "-")
    assert capfd.readouterr() == ('{"prompt_id": "a"}\n{"prompt_id": "b"}\n', "")


def test_appending_equals_writing_at_once(tmp_path: Path) -> None:
    rows = [{"prompt_id": i} for i in range(4)]
    append_rows(rows[:1], tmp_path / "parts")
    append_rows(rows[1:], tmp_path / "parts")
    write_rows(rows, tmp_path / "whole")
    assert (tmp_path / "parts").read_bytes() == (tmp_path / "whole").read_bytes()


def test_a_line_cut_by_a_killed_writer_spoils_no_other(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"prompt_id": 1}\n{"prompt_id"')
    append_rows([{"prompt_id": 2}], path)
    assert path.read_text() == '{"prompt_id": 1}\n{"prompt_id"\n{"prompt_id": 2}\n'
    with pytest.raises(InvalidInput, match="row 2: not a line of JSON"):
        read_rows(path)


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("log.jsonl", b"[1]\n", "row 1: not a JSON object"),
        ("log.jsonl", b'{"prompt_id": "\xff"}\n', "row 1: not a line of JSON"),
        ("log.jsonl", b'{"prompt_id": 1, "prompt_id": 2}\n', "field 'prompt_id': there twice"),
        ("log.jsonl", b'{"prompt_id": 1}\n\n', "row 2: not a line of JSON"),
        ("log.parquet", b"nothing", "not a Parquet file"),
    ],
)
def test_an_unreadable_file_is_refused_with_its_place(
    tmp_path: Path, name: str, data: bytes, says: str
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InvalidInput, match=says):
        read_rows(tmp_path / name)
    with pytest.raises(InvalidInput, match="no such file"):
        read_rows(tmp_path / "missing.jsonl")


def test_every_field_says_what_it_means() -> None:
    assert len(BY_NAME) == len(FIELDS)
    for field in FIELDS:
        assert field.meaning
        assert field.unit
        assert field.name in json_schema()["properties"]
