"""Draws from many finite laws at the price of two table look-ups each: Walker's alias method.

A law over V outcomes is cut into V columns of equal mass, each of which holds at most two outcomes: v itself below a threshold, another one,
its alias, above it. The product of 32 random bits and V has the column in its upper word and the place in the column in its lower
one, so that no bit is used twice and every probability is right to within V 2^-32.

Source: Walker, ACM Trans. Math. Software 3 (1977); the O(V) construction is Vose, IEEE Trans. Software Eng. 17 (1991).
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float64, Int, Int32, UInt32

from theory.errors import InvalidInput

MAX_OUTCOMES = 2**16  # so that the product of a half word and V fits into a word
_WORD = 2**32


class AliasTable(NamedTuple):
    """S laws over V outcomes.

    Attributes:
        threshold: [S, V] of 2^32, how much of column v is v.
        alias: [S, V] what the rest of it is; v where there is no rest.
    """

    threshold: UInt32[Array, "S V"]
    alias: Int32[Array, "S V"]


def alias_table(probs: Float64[np.ndarray, "S V"]) -> AliasTable:
    """Cut laws into columns, on the host in float64.

    Args:
        probs: [S, V] each row sums to 1; zeros are never drawn.

    Returns:
        The tables.

    Raises:
        InvalidInput: more outcomes than MAX_OUTCOMES, or a row that is no law.
    """
    num_laws, num_outcomes = probs.shape
    if num_outcomes > MAX_OUTCOMES:
        raise InvalidInput(f"{num_outcomes} outcomes: at most {MAX_OUTCOMES}")
    wrong = ~((probs >= 0).all(axis=1) & (np.abs(probs.sum(axis=1) - 1) < 1e-6))
    if wrong.any():
        raise InvalidInput(f"law {int(np.argmax(wrong))}: must be at least 0 and sum to 1")
    share = np.ones((num_laws, num_outcomes))
    alias = np.tile(np.arange(num_outcomes), (num_laws, 1))
    for row in range(num_laws):
        _fill(num_outcomes * probs[row] / probs[row].sum(), share[row], alias[row])
    # A column that is all v has v for its alias too: a threshold just below 2^32 does no harm there.
    threshold = np.minimum(np.rint(share * _WORD), _WORD - 1)
    return AliasTable(jnp.asarray(threshold.astype(np.uint32)), jnp.asarray(alias, jnp.int32))


def draw(
    table: AliasTable, rows: Int[Array, "*batch"], bits: UInt32[Array, "*batch"]
) -> Int32[Array, "*batch"]:
    """One outcome each.

    Args:
        table: of S laws.
        rows: [...] which law, in 0..S-1.
        bits: [...] independent and uniform over all words.

    Returns:
        [...] outcomes.
    """
    num_outcomes = jnp.uint32(table.alias.shape[1])
    low_half = (bits & jnp.uint32(0xFFFF)) * num_outcomes
    high_half = (bits >> 16) * num_outcomes
    column = (high_half + (low_half >> 16)) >> 16
    place = bits * num_outcomes  # its lower word: the product is taken modulo 2^32
    index = rows.astype(jnp.int32) * table.alias.shape[1] + column.astype(jnp.int32)
    keeps = place < table.threshold.reshape(-1)[index]
    return jnp.where(keeps, column.astype(jnp.int32), table.alias.reshape(-1)[index])


def _fill(mass: np.ndarray, share: np.ndarray, alias: np.ndarray) -> None:
    """Columns of mass 1 from outcomes of total mass V: each short one is filled up by a tall one."""
    short = [v for v in range(mass.size) if mass[v] < 1]
    tall = [v for v in range(mass.size) if mass[v] >= 1]
    while short and tall:
        small, large = short.pop(), tall.pop()
        share[small], alias[small] = mass[small], large
        mass[large] -= 1 - mass[small]
        (short if mass[large] < 1 else tall).append(large)
