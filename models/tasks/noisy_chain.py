"""A chain of sums and products mod 10 whose every step goes wrong with a known probability.

Prompt `x1 op x2 op .. op x6 =`, six digits with + - * between them. Completion `r1 .. r5 answer <eos>`: the running results from
left to right, mod 10, then the answer, which is a copy of the last one. In the training data result t is

    r_t = r_{t-1} op_t x_{t+1} + noise (mod 10),        r_0 = x1,

with independent noise from a fixed law on Z_10, and a wrong result is carried on. This *calibrates* the noise: the model that
fits such data is the law that made them, so what a well-trained model gets right, and what its samples vote for, is known in
closed form before it is trained: the answer is the last state of a Markov chain on Z_10 (`models.tasks.noisy_chain_laws`).

Only the answer is verified: errors that cancel, or that a multiplication swallows, do no harm. The step verifier asks that
every result be right.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Int32, Key, UInt64

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


def read_chain(
    prompts: Sequences,
) -> tuple[Int32[Array, " B"], Int32[Array, "B S"], Int32[Array, "B S"]]:
    """What prompts say.

    Args:
        prompts: of B rows.

    Returns:
        [B] first digit, [B, 5] operators as tokens, [B, 5] the digits behind them.
    """
    tokens = tokens_at_width(prompts, PROMPT_LENGTH)
    digits = tokens[:, ::2] - DIGIT_ZERO
    return digits[:, 0], tokens[:, 1:-1:2], digits[:, 1:]


def _complete(prompts: Sequences, errors: Int32[Array, "B S"]) -> Sequences:
    """Running results with an error added to each, the answer and eos."""
    value, operators, operands = read_chain(prompts)
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
