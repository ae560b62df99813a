"""Numbers by prefix or by sequence, from a JSON file: twists and rewards that a user writes down for a small model.

The file is an object `{"0 2 1": number, ...}`; a key is the generated tokens with blanks between them, the prompt not counted.
"""

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, Int, Int32

from experiments.json_output import restore
from theory.errors import InvalidInput
from theory.exact.enumeration import enumerate_prefixes, enumerate_sequences
from theory.exact.laws import base_law
from theory.exact.layers import Layers

Tokens = tuple[int, ...]

MAX_ENTRIES = 200_000
_ROOT, _ELSEWHERE = 0, 1
_LARGEST = 1e30  # well within float32


class SequenceTable(NamedTuple):
    """A number for each of some prefixes, found by walking a tree of tokens. A callable pytree: a `LogTwist` and a `LogReward`.

    Attributes:
        child: [C, V] the node that each token leads to; node 0 is the empty prefix, node 1 everything that is not in the table.
        values: [C] of each node; 0 where the table has none.
    """

    child: Int32[Array, "C V"]
    values: Float32[Array, " C"]

    def __call__(
        self, tokens: Int[Array, "B T"], lengths: Int[Array, " B"]
    ) -> Float32[Array, " B"]:
        """Look rows up.

        Args:
            tokens: [B, T] generated tokens, right-padded.
            lengths: [B].

        Returns:
            [B] the value of each row; 0 for rows that the table does not hold.
        """

        def follow(node: Array, column: tuple[Array, Array]) -> tuple[Array, None]:
            token, place = column
            return jnp.where(place < lengths, self.child[node, token], node), None

        places = jnp.arange(tokens.shape[1])
        begin = jnp.full(lengths.shape, _ROOT, jnp.int32)
        node, _ = jax.lax.scan(follow, begin, (tokens.T, places))
        return self.values[node]


def make_sequence_table(values: Mapping[Tokens, float], vocab_size: int) -> SequenceTable:
    """Put numbers into a tree.

    Args:
        values: by tokens.
        vocab_size: V.

    Returns:
        The table.
    """
    nodes: dict[Tokens, int] = {(): _ROOT}
    children: list[list[int]] = [[_ELSEWHERE] * vocab_size, [_ELSEWHERE] * vocab_size]
    for tokens in values:
        for end in range(1, len(tokens) + 1):
            if tokens[:end] not in nodes:
                nodes[tokens[:end]] = len(children)
                children[nodes[tokens[: end - 1]]][tokens[end - 1]] = len(children)
                children.append([_ELSEWHERE] * vocab_size)
    numbers = np.zeros(len(children), np.float32)
    for tokens, value in values.items():
        numbers[nodes[tokens]] = value
    return SequenceTable(jnp.asarray(np.array(children, np.int32)), jnp.asarray(numbers))


def read_twist(path: str, layers: Layers, vocab_size: int) -> SequenceTable:
    """A twist: log psi, finite on every prefix that can go on. It is not asked for the empty prefix, nor for sequences that are over.

    Args:
        path: of the file.
        layers: of the model after its prompt.
        vocab_size: V.

    Returns:
        The twist.

    Raises:
        InvalidInput: names the file and the first prefix without a finite number, or what cannot be read.
    """
    given = _read(path, "--twist")
    prefixes = [prefix.tokens for prefix in enumerate_prefixes(layers, MAX_ENTRIES)][1:]
    values = _values(path, "--twist", "prefix", given, prefixes)
    for tokens, value in values.items():
        if not math.isfinite(value):
            raise InvalidInput(
                f"--twist {path}, prefix '{_text(tokens)}': log psi is {value}, but the target goes on from "
                f"there, give a finite number"
            )
    return make_sequence_table(values, vocab_size)


def read_reward(path: str, layers: Layers, vocab_size: int) -> SequenceTable:
    """A reward of every sequence, -inf where one is forbidden (`-Infinity`, or null with `"<key>_reason": "-infinity"`).

    Args:
        path: of the file.
        layers: of the model after its prompt.
        vocab_size: V.

    Returns:
        The reward.

    Raises:
        InvalidInput: names the file and the first sequence without a number, or what cannot be read.
    """
    given = _read(path, "--reward")
    sequences = enumerate_sequences((base_law(layers),), MAX_ENTRIES).sequences
    values = _values(path, "--reward", "sequence", given, sequences)
    for tokens, value in values.items():
        if math.isnan(value) or value == math.inf:
            raise InvalidInput(
                f"--reward {path}, sequence '{_text(tokens)}': is {value}, give a number or -infinity"
            )
    if all(value == -math.inf for value in values.values()):
        raise InvalidInput(f"--reward {path}: every sequence is forbidden, allow at least one")
    return make_sequence_table(values, vocab_size)


def _read(path: str, option: str) -> dict[str, Any]:
    where = f"{option} {path}"
    try:
        content = json.loads(Path(path).read_bytes())
    except OSError as error:
        raise InvalidInput(
            f"{where}: cannot be read ({error.strerror}), give a JSON file"
        ) from error
    except RecursionError as error:
        raise InvalidInput(f"{where}: is nested without end, mend it") from error
    except ValueError as error:  # not UTF-8, or not JSON
        raise InvalidInput(f"{where}: is not JSON ({error}), mend it") from error
    if not isinstance(content, dict):
        raise InvalidInput(f'{where}: must be a JSON object such as {{"0 2": -1.5}}')
    return cast(dict[str, Any], restore(content))


def _values(
    path: str, option: str, what: str, given: Mapping[str, Any], needed: Iterable[Tokens]
) -> dict[Tokens, float]:
    """The numbers that the model can ask for; other keys are not read."""
    values: dict[Tokens, float] = {}
    for tokens in needed:
        where = f"{option} {path}, {what} '{_text(tokens)}'"
        if _text(tokens) not in given:
            raise InvalidInput(f"{where}: missing, every {what} of the model needs a number")
        value = given[_text(tokens)]
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InvalidInput(f"{where}: {value!r} is not a number, give one")
        if abs(value) > _LARGEST and abs(value) != math.inf:
            raise InvalidInput(f"{where}: is beyond {_LARGEST:g}, give a smaller number")
        values[tokens] = float(value)
    return values


def _text(tokens: Tokens) -> str:
    return " ".join(map(str, tokens))
