"""Eta sampling: a floor under the probability that is lowered where the law is flat."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from theory.decoding.row_law import entropy, normalise, reaches_floor
from theory.decoding.rule import Parameter, check_fraction, cut, per_row


class Eta(NamedTuple):
    """Keep v iff p(v) >= eta, and the most likely token always.

        eta = min(epsilon, sqrt(epsilon) exp(-H)),   H the entropy of the row in nats

    Source: Hewitt, Manning and Liang 2022, arXiv 2210.15191 (from memory, not re-read; that equality keeps is the reading
    of public implementations).

    Attributes:
        floor: epsilon in 0..1, a number or [B].
    """

    floor: Parameter

    name = "eta"
    reads_counts = False
    keeps_mode = True

    def truncates(self) -> bool:
        """Above epsilon 0."""
        return bool(np.any(np.asarray(self.floor) > 0))

    def keep(self, logits: Float[Array, "B V"]) -> Bool[Array, "B V"]:
        """See `Filter.keep`."""
        log_probs = normalise(logits)
        log_epsilon = jnp.log(per_row(self.floor, logits))
        log_eta = jnp.minimum(log_epsilon, log_epsilon / 2 - entropy(log_probs))
        return reaches_floor(log_probs, log_eta)

    def __call__(
        self, logits: Float[Array, "B V"], counts: Int[Array, "B V"]
    ) -> Float[Array, "B V"]:
        """See `TokenRule`."""
        return cut(logits, self.keep(logits))


def eta(floor: Parameter) -> Eta:
    """Eta sampling.

    Args:
        floor: epsilon in 0..1, a number or [B]; 0 keeps all.

    Returns:
        The rule.

    Raises:
        InvalidInput: epsilon is outside this domain.
    """
    check_fraction("eta", floor)
    return Eta(floor)
