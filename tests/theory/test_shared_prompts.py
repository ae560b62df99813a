"""A prompt that rows share is read once, and no row can tell."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from models.transformer import Transformer, TransformerConfig, random_transformer
from theory.generation import Generation, generate, start
from theory.keys import Role, role_key, row_keys
from theory.ledger import totals
from theory.protocols import SequenceModel
from theory.shared_prompts import SharedPrompts, share_prompts

CONFIG = TransformerConfig(
    vocab_size=7,
    width=8,
    num_layers=1,
    num_heads=2,
    num_key_value_heads=1,
    head_dim=4,
    hidden=8,
    context=16,
    eos=(1,),
)
MODEL = random_transformer(jax.random.key(0), CONFIG, horizon=4)
# Three prompts in no order; the last one is the longest.
IDS = [5, 2, 5, 9, 2, 5]
PROMPTS = {5: (4, 2), 2: (3,), 9: (6, 5, 2)}


def batch() -> tuple[jax.Array, jax.Array]:
    tokens = np.zeros((len(IDS), 3), np.int32)
    for row, which in enumerate(IDS):
        tokens[row, : len(PROMPTS[which])] = PROMPTS[which]
    return jnp.asarray(tokens), jnp.asarray([len(PROMPTS[which]) for which in IDS], jnp.int32)


@jax.jit
def run(model: SequenceModel) -> Generation:
    begin = start(model, *batch())
    keys = row_keys(role_key(jax.random.key(3), Role.TOKEN), jnp.arange(len(IDS)))
    return generate(keys, model, (), 2.0, begin, jnp.full(len(IDS), 4))


@pytest.mark.parametrize("num_distinct", [pytest.param(3, marks=pytest.mark.slow), 5])
def test_rows_are_those_of_prompts_read_one_by_one(num_distinct: int) -> None:
    shared, alone = run(share_prompts(MODEL, IDS, num_distinct)), run(MODEL)
    np.testing.assert_array_equal(shared.trajectories.tokens, alone.trajectories.tokens)
    np.testing.assert_allclose(shared.trajectories.log_p, alone.trajectories.log_p, atol=1e-5)
    np.testing.assert_allclose(shared.log_probs, alone.log_probs, atol=1e-5)


def test_only_distinct_prompts_are_charged() -> None:
    done = run(share_prompts(MODEL, IDS, 3))
    assert totals(done.ledger)["prefill_tokens"] == sum(map(len, PROMPTS.values()))
    assert totals(run(MODEL).ledger)["prefill_tokens"] == sum(len(PROMPTS[which]) for which in IDS)


def test_the_model_reads_as_many_rows_as_there_are_prompts() -> None:
    seen: list[int] = []

    class Watched(Transformer):
        def init(self, prompts: jax.Array, prompt_lengths: jax.Array):  # pyright: ignore
            seen.append(prompts.shape[0])
            return super().init(prompts, prompt_lengths)

    watched = Watched(MODEL.params, MODEL.graph, MODEL.config, MODEL.horizon)
    share_prompts(watched, IDS, 3).init(*batch())
    assert seen == [3]


def test_more_prompts_than_said_are_refused() -> None:
    with pytest.raises(ValueError, match="3 distinct prompts, at most 2"):
        share_prompts(MODEL, IDS, 2)


def test_it_is_a_sequence_model() -> None:
    shared = share_prompts(MODEL, IDS, 3)
    assert isinstance(shared, SharedPrompts)
    assert isinstance(shared, SequenceModel)
    assert (shared.vocab_size, shared.eos, shared.horizon) == (7, (1,), 4)
