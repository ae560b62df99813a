"""What the chain of calibrated noise does, in closed form: the law of its answer, and pass@k and votes over all prompts."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float64, Int

from models.tasks.arithmetic_tokens import DIGIT_ZERO, apply_operators
from models.tasks.noisy_chain import MODULUS, NUM_STEPS, read_chain
from models.tasks.task import Sequences, tokens_at_width


def answer_law(
    noise: tuple[float, ...], prompts: Sequences, prefixes: Sequences
) -> Float64[np.ndarray, "B 10"]:
    """The exact law of the answer after a prefix, under the noisy law: a Markov chain on Z_10.

    Its entry at the right answer is the exact probability of success: the value function of the chain, the optimal twist of a
    particle filter that is after right answers, and, after the empty prefix, pass@1.

    Args:
        noise: probabilities of noise 0 to 9.
        prompts: of B rows.
        prefixes: of the same rows, digits only and at most all five results; a longer prefix counts as five results.

    Returns:
        [B, 10] probabilities of each answer.
    """
    start, operators, operands = (np.asarray(part) for part in read_chain(prompts))
    written = np.asarray(tokens_at_width(prefixes, NUM_STEPS)) - DIGIT_ZERO
    law = np.eye(MODULUS)[start]
    shifts = np.array([np.roll(noise, value) for value in range(MODULUS)])
    values = np.arange(MODULUS)
    for step in range(NUM_STEPS):
        image = _results(operators[:, step, None], values[None], operands[:, step, None])
        drawn = np.einsum("bv,bvw->bw", law, shifts[image])
        given = np.eye(MODULUS)[np.maximum(written[:, step], 0)]
        is_given = np.asarray(prefixes.lengths)[:, None] > step
        law = np.where(is_given, given, drawn)
    return law


class ErrorLaws(NamedTuple):
    """The law of (answer - right answer) mod 10 for every kind of prompt.

    Attributes:
        probabilities: [Q] of each kind among all prompts.
        errors: [Q, 10] law of the error.
    """

    probabilities: Float64[np.ndarray, " Q"]
    errors: Float64[np.ndarray, "Q 10"]


def error_laws(noise: tuple[float, ...]) -> ErrorLaws:
    """The exact law of the error over all 243 million prompts at once.

    An error e becomes e after + and -, and d e after a multiplication by d, whatever the right value is. So the law
    of the error depends on a prompt through five multipliers, each 1 with probability 2/3 + 1/30 and any other
    digit with 1/30: 10^5 kinds of prompts.

    Args:
        noise: probabilities of noise 0 to 9.

    Returns:
        Kinds of prompts and their laws.
    """
    digits = np.arange(MODULUS)
    multiplier_law = np.full(MODULUS, 1 / 30) + 2 / 3 * (digits == 1)
    # scatter[d, e, f]: whether e times d is f; spread[f, g]: noise g - f.
    scatter = (digits[:, None, None] * digits[None, :, None]) % MODULUS == digits
    spread = np.array([np.roll(noise, value) for value in range(MODULUS)])
    step = scatter @ spread
    probabilities, errors = np.ones(1), np.eye(MODULUS)[:1]
    for _ in range(NUM_STEPS):
        probabilities = np.outer(probabilities, multiplier_law).ravel()
        errors = np.einsum("qe,deg->qdg", errors, step).reshape(-1, MODULUS)
    return ErrorLaws(probabilities, errors)


def pass_at_k(laws: ErrorLaws, num_samples: int) -> float:
    """Exact pass@k of the noisy law: the mean over prompts of 1 - (1 - p)^k.

    Args:
        laws: of the errors.
        num_samples: k.

    Returns:
        A probability.
    """
    return float(laws.probabilities @ (1 - (1 - laws.errors[:, 0]) ** num_samples))


def majority_at_infinity(laws: ErrorLaws) -> float:
    """Exact share of prompts whose most likely answer is right: what a vote over ever more samples comes to.

    Args:
        laws: of the errors. Answers within 1e-12 of the most likely one tie with it and share the prompt evenly.

    Returns:
        A probability.
    """
    is_top = laws.errors > laws.errors.max(axis=1, keepdims=True) - 1e-12
    return float(laws.probabilities @ (is_top[:, 0] / is_top.sum(axis=1)))


def _results(
    operators: Int[Array | np.ndarray, "*#batch"],
    left: Int[Array | np.ndarray, "*#batch"],
    right: Int[Array | np.ndarray, "*#batch"],
) -> Int[np.ndarray, "*batch"]:
    operators, left, right = np.broadcast_arrays(operators, left, right)
    return np.asarray(apply_operators(*map(jnp.asarray, (operators, left, right)))) % MODULUS
