"""Temperature: every next-token law raised to 1/T and renormalised."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from theory.decoding.rule import Parameter, check_parameter, per_row

_SMALLEST = float(np.finfo(np.float32).tiny)
_LARGEST = float(np.finfo(np.float32).max)


class Temperature(NamedTuple):
    """Divide the logits by T.

        q(v) proportional to p(v)^(1/T);   T = 0: all mass on the lowest-index maximum

    Acts on each next-token law. Over whole sequences it is not the power law p(y)^(1/T): see `theory.exact.laws`.

    The largest logit is subtracted before the division, so no T overflows, and a token of positive probability keeps a finite
    log probability however small T is. A T below the smallest normal float32 (1.2e-38) counts as 0,
    a number above the largest (3.4e38) as that.

    Attributes:
        temperature: T >= 0, a number or [B].
    """

    temperature: Parameter

    name = "temperature"
    reads_counts = False

    def truncates(self) -> bool:
        """Only at T = 0, and what counts as 0."""
        return bool(np.any(np.asarray(self.temperature) < _SMALLEST))

    def __call__(
        self, logits: Float[Array, "B V"], counts: Int[Array, "B V"]
    ) -> Float[Array, "B V"]:
        """See `TokenRule`."""
        temperature = per_row(self.temperature, logits)
        greedy = temperature < _SMALLEST
        highest = jnp.max(logits, axis=-1, keepdims=True)
        gaps = logits - jnp.where(jnp.isfinite(highest), highest, 0.0)
        scaled = gaps / jnp.where(greedy, 1.0, temperature)
        scaled = jnp.maximum(scaled, jnp.finfo(logits.dtype).min)
        mode = jnp.argmax(logits, axis=-1, keepdims=True)
        keep = (logits > -jnp.inf) & (~greedy | (jnp.arange(logits.shape[-1])[None] == mode))
        return jnp.where(keep, scaled, -jnp.inf)


def temperature(temperature: Parameter) -> Temperature:
    """Temperature.

    Args:
        temperature: T, a finite number from 0 up, or [B] of them.

    Returns:
        The rule.

    Raises:
        InvalidInput: T is outside this domain.
    """

    def is_allowed(values: np.ndarray) -> np.ndarray:
        return np.isfinite(values) & (values >= 0)

    check_parameter("temperature", temperature, is_allowed, "a finite number from 0 up")
    return Temperature(
        min(temperature, _LARGEST) if isinstance(temperature, float) else temperature
    )
