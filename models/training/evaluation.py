"""How often a model is right: exactly where the completions can be listed, by samples elsewhere."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float64, Int, Key

from models.tasks.arithmetic_tokens import OPERATORS
from models.tasks.exact_masses import countdown_masses, sequence_log_probs
from models.tasks.task import ABSTAIN, Sequences, Task
from models.training.demonstrations import demonstrations
from models.transformer.model import Transformer
from theory.generation import Trajectories, generate, start
from theory.keys import Role, role_key, row_keys

# Rows that are read or generated at a time.
_ROWS = 4096


def held_out_losses(
    model: Transformer, task: Task, seed: int, num_prompts: int
) -> tuple[Float64[np.ndarray, " B"], Float64[np.ndarray, " B"]]:
    """The training loss on demonstrations of test prompts, numerator and denominator of each.

    Args:
        model: the transformer.
        task: of the demonstrations.
        seed: of the demonstrations.
        num_prompts: B.

    Returns:
        Negative natural log probability of each completion, and its tokens.
    """
    prompts, completions = demonstrations(task, "test", seed, 0, num_prompts)
    own = jnp.arange(num_prompts, dtype=jnp.int32)
    log_probs = jax.jit(sequence_log_probs)(model, prompts, completions, own)
    lengths = np.asarray(completions.lengths, np.float64)
    return -np.asarray(log_probs, np.float64), lengths


class CountdownTruth(NamedTuple):
    """Exact probabilities of what a model writes to each prompt.

    Attributes:
        right: [B] that its completion is right: pass@1.
        well_formed: [B] that it is well-formed; the rest is nonsense, and wrong.
    """

    right: Float64[np.ndarray, " B"]
    well_formed: Float64[np.ndarray, " B"]


def countdown_truth(model: Transformer, num_numbers: int, prompts: Sequences) -> CountdownTruth:
    """`models.tasks.exact_masses.countdown_masses` of any number of prompts, a few at a time.

    Args:
        model: the transformer.
        num_numbers: n.
        prompts: of Countdown.

    Returns:
        The probabilities.
    """
    masses = jax.jit(countdown_masses, static_argnums=1)
    step = max(1, _ROWS // (math.factorial(num_numbers) * len(OPERATORS) ** (num_numbers - 1)))
    parts = [
        masses(model, num_numbers, _rows(prompts, part))
        for part in _slices(len(prompts.tokens), step)
    ]
    return CountdownTruth(
        np.concatenate([np.asarray(part.right, np.float64) for part in parts]),
        np.concatenate([np.asarray(part.well_formed, np.float64) for part in parts]),
    )


class Samples(NamedTuple):
    """What a model wrote, and what became of it.

    Attributes:
        answers: [B, N] answers of N independent completions of each prompt; ABSTAIN without one.
        correct: [B, N] verdicts.
    """

    answers: Int[np.ndarray, "B N"]
    correct: Bool[np.ndarray, "B N"]


def sample_verdicts(
    model: Transformer, task: Task, prompts: Sequences, num_samples: int, seed: int
) -> Samples:
    """Draw completions at temperature 1 and have them verified.

    Args:
        model: the transformer.
        task: of the prompts.
        prompts: of B rows.
        num_samples: N of each.
        seed: of the draws; row b N + n is sample n of prompt b.

    Returns:
        Answers and verdicts.
    """
    num_prompts = len(prompts.tokens)
    key = role_key(jax.random.key(seed), Role.TOKEN)
    answers: list[np.ndarray] = []
    correct: list[np.ndarray] = []
    for part in _slices(num_prompts * num_samples, _ROWS):
        rows = np.arange(part.start, part.stop)
        asked = _rows(prompts, rows // num_samples)
        drawn = _draw(row_keys(key, jnp.asarray(rows)), model, asked)
        completions = Sequences(drawn.tokens, drawn.lengths)
        answers.append(np.asarray(task.answers(asked, completions)))
        correct.append(np.asarray(task.verify(asked, completions)))
    shape = (num_prompts, num_samples)
    return Samples(np.concatenate(answers).reshape(shape), np.concatenate(correct).reshape(shape))


def vote(samples: Samples) -> Float64[np.ndarray, " B"]:
    """How right the most frequent answer of all N samples is.

    Samples without an answer do not vote. Answers that tie share the prompt evenly, an answer that is right in some completions and wrong in
    others counts the share of the right ones, and a vote without answers counts 0.

    Args:
        samples: of B prompts.

    Returns:
        [B] in 0..1.
    """
    shares = np.zeros(len(samples.answers))
    for prompt, (answers, correct) in enumerate(zip(*samples, strict=True)):
        given = answers != ABSTAIN
        _, which, counts = np.unique(answers[given], return_inverse=True, return_counts=True)
        if counts.size:
            right = np.bincount(which, weights=correct[given]) / counts
            shares[prompt] = right[counts == counts.max()].mean()
    return shares


@jax.jit
def _draw(keys: Key[Array, " B"], model: Transformer, prompts: Sequences) -> Trajectories:
    rows = start(model, prompts.tokens, prompts.lengths)
    limits = jnp.full(len(prompts.tokens), model.horizon, jnp.int32)
    return generate(keys, model, (), 1.0, rows, limits).trajectories


def _slices(num: int, step: int) -> list[slice]:
    return [slice(begin, min(begin + step, num)) for begin in range(0, num, step)]


def _rows(prompts: Sequences, rows: slice | Int[np.ndarray, " B"]) -> Sequences:
    return Sequences(prompts.tokens[rows], prompts.lengths[rows])
