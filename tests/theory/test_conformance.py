import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from models.pytree import register_pytree
from models.tabular.catalogue import hidden_markov_example
from models.tabular.constructors import geometric_table, markov_table, order_k_markov_table
from models.tabular.context_model import ContextModel
from models.tabular.hidden_markov import HiddenMarkovModel
from models.tabular.random_tables import random_tree_table
from tests.theory.naive_model import TWINS, NaiveModel
from theory.conformance import ConformanceError, check_sequence_model
from theory.exact.context_table import ContextTable, with_horizon
from theory.protocols import SequenceModel

EOS = (2, 3)
HORIZON = 4

# Rows: reaches the horizon; ends with one eos; does not move; ends with the other; goes on.
PROMPTS = np.array([[0, 1], [0, 0], [1, 0], [1, 1], [1, 0]])
PROMPT_LENGTHS = np.array([2, 0, 1, 2, 1])
TOKENS = np.array([[0, 1, 0, 1], [1, 2, 0, 0], [0, 0, 0, 0], [0, 1, 3, 0], [1, 0, 0, 0]])
LENGTHS = np.array([4, 2, 0, 3, 2])

GENERATOR = np.random.default_rng(7)


def laws(*contexts: tuple[int, ...]) -> dict[tuple[int, ...], np.ndarray]:
    return {context: GENERATOR.dirichlet(np.ones(4)) for context in contexts}


PAIRS = laws((), (0,), (1,), (0, 0), (0, 1), (1, 0), (1, 1))
MATRIX = GENERATOR.dirichlet(np.ones(4), size=5)
TREE = with_horizon(random_tree_table(GENERATOR, 4, EOS, 6, 1.0), HORIZON)
TABLES = {
    "tree deeper than its horizon": TREE,
    "Markov of order 1": markov_table(MATRIX[4], MATRIX[:4], EOS, HORIZON),
    "Markov of order 2": order_k_markov_table(PAIRS, 2, 4, EOS, HORIZON),
    "geometric": geometric_table([0.25, 0.25, 0.5, 0.0], EOS, HORIZON),
}


def check(model: SequenceModel[Any], **changes: Any) -> None:
    inputs: dict[str, Any] = {
        "prompts": PROMPTS,
        "prompt_lengths": PROMPT_LENGTHS,
        "tokens": TOKENS,
        "lengths": LENGTHS,
        "tolerance": 2e-6,
    }
    check_sequence_model(model, **(inputs | changes))


def as_large_as_the_tree(table: ContextTable) -> ContextTable:
    """With contexts that nothing reaches, so that all tables run the same compiled programs."""
    more = len(TREE.log_probs) - len(table.log_probs)
    return table._replace(
        log_probs=np.pad(table.log_probs, ((0, more), (0, 0)), constant_values=-np.inf),
        next_context=np.pad(table.next_context, ((0, more), (0, 0))),
    )


@pytest.mark.parametrize("name", TABLES)
def test_context_models_conform(name: str) -> None:
    check(ContextModel.from_table(as_large_as_the_tree(TABLES[name])))


def test_a_hidden_markov_model_conforms() -> None:
    emission = np.array([[0.6, 0.2, 0.1, 0.1], [0.1, 0.6, 0.1, 0.2]])
    chain = hidden_markov_example()._replace(emission=emission, eos=EOS, horizon=HORIZON)
    check(HiddenMarkovModel.from_chain(chain))


def naive(kind: type[NaiveModel]) -> NaiveModel:
    return kind(TREE.log_probs, TREE.next_context, TREE.initial, EOS, HORIZON)


def test_the_naive_model_conforms() -> None:
    with jax.disable_jit():
        check(naive(NaiveModel))


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.__name__)
def test_a_planted_bug_is_called_by_its_name(twin: type[NaiveModel]) -> None:
    model = naive(twin)
    prompt_lengths = np.maximum(PROMPT_LENGTHS, twin.__name__ == "NeedsAColumn")
    with jax.disable_jit(), pytest.raises(ConformanceError) as error:
        check(model, prompt_lengths=prompt_lengths)
    law = TWINS[twin]
    assert str(error.value).startswith(f"{law}: ")
    assert twin.__name__ == "HalfPrecision" or str(error.value).startswith(f"{law}: row ")


@register_pytree(static=("eos",))
class SizeAsLeaf(NaiveModel):
    """Its horizon would be a tracer under jit."""


def test_a_size_that_is_a_leaf_is_found() -> None:
    with jax.disable_jit(), pytest.raises(ConformanceError, match=r"^a model is a pytree with"):
        check(naive(SizeAsLeaf))


@register_pytree(static=())
@dataclasses.dataclass(frozen=True, eq=False)
class FixedLaw:
    """The same law everywhere; `eager` is added to it outside of jit."""

    log_probs: jax.Array
    eager: jax.Array
    vocab_size = 4
    eos = ()
    horizon = 9

    def law(self, counts: jax.Array) -> jax.Array:
        try:
            law = self.log_probs + self.eager * float(counts[0] == counts[0])
        except jax.errors.ConcretizationTypeError:
            law = self.log_probs
        return jnp.broadcast_to(law, (counts.shape[0], 4))

    def init(self, prompts: jax.Array, prompt_lengths: jax.Array) -> tuple[jax.Array, jax.Array]:
        return prompt_lengths * 0, self.law(prompt_lengths)

    def step(
        self, state: jax.Array, tokens: jax.Array, active: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        return state + active.astype(jnp.int32), self.law(state)

    def extend(
        self, state: jax.Array, tokens: jax.Array, lengths: jax.Array, reduce: Any
    ) -> tuple[jax.Array, Any, jax.Array]:
        law = jnp.broadcast_to(self.log_probs, (*tokens.shape, 4))
        within = jnp.arange(tokens.shape[1])[None] < lengths[:, None]
        values = jax.tree.map(lambda value: jnp.where(within, value, 0), reduce(law, tokens))
        return state + lengths, values, self.law(state)

    def take(self, state: jax.Array, rows: jax.Array) -> jax.Array:
        return state[rows]

    def select(self, mask: jax.Array, a: jax.Array, b: jax.Array) -> jax.Array:
        return jnp.where(mask, a, b)

    def rewind(
        self, state: jax.Array, num_generated: jax.Array, last_tokens: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        return num_generated, self.law(num_generated)


def test_a_model_that_is_another_outside_of_jit_is_found() -> None:
    tokens = np.where(TOKENS > 1, 0, TOKENS)
    law = jnp.log(jnp.array([0.5, 0.25, 0.125, 0.125], jnp.float32))
    check(FixedLaw(law, jnp.zeros(4, jnp.float32)), tokens=tokens)
    with pytest.raises(ConformanceError, match=r"^jit changes nothing: row 0"):
        check(FixedLaw(law, jnp.full(4, 0.01, jnp.float32)), tokens=tokens)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lengths": np.array([4, 4, 4, 4, 4])}, "tokens: needs rows of different lengths"),
        ({"lengths": np.array([3, 2, 0, 3, 2])}, "the longest of 4"),
        ({"prompt_lengths": np.array([1, 0, 1, 1, 1])}, "prompts: needs rows of different"),
        ({"tokens": np.where(TOKENS == 1, 2, TOKENS)}, "eos may only stand at the end"),
        ({"tokens": TOKENS[:, :2]}, "needs at least three rows, three tokens"),
        ({"tokens": np.pad(TOKENS, ((0, 0), (0, 1)))}, "5 tokens are more than the horizon of 4"),
    ],
)
def test_inputs_that_show_nothing_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check(naive(NaiveModel), **changes)
