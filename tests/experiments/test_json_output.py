import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.json_output import restore, to_line, to_plain, write_json

KEYS = st.text(max_size=5).filter(lambda key: not key.endswith("_reason"))
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)
DOCUMENTS = st.dictionaries(KEYS, VALUES, max_size=5)


def strict(text: str) -> Any:
    """Parse JSON as the standard has it: no NaN, no infinities."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def same(a: Any, b: Any) -> bool:
    """Equality that tells 1 from 1.0 and 0.0 from -0.0, that NaN passes, and that sees the order of keys."""
    return repr(a) == repr(b)


@given(DOCUMENTS)
def test_strict_lossless_and_the_same_bytes(value: dict[str, Any]) -> None:
    line = to_line(value)
    assert same(restore(strict(line)), value)
    assert to_line(value) == line
    assert "\n" not in line


@given(DOCUMENTS)
def test_a_file_holds_the_same_document_as_a_line(
    tmp_path_factory: pytest.TempPathFactory, value: dict[str, Any]
) -> None:
    path = tmp_path_factory.getbasetemp() / "value.json"
    write_json(value, path)
    text = path.read_bytes().decode("ascii")
    assert text.endswith("\n")
    assert same(strict(text), strict(to_line(value)))


@given(st.dictionaries(KEYS, SCALARS))
def test_every_non_finite_number_has_its_reason_beside_it(value: dict[str, Any]) -> None:
    keys: list[str] = []
    for key, item in value.items():
        keys.append(key)
        if isinstance(item, float) and not math.isfinite(item):
            keys.append(f"{key}_reason")
    assert list(to_plain(value)) == keys


def test_the_forms_of_reasons() -> None:
    inf, nan = math.inf, math.nan
    assert to_plain({"a": -inf}) == {"a": None, "a_reason": "-infinity"}
    assert to_plain({"a": [inf, 1.0, [inf]]}) == {
        "a": [None, 1.0, [None]],
        "a_reason": "infinity",
    }
    assert to_plain({"a": [nan, None, 1.0, -inf]}) == {
        "a": [None, None, 1.0, None],
        "a_reason": "NaN, null, -infinity",
    }
    assert to_plain({"a": [None, 1.0]}) == {"a": [None, 1.0]}
    assert to_plain({"a": [{"b": nan}]}) == {"a": [{"b": None, "b_reason": "NaN"}]}


def test_the_callers_reason_is_kept() -> None:
    value = {"weight": None, "weight_reason": "outside double range"}
    assert to_plain(value) == value
    assert to_plain({**value, "weight": math.inf}) == value
    assert restore(value) == value


class Pair(NamedTuple):
    first: float
    second: np.ndarray


@dataclass(frozen=True)
class Settings:
    alpha: tuple[float, ...]
    pair: Pair


def test_records_and_arrays() -> None:
    settings = Settings((0.1, 2.0), Pair(math.inf, np.arange(4).reshape(2, 2)))
    assert to_plain(settings) == {
        "alpha": [0.1, 2.0],
        "pair": {"first": None, "first_reason": "infinity", "second": [[0, 1], [2, 3]]},
    }


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (np.float64(0.1), 0.1),
        (np.float32(0.1), float(np.float32(0.1))),
        (np.int64(3), 3),
        (np.bool_(True), True),
        (np.array([0.5, 1.0]), [0.5, 1.0]),
        (np.array(2.5), 2.5),
        (jnp.array([True, False]), [True, False]),
    ],
)
def test_numpy_and_jax_values(value: Any, plain: Any) -> None:
    assert same(to_plain({"x": value}), {"x": plain})


@pytest.mark.parametrize("value", [{1: 2}, {"a": {3.0}}, {"a": 1j}, {"a": b""}])
def test_what_has_no_json_form_is_refused(value: Any) -> None:
    with pytest.raises(TypeError):
        to_plain(value)


def test_a_non_finite_number_without_a_key_is_refused() -> None:
    with pytest.raises(ValueError, match="NaN"):
        to_plain([1.0, math.nan])


def test_layout(tmp_path: Path) -> None:
    path = tmp_path / "value.json"
    write_json({"a": [1, 2], "b": {"c": [[0.5], []]}, "d": {}}, path)
    assert path.read_text() == (
        '{\n  "a": [1, 2],\n  "b": {\n    "c": [\n      [0.5],\n      []\n    ]\n  },\n  "d": {}\n}\n'
    )
