"""Exact success, samples and votes: by two roads each."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from models.pretrained.load import load_folder
from models.shipped import folder
from models.tasks.exact_masses import countdown_masses
from models.tasks.registry import task
from models.tasks.task import ABSTAIN, Sequences
from models.training.demonstrations import demonstrations
from models.training.evaluation import (
    Samples,
    countdown_truth,
    held_out_losses,
    sample_verdicts,
    vote,
)
from models.training.loss import loss_sums
from models.training.packing import pack
from models.transformer import Transformer, TransformerConfig, random_transformer
from theory.generation import generate, start
from theory.keys import Role, role_key, row_keys

# A model is sampled and scored.
pytestmark = pytest.mark.slow

TASK = task("countdown-3")
CONFIG = TransformerConfig(
    vocab_size=16,
    width=8,
    num_layers=1,
    num_heads=1,
    num_key_value_heads=1,
    head_dim=8,
    hidden=8,
    context=16,
    eos=(TASK.eos,),
)


def model() -> Transformer:
    return random_transformer(jax.random.key(1), CONFIG, TASK.horizon)


def test_held_out_losses_are_the_training_loss_of_test_demonstrations() -> None:
    losses, num_tokens = held_out_losses(model(), TASK, 4, 8)
    rows = pack(*demonstrations(TASK, "test", 4, 0, 8), TASK.eos, 8, 11)
    loss, count = loss_sums(model().params, model(), rows)
    np.testing.assert_allclose(losses.sum(), float(loss), rtol=1e-5)
    assert num_tokens.sum() == int(count)


def test_truth_of_many_prompts_is_that_of_each() -> None:
    num = 80  # more than are enumerated at a time
    prompts = TASK.prompts("test", num, 0)
    truth = countdown_truth(model(), 3, prompts)
    last = Sequences(prompts.tokens[-2:], prompts.lengths[-2:])
    masses = countdown_masses(model(), 3, last)
    assert truth.right.shape == truth.well_formed.shape == (num,)
    np.testing.assert_allclose(truth.right[-2:], masses.right, rtol=1e-4)
    np.testing.assert_allclose(truth.well_formed[-2:], masses.well_formed, rtol=1e-4)


def test_samples_are_addressed_by_prompt_and_number() -> None:
    trained = load_folder(folder("countdown-3")).model
    prompts, key = TASK.prompts("test", 5, 0), role_key(jax.random.key(9), Role.TOKEN)
    samples = sample_verdicts(trained, TASK, prompts, 4, 9)
    assert samples.answers.shape == samples.correct.shape == (5, 4)
    for prompt in range(5):
        asked = Sequences(
            jnp.tile(prompts.tokens[prompt], (4, 1)), jnp.tile(prompts.lengths[prompt], 4)
        )
        keys = row_keys(key, 4 * prompt + jnp.arange(4))
        rows = start(trained, asked.tokens, asked.lengths)
        limits = jnp.full(4, 6, jnp.int32)
        drawn = jax.jit(generate, static_argnums=2)(keys, trained, (), 1.0, rows, limits)
        written = Sequences(drawn.trajectories.tokens, drawn.trajectories.lengths)
        np.testing.assert_array_equal(samples.answers[prompt], TASK.answers(asked, written))
        np.testing.assert_array_equal(samples.correct[prompt], TASK.verify(asked, written))
    # Neither all samples of a prompt nor those of different prompts are one draw.
    assert len(set(samples.answers[0].tolist())) > 1
    assert 0 < samples.correct.sum() < samples.correct.size


def test_votes() -> None:
    answers = np.array(
        [
            [5, 5, 7, 8],  # the most frequent is right
            [5, 5, 7, 7],  # a tie of which one is right
            [7, 5, 7, 8],  # wrong
            [ABSTAIN, ABSTAIN, ABSTAIN, 5],  # one vote
            [ABSTAIN] * 4,
            [5, 5, 5, 7],  # one answer, right in two of three completions
        ]
    )
    correct = answers == 5
    correct[5] = [True, True, False, False]
    np.testing.assert_allclose(vote(Samples(answers, correct)), [1, 0.5, 0, 1, 0, 2 / 3])
