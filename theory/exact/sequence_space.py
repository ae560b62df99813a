"""Every sequence of a small model with what the densities of the Markov kernels read of it, in float64."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int64

from theory.errors import InvalidInput
from theory.exact.context_table import ContextTable
from theory.exact.enumeration import check_enumerable, enumerate_sequences
from theory.exact.laws import check_alpha, temperature_law
from theory.exact.layers import unroll
from theory.mcmc import density
from theory.mcmc.density import Records

# A transition matrix has the square of it.
MAX_STATES = 2_000

Sequence = tuple[int, ...]


class SequenceSpace(NamedTuple):
    """Every sequence of a model and what the densities read of it.

    Attributes:
        sequences: the M token tuples, in lexicographic order.
        tokens: [M, T] the same, padded with 0.
        records: of the M sequences under one proposal.
    """

    sequences: list[Sequence]
    tokens: Int64[np.ndarray, "M T"]
    records: Records


def sequence_space(
    table: ContextTable,
    proposal_alpha: float,
    log_reward: Callable[[Sequence], float] | None = None,
) -> SequenceSpace:
    """All sequences of a model, with the proposal at temperature 1/proposal_alpha.

    Args:
        table: the model, of at most MAX_STATES sequences.
        proposal_alpha: exponent of every next-token law of the proposal; 1 is the model itself.
        log_reward: log of what multiplies p(y)^alpha in the target; nothing by default.

    Returns:
        The states.

    Raises:
        InvalidInput: too many sequences, or an exponent that is not positive and finite.
    """
    check_alpha(proposal_alpha)
    layers = unroll(table)
    check_enumerable(layers, MAX_STATES)
    proposal = temperature_law(layers, proposal_alpha)
    sequences = enumerate_sequences((proposal,)).sequences
    lengths = np.array([len(sequence) for sequence in sequences])
    tokens = np.zeros((lengths.size, table.horizon), np.int64)
    for row, sequence in enumerate(sequences):
        tokens[row, : len(sequence)] = sequence
    log_p, log_q, entropies = np.zeros((3, *tokens.shape))
    standing = np.zeros(lengths.size, np.int64)
    for depth, layer in enumerate(layers):
        here = np.flatnonzero(lengths > depth)
        at = standing[here], tokens[here, depth]
        log_p[here, depth] = layer.log_probs[at]
        log_q[here, depth] = proposal.log_conditional(depth)[at]
        entropies[here, depth] = _shannon(layer.log_probs)[standing[here]]
        standing[here] = layer.successor[at]
    log_rewards = np.array([log_reward(each) if log_reward else 0.0 for each in sequences])
    return SequenceSpace(sequences, tokens, Records(log_p, log_q, entropies, log_rewards, lengths))


def target_law(space: SequenceSpace, alpha: float) -> Float64[np.ndarray, " M"]:
    """What the kernels leave invariant: p(y)^alpha times the reward, normalised over the states.

    Args:
        space: the states.
        alpha: exponent above 0.

    Returns:
        [M] probabilities.

    Raises:
        InvalidInput: the reward forbids every sequence.
    """
    log_weights = density.log_target(alpha, space.records)
    if not (log_weights > -np.inf).any():
        raise InvalidInput("reward: every sequence is forbidden, allow at least one")
    weights = np.exp(log_weights - log_weights.max())
    return weights / weights.sum()


def proposal_law(space: SequenceSpace) -> Float64[np.ndarray, " M"]:
    """Law of one whole draw of the proposal, from which chains start.

    Args:
        space: the states.

    Returns:
        [M] probabilities.
    """
    return np.exp(density.suffix_log_q(space.records, np.zeros(len(space.sequences), np.int64)))


def _shannon(log_probs: Float64[np.ndarray, "n V"]) -> Float64[np.ndarray, " n"]:
    possible = log_probs > -np.inf
    finite = np.where(possible, log_probs, 0.0)
    return -np.where(possible, np.exp(finite) * finite, 0.0).sum(axis=1)
