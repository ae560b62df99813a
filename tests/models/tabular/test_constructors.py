import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.tabular.constructors import (
    geometric_table,
    markov_table,
    order_k_markov_table,
    tree_table,
)
from models.tabular.random_tables import random_markov_table, random_tree_table
from models.tabular.sharp_path import sharp_against_blurred_table
from tests.models.tabular.naive import (
    first_token_power,
    first_token_temperature,
    law_after,
    sequences,
)
from theory.errors import InvalidInput
from theory.exact.context_table import ContextTable

TREE = {
    (): [0.25, 0.5, 0.25],
    (0,): [0.0, 0.5, 0.5],
    (1,): [0.125, 0.125, 0.75],
    (0, 1): [1.0, 0.0, 0.0],
    (1, 0): [0.5, 0.25, 0.25],
    (1, 1): [0.25, 0.25, 0.5],
}


def test_tree_table_gives_back_its_conditionals() -> None:
    table = tree_table(TREE, vocab_size=3, eos=(2,), max_length=3)
    for prefix, row in TREE.items():
        assert np.exp(law_after(table, prefix)) == pytest.approx(row, rel=1e-15)
    assert sum(map(math.exp, sequences(table).values())) == pytest.approx(1, rel=1e-15)
    assert max(map(len, sequences(table))) == 3


def test_below_the_last_level_of_a_tree_there_is_no_law() -> None:
    table = tree_table(TREE, vocab_size=3, eos=(2,), max_length=3)
    assert law_after(table, (0, 1, 0)) == [-math.inf] * 3


def test_markov_table_reads_the_last_token() -> None:
    table = markov_table([0.5, 0.25, 0.25], [[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], []], (2,), 9)
    assert np.exp(law_after(table, ())) == pytest.approx([0.5, 0.25, 0.25], rel=1e-15)
    assert np.exp(law_after(table, (1, 0))) == pytest.approx([0.5, 0.25, 0.25], rel=1e-15)
    assert np.exp(law_after(table, (0, 1))) == pytest.approx([0.25, 0.5, 0.25], rel=1e-15)


def test_order_one_by_contexts_is_the_markov_table() -> None:
    rows = {(): [0.5, 0.25, 0.25], (0,): [0.5, 0.25, 0.25], (1,): [0.25, 0.5, 0.25]}
    by_context = order_k_markov_table(rows, order=1, vocab_size=3, eos=(2,), horizon=4)
    by_matrix = markov_table(rows[()], [rows[(0,)], rows[(1,)], rows[()]], (2,), 4)
    assert sequences(by_context) == sequences(by_matrix)


def test_order_k_reads_the_last_k_tokens() -> None:
    generator = np.random.default_rng(1)
    contexts = [(), (0,), (1,), (0, 0), (0, 1), (1, 0), (1, 1)]
    rows = {context: generator.dirichlet(np.ones(2)) for context in contexts}
    table = order_k_markov_table(rows, order=2, vocab_size=2, eos=(), horizon=6)
    for prefix in [(), (1,), (0, 1), (1, 1, 0), (1, 1, 0, 0), (0, 1, 0, 1, 1)]:
        assert np.exp(law_after(table, prefix)) == pytest.approx(rows[prefix[-2:]], rel=1e-14)


def test_an_order_beyond_the_horizon_is_a_tree() -> None:
    rows = {prefix: row for prefix, row in TREE.items() if len(prefix) < 2}
    tree = tree_table(rows, vocab_size=3, eos=(2,), max_length=2)
    after_two = {(0, 1): [0.0, 0.0, 1.0], (1, 0): [0.0, 0.0, 1.0], (1, 1): [0.0, 0.0, 1.0]}
    chain = order_k_markov_table(rows | after_two, order=2, vocab_size=3, eos=(2,), horizon=2)
    assert sequences(chain) == sequences(tree)


def test_geometric_length() -> None:
    table = geometric_table([0.25, 0.5, 0.25], eos=(2,), horizon=5)
    lengths = [0.0] * 6
    for tokens, log_prob in sequences(table).items():
        lengths[len(tokens)] += math.exp(log_prob)
    assert lengths[1:5] == pytest.approx([0.25 * 0.75**n for n in range(4)], rel=1e-14)
    assert lengths[5] == pytest.approx(0.75**4, rel=1e-14)


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 4), st.floats(0.05, 5.0))
def test_random_tables_are_laws(seed: int, vocab_size: int, horizon: int, width: float) -> None:
    eos = (0,) if seed % 2 else ()
    for make in (random_tree_table, random_markov_table):
        table = make(np.random.default_rng(seed), vocab_size, eos, horizon, width)
        assert sum(map(math.exp, sequences(table).values())) == pytest.approx(1, rel=1e-12)
        again = make(np.random.default_rng(seed), vocab_size, eos, horizon, width)
        assert (again.log_probs == table.log_probs).all()


def test_concentration_sharpens() -> None:
    def mean_entropy(concentration: float) -> float:
        table = random_markov_table(np.random.default_rng(0), 8, (), 2, concentration)
        probs = np.exp(table.log_probs)
        return float(
            -np.where(probs > 0, probs * np.log(np.maximum(probs, 1e-300)), 0).sum(1).mean()
        )

    assert mean_entropy(0.1) < mean_entropy(1.0) < mean_entropy(10.0) < math.log(8)


@pytest.mark.parametrize("sharp", [0.2, 0.4, 0.49])
@pytest.mark.parametrize("alpha", [0.5, 1.5, 2.0, 4.0])
def test_sharp_path_odds(sharp: float, alpha: float) -> None:
    table = sharp_against_blurred_table(sharp, vocab_size=3, length=4)
    power, temperature = first_token_power(table, alpha), first_token_temperature(table, alpha)
    odds = (sharp / (1 - sharp)) ** alpha
    assert temperature[0] / temperature[1] == pytest.approx(odds, rel=1e-12)
    assert power[0] / power[1] == pytest.approx(odds * 27 ** (alpha - 1), rel=1e-12)


def test_sharp_path_reverses_the_ranking_at_two_and_from_the_stated_exponent_on() -> None:
    table = sharp_against_blurred_table(0.4, vocab_size=3, length=4)
    start = math.log(27) / (math.log(27) - math.log(0.6 / 0.4))
    assert 1 < start < 2
    for alpha, reversed_ in [(2.0, True), (start + 1e-6, True), (start - 1e-6, False)]:
        power, temperature = first_token_power(table, alpha), first_token_temperature(table, alpha)
        assert temperature[1] > temperature[0]
        assert (power[0] > power[1]) == reversed_


def test_sharp_path_needs_enough_blur_at_two() -> None:
    for length, reversed_ in [
        (2, False),
        (3, True),
    ]:  # 3 and 9 blurred paths against 2.25**2 = 5.06
        power = first_token_power(sharp_against_blurred_table(4 / 13, 3, length), 2.0)
        assert (power[0] > power[1]) == reversed_


BAD: list[tuple[Callable[[], ContextTable], str]] = [
    (lambda: tree_table({}, 2, (), 1), 'prefix "" is missing'),
    (lambda: tree_table({(): [0.5, 0.6]}, 2, (), 1), 'prefix "": probabilities sum to 1.1, must'),
    (lambda: tree_table({(): [1.5, -0.5]}, 2, (), 1), "token 1 has probability -0.5"),
    (lambda: tree_table({(): [math.nan, 1.0]}, 2, (), 1), "token 0 has probability nan"),
    (lambda: tree_table({(): [1.0]}, 2, (), 1), 'prefix "": 1 probabilities, must be 2'),
    (lambda: tree_table({(): [0.5, 0.5]}, 2, (), 0), "max_length 0: must be at least 1"),
    (lambda: tree_table({(): [0.5, 0.5]}, 2, (2,), 1), "eos 2: must be a token in 0..1"),
    (lambda: tree_table({(): [0.5, 0.5]}, 2, (1,), 2), 'prefix "0" is missing, sequences reach it'),
    (
        lambda: tree_table({(): [0.5, 0.5], (0,): [1.0, 0.0]}, 2, (), 1),
        'prefix "0": 1 tokens, must be',
    ),
    (lambda: tree_table({(): [0.0, 1.0], (0,): [1.0, 0.0]}, 2, (1,), 2), 'prefix "0": no sequence'),
    (
        lambda: tree_table({(): [0.5, 0.5], (2,): [1.0, 0.0]}, 2, (), 2),
        'prefix "2": token 2 is unknown',
    ),
    (lambda: markov_table([1.0, 0.0], [[1.0, 0.0]], (), 2), "transition has 1 rows, must have 2"),
    (lambda: markov_table([1.0, 0.0], [[1.0, 0.0], [0.0, 0.9]], (), 2), "transition row 1: prob"),
    (
        lambda: markov_table([1.0, 0.0], [[1.0, 0.0], [1.0]], (), 2),
        'prefix "1" has 1 probabilities',
    ),
    (lambda: markov_table([1.0, 0.0], [[1.0, 0.0], [0.5, 0.5, 0.0]], (), 2), "has 3 probabilities"),
    (lambda: order_k_markov_table({(): [1.0]}, 0, 1, (), 1), "order 0: must be at least 1"),
    (lambda: order_k_markov_table({(): [1.0]}, 1, 1, (), 1), 'prefix "0" is missing'),
    (
        lambda: order_k_markov_table(
            {(): [1.0, 0.0], (0,): [1.0, 0.0], (1,): [1.0, 0.0]}, 1, 2, (), 1
        ),
        'prefix "1": no sequence reaches it',
    ),
    (lambda: geometric_table([0.5, 0.4], (1,), 3), "probabilities sum to 0.9"),
    (lambda: sharp_against_blurred_table(0.5, 2, 2), "sharp_probability 0.5: must be above 0"),
    (lambda: sharp_against_blurred_table(0.4, 1, 2), "vocab_size 1: must be at least 2"),
    (lambda: sharp_against_blurred_table(0.4, 2, 0), "horizon 0: must be at least 1"),
]


@pytest.mark.parametrize(("make", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_parts_are_refused(make: Callable[[], ContextTable], message: str) -> None:
    with pytest.raises(InvalidInput) as error:
        make()
    assert message in str(error.value) and "\n" not in str(error.value)
