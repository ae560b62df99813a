"""Min-p: tokens that are not much less likely than the most likely one."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from theory.decoding.rule import Parameter, check_fraction, cut, per_row


class MinP(NamedTuple):
    """Keep v iff p(v) >= fraction max_u p(u).

        l(v) - max_u l(u) >= log fraction

    The closed form in logits needs no softmax. At fraction 0 the identity; at 1 the ties of the maximum stay.

    Source: Nguyen et al. 2024, arXiv 2407.01082. Whether it beats other filters at equal tuning is disputed: Schaeffer
    et al. 2025, arXiv 2506.13681.

    Attributes:
        fraction: in 0..1, a number or [B].
    """

    fraction: Parameter

    name = "min_p"
    reads_counts = False
    keeps_mode = True

    def truncates(self) -> bool:
        """Above fraction 0."""
        return bool(np.any(np.asarray(self.fraction) > 0))

    def keep(self, logits: Float[Array, "B V"]) -> Bool[Array, "B V"]:
        """See `Filter.keep`."""
        gaps = logits - jnp.max(logits, axis=-1, keepdims=True)
        return gaps >= jnp.log(per_row(self.fraction, logits))

    def __call__(
        self, logits: Float[Array, "B V"], counts: Int[Array, "B V"]
    ) -> Float[Array, "B V"]:
        """See `TokenRule`."""
        return cut(logits, self.keep(logits))


def min_p(fraction: Parameter) -> MinP:
    """Min-p.

    Args:
        fraction: in 0..1, a number or [B].

    Returns:
        The rule.

    Raises:
        InvalidInput: the fraction is outside this domain.
    """
    check_fraction("min_p", fraction)
    return MinP(fraction)
