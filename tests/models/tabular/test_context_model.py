import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from models.tabular import toys
from models.tabular.constructors import tree_table
from models.tabular.context_model import ContextModel, check_prompts
from models.tabular.random_tables import random_markov_table, random_tree_table
from tests.models.tabular.naive import law_after
from theory.conformance.operations import extend, init, rewind, step
from theory.errors import InvalidInput
from theory.exact.context_table import after_prompt, with_horizon

# Three tokens, eos 2, three deep; 0 never follows 0.
TREE = tree_table(
    {
        (): [0.25, 0.5, 0.25],
        (0,): [0.0, 0.5, 0.5],
        (1,): [0.5, 0.25, 0.25],
        (0, 1): [0.5, 0.0, 0.5],
        (1, 0): [0.125, 0.75, 0.125],
        (1, 1): [0.25, 0.25, 0.5],
    },
    vocab_size=3,
    eos=(2,),
    max_length=3,
)
UNIFORM = [-math.log(3)] * 3


def first_laws(model: ContextModel, prompts: list[list[int]]) -> np.ndarray:
    width = max(map(len, prompts))
    padded = np.array([prompt + [0] * (width - len(prompt)) for prompt in prompts], np.int32)
    lengths = np.array([len(prompt) for prompt in prompts], np.int32)
    return np.asarray(init(model, padded.reshape(len(prompts), width), lengths)[1])


def test_laws_are_those_of_the_table() -> None:
    model = ContextModel.from_table(with_horizon(TREE, 1))
    prompts = [[], [0], [1], [0, 1], [1, 0], [1, 1]]
    laws = first_laws(model, prompts)
    for law, prompt in zip(laws, prompts, strict=True):
        assert law == pytest.approx(law_after(TREE, tuple(prompt)), rel=1e-7)
        started = ContextModel.from_table(after_prompt(TREE, tuple(prompt)))
        assert (first_laws(started, [[]]) == law).all()


BAD_PROMPTS = [
    ([0, 0], 1, "token 0 has probability 0 there, the prompt is impossible"),
    ([1, 2, 1], 1, "token 2 ends the sequence, nothing can follow it"),
    ([2], 0, "token 2 ends the sequence"),
    ([3], 0, "token 3 is unknown, must be in 0..2"),
    ([1, -1], 1, "token -1 is unknown, must be in 0..2"),
    ([1, 1, 0, 1], 3, "token 1 stands where the table has ended, shorten the prompt"),
]


def test_a_prompt_off_the_table_has_no_law_whatever_follows() -> None:
    model = ContextModel.from_table(TREE)
    prompts = [prompt for prompt, _, _ in BAD_PROMPTS] + [[1, 1, 1], [1]]
    padded = jnp.array([p + [0] * (4 - len(p)) for p in prompts], jnp.int32)
    state, law = init(model, padded, jnp.array([len(p) for p in prompts], jnp.int32))
    everyone = jnp.ones(len(prompts), bool)
    for token in (1, 2, 7, 1):
        assert np.isnan(law[:-1]).all() and np.isfinite(law[-1]).all()
        state, law = step(model, state, jnp.full(len(prompts), token, jnp.int32), everyone)
    _, law = rewind(model, state, jnp.zeros(len(prompts), jnp.int32), padded[:, 0])
    assert np.isnan(law[:-1]).all() and np.isfinite(law[-1]).all()


@pytest.mark.parametrize(("prompt", "position", "message"), BAD_PROMPTS)
def test_check_prompts_names_row_and_position(
    prompt: list[int], position: int, message: str
) -> None:
    model = ContextModel.from_table(with_horizon(TREE, 1))
    prompts = jnp.array([[1, 0, 9, 9], prompt + [0] * (4 - len(prompt))], jnp.int32)
    with pytest.raises(InvalidInput) as error:
        check_prompts(model, prompts, jnp.array([2, len(prompt)], jnp.int32))
    assert str(error.value).startswith(f"prompt row 1, position {position}: {message}")


def test_check_prompts_knows_how_deep_the_tree_is() -> None:
    model = ContextModel.from_table(with_horizon(TREE, 2))
    prompts = jnp.array([[1, 1]] * 3, jnp.int32)
    check_prompts(model, prompts, jnp.array([0, 1, 1], jnp.int32))
    with pytest.raises(
        InvalidInput, match="prompt row 2: the table ends 1 tokens after this prompt"
    ):
        check_prompts(model, prompts, jnp.array([0, 1, 2], jnp.int32))
    with pytest.raises(InvalidInput, match=r"prompt row 1: length 3 must be in 0\.\.2"):
        check_prompts(model, prompts, jnp.array([0, 3, 2], jnp.int32))
    with pytest.raises(InvalidInput, match="prompt row 0: the table ends 3 tokens after"):
        check_prompts(
            ContextModel.from_table(with_horizon(TREE, 4)), prompts, jnp.array([0, 0, 0], jnp.int32)
        )


def test_markov_prompts_never_run_out() -> None:
    model = ContextModel.from_table(toys.toy_e())
    check_prompts(model, jnp.array([[0, 1] * 9], jnp.int32), jnp.array([18], jnp.int32))


def test_a_row_that_is_over_absorbs() -> None:
    model = ContextModel.from_table(TREE)
    # Ends with eos; takes an impossible, then an unknown token; is truncated at the horizon.
    tokens = jnp.array([[2, 1, 1], [0, 0, 1], [1, 5, 1], [1, 1, 1]], jnp.int32)
    state, law = init(model, jnp.zeros((4, 0), jnp.int32), jnp.zeros(4, jnp.int32))
    counts = []
    for j in range(3):
        state, law = step(model, state, tokens[:, j], jnp.ones(4, bool))
        counts.append(state.num_generated.tolist())
    assert counts == [[1, 1, 1, 1], [1, 2, 2, 2], [1, 2, 2, 3]]
    assert np.asarray(law) == pytest.approx(np.array([UNIFORM] * 4))
    after, law = step(model, state, tokens[:, 0], jnp.ones(4, bool))
    assert jax.tree.all(jax.tree.map(lambda x, y: (x == y).all(), state, after))
    assert np.asarray(law) == pytest.approx(np.array([UNIFORM] * 4))


def test_an_impossible_continuation_has_log_prob_minus_infinity_and_not_nan() -> None:
    model = ContextModel.from_table(TREE)
    state, _ = init(model, jnp.zeros((1, 0), jnp.int32), jnp.zeros(1, jnp.int32))
    tokens = jnp.array([[0, 0, 1]], jnp.int32)
    _, values, _ = extend(model, state, tokens, jnp.array([3], jnp.int32))
    assert float(values["log_prob"].sum()) == -math.inf


def test_rows_are_bitwise_the_same_in_any_batch() -> None:
    model = ContextModel.from_table(random_markov_table(np.random.default_rng(0), 5, (4,), 6, 1.0))
    tokens = jnp.asarray(np.random.default_rng(1).integers(0, 4, (7, 6)), jnp.int32)
    lengths = jnp.array([0, 1, 2, 3, 4, 5, 6], jnp.int32)

    def run(tokens: jax.Array, lengths: jax.Array) -> tuple[jax.Array, jax.Array]:
        state, _ = init(model, tokens[:, :2], jnp.minimum(lengths, 2))
        _, values, law = extend(model, state, tokens, lengths)
        return values["log_prob"], law

    whole = run(tokens, lengths)
    for rows in ([6], [6, 5, 4, 3, 2, 1, 0]):
        index = jnp.array(rows)
        for part, all_rows in zip(run(tokens[index], lengths[index]), whole, strict=True):
            assert (part == all_rows[index]).all()


def test_double_precision_elsewhere_changes_nothing() -> None:
    table = random_tree_table(np.random.default_rng(3), 3, (2,), 3, 1.0)
    single = first_laws(ContextModel.from_table(table), [[0], [1]])
    with jax.enable_x64(True):
        model = ContextModel.from_table(table)
        state, law = init(model, jnp.array([[0], [1]]), jnp.array([1, 1]))
        tokens, lengths = jnp.array([[1], [0]]), jnp.array([1, 0])
        state, _, _ = extend(model, state, tokens, lengths)
        rewind(model, state, jnp.array([0, 0]), tokens[:, 0])
    assert law.dtype == jnp.float32 and (np.asarray(law) == single).all()


def test_a_state_is_gathered_for_another_number_of_rows() -> None:
    model = ContextModel.from_table(TREE)
    state, law = init(model, jnp.array([[0], [1]], jnp.int32), jnp.array([1, 1], jnp.int32))
    _, again = rewind(
        model,
        model.take(state, jnp.array([1, 0, 1])),
        jnp.zeros(3, jnp.int32),
        jnp.zeros(3, jnp.int32),
    )
    assert (again == law[jnp.array([1, 0, 1])]).all()
