"""Locally typical sampling: tokens whose surprise is close to the entropy."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from theory.decoding.prefix import smallest_prefix
from theory.decoding.row_law import entropy, normalise
from theory.decoding.rule import Parameter, check_fraction, cut, per_row


class Typical(NamedTuple):
    """Keep the smallest prefix, in ascending order of |log p(v) + H|, whose mass is at least `mass`; ties by token id.

        H = -sum_v p(v) log p(v)

    It may drop the most likely token, so beside another filter it might leave nothing: it never goes into `joint`.

    Source: Meister, Pimentel, Wiher and Cotterell 2022, arXiv 2202.00666 (from memory, not re-read).

    Attributes:
        mass: in 0..1, a number or [B].
    """

    mass: Parameter

    name = "typical"
    reads_counts = False
    keeps_mode = False

    def truncates(self) -> bool:
        """Below mass 1."""
        return bool(np.any(np.asarray(self.mass) < 1))

    def keep(self, logits: Float[Array, "B V"]) -> Bool[Array, "B V"]:
        """See `Filter.keep`."""
        log_probs = normalise(logits)
        distance = jnp.abs(log_probs + entropy(log_probs))
        return smallest_prefix(distance, log_probs, per_row(self.mass, logits))

    def __call__(
        self, logits: Float[Array, "B V"], counts: Int[Array, "B V"]
    ) -> Float[Array, "B V"]:
        """See `TokenRule`."""
        return cut(logits, self.keep(logits))


def typical(mass: Parameter) -> Typical:
    """Locally typical sampling.

    Args:
        mass: in 0..1, a number or [B]; 0 keeps the most typical token, 1 keeps all.

    Returns:
        The rule.

    Raises:
        InvalidInput: the mass is outside this domain.
    """
    check_fraction("typical", mass)
    return Typical(mass)
