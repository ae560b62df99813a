"""Countdown: reach a target with all given numbers, each once, and + - *.

Prompt `a b c t u =`: the numbers, 1 to 9, and the two digits of the target, 0 to 99. Completion `a + b * c <eos>`, worked
out **from left to right** without precedence: `2 + 3 * 4` is 20. Results on the way may be negative or above 99. With n numbers
there are n! 3^(n-1) well-formed completions (54 for three, 648 for four), so the exact pass@1 of a model is a sum over them: the
probability of everything else is what a model wastes on nonsense.

A problem is a multiset of numbers with a target that they reach; its guises are the orders of the numbers. The law to
train on is uniform over the right expressions.
"""

import itertools
import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Int32, Key, UInt64

from models.tasks.arithmetic_tokens import (
    DIGIT_ZERO,
    EOS,
    EQUALS,
    LABELS,
    OPERATORS,
    apply_operators,
    is_digit,
    is_operator,
)
from models.tasks.problems import Problems
from models.tasks.task import ABSTAIN, Sequences, Task, begins, tokens_at_width

NUM_TARGETS = 100


class Expressions(NamedTuple):
    """All well-formed completions of B prompts, K each.

    With repeated numbers several of the K orders read the same. Every expression of a prompt then occurs equally
    often, so the uniform law over the K is the uniform law over different expressions; sums over completions run over `is_first`.

    Attributes:
        tokens: [B, K, 2n] eos included.
        values: [B, K] what they amount to.
        is_right: [B, K] whether that is the target.
        is_first: [B, K] whether no expression before it reads the same.
    """

    tokens: Int32[Array, "B K T"]
    values: Int32[Array, "B K"]
    is_right: Bool[Array, "B K"]
    is_first: Bool[Array, "B K"]


def countdown(num_numbers: int) -> Task:
    """Make the task.

    Args:
        num_numbers: n, 3 or 4.

    Returns:
        The task.
    """
    return Task(
        name=f"countdown-{num_numbers}",
        labels=LABELS,
        eos=EOS,
        max_prompt_length=num_numbers + 3,
        horizon=2 * num_numbers,
        prompt_form=f"{num_numbers} numbers from 1 to 9, the two digits of the target, =",
        problems=_problems(num_numbers),
        is_prompt=jax.jit(partial(is_prompt, num_numbers)),
        targets=jax.jit(partial(targets, num_numbers)),
        verify=jax.jit(partial(verify, num_numbers)),
        correct_so_far=jax.jit(partial(correct_so_far, num_numbers)),
        answers=jax.jit(partial(answers, num_numbers)),
    )


def expressions(num_numbers: int, prompts: Sequences) -> Expressions:
    """List every well-formed completion of each prompt.

    Args:
        num_numbers: n.
        prompts: of B rows.

    Returns:
        K = n! 3^(n-1) expressions a row.
    """
    orders, operators = _skeletons(num_numbers)
    numbers = _numbers(num_numbers, prompts)
    values = _values(numbers, orders, operators)
    tokens = _write(numbers[:, orders], jnp.asarray(operators)[None])
    # Four bits a token; eos, which ends all of them, is left out.
    places = 16 ** jnp.arange(2 * num_numbers - 1, dtype=jnp.int32)
    code = (tokens[..., :-1] * places[None, None]).sum(axis=-1)
    same = code[:, :, None] == code[:, None]
    before = jnp.tri(len(orders), k=-1, dtype=bool)[None]
    return Expressions(
        tokens,
        values,
        is_right=values == _target(num_numbers, prompts)[:, None],
        is_first=~(same & before).any(axis=-1),
    )


def is_prompt(num_numbers: int, prompts: Sequences) -> Bool[Array, " B"]:
    """Whether each prompt is n numbers, two digits and =; the target need not be reachable.

    Args:
        num_numbers: n.
        prompts: of B rows.

    Returns:
        [B].
    """
    tokens = tokens_at_width(prompts, num_numbers + 3)
    return (
        (prompts.lengths == num_numbers + 3)
        & is_digit(tokens[:, :num_numbers], least=1).all(axis=-1)
        & is_digit(tokens[:, num_numbers:-1]).all(axis=-1)
        & (tokens[:, -1] == EQUALS)
    )


def targets(num_numbers: int, keys: Key[Array, " B"], prompts: Sequences) -> Sequences:
    """Draw a right expression for each prompt, all of them equally likely.

    Args:
        num_numbers: n.
        keys: [B] consumed.
        prompts: of B rows, with targets that can be reached.

    Returns:
        [B, 2n] completions.
    """
    orders, operators = _skeletons(num_numbers)
    numbers = _numbers(num_numbers, prompts)
    is_right = _values(numbers, orders, operators) == _target(num_numbers, prompts)[:, None]
    num_right = jnp.cumsum(is_right, axis=-1)
    rank = jax.vmap(lambda key, num: jax.random.randint(key, (), 0, num))(keys, num_right[:, -1])
    chosen = jnp.argmax(num_right > rank[:, None], axis=-1)
    ordered = jnp.take_along_axis(numbers, jnp.asarray(orders)[chosen], axis=-1)
    tokens = _write(ordered, jnp.asarray(operators)[chosen])
    return Sequences(tokens, jnp.full(len(tokens), 2 * num_numbers, jnp.int32))


def verify(num_numbers: int, prompts: Sequences, completions: Sequences) -> Bool[Array, " B"]:
    """Whether each completion uses each number once, amounts to the target and ends.

    Args:
        num_numbers: n.
        prompts: of B rows.
        completions: of the same rows.

    Returns:
        [B].
    """
    given = jnp.sort(_numbers(num_numbers, prompts), axis=-1)
    used = jnp.sort(_operands(num_numbers, completions), axis=-1)
    value = answers(num_numbers, prompts, completions)
    return (given == used).all(axis=-1) & (value == _target(num_numbers, prompts))


def correct_so_far(num_numbers: int, prompts: Sequences, prefixes: Sequences) -> Bool[Array, " B"]:
    """Whether some right expression begins with each prefix: exact, by looking through all of them.

    Args:
        num_numbers: n.
        prompts: of B rows.
        prefixes: of the same rows.

    Returns:
        [B].
    """
    orders, operators = _skeletons(num_numbers)
    numbers = _numbers(num_numbers, prompts)
    values = _values(numbers, orders, operators)
    tokens = _write(numbers[:, orders], jnp.asarray(operators)[None])
    full = jnp.full(len(numbers), 2 * num_numbers, jnp.int32)
    fits = jax.vmap(begins, in_axes=(None, 1, None), out_axes=1)(prefixes, tokens, full)
    return (fits & (values == _target(num_numbers, prompts)[:, None])).any(axis=-1)


def answers(num_numbers: int, prompts: Sequences, completions: Sequences) -> Int32[Array, " B"]:
    """What each completion amounts to, whichever numbers it uses.

    Args:
        num_numbers: n.
        prompts: not looked at.
        completions: of B rows.

    Returns:
        [B] the value; ABSTAIN unless there are n digits from 1, with operators between them, and eos.
    """
    del prompts
    tokens = tokens_at_width(completions, 2 * num_numbers)
    operands, operators = _operands(num_numbers, completions), tokens[:, 1:-1:2]
    value = operands[:, 0]
    for i in range(num_numbers - 1):
        value = apply_operators(operators[:, i], value, operands[:, i + 1])
    is_well_formed = (
        (completions.lengths == 2 * num_numbers)
        & is_digit(tokens[:, ::2], least=1).all(axis=-1)
        & is_operator(operators).all(axis=-1)
        & (tokens[:, -1] == EOS)
    )
    return jnp.where(is_well_formed, value, ABSTAIN)


def _skeletons(
    num_numbers: int,
) -> tuple[Int[np.ndarray, "K n"], Int[np.ndarray, "K {num_numbers}-1"]]:
    """Orders of the numbers and operators between them, in all combinations."""
    orders = list(itertools.permutations(range(num_numbers)))
    operators = list(itertools.product(OPERATORS, repeat=num_numbers - 1))
    pairs = list(itertools.product(orders, operators))
    return (
        np.array([order for order, _ in pairs], np.int32),
        np.array([chosen for _, chosen in pairs], np.int32),
    )


def _numbers(num_numbers: int, prompts: Sequences) -> Int32[Array, "B n"]:
    return tokens_at_width(prompts, num_numbers) - DIGIT_ZERO


def _target(num_numbers: int, prompts: Sequences) -> Int32[Array, " B"]:
    digits = tokens_at_width(prompts, num_numbers + 2)[:, num_numbers:] - DIGIT_ZERO
    return 10 * digits[:, 0] + digits[:, 1]


def _operands(num_numbers: int, completions: Sequences) -> Int32[Array, "B n"]:
    return tokens_at_width(completions, 2 * num_numbers)[:, ::2] - DIGIT_ZERO


def _values(
    numbers: Int32[Array, "B n"],
    orders: Int[np.ndarray, "K n"],
    operators: Int[np.ndarray, "K m"],
) -> Int32[Array, "B K"]:
    """What each expression amounts to, from left to right."""
    value = numbers[:, orders[:, 0]]
    for i in range(operators.shape[1]):
        chosen = jnp.broadcast_to(jnp.asarray(operators[:, i]), value.shape)
        value = apply_operators(chosen, value, numbers[:, orders[:, i + 1]])
    return value


def _write(
    numbers: Int32[Array, "*batch n"], operators: Int32[Array, "*#batch m"]
) -> Int32[Array, "*batch T"]:
    """Numbers in their order with operators between them, then eos: n numbers have n - 1 operators, and eos is one more."""
    operators = jnp.broadcast_to(operators, (*numbers.shape[:-1], operators.shape[-1]))
    ends = jnp.full((*numbers.shape[:-1], 1), EOS, numbers.dtype)
    pairs = jnp.stack([numbers + DIGIT_ZERO, jnp.concatenate([operators, ends], -1)], axis=-1)
    return pairs.reshape(*numbers.shape[:-1], 2 * numbers.shape[-1])


def _problems(num_numbers: int) -> Problems:
    """Multisets of numbers with the targets that they reach."""
    multisets = np.array(
        list(itertools.combinations_with_replacement(range(1, 10), num_numbers)), np.int32
    )
    values = np.asarray(_values(jnp.asarray(multisets), *_skeletons(num_numbers)))
    reachable = (values[:, :, None] == np.arange(NUM_TARGETS)).any(axis=1)
    which, target = np.nonzero(reachable)
    orders = np.array(list(itertools.permutations(range(num_numbers))))
    length = num_numbers + 3

    def write(
        kinds: Int[np.ndarray, " B"],
        indices: UInt64[np.ndarray, " B"],
        variants: UInt64[np.ndarray, " B"],
    ) -> tuple[Int[np.ndarray, "B P"], Int[np.ndarray, " B"]]:
        del kinds
        order = orders[variants % np.uint64(math.factorial(num_numbers))]
        numbers = np.take_along_axis(multisets[which[indices]], order, axis=1)
        digits = np.stack([target[indices] // 10, target[indices] % 10], axis=1)
        equals = np.full((len(indices), 1), EQUALS)
        tokens = np.concatenate([numbers + DIGIT_ZERO, digits + DIGIT_ZERO, equals], axis=1)
        return tokens, np.full(len(indices), length)

    return Problems((len(which),), write)
