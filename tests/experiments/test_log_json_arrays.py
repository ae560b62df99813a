"""Arrays are read item by item, whatever the items are and wherever the bytes are divided; nothing behind a bad item is lost."""

import io
import json
import tracemalloc
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from experiments.rollout_logs.json_arrays import array_items
from experiments.rollout_logs.records import Excluded, Raw
from tests.experiments.log_reading import kept, left_out, records
from theory.errors import InvalidInput

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False)
    | st.text(st.sampled_from('a"\\[]{},: é\n'), max_size=6)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.sampled_from('a",[}\\'), max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)
CHUNKS = st.sampled_from([1, 2, 7, 1000])
BAD = ["tru", "1 2", '{"a" 1}', '{"a": 1} {"b": 2}', "", "\\", '"\udcff"', '{"a": "\udcff"}']  # fmt: skip


def _items(text: str, chunk: int = 3, encoding: str = "utf-8", limit: int = 10**9) -> list[Any]:
    """Items as their values, or as the reason why they are left out."""
    stream: Any = io.BufferedReader(io.BytesIO(text.encode(encoding, "surrogateescape")), 1)
    found = list(array_items(stream, "f", encoding, limit, chunk))
    assert [item.where for item in found if "after" not in item.where] == [
        f"f, item {number}" for number in range(1, len(found) + 1) if "after" not in found[number - 1].where
    ]  # fmt: skip
    return [item.value if isinstance(item, Raw) else item.reason for item in found]


def _shown(values: Iterable[Any]) -> list[Any]:
    return [value if isinstance(value, dict) else "not an object" for value in values]


@given(st.lists(VALUES, max_size=5), CHUNKS, st.sampled_from([None, 1]), st.booleans())
def test_an_array_is_what_json_reads(
    values: list[Any], chunk: int, indent: int | None, ascii_only: bool
) -> None:
    text = json.dumps(values, indent=indent, ensure_ascii=ascii_only)
    assert _items(f" \n{text}\r\n ", chunk) == _shown(values)


@given(st.lists(VALUES, min_size=1, max_size=4), CHUNKS, st.data())
def test_a_cut_array_gives_every_whole_item_and_one_that_is_cut(
    values: list[Any], chunk: int, data: st.DataObject
) -> None:
    text = json.dumps(values)
    cut = data.draw(st.integers(1, len(text) - 1))
    *whole, last = _items(text[:cut], chunk)
    assert last == "unreadable"
    assert whole == _shown(values[: len(whole)])
    # The cut is in the next item, or right behind one.
    assert len(json.dumps(values[: len(whole) + 1])) - 1 >= cut


@given(st.lists(VALUES, max_size=3), st.lists(VALUES, max_size=3), st.sampled_from(BAD), CHUNKS)
def test_a_bad_item_is_left_out_by_its_number_and_the_rest_is_read(
    before: list[Any], after: list[Any], bad: str, chunk: int
) -> None:
    texts = [json.dumps(value) for value in before] + [bad] + [json.dumps(each) for each in after]
    assume(texts != [""])  # an empty array
    assert _items(f"[{', '.join(texts)}]", chunk) == [*_shown(before), "unreadable", *_shown(after)]


UNCLOSED = ["{", '{"a": 1', '{"a": 1,', '{"a"', '{"a": "]"', '{"a": [1, 2]', '{"a": {"b": 1', '{"a": {"b": tru}']  # fmt: skip
OBJECTS = st.dictionaries(st.text(st.sampled_from('a",[}\\'), max_size=3), VALUES, max_size=3)


@given(
    st.lists(VALUES, max_size=3),
    st.sampled_from(UNCLOSED),
    st.lists(OBJECTS, min_size=1, max_size=3),
    st.sampled_from([", ", "\n"]),
    CHUNKS,
)
def test_an_object_that_is_not_closed_ends_where_the_next_begins(
    before: list[Any], bad: str, after: list[Any], between: str, chunk: int
) -> None:
    first, *rest = map(json.dumps, after)
    text = ", ".join([*map(json.dumps, before), bad + between + first, *rest])
    assert _items(f"[{text}]", chunk) == [*_shown(before), "unreadable", *after]


def test_lists_inside_of_items_may_hold_objects_after_one_that_is_not_closed() -> None:
    assert _items('[{"a": [{"b": 1, {"c": 2}], "d": 3}, {"e": 4}]') == ["unreadable", {"e": 4}]
    assert _items('[{"a": [{"b": 1], "d": 3}, {"e": 4}]') == ["unreadable", {"e": 4}]
    assert _items('[{"a": 1], {"e": 4}]') == ["unreadable", {"e": 4}]
    assert _items('[{"a": [1, 2}, {"e": 4}]') == ["unreadable", {"e": 4}]
    assert _items('[[1, 2}, {"e": 4}]') == ["unreadable", {"e": 4}]


@pytest.mark.parametrize("chunk", [1, 5, 1000])
def test_what_ends_with_the_text_says_how_much_that_is(chunk: int) -> None:
    stream: Any = io.BufferedReader(io.BytesIO(b'[{"a": 1}, {"b": [3, {"c": 4}, {"d": 5}]'))
    whole, last = array_items(stream, "f", chunk=chunk)
    assert isinstance(whole, Raw) and isinstance(last, Excluded)
    assert last.words == "f, item 2: unreadable (the text ends in it after 29 characters)"


@pytest.mark.parametrize("chunk", [1, 20, 1000])
def test_an_item_over_the_limit_is_left_out_without_being_held(chunk: int) -> None:
    values = [{"a": 1}, {"text": "x" * 60}, {"b": 2}, {"list": [1] * 30}, {"c": '"' * 10}]
    assert _items(json.dumps(values), chunk, limit=50) == [
        {"a": 1}, "item too long", {"b": 2}, "item too long", {"c": '"' * 10},
    ]  # fmt: skip
    whole = json.dumps({"text": "x" * 60})
    assert _items(f"[{whole}]", chunk, limit=len(whole)) == [json.loads(whole)]
    assert _items(f"[{whole}]", chunk, limit=len(whole) - 1) == ["item too long"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[]", []),
        ("[ ]\n", []),
        ("[", ["unreadable"]),
        ("[ ", ["unreadable"]),
        ("[] 3", ["unreadable"]),
        ('[{"a": 1}] x', [{"a": 1}, "unreadable"]),
        ('[{"a": 1},]', [{"a": 1}, "unreadable"]),
        ('[{"a": 1}, ', [{"a": 1}, "unreadable"]),
        ('[{"a": 1}', ["unreadable"]),
        ("[,]", ["unreadable", "unreadable"]),
        ("[" * 100_000, ["unreadable"]),
    ],
)
def test_ends_of_arrays(text: str, found: list[Any]) -> None:
    assert _items(text, 1000) == found
    assert _items(text[:50], 1) == _items(text[:50], 1000)


def test_a_field_given_twice_is_named() -> None:
    text = b'[{"a": 1, "a": 2}, {"b": 1}]'
    stream: Any = io.BufferedReader(io.BytesIO(text))
    twice, good = array_items(stream, "f")
    assert isinstance(twice, Excluded) and "'a'" in twice.detail
    assert isinstance(good, Raw)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_files_in_every_encoding_of_json(tmp_path: Path, encoding: str) -> None:
    lines = [{"prompt_id": "é"}, {"prompt_id": 2}]
    path = tmp_path / "a.json"
    path.write_bytes((" " * 20_000 * (encoding == "utf-8") + json.dumps(lines, ensure_ascii=False)).encode(encoding))  # fmt: skip
    assert kept(records(path)) == lines
    path.write_bytes(path.read_bytes()[:-1])
    found = records(path)
    assert (kept(found), left_out(found)) == (lines[:1], [("unreadable", "item 2")])
    with pytest.raises(InvalidInput, match=r"a\.json, item 2: unreadable"):
        records(path, strict=True)


class _Endless(io.RawIOBase):
    """An array that is made while it is read."""

    def __init__(self, items: int) -> None:
        self._parts: Iterator[bytes] = iter([b"[0", *[b', {"tokens": [1, 2, 3]}'] * items, b"]"])

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        part = next(self._parts, b"")
        buffer[: len(part)] = part
        return len(part)


def test_memory_does_not_grow_with_the_items() -> None:
    peaks: list[int] = []
    for items in (500, 4_000):
        stream: Any = io.BufferedReader(_Endless(items), 1024)
        tracemalloc.start()
        count = sum(1 for _ in array_items(stream, "f", chunk=1024))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert count == items + 1
    assert peaks[1] < peaks[0] + 8_000
