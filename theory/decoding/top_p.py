"""Top-p (nucleus): the smallest set of most likely tokens with a given mass."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Bool, Float, Int

from theory.decoding.prefix import smallest_prefix
from theory.decoding.row_law import normalise
from theory.decoding.rule import Parameter, check_fraction, cut, per_row


class TopP(NamedTuple):
    """Keep the smallest prefix of the descending order whose mass is at least `mass`, ties by token id.

    With p(1) >= p(2) >= ... the kept mass is in [mass, mass + p(last kept)). Never empty; the identity at mass 1, zeros included.
    What happens at an exact hit is said in `smallest_prefix`.

    Source: Holtzman et al. 2019, arXiv 1904.09751.

    Attributes:
        mass: in 0..1, a number or [B].
    """

    mass: Parameter

    name = "top_p"
    reads_counts = False
    keeps_mode = True

    def truncates(self) -> bool:
        """Below mass 1."""
        return bool(np.any(np.asarray(self.mass) < 1))

    def keep(self, logits: Float[Array, "B V"]) -> Bool[Array, "B V"]:
        """See `Filter.keep`."""
        return smallest_prefix(-logits, normalise(logits), per_row(self.mass, logits))

    def __call__(
        self, logits: Float[Array, "B V"], counts: Int[Array, "B V"]
    ) -> Float[Array, "B V"]:
        """See `TokenRule`."""
        return cut(logits, self.keep(logits))


def top_p(mass: Parameter) -> TopP:
    """Top-p.

    Args:
        mass: p in 0..1, a number or [B]; 0 keeps the most likely token, 1 keeps all.

    Returns:
        The rule.

    Raises:
        InvalidInput: p is outside this domain.
    """
    check_fraction("top_p", mass)
    return TopP(mass)
