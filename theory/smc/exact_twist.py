"""The optimal twist of a tabular model: log zeta, looked up by walking a prefix down the layers."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, Int32

from theory.exact.laws import PowerLaw
from theory.exact.layers import ENDS


class ExactTwist(NamedTuple):
    """Log zeta(x) = log sum over futures of p(future | x)^alpha. A callable pytree, for rows without a prompt.

    Attributes:
        successor: [D, C, V] layer row that each token leads to, ENDS where the sequence is over.
        log_lookahead: [D, C] log zeta of each layer row.
    """

    successor: Int32[Array, "D C V"]
    log_lookahead: Float32[Array, "D C"]

    def __call__(
        self, tokens: Int32[Array, "B T"], lengths: Int32[Array, " B"]
    ) -> Float32[Array, " B"]:
        """Log zeta of prefixes.

        Args:
            tokens: [B, T] right-padded.
            lengths: [B].

        Returns:
            [B] natural log; 0 for sequences that are over, since nothing follows.
        """
        row = jnp.zeros(lengths.shape, jnp.int32)
        value = jnp.broadcast_to(self.log_lookahead[0, 0], lengths.shape)
        for depth in range(1, self.successor.shape[0] + 1):
            takes = lengths >= depth
            after = self.successor[depth - 1, row, tokens[:, depth - 1]]
            row = jnp.where(takes & (row != ENDS), after, row)
            ahead = self.log_lookahead[min(depth, self.successor.shape[0] - 1), row]
            value = jnp.where(takes, jnp.where(row == ENDS, 0.0, ahead), value)
        return value


def exact_twist(power: PowerLaw) -> ExactTwist:
    """The twist with which the twist-induced proposal draws exactly from the power law.

    Args:
        power: of a tabular model.

    Returns:
        Log zeta of its prefixes.
    """
    layers = power.law.layers
    width = max(layer.contexts.size for layer in layers)
    successor = np.full((len(layers), width, layers[0].successor.shape[1]), ENDS, np.int32)
    log_lookahead = np.zeros((len(layers), width), np.float32)
    for depth, layer in enumerate(layers):
        successor[depth, : layer.contexts.size] = layer.successor
        log_lookahead[depth, : layer.contexts.size] = power.log_lookahead[depth]
    return ExactTwist(jnp.asarray(successor), jnp.asarray(log_lookahead))
