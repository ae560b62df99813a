import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from models.tabular import hidden_markov
from models.tabular.catalogue import hidden_markov_example
from models.tabular.constructors import tree_table
from models.tabular.hidden_markov import (
    HiddenMarkovChain,
    HiddenMarkovModel,
    hidden_markov_table,
    make_hidden_markov_chain,
)
from tests.models.tabular.naive import law_after, sequences
from theory.conformance.operations import extend, init, step
from theory.errors import InvalidInput

CHAIN = make_hidden_markov_chain(
    initial=np.array([0.5, 0.25, 0.25]),
    transition=np.array([[0.5, 0.5, 0.0], [0.0, 0.75, 0.25], [0.125, 0.125, 0.75]]),
    emission=np.array([[0.75, 0.0, 0.25, 0.0], [0.25, 0.5, 0.0, 0.25], [0.0, 0.25, 0.25, 0.5]]),
    eos=(3, 2),
    horizon=4,
)


def brute_force(chain: HiddenMarkovChain, tokens: tuple[int, ...]) -> float:
    """P(the tokens come first), summed over every path of hidden states."""
    total = 0.0
    for path in itertools.product(range(len(chain.initial)), repeat=len(tokens)):
        mass = chain.initial[path[0]]
        for state, following in itertools.pairwise(path):
            mass *= chain.transition[state, following]
        total += mass * math.prod(chain.emission[z, y] for z, y in zip(path, tokens, strict=True))
    return total


def test_the_tree_holds_every_sequence_with_its_probability() -> None:
    found = sequences(hidden_markov_table(CHAIN))
    for length in range(1, 5):
        for tokens in itertools.product(range(4), repeat=length):
            ends = tokens[-1] in CHAIN.eos or length == 4
            whole = ends and not set(tokens[:-1]) & {2, 3}
            truth = brute_force(CHAIN, tokens) if whole else 0.0
            assert math.exp(found.get(tokens, -math.inf)) == pytest.approx(truth, rel=1e-12)


def test_the_tree_is_laid_out_like_any_other() -> None:
    table = hidden_markov_table(CHAIN)
    prefixes = [
        tokens
        for length in range(4)
        for tokens in itertools.product(range(2), repeat=length)
        if not length or brute_force(CHAIN, tokens) > 0
    ]
    rows = {prefix: np.exp(law_after(table, prefix)) for prefix in prefixes}
    again = tree_table(rows, vocab_size=4, eos=(2, 3), max_length=4)
    assert (again.next_context == table.next_context).all()
    assert np.exp(again.log_probs) == pytest.approx(np.exp(table.log_probs), rel=1e-14)


def test_filtering_gives_the_laws_of_the_tree() -> None:
    table = hidden_markov_table(CHAIN)
    model = HiddenMarkovModel.from_chain(CHAIN)
    tokens = jnp.array([[0, 1, 1, 0], [1, 0, 0, 2], [1, 1, 3, 0]], jnp.int32)
    state, law = init(model, tokens[:, :1], jnp.array([0, 0, 0], jnp.int32))
    for j in range(3):
        for row in range(3):
            assert law[row] == pytest.approx(
                law_after(table, tuple(tokens[row, :j].tolist())), rel=2e-6
            )
        state, law = step(model, state, tokens[:, j], jnp.ones(3, bool))
    assert law[2] == pytest.approx([-math.log(4)] * 4)


def test_bad_prompts_have_no_law_and_rows_that_are_over_absorb() -> None:
    model = HiddenMarkovModel.from_chain(CHAIN)
    prompts = jnp.array([[0, 2], [3, 0], [7, 0], [-1, 0], [0, 1]], jnp.int32)
    state, law = init(model, prompts, jnp.array([2, 1, 1, 1, 1], jnp.int32))
    assert np.isnan(law[:4]).all() and not np.isnan(law[4]).any()
    for token, count in [(1, 1), (2, 2), (1, 2)]:
        state, law = step(model, state, jnp.full(5, token, jnp.int32), jnp.ones(5, bool))
        assert np.isnan(law[:4]).all() and not np.isnan(law[4]).any()
        assert state.num_generated.tolist() == [0, 0, 0, 0, count]


def test_an_impossible_prompt_has_no_law() -> None:
    never_repeats = make_hidden_markov_chain(
        np.array([1.0, 0.0]), np.array([[0.0, 1.0], [1.0, 0.0]]), np.eye(2), (), 3
    )
    model = HiddenMarkovModel.from_chain(never_repeats)
    prompts = jnp.array([[0, 1], [0, 0]], jnp.int32)
    _, law = init(model, prompts, jnp.array([2, 2], jnp.int32))
    assert law[0].tolist() == [0.0, -math.inf] and np.isnan(law[1]).all()


def test_long_rows_do_not_underflow() -> None:
    chain = hidden_markov_example()._replace(horizon=400)
    model = HiddenMarkovModel.from_chain(chain)
    state, _ = init(model, jnp.zeros((1, 0), jnp.int32), jnp.zeros(1, jnp.int32))
    tokens, lengths = jnp.ones((1, 399), jnp.int32), jnp.array([399], jnp.int32)
    _, values, law = extend(model, state, tokens, lengths)
    assert np.isfinite(values["log_prob"]).all()
    assert np.exp(law).sum() == pytest.approx(1, abs=1e-6)


@pytest.mark.slow  # the last bits are promised of programs that are compiled to be fast, as make test-slow does
def test_rows_are_bitwise_the_same_in_any_batch() -> None:
    model = HiddenMarkovModel.from_chain(hidden_markov_example())
    tokens = jnp.asarray(np.random.default_rng(1).integers(0, 2, (33, 6)), jnp.int32)
    lengths = jnp.arange(33, dtype=jnp.int32) % 7

    def run(tokens: jax.Array, lengths: jax.Array) -> tuple[jax.Array, jax.Array]:
        state, _ = init(model, tokens[:, :2], jnp.minimum(lengths, 2))
        _, values, law = extend(model, state, tokens, lengths)
        return values["log_prob"], law

    whole = run(tokens, lengths)
    for rows in (np.array([6]), np.arange(32, -1, -1)):
        for part, all_rows in zip(run(tokens[rows], lengths[rows]), whole, strict=True):
            assert (part == all_rows[rows]).all()


def test_too_many_prefixes_are_counted_and_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hidden_markov, "MAX_PREFIXES", 20)
    chain = hidden_markov_example()
    with pytest.raises(
        InvalidInput, match=r"31 prefixes of up to 4 tokens, at most 20 .* to 4 or less"
    ):
        hidden_markov_table(chain)
    assert len(hidden_markov_table(chain._replace(horizon=4)).log_probs) == 16


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"initial": np.array([0.5, 0.4])}, "initial row 0: must be probabilities with sum 1"),
        ({"transition": np.array([[1.0, 0.0], [1.5, -0.5]])}, "transition row 1"),
        ({"emission": np.array([[1.0, 0.0], [np.nan, 1.0]])}, "emission row 1"),
        ({"horizon": 0}, "horizon 0: must be at least 1"),
        ({"eos": (2,)}, r"eos 2: must be a token in 0\.\.1"),
    ],
)
def test_bad_parts_are_refused(change: dict[str, object], message: str) -> None:
    good = {"initial": np.array([0.5, 0.5]), "transition": np.eye(2), "emission": np.eye(2)}
    with pytest.raises(InvalidInput, match=message):
        make_hidden_markov_chain(**({**good, "eos": (), "horizon": 2} | change))  # pyright: ignore[reportArgumentType]
