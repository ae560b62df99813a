"""Random keys by role, row, iteration and step.

Every random number of the house is addressed, never drawn from a stream: fold_in by the *role* of the noise,
then by the global id of the *row* (or population) it belongs to, then by the *iteration* (move, try, stage), then
by the *step* t. Two addresses that differ give independent numbers, and an address gives the same number
whatever the batch split, the padding or the number of devices.
"""

import enum

import jax
from jaxtyping import Array, Int, Key


class Role(enum.IntEnum):
    """What a random number is for. The numbers are part of the record: append, never renumber."""

    TOKEN = 0
    CUT = 1
    ACCEPT = 2
    RESAMPLE = 3
    SELECT = 4
    PROMPT = 5
    SWAP = 6
    LOOKAHEAD = 7
    COUPLING = 8
    MUTATION = 9
    SWEEP = 10
    DEMONSTRATION = 11
    ORDER = 12
    BELIEF = 13


def role_key(key: Key[Array, ""], role: Role) -> Key[Array, ""]:
    """Key of one role.

    Args:
        key: the run's key; may serve every role, is consumed by none.
        role: what the numbers are for.

    Returns:
        A scalar key.
    """
    return jax.random.fold_in(key, int(role))


def row_keys(key: Key[Array, ""], rows: Int[Array, " B"]) -> Key[Array, " B"]:
    """One key per row, from the row's global id.

    Args:
        key: key of one role.
        rows: [B] global ids of the rows (not their positions in the batch).

    Returns:
        [B] keys.
    """
    return jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, rows)


def fold_rows(keys: Key[Array, " B"], index: Int[Array, ""] | int) -> Key[Array, " B"]:
    """Keys of the same rows at one iteration, or at one step of an iteration.

    Args:
        keys: [B] row keys.
        index: the iteration or the step, the same for every row.

    Returns:
        [B] keys.
    """
    return jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, index)


def fold_each(keys: Key[Array, " B"], indices: Int[Array, " B"]) -> Key[Array, " B"]:
    """Keys of the same rows, each at an iteration or a step of its own.

    Args:
        keys: [B] row keys.
        indices: [B] the iteration or the step of each row.

    Returns:
        [B] keys.
    """
    return jax.vmap(jax.random.fold_in)(keys, indices)
