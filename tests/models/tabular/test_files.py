import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.tabular import files, toys
from models.tabular.constructors import (
    geometric_table,
    markov_from_log_rows,
    order_k_markov_table,
    tree_table,
)
from models.tabular.files import model_to_json, read_model, write_model
from models.tabular.model_json import parse_model
from models.tabular.probabilities import (
    double_log_row,
    exact_log_row,
    parse_probability,
    probability_value,
)
from models.tabular.random_tables import random_markov_table, random_tree_table
from tests.models.tabular.naive import law_after, sequences
from theory.errors import InvalidInput
from theory.exact.context_table import ContextTable, after_prompt, with_horizon

TREE: dict[str, Any] = {
    "kind": "tree",
    "vocab_size": 3,
    "max_length": 2,
    "eos": 2,
    "conditionals": {"": ["1/2", "1/4", "1/4"], "0": [0, 0.5, "0.5"], "1": ["1e-1", 0.9, 0]},
}
COMPACT: dict[str, Any] = {
    "kind": "markov",
    "vocab_size": 2,
    "max_length": 5,
    "eos": None,
    "initial": [0.5, 0.5],
    "transition": [[0.9, 0.1], ["2/5", "3/5"]],
}


def assert_same(first: ContextTable, second: ContextTable) -> None:
    assert np.array_equal(first.log_probs, second.log_probs)
    assert np.array_equal(first.next_context, second.next_context)
    assert first[2:] == second[2:]


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 4),
    st.integers(1, 3),
    st.sets(st.integers(0, 3)),
    st.floats(0.02, 20.0),
)
def test_writing_and_reading_changes_no_bit(
    seed: int, vocab_size: int, horizon: int, eos: set[int], concentration: float
) -> None:
    stops = tuple(sorted(token for token in eos if token < vocab_size))
    generator = np.random.default_rng(seed)
    for make, kind in ((random_tree_table, "tree"), (random_markov_table, "markov")):
        table = make(generator, vocab_size, stops, horizon, concentration)
        file = parse_model(json.dumps(model_to_json(table)))
        assert_same(file.table, table)
        assert (file.kind, file.horizon_is_free) == (kind, kind == "markov")


@given(st.floats(-2_300.0, 0.0) | st.floats(-1.0, 0.0) | st.floats(-1e-10, -1e-60))
def test_any_log_probability_survives(log_prob: float) -> None:
    """Also where the probability in double precision is 1, and where it is 0."""
    written = json.loads(json.dumps(probability_value(log_prob)))
    probability = parse_probability(written)
    assert exact_log_row([probability, 1 - probability])[0] == log_prob
    if isinstance(written, float) and written <= 1:
        assert double_log_row([written, 1 - written])[0] == log_prob


def test_numbers_are_doubles_and_text_is_exact() -> None:
    for values in (["1/3", "2/3"], [0.1, 0.9], [0.3, "7/10"], [1, 0], [1.0, 0.0]):
        found = parse_model(tree_text(*(json.dumps(value) for value in values)))
        exact = [math.log(Fraction(v)) if Fraction(v) else -math.inf for v in values]
        assert found.table.log_probs[0].tolist() == pytest.approx(exact, rel=1e-15)
    # A number that a double cannot hold is neither 0 nor a silent change of the support.
    found = parse_model(tree_text("1e-400", "1"))
    assert found.table.log_probs[0, 0] == pytest.approx(-400 * math.log(10), rel=1e-12)
    with pytest.raises(InvalidInput, match="sum to"):
        parse_model(tree_text("1e400", "1"))


def tree_text(*numbers: str) -> str:
    """A file of one row whose numbers stand in it as they are given."""
    row = ", ".join(numbers)
    return f'{{"kind": "tree", "vocab_size": {len(numbers)}, "max_length": 1, "eos": null, "conditionals": {{"": [{row}]}}}}'


def test_files_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    for table in (toys.toy_b(), toys.toy_e()):
        write_model(path, table)
        assert_same(read_model(path).table, table)
        assert_same(read_model(str(path)).table, table)


def test_what_people_write() -> None:
    file = parse_model(json.dumps(TREE))
    assert law_after(file.table, ()) == [math.log(0.5), math.log(0.25), math.log(0.25)]
    assert law_after(file.table, (0,)) == [-math.inf, math.log(0.5), math.log(0.5)]
    assert law_after(file.table, (1,))[:2] == pytest.approx(np.log([0.1, 0.9]), rel=1e-15)
    assert (file.kind, file.horizon_is_free, file.table.eos) == ("tree", False, (2,))
    assert_same(parse_model(json.dumps({**TREE, "eos": [2, 2], "note": 1})).table, file.table)


def test_rows_are_normalised_after_the_check() -> None:
    row = [0.3333333, 0.3333333, 0.3333333]
    file = parse_model(json.dumps({**TREE, "max_length": 1, "conditionals": {"": row}}))
    assert np.exp(law_after(file.table, ())) == pytest.approx([1 / 3] * 3, rel=1e-15)


def test_compact_chain() -> None:
    file = parse_model(json.dumps(COMPACT))
    assert np.exp(law_after(file.table, (0, 1))) == pytest.approx([0.4, 0.6], rel=1e-15)
    assert (file.kind, file.horizon_is_free, file.table.horizon) == ("markov", True, 5)
    ignored = {**COMPACT, "eos": [0, 1], "transition": ["anything", None]}
    assert parse_model(json.dumps(ignored)).table.eos == (0, 1)


def test_a_byte_order_mark_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(TREE).encode())
    assert read_model(path).table.vocab_size == 3


def by_prefix(table: ContextTable) -> str:
    """A chain as a file of per-prefix rows."""
    conditionals: dict[str, list[float]] = {}
    for prefix in {tokens[:n] for tokens in sequences(table) for n in range(len(tokens))}:
        conditionals[" ".join(map(str, prefix))] = np.exp(law_after(table, prefix)).tolist()
    sizes = {"vocab_size": table.vocab_size, "max_length": table.horizon, "eos": list(table.eos)}
    return json.dumps({"kind": "markov", **sizes, "conditionals": conditionals})


def test_per_prefix_rows_of_a_chain_come_back_as_a_chain() -> None:
    table = toys.toy_e()
    file = parse_model(by_prefix(table))
    assert file.table.log_probs.shape == (4, 3) and file.horizon_is_free
    longer = with_horizon(file.table, 7)
    by_hand = sequences(with_horizon(table, 7))
    assert sequences(longer) == pytest.approx(by_hand, rel=1e-12)


def test_the_horizon_of_a_chain_is_not_free_where_rows_are_missing() -> None:
    fields = {**COMPACT, "max_length": 1, "conditionals": {"": [0.5, 0.5]}}
    del fields["initial"], fields["transition"]
    file = parse_model(json.dumps(fields))
    assert file.kind == "markov" and not file.horizon_is_free


def test_rows_that_no_sequence_reaches_are_written_as_null() -> None:
    rows = {(): np.array([0.0, -np.inf]), (0,): np.array([0.0, -np.inf])}
    table = markov_from_log_rows(rows, 2, (), 3)
    fields = model_to_json(table)
    assert fields["transition"] == [[1, 0], None]
    assert_same(parse_model(json.dumps(fields)).table, table)


def test_models_that_are_neither_keep_their_laws() -> None:
    rows = {(): [0.5, 0.5], (0,): [0.25, 0.75], (1,): [0.5, 0.5]} | {
        (0, 0): [0.1, 0.9],
        (0, 1): [0.2, 0.8],
        (1, 0): [0.3, 0.7],
        (1, 1): [0.4, 0.6],
    }
    second_order = order_k_markov_table(rows, 2, 2, (), 4)
    geometric = geometric_table([0.5, 0.25, 0.25], (2,), 4)
    started = after_prompt(toys.toy_e(), (1,))
    for table, kind in ((second_order, "tree"), (geometric, "markov"), (started, "markov")):
        file = parse_model(json.dumps(model_to_json(table)))
        assert sequences(file.table) == sequences(table) and file.kind == kind


def test_a_tree_too_large_to_write_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_WRITTEN_PREFIXES", 6)
    table = tree_table({(): [0.5, 0.5], (0,): [0.5, 0.5], (1,): [0.5, 0.5]}, 2, (), 2)
    model_to_json(table)
    deep = random_tree_table(np.random.default_rng(0), 2, (), 3, 1.0)
    with pytest.raises(InvalidInput, match="more than 6 prefixes of up to 2 tokens"):
        model_to_json(deep)


def test_a_table_that_runs_out_is_not_written() -> None:
    with pytest.raises(InvalidInput, match='prefix "0 2" has no law, lower the horizon of 3 to 2'):
        model_to_json(with_horizon(toys.toy_b(), 3))


def test_a_probability_too_small_to_write_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"log probability -2400\.0 is too low"):
        probability_value(-2_400.0)


@pytest.mark.parametrize(
    ("value", "exact"),
    [
        ("2/3", Fraction(2, 3)),
        ("0.1", Fraction(1, 10)),
        ("1e-3", Fraction(1, 1000)),
        (1, Fraction(1)),
    ],
)
def test_numbers_are_exact(value: object, exact: Fraction) -> None:
    assert parse_probability(value) == exact


def tree(**changes: Any) -> str:
    return json.dumps({**TREE, **changes})


def row(values: Any, prefix: str = "0") -> str:
    return tree(conditionals={**TREE["conditionals"], prefix: values})


def compact(**changes: Any) -> str:
    return json.dumps({**COMPACT, **changes})


def without(fields: dict[str, Any], name: str) -> str:
    return json.dumps({key: value for key, value in fields.items() if key != name})


MALFORMED = {
    "empty": ("", "is empty, write a model into it"),
    "blank": (" \n", "is empty"),
    "not JSON": ('{"kind": "tree",\n "eos" 2}', "Expecting ':' delimiter at line 2 column 8"),
    "two values": ("{} {}", "is not JSON: Extra data at line 1 column 4"),
    "not an object": ("[1, 2]", "is [1, 2], must be an object"),
    "nested": ("[" * 100_000, "is nested too deeply"),
    "long integer": (tree().replace('"vocab_size": 3', f'"vocab_size": {"9" * 5000}'), "thousands"),
    "key twice": ('{"kind": "tree", "kind": "tree"}', "key 'kind' stands twice"),
    "prefix twice": (row([1, 0, 0]).replace('"1":', '"0":'), "key '0' stands twice"),
    "no kind": (without(TREE, "kind"), 'field "kind" is missing'),
    "unknown kind": (tree(kind="forest"), "kind 'forest' is unknown"),
    "kind of a wrong type": (tree(kind=["tree"]), "kind ['tree'] is unknown"),
    "no vocab_size": (without(TREE, "vocab_size"), 'field "vocab_size" is missing'),
    "vocab_size 0": (tree(vocab_size=0), "vocab_size is 0, must be at least 1"),
    "vocab_size as text": (tree(vocab_size="3"), "vocab_size is '3', must be an integer"),
    "no max_length": (without(TREE, "max_length"), 'field "max_length" is missing'),
    "max_length 0": (tree(max_length=0), "max_length is 0, must be at least 1"),
    "negative max_length": (tree(max_length=-2), "max_length is -2, must be at least 1"),
    "max_length 2.5": (tree(max_length=2.5), "max_length is 2.5, must be an integer"),
    "max_length true": (tree(max_length=True), "max_length is True, must be an integer"),
    "huge max_length": (tree(max_length=10**12), 'prefix "0 1" is missing, sequences reach it'),
    "no eos": (without(TREE, "eos"), 'field "eos" is missing'),
    "eos beyond": (tree(eos=3), "eos 3 is no token, must be in 0..2"),
    "eos negative": (tree(eos=[2, -1]), "eos is -1, must be at least 0"),
    "eos true": (tree(eos=True), "eos is True, must be an integer"),
    "no conditionals": (without(TREE, "conditionals"), 'field "conditionals" is missing'),
    "conditionals a list": (tree(conditionals=[]), "conditionals is [], must be an object"),
    "row an object": (row({"0": 1}), "prefix \"0\" has {'0': 1}, must have a list"),
    "row too short": (row([0.5, 0.5]), 'prefix "0" has 2 probabilities, must have 3'),
    "sum too small": (row([0.5, 0.25, 0.2]), 'prefix "0": probabilities sum to 0.95, must'),
    "sum far too large": (
        row(["1e900", 0, 0]),
        'prefix "0": probabilities sum to 1.00000000e+900',
    ),
    "sum just off": (row(["0.5", "0.499998", 0]), "probabilities sum to 0.999998, must"),
    "all zero": (row([0, 0, 0]), 'prefix "0": probabilities sum to 0'),
    "negative": (row([-0.5, 1, 0.5]), 'prefix "0", token 0: -0.5 is negative'),
    "negative fraction": (row([1, "-1/2", "1/2"]), "prefix \"0\", token 1: '-1/2' is negative"),
    "NaN": (row([math.nan, 0.5, 0.5]), 'prefix "0", token 0: NaN is not finite'),
    "infinite": (row([1, math.inf, 0]), 'prefix "0", token 1: Infinity is not finite'),
    "infinite text": (row([1, "-inf", 0]), 'prefix "0", token 1: -inf is not finite'),
    "zero denominator": (row(["1/0", 0, 0]), "prefix \"0\", token 0: '1/0' has denominator 0"),
    "gigantic exponent": (row(["1e999999999", 0, 0]), "token 0: '1e999999999' has an exponent"),
    "gigantic number": (row([1, 0, 0]).replace("[1, 0, 0]", "[1e999999999, 0, 0]"), "an exponent"),
    "endless text": (row(["1" * 2000, 0, 0]), "token 0: '111111111111111111111111111111111111..."),
    "no number": (row(["half", 0, 0]), "prefix \"0\", token 0: 'half' is no number"),
    "underscore": (row(["1_0/10", 0, 0]), "'1_0/10' is no number"),
    "foreign digits": (row(["\u0661", 0, 0]), "'\\u0661' is no number"),
    "two lines": (row(["1\n2", 0, 0]), "'1\\n2' is no number"),
    "probability null": (row([None, 0, 1]), 'prefix "0", token 0: None is no probability'),
    "probability true": (row([True, 0, 0]), 'prefix "0", token 0: True is no probability'),
    "unknown token": (row([1, 0, 0], "7"), "prefix '7': token 7 is unknown, must be in 0..2"),
    "endless token": (row([1, 0, 0], "9" * 5000), "is unknown, must be in 0..2"),
    "double blank": (row([1, 0, 0], "0  1"), "prefix '0  1' is malformed"),
    "leading blank": (row([1, 0, 0], " 0"), "prefix ' 0' is malformed"),
    "trailing newline": (row([1, 0, 0], "0\n"), "prefix '0\\n' is malformed"),
    "leading zero": (row([1, 0, 0], "01"), "prefix '01' is malformed"),
    "prefix too long": (row([1, 0, 0], "1 0"), 'prefix "1 0": 2 tokens, must be fewer than 2'),
    "after eos": (row([1, 0, 0], "2"), 'prefix "2": no sequence reaches it'),
    "after a zero": (
        tree(conditionals={"": [1, 0, 0], "0": [1, 0, 0], "1": [1, 0, 0]}),
        'prefix "1": no',
    ),
    "missing prefix": (
        tree(conditionals={"": [0.5, 0.5, 0], "0": [1, 0, 0]}),
        'prefix "1" is missing',
    ),
    "missing start": (tree(conditionals={"0": [1, 0, 0]}), 'prefix "" is missing'),
    "rows disagree": (
        tree(
            kind="markov",
            max_length=3,
            conditionals={
                "": [1, 0, 0],
                "0": [1, 0, 0],
                "0 0": [0, 0, 1],
            },
        ),
        'prefix "0" and prefix "0 0" end alike but have different rows',
    ),
    "chain of both kinds": (compact(conditionals={}), 'both "conditionals" and "transition"'),
    "chain without start": (without(COMPACT, "initial"), 'field "initial" is missing'),
    "chain without rows": (without(COMPACT, "transition"), 'field "transition" is missing'),
    "chain of nothing": (tree(kind="markov", conditionals=None), "conditionals is None, must be"),
    "transition no list": (compact(transition=1), "transition is 1, must be a list of rows"),
    "transition too short": (compact(transition=[[1, 0]]), "transition has 1 rows, must have 2"),
    "transition off": (
        compact(transition=[[1, 0], [1, 1]]),
        "transition row 1: probabilities sum to 2",
    ),
    "transition null": (
        compact(transition=[[1, 0], None]),
        "transition row 1 is null, but sequences",
    ),
    "initial off": (compact(initial=[1]), "initial has 1 probabilities, must have 2"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_files_are_refused_in_one_line(name: str, tmp_path: Path) -> None:
    text, message = MALFORMED[name]
    path = tmp_path / "model.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInput) as error:
        read_model(path)
    line = str(error.value)
    assert line.startswith(f"{path}: ") and message in line
    assert line.isprintable() and line.isascii() and len(line) < len(str(path)) + 200


def test_what_is_no_text_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no such file"):
        read_model(tmp_path / "absent.json")
    with pytest.raises(InvalidInput, match="is a folder"):
        read_model(tmp_path)
    (tmp_path / "latin.json").write_bytes(b'{"kind": "\xe9"}')
    with pytest.raises(InvalidInput, match="byte 10 is not UTF-8"):
        read_model(tmp_path / "latin.json")
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_model(tmp_path / ("x" * 300))


def test_an_absurd_max_length_costs_no_more_than_the_file(tmp_path: Path) -> None:
    ends = {"": [0.5, 0, 0.5], "0": [0, 0, 1]}
    table = parse_model(tree(max_length=10**12, conditionals=ends)).table
    assert table.horizon == 10**12 and sequences(table) == {
        (0, 2): math.log(0.5),
        (2,): math.log(0.5),
    }
