"""Penalties on tokens that the row has already generated: repetition, frequency, presence.

The prompt is not penalised and pads are not counted (`theory.decoding.counts`). No penalty changes which tokens are possible.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from theory.decoding.row_law import normalise
from theory.decoding.rule import Parameter, check_parameter, per_row


class Repetition(NamedTuple):
    """Raise the probability of generated tokens to a power.

        q(v) proportional to p(v)^penalty  if v was generated,  to p(v)  otherwise

    Public libraries divide positive and multiply negative raw logits, so their result moves with a constant added to all logits,
    of which a law knows nothing. On normalised log probabilities, which are never positive, their rule and this one are the same.

    Source: Keskar et al. 2019, arXiv 1909.05858, section 4.1 (from memory, not re-read).

    Attributes:
        penalty: > 0, a number or [B]; 1 is the identity, above 1 discourages.
    """

    penalty: Parameter

    name = "repetition"
    reads_counts = True

    def truncates(self) -> bool:
        """Never."""
        return False

    def __call__(
        self, logits: Float[Array, "B V"], counts: Int[Array, "B V"]
    ) -> Float[Array, "B V"]:
        """See `TokenRule`."""
        log_probs = normalise(logits)
        return jnp.where(counts > 0, log_probs * per_row(self.penalty, logits), log_probs)


class Frequency(NamedTuple):
    """Subtract penalty times the number of times a token was generated from its logit.

    Source: the definition of the OpenAI interface (second-hand).

    Attributes:
        penalty: in nats, a number or [B]; 0 is the identity, negative encourages.
    """

    penalty: Parameter

    name = "frequency"
    reads_counts = True

    def truncates(self) -> bool:
        """Never."""
        return False

    def __call__(
        self, logits: Float[Array, "B V"], counts: Int[Array, "B V"]
    ) -> Float[Array, "B V"]:
        """See `TokenRule`."""
        return logits - per_row(self.penalty, logits) * counts.astype(logits.dtype)


class Presence(NamedTuple):
    """Subtract penalty from the logit of every token that was generated.

    Source: the definition of the OpenAI interface (second-hand).

    Attributes:
        penalty: in nats, a number or [B]; 0 is the identity, negative encourages.
    """

    penalty: Parameter

    name = "presence"
    reads_counts = True

    def truncates(self) -> bool:
        """Never."""
        return False

    def __call__(
        self, logits: Float[Array, "B V"], counts: Int[Array, "B V"]
    ) -> Float[Array, "B V"]:
        """See `TokenRule`."""
        return logits - per_row(self.penalty, logits) * (counts > 0).astype(logits.dtype)


def repetition(penalty: Parameter) -> Repetition:
    """Repetition penalty.

    Args:
        penalty: a finite number above 0, or [B] of them.

    Returns:
        The rule.

    Raises:
        InvalidInput: the penalty is outside this domain.
    """

    def is_allowed(values: np.ndarray) -> np.ndarray:
        return (values > 0) & np.isfinite(values)

    check_parameter("repetition penalty", penalty, is_allowed, "a finite number above 0")
    return Repetition(penalty)


def frequency(penalty: Parameter) -> Frequency:
    """Frequency penalty.

    Args:
        penalty: a finite number, or [B] of them.

    Returns:
        The rule.

    Raises:
        InvalidInput: the penalty is not finite.
    """
    check_parameter("frequency penalty", penalty, np.isfinite, "finite")
    return Frequency(penalty)


def presence(penalty: Parameter) -> Presence:
    """Presence penalty.

    Args:
        penalty: a finite number, or [B] of them.

    Returns:
        The rule.

    Raises:
        InvalidInput: the penalty is not finite.
    """
    check_parameter("presence penalty", penalty, np.isfinite, "finite")
    return Presence(penalty)
