"""Epsilon sampling: an absolute floor under the probability."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from theory.decoding.row_law import normalise, reaches_floor
from theory.decoding.rule import Parameter, check_fraction, cut, per_row


class Epsilon(NamedTuple):
    """Keep v iff p(v) >= epsilon, and the most likely token always.

    Source: Hewitt, Manning and Liang 2022, arXiv 2210.15191 (from memory, not re-read; that equality keeps is the reading
    of public implementations).

    Attributes:
        floor: epsilon in 0..1, a number or [B].
    """

    floor: Parameter

    name = "epsilon"
    reads_counts = False
    keeps_mode = True

    def truncates(self) -> bool:
        """Above epsilon 0."""
        return bool(np.any(np.asarray(self.floor) > 0))

    def keep(self, logits: Float[Array, "B V"]) -> Bool[Array, "B V"]:
        """See `Filter.keep`."""
        return reaches_floor(normalise(logits), jnp.log(per_row(self.floor, logits)))

    def __call__(
        self, logits: Float[Array, "B V"], counts: Int[Array, "B V"]
    ) -> Float[Array, "B V"]:
        """See `TokenRule`."""
        return cut(logits, self.keep(logits))


def epsilon(floor: Parameter) -> Epsilon:
    """Epsilon sampling.

    Args:
        floor: epsilon in 0..1, a number or [B]; 0 keeps all.

    Returns:
        The rule.

    Raises:
        InvalidInput: epsilon is outside this domain.
    """
    check_fraction("epsilon", floor)
    return Epsilon(floor)
