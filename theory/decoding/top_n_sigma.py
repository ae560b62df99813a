"""Top-n-sigma: logits within n standard deviations of the largest."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from theory.decoding.rule import Parameter, check_parameter, cut, per_row


class TopNSigma(NamedTuple):
    """Keep v iff l(v) >= max_u l(u) - n sigma.

    sigma is the standard deviation (divisor: the number of tokens) of the row's finite logits, so the kept set does not depend on
    the temperature applied before it.

    Source: Tang et al. 2024, arXiv 2411.07641 (from memory, not re-read; that impossible tokens are left out of sigma and that the
    divisor is their number is the reading of llama.cpp).

    Attributes:
        num_sigmas: n >= 0, a number or [B].
    """

    num_sigmas: Parameter

    name = "top_n_sigma"
    reads_counts = False
    keeps_mode = True

    def truncates(self) -> bool:
        """Always: how far the logits reach is not known here."""
        return True

    def keep(self, logits: Float[Array, "B V"]) -> Bool[Array, "B V"]:
        """See `Filter.keep`."""
        possible = logits > -jnp.inf
        gaps = logits - jnp.max(logits, axis=-1, keepdims=True)
        finite = jnp.where(possible, gaps, 0.0)
        mean = jnp.mean(finite, axis=-1, keepdims=True, where=possible)
        variance = jnp.mean((finite - mean) ** 2, axis=-1, keepdims=True, where=possible)
        return gaps >= -per_row(self.num_sigmas, logits) * jnp.sqrt(variance)

    def __call__(
        self, logits: Float[Array, "B V"], counts: Int[Array, "B V"]
    ) -> Float[Array, "B V"]:
        """See `TokenRule`."""
        return cut(logits, self.keep(logits))


def top_n_sigma(num_sigmas: Parameter) -> TopNSigma:
    """Top-n-sigma.

    Args:
        num_sigmas: n, a finite number from 0 up, or [B] of them.

    Returns:
        The rule.

    Raises:
        InvalidInput: n is outside this domain.
    """

    def is_allowed(values: np.ndarray) -> np.ndarray:
        return (values >= 0) & np.isfinite(values)

    check_parameter("top_n_sigma", num_sigmas, is_allowed, "a finite number from 0 up")
    return TopNSigma(num_sigmas)
