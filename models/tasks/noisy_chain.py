"""A chain of sums and products mod 10 whose every step goes wrong with a known probability.

Prompt `x1 op x2 op .. op x6 =`, six digits with + - * between them. Completion `r1 .. r5 answer <eos>`: the running results from
left to right, mod 10, then the answer, which is a copy of the last one. In the training data result t is

    r_t = r_{t-1} op_t x_{t+1} + noise (mod 10),        r_0 = x1,

with independent noise from a fixed law on Z_10, and a wrong result is carried on. This *calibrates* the noise: the model that
fits such data is the law that made them, so what a well-trained model gets right, and what its samples vote for, is known in
closed form before it is trained: the answer is the last state of a Markov chain on Z_10 (`answer_law`).

Only the answer is verified: errors that cancel, or that a multiplication swallows, do no harm. The step verifier asks that
every result be right.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float64, Int, Int32, Key, UInt64

from models.tasks.arithmetic_tokens import (
    DIGIT_ZERO,
    EOS,
    EQUALS,
    LABELS,
    PLUS,
    apply_operators,
    is_digit,
    is_operator,
)
from models.tasks.problems import Problems
from models.tasks.task import ABSTAIN, Sequences, Task, begins, tokens_at_width

MODULUS = 10
NUM_STEPS = 5
PROMPT_LENGTH = 2 * NUM_STEPS + 2
COMPLETION_LENGTH = NUM_STEPS + 2

# Laws of noise on Z_10: wrong with .15 and then anything, or wrong with .60 and then always one too many.
UNIFORM_NOISE = (0.85, *[0.15 / 9] * 9)
BIASED_NOISE = (0.4, 0.6, *[0.0] * 8)


def noisy_chain(name: str, noise: tuple[float, ...]) -> Task:
    """Make the task.

    Args:
        name: of it.
        noise: probabilities of noise 0 to 9.

    Returns:
        The task.
    """
    return Task(
        name=name,
        labels=LABELS,
        eos=EOS,
        max_prompt_length=PROMPT_LENGTH,
        horizon=COMPLETION_LENGTH,
        prompt_form=f"{NUM_STEPS + 1} digits with + - * between them, =",
        problems=Problems((10 ** (NUM_STEPS + 1) * 3**NUM_STEPS,), _write_prompts),
        is_prompt=jax.jit(is_prompt),
        targets=jax.jit(partial(targets, noise)),
        verify=jax.jit(verify),
        correct_so_far=jax.jit(correct_so_far),
        answers=jax.jit(answers),
    )


def is_prompt(prompts: Sequences) -> Bool[Array, " B"]:
    """Whether each prompt is six digits with operators between them and =.

    Args:
        prompts: of B rows.

    Returns:
        [B].
    """
    tokens = tokens_at_width(prompts, PROMPT_LENGTH)
    return (
        (prompts.lengths == PROMPT_LENGTH)
        & is_digit(tokens[:, ::2]).all(axis=-1)
        & is_operator(tokens[:, 1:-1:2]).all(axis=-1)
        & (tokens[:, -1] == EQUALS)
    )


def targets(noise: tuple[float, ...], keys: Key[Array, " B"], prompts: Sequences) -> Sequences:
    """Draw a completion of each prompt from the noisy law.

    Args:
        noise: probabilities of noise 0 to 9.
        keys: [B] consumed.
        prompts: of B rows.

    Returns:
        [B, 7] completions.
    """
    log_noise = jnp.log(jnp.array(noise, jnp.float32))
    errors = jax.vmap(lambda key: jax.random.categorical(key, log_noise, shape=(NUM_STEPS,)))(keys)
    return _complete(prompts, errors)


def right_completions(prompts: Sequences) -> Sequences:
    """The completion of each prompt without an error.

    Args:
        prompts: of B rows.

    Returns:
        [B, 7] completions.
    """
    return _complete(prompts, jnp.zeros((len(prompts.tokens), NUM_STEPS), jnp.int32))


def verify(prompts: Sequences, completions: Sequences) -> Bool[Array, " B"]:
    """Whether each completion gives the right answer, whatever its steps.

    Args:
        prompts: of B rows.
        completions: of the same rows.

    Returns:
        [B].
    """
    right = answers(prompts, right_completions(prompts))
    return answers(prompts, completions) == right


def correct_so_far(prompts: Sequences, prefixes: Sequences) -> Bool[Array, " B"]:
    """Whether every result in each prefix is right.

    Args:
        prompts: of B rows.
        prefixes: of the same rows.

    Returns:
        [B].
    """
    return begins(prefixes, *right_completions(prompts))


def answers(prompts: Sequences, completions: Sequences) -> Int32[Array, " B"]:
    """The digit in the place of the answer.

    Args:
        prompts: not looked at.
        completions: of B rows.

    Returns:
        [B] a digit; ABSTAIN unless there are five digits, another one and eos.
    """
    del prompts
    tokens = tokens_at_width(completions, COMPLETION_LENGTH)
    is_well_formed = (
        (completions.lengths == COMPLETION_LENGTH)
        & is_digit(tokens[:, :-1]).all(axis=-1)
        & (tokens[:, -1] == EOS)
    )
    return jnp.where(is_well_formed, tokens[:, -2] - DIGIT_ZERO, ABSTAIN)


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
    start, operators, operands = (np.asarray(part) for part in _read(prompts))
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


def _read(
    prompts: Sequences,
) -> tuple[Int32[Array, " B"], Int32[Array, "B S"], Int32[Array, "B S"]]:
    """First digit, operators and further digits."""
    tokens = tokens_at_width(prompts, PROMPT_LENGTH)
    digits = tokens[:, ::2] - DIGIT_ZERO
    return digits[:, 0], tokens[:, 1:-1:2], digits[:, 1:]


def _results(
    operators: Int[Array | np.ndarray, "*#batch"],
    left: Int[Array | np.ndarray, "*#batch"],
    right: Int[Array | np.ndarray, "*#batch"],
) -> Int[np.ndarray, "*batch"]:
    operators, left, right = np.broadcast_arrays(operators, left, right)
    return np.asarray(apply_operators(*map(jnp.asarray, (operators, left, right)))) % MODULUS


def _complete(prompts: Sequences, errors: Int32[Array, "B S"]) -> Sequences:
    """Running results with an error added to each, the answer and eos."""
    value, operators, operands = _read(prompts)
    results: list[Array] = []
    for step in range(NUM_STEPS):
        value = apply_operators(operators[:, step], value, operands[:, step]) + errors[:, step]
        value = value % MODULUS
        results.append(value + DIGIT_ZERO)
    tokens = jnp.stack([*results, results[-1], jnp.full_like(value, EOS)], axis=-1)
    return Sequences(tokens, jnp.full(len(tokens), COMPLETION_LENGTH, jnp.int32))


def _write_prompts(
    kinds: Int[np.ndarray, " B"],
    indices: UInt64[np.ndarray, " B"],
    variants: UInt64[np.ndarray, " B"],
) -> tuple[Int[np.ndarray, "B P"], Int[np.ndarray, " B"]]:
    """Every prompt is a problem of its own: its number has the digits in base 10 and the operators in base 3."""
    del kinds, variants
    rest = indices.astype(np.int64)
    tokens = np.full((len(rest), PROMPT_LENGTH), EQUALS)
    for position in range(PROMPT_LENGTH - 1):
        first, base = (DIGIT_ZERO, 10) if position % 2 == 0 else (PLUS, 3)
        rest, digit = np.divmod(rest, base)
        tokens[:, position] = first + digit
    return tokens, np.full(len(rest), PROMPT_LENGTH)
