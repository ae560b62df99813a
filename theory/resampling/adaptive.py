"""Resample only where the effective sample size is low: a decorator of any resampler.

E[Z_hat] = Z holds whatever decides, as long as it looks at nothing but the weights so far, and as long as populations that are not
resampled keep their weights.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int32, Key

from theory.errors import InvalidInput
from theory.log_weights import clean, ess
from theory.protocols import Resampler
from theory.resampling.running_sum import positions


def needs_resampling(
    log_weights: Float[Array, "*batch N"], threshold: float
) -> Bool[Array, "*batch"]:
    """Whether the effective sample size lies below a share of the particles.

    Args:
        log_weights: [..., N] natural log, unnormalised.
        threshold: share, in 0..1; at 1 all but equal weights need it.

    Returns:
        [...] false where all are dead: there is nothing to resample.
    """
    size = ess(log_weights)
    return (size > 0) & (size < threshold * log_weights.shape[-1])


def ess_adaptive(resampler: Resampler, threshold: float) -> Resampler:
    """Resample where ESS < threshold N, and leave the other populations as they are.

    Whether any population needs it is decided outside, so that a step at which none does costs nothing. Under vmap
    that saving is lost; give the resampler the whole batch instead.

    Args:
        resampler: what to do where it is needed.
        threshold: share of N, in 0..1.

    Returns:
        A resampler; populations left alone have ancestors 0..N-1 and their own (cleaned) log weights.

    Raises:
        InvalidInput: the threshold is outside 0..1.
    """
    if not 0 <= threshold <= 1:
        raise InvalidInput(f"ESS threshold {threshold}: must be in 0..1, a share of the particles")

    def adaptive(
        key: Key[Array, "*#batch"], log_weights: Float[Array, "*batch N"]
    ) -> tuple[Int32[Array, "*batch N"], Float[Array, "*batch N"]]:
        needed = needs_resampling(log_weights, threshold)
        kept = positions(log_weights.shape), clean(log_weights)[0]

        def resample() -> tuple[Array, Array]:
            ancestors, resampled = resampler(key, log_weights)
            here = needed[..., None]
            return jnp.where(here, ancestors, kept[0]), jnp.where(here, resampled, kept[1])

        return jax.lax.cond(jnp.any(needed), resample, lambda: kept)

    return adaptive
