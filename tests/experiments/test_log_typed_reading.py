"""Reading by types keeps a log only where it comes to the same rows as reading JSON text and casting it."""

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given

from experiments.rollout_logs import spelling
from experiments.rollout_logs.database import all_rows, open_database
from experiments.rollout_logs.plain_staging import Plain, stage_as_json, stage_typed
from experiments.rollout_logs.schema import BY_NAME, COUNT, FLAG, IDENTIFIER, NUMBER, TEXT
from experiments.rollout_logs.spelling import Spelling, spelling_of
from experiments.rollout_logs.typed_fields import TYPED_FIELDS

NAMES = [field.name for field in TYPED_FIELDS]
SOME = ["prompt_id", "sample_id", "policy_version", "text_sha256", "answer", "law", "sampler", "tokens", "score", "completion_tokens", "correct"]  # fmt: skip
REGULAR = (
    (IDENTIFIER, ('"a"', '"7"', "7", "-7", "0", '"1.5"', '"{}"', '"true"', '"\\u00e9 é"', "null")),
    (TEXT, ('"a"', '"42"', '"0.7"', '"true"', '"nan"', '"[x]"', '"a, \\"score\\": \\"1\\""', "null")),
    (NUMBER, ("0.5", "-1", "1e-3", "NaN", "-Infinity", "1e400", "0.1234567890123456789", "null")),
    (COUNT, ("0", "7", "123456789012", "null")),
    (FLAG, ("true", "false", "1", "0", "null")),
)  # fmt: skip
# Each is another value, or none, in some field.
SPOILED = (
    "3.0", "3.5", "1e2", "-3", "-0", "2", "1.0", "10", "true", "false", "12345678901234567890", "123456789012345678", '"0.7"', '" 1"', '"true"', '"t"', '"inf"',
    '"3"', '""', "nan", "inf", "-Infinity", "[1]", "[]", '{"a": 1}', '{"temperature": "hot"}', '"\\ud800"', '"\\u0000"', '"x"', "0.5", '{"score": "1"}',
)  # fmt: skip
COLONS = (":", ": ", " : ", "\t:  ", ":\r")
ODD_LINES = (
    "5", '"x"', "null", "[]", "", "{}", '{"prompt_id": 1} {"prompt_id": 2}', '{"prompt_id": 1', '{"prompt_id": 1, "score": 1, "score": 2}',
    '{"prompt_id": 1, "sc\\u006fre": "0.7"}', '{"prompt_id": 1, "\\u0073core": true}', '{"prompt_id": 1, "\\u0073COR\\u0045": true}',
    '{"prompt_id": 1, "Score": "0.7"}', '{"prompt_id": 1, "score_reason": "infinity"}', '{"prompt_id": 1, "base_logp_tokens": [-1.0]}',
    '{"prompt_id": 1, "base_logp_tokens": null}', '{"prompt_id": 1, "unknown": {"score": "0.7"}}', '{"prompt_id": 1, "answer": "a\\\\u0061"}', "\x00",
)  # fmt: skip


def spelled(name: str) -> tuple[str, ...]:
    """Values that the field may hold, as they are written."""
    if name == "sampler":
        return ('{"a": [1, "x"]}', '{"b": {}}', "null")
    if name == "tokens":
        return ("[1, 2]", "[]", "null")
    if name in ("law", "logp_reduction"):
        return tuple(json.dumps(word) for word in (*BY_NAME[name].choices, None))
    return next(values for kind, values in REGULAR if BY_NAME[name].kind is kind)


Verdict = Callable[[list[str], set[str]], Plain]


@pytest.fixture(name="verdict_of", scope="module")
def _verdict_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Verdict]:  # pyright: ignore[reportUnusedFunction]
    """What reading by types finds. Where that is final, the exact reader finds the same, and the same rows."""
    folder = tmp_path_factory.mktemp("typed")
    log = folder / "log.jsonl"

    def staged(stage: Callable[..., Plain], fields: set[str]) -> tuple[Plain, str]:
        found = stage(connection, [str(log)], fields)
        if found is not Plain.STAGED:
            return found, ""
        rows = all_rows(connection, "SELECT * FROM staged ORDER BY row")
        connection.execute("DROP VIEW staged")
        connection.execute("DROP TABLE row_table")
        return found, repr(rows)  # as text, because not a number equals nothing

    def verdict_of(lines: list[str], fields: set[str]) -> Plain:
        log.write_bytes("".join(line + "\n" for line in lines).encode())
        found = staged(stage_typed, fields)
        if found[0] in (Plain.STAGED, Plain.IRREGULAR):
            assert found == staged(stage_as_json, fields), lines
        return found[0]

    with open_database(folder) as connection:
        yield verdict_of


@pytest.mark.parametrize("name", SOME)
def test_any_value_in_any_field(name: str, verdict_of: Verdict) -> None:
    first = '"prompt_id": "p", ' if name != "prompt_id" else ""
    asked = {"prompt_id", name}
    regular = [f'{{{first}"{name}": {value}}}' for value in spelled(name) if name != "prompt_id" or value != "null"]  # fmt: skip
    assert verdict_of(regular, asked) in (Plain.STAGED, Plain.UNTRUSTED)
    for value, colon in zip(SPOILED, itertools.cycle(COLONS)):
        verdict_of([*regular[:2], f'{{{first}"{name}"{colon}{value}}}'], asked)


def test_usual_logs_are_read_by_types(verdict_of: Verdict) -> None:
    """The shortcut is taken: a law about equal rows alone would hold if it never were."""
    rows = [
        {"prompt_id": f"task/{i}", "sample_id": i, "answer": answer, "correct": i % 2 == 0, "score": i / 7, "tokens": [i], "completion_tokens": i}
        for i, answer in enumerate(("42", "x = 1", None, "true", "a \"score\": \"b\" \\u00e9", "[0, 1)", "-3"))
    ]  # fmt: skip
    for separators in ((",", ":"), (", ", ": ")):
        lines = [json.dumps(row, separators=separators) for row in rows]
        assert verdict_of(lines, set(rows[0])) is Plain.STAGED


@pytest.mark.parametrize("line", ODD_LINES)
def test_odd_lines(line: str, verdict_of: Verdict) -> None:
    lines = ['{"prompt_id": 0, "score": 0.5}', line]
    for fields in ({"prompt_id", "score"}, set(NAMES)):
        verdict_of(lines, fields)


@given(st.data())
def test_rows_at_random(verdict_of: Verdict, data: st.DataObject) -> None:
    fields = data.draw(st.lists(st.sampled_from(NAMES), max_size=4, unique=True))
    lines: list[str] = []
    for place in range(data.draw(st.integers(1, 4))):
        cells = [f'"prompt_id": {place}'] if "prompt_id" not in fields else []
        for name in fields:
            pool = SPOILED if data.draw(st.integers(0, 9)) == 0 else spelled(name)
            cells.append(
                f'"{name}"{data.draw(st.sampled_from(COLONS))}{data.draw(st.sampled_from(pool))}'
            )
        lines.append("{" + ", ".join(cells) + "}")
    asked = data.draw(st.sampled_from([{"prompt_id", *fields}, {"prompt_id", *fields[1:]}]))
    verdict_of(lines, asked)


def test_a_field_that_was_not_asked_for_is_seen(verdict_of: Verdict) -> None:
    lines = ['{"prompt_id": 1, "score": 1}', '{"prompt_id": 1, "reward": null}']
    assert verdict_of(lines, {"prompt_id", "score"}) is Plain.STAGED
    assert verdict_of([*lines, '{"prompt_id": 1, "reward": 1}'], {"prompt_id", "score"}) is (
        Plain.OTHER_FIELDS
    )


@pytest.mark.parametrize("place", range(0, 40, 3))
def test_a_spelling_is_seen_wherever_blocks_are_cut(
    place: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spelling, "_BLOCK", 64)
    log = tmp_path / "log.jsonl"
    lines = ['{"prompt_id": 1, "score": 0.25}'] * 40
    log.write_text("\n".join(lines))
    look = (str(log),), ("prompt_id", "score"), ("reward",), ("score_reason",)
    assert spelling_of(*look) is Spelling.REGULAR
    lines[place] = '{"prompt_id": 1, "score": "0.25"}'
    log.write_text("\n".join(lines))
    assert spelling_of(*look) is Spelling.UNTRUSTED
    lines[place] = '{"prompt_id": 1, "reward": 0.25}'
    log.write_text("\n".join(lines))
    assert spelling_of(*look) is Spelling.OTHER_FIELDS
    lines[place] = "x" * 64
    log.write_text("\n".join(lines))
    assert spelling_of(*look) is Spelling.UNTRUSTED
