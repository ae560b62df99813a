"""Addition of numbers of up to three digits, with the digits of the sum in reverse order.

Prompt `4 0 7 + 9 6 =`, completion `3 0 5 <eos>`: 503 from its last digit, so that every digit depends on what has been written
and a carry. No leading zeros anywhere. There is one right completion. A problem is a pair of numbers from 0 to 999; its guises are
the two orders.
"""

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
    is_digit,
)
from models.tasks.problems import Problems
from models.tasks.task import ABSTAIN, PAD, Sequences, Task, begins, tokens_at_width

MOST_DIGITS = 3
NUM_NUMBERS = 10**MOST_DIGITS
MAX_PROMPT_LENGTH = 2 * MOST_DIGITS + 2
HORIZON = MOST_DIGITS + 2


def addition() -> Task:
    """Make the task.

    Returns:
        The task.
    """
    return Task(
        name="addition",
        labels=LABELS,
        eos=EOS,
        max_prompt_length=MAX_PROMPT_LENGTH,
        horizon=HORIZON,
        prompt_form=f"the digits of a number below {NUM_NUMBERS}, +, those of another, =",
        problems=Problems((NUM_NUMBERS * (NUM_NUMBERS + 1) // 2,), _write_prompts),
        is_prompt=jax.jit(is_prompt),
        targets=jax.jit(targets),
        verify=jax.jit(verify),
        correct_so_far=jax.jit(correct_so_far),
        answers=jax.jit(answers),
    )


def is_prompt(prompts: Sequences) -> Bool[Array, " B"]:
    """Whether each prompt is two numbers of one to three digits, without leading zeros, with + between them and = behind.

    Args:
        prompts: of B rows.

    Returns:
        [B].
    """
    tokens = tokens_at_width(prompts, MAX_PROMPT_LENGTH)
    plus, position = _place_of_plus(tokens), jnp.arange(MAX_PROMPT_LENGTH)[None]
    last = prompts.lengths[:, None] - 1
    fits = jnp.where(
        position == plus,
        tokens == PLUS,
        jnp.where(position < last, is_digit(tokens), (tokens == EQUALS) | (position > last)),
    )
    num_left, num_right = plus, last - plus - 1
    begins_with_zero = tokens == DIGIT_ZERO
    leading_zero = ((position == 0) & (num_left > 1) & begins_with_zero) | (
        (position == plus + 1) & (num_right > 1) & begins_with_zero
    )
    right_size = ((num_left >= 1) & (num_left <= MOST_DIGITS)) & (
        (num_right >= 1) & (num_right <= MOST_DIGITS)
    )
    fits_in = prompts.lengths <= MAX_PROMPT_LENGTH
    return fits.all(axis=-1) & ~leading_zero.any(axis=-1) & right_size[:, 0] & fits_in


def targets(keys: Key[Array, " B"], prompts: Sequences) -> Sequences:
    """The right completion of each prompt, there being no other.

    Args:
        keys: [B] not needed.
        prompts: of B rows.

    Returns:
        [B, 5] completions.
    """
    del keys
    return right_completions(prompts)


def right_completions(prompts: Sequences) -> Sequences:
    """The digits of each sum, last one first, and eos.

    Args:
        prompts: of B rows.

    Returns:
        [B, 5] completions.
    """
    tokens = tokens_at_width(prompts, MAX_PROMPT_LENGTH)
    plus, position = _place_of_plus(tokens), jnp.arange(MAX_PROMPT_LENGTH)[None]
    # A digit of the left number stands plus - 1 - position places from its end; of the right one, last - 1 - position.
    end = jnp.where(position < plus, plus, prompts.lengths[:, None] - 1)
    place = 10 ** jnp.maximum(end - 1 - position, 0)
    total = jnp.where(is_digit(tokens), place * (tokens - DIGIT_ZERO), 0).sum(axis=-1)
    powers = 10 ** jnp.arange(HORIZON, dtype=jnp.int32)
    num_digits = jnp.maximum((total[:, None] >= powers[None]).sum(axis=-1, dtype=jnp.int32), 1)
    digits = (total[:, None] // powers[None]) % 10 + DIGIT_ZERO
    place = jnp.arange(HORIZON)[None]
    length = num_digits[:, None]
    written = jnp.where(place < length, digits, jnp.where(place == length, EOS, PAD))
    return Sequences(written, num_digits + 1)


def verify(prompts: Sequences, completions: Sequences) -> Bool[Array, " B"]:
    """Whether each completion is the sum.

    Args:
        prompts: of B rows.
        completions: of the same rows.

    Returns:
        [B].
    """
    right = right_completions(prompts)
    return begins(completions, *right) & (completions.lengths == right.lengths)


def correct_so_far(prompts: Sequences, prefixes: Sequences) -> Bool[Array, " B"]:
    """Whether every digit in each prefix is right.

    Args:
        prompts: of B rows.
        prefixes: of the same rows.

    Returns:
        [B].
    """
    return begins(prefixes, *right_completions(prompts))


def answers(prompts: Sequences, completions: Sequences) -> Int32[Array, " B"]:
    """The number that each completion writes.

    Args:
        prompts: not looked at.
        completions: of B rows.

    Returns:
        [B] a number; ABSTAIN unless there are one to four digits and eos. Zeros at the end are read, so `5 0` is 5, though
        only `5` is right.
    """
    del prompts
    tokens = tokens_at_width(completions, HORIZON)
    position, last = jnp.arange(HORIZON)[None], completions.lengths[:, None] - 1
    fits = jnp.where(position < last, is_digit(tokens), (tokens == EOS) | (position > last))
    powers = 10 ** jnp.arange(HORIZON, dtype=jnp.int32)[None]
    number = jnp.where(position < last, powers * (tokens - DIGIT_ZERO), 0).sum(axis=-1)
    has_room = (completions.lengths >= 2) & (completions.lengths <= HORIZON)
    return jnp.where(fits.all(axis=-1) & has_room, number, ABSTAIN)


def _place_of_plus(tokens: Int32[Array, "B P"]) -> Int32[Array, "B 1"]:
    return jnp.argmax(tokens == PLUS, axis=-1, keepdims=True).astype(jnp.int32)


def _write_prompts(
    kinds: Int[np.ndarray, " B"],
    indices: UInt64[np.ndarray, " B"],
    variants: UInt64[np.ndarray, " B"],
) -> tuple[Int[np.ndarray, "B P"], Int[np.ndarray, " B"]]:
    """Pair i is (a, b) with b <= a and i = a (a + 1) / 2 + b; an odd variant exchanges them."""
    del kinds
    index = indices.astype(np.int64)
    larger = ((np.sqrt(8 * index + 1) - 1) / 2).astype(np.int64)
    smaller = index - larger * (larger + 1) // 2
    swapped = variants % np.uint64(2) == 1
    left, right = np.where(swapped, smaller, larger), np.where(swapped, larger, smaller)
    rows = np.arange(len(index))
    tokens = np.full((len(index), MAX_PROMPT_LENGTH), PAD)
    length = np.zeros(len(index), np.int64)
    for number, mark in ((left, PLUS), (right, EQUALS)):
        num_digits = 1 + (number >= 10).astype(np.int64) + (number >= 100)
        for place in range(MOST_DIGITS):
            there = place < num_digits
            digit = number // 10 ** np.maximum(num_digits - 1 - place, 0) % 10
            tokens[rows[there], length[there] + place] = DIGIT_ZERO + digit[there]
        length += num_digits
        tokens[rows, length] = mark
        length += 1
    return tokens, length
