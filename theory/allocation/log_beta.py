"""Moments of Beta laws in log space, with all their digits at counts of 10^6.

log Gamma(10^6) is about 10^7, so a difference of two of them keeps 9 digits in float64 and none in float32. Both functions here take the
differences by hand: Stirling's series at arguments moved above 8 by Gamma(x + 1) = x Gamma(x), its large terms cancelled on paper.
What remains is a sum of few terms no larger than the result (`log_beta_moment`) or than the parameters' logs (`log_beta_likelihood`).

Derived here; Stirling's series is NIST Digital Library of Mathematical Functions 5.11.1.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

# B_2k / (2k (2k - 1)) for k = 1 .. 7; from 8 upwards the first term left out is below 1e-15.
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
# Products of so many ratios stay inside float32; two of them move an argument by 8.
_BLOCK = 4
_SHIFT = 2 * _BLOCK


def log_beta_moment(
    a: Float[Array, "*#batch"],
    b: Float[Array, "*#batch"],
    successes: Float[Array, "*#batch"],
    failures: Float[Array, "*#batch"],
) -> Float[Array, "*batch"]:
    """Log E[p^s (1 - p)^f] for p ~ Beta(a, b), to a few units in the last place of the result.

        log B(a + s, b + f) - log B(a, b)

    Args:
        a: above 0.
        b: above 0, of the same type.
        successes: s, real and at least 0.
        failures: f, the same.

    Returns:
        At most 0.
    """
    return log_power_moment(a, b, successes) + log_power_moment(b, a + successes, failures)


def log_power_moment(
    a: Float[Array, "*#batch"], b: Float[Array, "*#batch"], power: Float[Array, "*#batch"]
) -> Float[Array, "*batch"]:
    """Log E[p^k] for p ~ Beta(a, b), to a few units in the last place of the result.

        log Gamma(a + b) Gamma(a + k) / (Gamma(a) Gamma(a + b + k))

    It is symmetric in b and k, and the mixed second difference of -log Gamma, a convex function: every term below has one sign but for
    one, which takes away at most two thirds of the others.

    Args:
        a: above 0.
        b: at least 0; 0 is an atom at p = 1.
        power: k, real and at least 0.

    Returns:
        At most 0.
    """
    log_shifted = sum(
        _log_products(a + float(first), b, power) for first in range(0, _SHIFT, _BLOCK)
    )
    x = a + float(_SHIFT)
    x_b, x_k, x_bk = x + b, x + power, x + b + power
    log_cross = _log_one_minus((b / x_b) * (power / x_k), (x / x_b) * (x_bk / x_k))
    stirling = -b * jnp.log1p(power / x_b) - power * jnp.log1p(b / x_k) - (x - 0.5) * log_cross
    # 1 / 12x has its mixed difference in closed form; that of the later terms is small enough to be taken as it stands.
    correction = (b / x_b) * (power / x_k) * (x_b + x_k) / (12 * x * x_bk)
    later = (_series(x_b, 1) - _series(x, 1)) + (_series(x_k, 1) - _series(x_bk, 1))
    log = log_shifted + stirling - correction + later
    # Compiled, equal terms may be rounded differently: what is 0 on paper is made 0.
    return jnp.where((b == 0) | (power == 0), 0.0, jnp.minimum(log, 0.0))


def log_beta_likelihood(
    a: Float[Array, "*#batch"],
    b: Float[Array, "*#batch"],
    successes: Float[Array, "*#batch"],
    failures: Float[Array, "*#batch"],
) -> Float[Array, "*batch"]:
    """Log E[p^s (1 - p)^f] relative to the largest value that p^s (1 - p)^f takes, for p ~ Beta(a, b).

        log B(a + s, b + f) / B(a, b)  -  s log(s / n)  -  f log(f / n),   n = s + f

    It is what posterior weights need: the part that all laws share, of order n, is never formed. The error is a few units in the last
    place of 1 + |result| while N |s / n - a / N| is moderate for one of the sizes n and N = a + b.

    Args:
        a: above 0.
        b: above 0.
        successes: s, real and at least 0.
        failures: f, the same.

    Returns:
        At most 0, and 0 without data.
    """
    log_shifted = sum(
        _log_shifts(a + float(first), b + float(first), successes, failures)
        for first in range(0, _SHIFT, _BLOCK)
    )
    a, b = a + float(_SHIFT), b + float(_SHIFT)
    size, num = a + b, successes + failures
    x, y, total = a + successes, b + failures, a + b + successes + failures
    # n N (s / n - a / N): how far data and prior mean are apart. The posterior mean x / total lies between them.
    gap = successes * b - a * failures
    drawn = jnp.where(num > 0, num, 1.0)
    divergence = (
        _times_log_ratio(a, -gap / (size * x), (a / size) * (total / x))
        + _times_log_ratio(b, gap / (size * y), (b / size) * (total / y))
        + _times_log_ratio(successes, gap / (drawn * x), (successes / drawn) * (total / x))
        + _times_log_ratio(failures, -gap / (drawn * y), (failures / drawn) * (total / y))
    )
    spread = jnp.log1p(num / size) - jnp.log1p(successes / a) - jnp.log1p(failures / b)
    after = _series(x, 0) + _series(y, 0) - _series(total, 0)
    before = _series(a, 0) + _series(b, 0) - _series(size, 0)
    log = log_shifted - divergence + 0.5 * spread + (after - before)
    return jnp.where(num == 0, 0.0, jnp.minimum(log, 0.0))


def times_log_ratio(
    count: Float[Array, "*#batch"],
    value: Float[Array, "*#batch"],
    reference: Float[Array, "*#batch"],
) -> Float[Array, "*batch"]:
    """The product `count` log(value / reference), with 0 log 0 = 0.

    Args:
        count: at least 0.
        value: in [0, 1].
        reference: above 0.

    Returns:
        Exact to the last places also where value and reference nearly agree.
    """
    return _times_log_ratio(count, (value - reference) / reference, value / reference)


def _times_log_ratio(count: Array, ratio_minus_1: Array, ratio: Array) -> Array:
    """The product `count` log(ratio), from whichever form of the ratio has its digits; 0 where count is 0."""
    near = jnp.abs(ratio_minus_1) < 0.5
    log_near = jnp.log1p(jnp.where(near, ratio_minus_1, 0.0))
    log_far = jnp.log(jnp.where(near | (count == 0), 1.0, ratio))
    return count * jnp.where(near, log_near, log_far)


def _log_one_minus(share: Array, complement: Array) -> Array:
    """Log(1 - share), where complement is 1 - share formed without cancellation."""
    near = share < 0.5
    return jnp.where(
        near,
        jnp.log1p(-jnp.where(near, share, 0.0)),
        jnp.log(jnp.where(near, 1.0, complement)),
    )


def _log_products(a: Array, b: Array, power: Array) -> Array:
    """Log of the product over a, a + 1, .. of x (x + b + k) / ((x + b) (x + k)): what one block of the shift takes out."""
    share, complement = jnp.zeros_like(a), jnp.ones_like(a)
    for step in range(_BLOCK):
        x = a + float(step)
        taken = (b / (x + b)) * (power / (x + power))
        share = share + taken * (1 - share)
        complement = complement * (x / (x + b)) * ((x + b + power) / (x + power))
    return _log_one_minus(share, complement)


def _log_shifts(a: Array, b: Array, successes: Array, failures: Array) -> Array:
    """Log of [B(x, y) / B(x + 4, y + 4)] / [B(a, b) / B(a + 4, b + 4)] at x = a + s, y = b + f."""
    product = jnp.ones_like(a)
    num = successes + failures
    for step in range(_BLOCK):
        first, second = float(step), float(2 * step)
        product = product * ((1 + num / (a + b + second)) / (1 + successes / (a + first)))
        product = product * ((1 + num / (a + b + second + 1)) / (1 + failures / (b + first)))
    return jnp.log(product)


def _series(x: Array, first: int) -> Array:
    """Stirling's series of log Gamma from term `first`: sum_k c_k x^(1 - 2k)."""
    inverse = 1 / x
    square = inverse * inverse
    total = jnp.zeros_like(x)
    for coefficient in reversed(_STIRLING[first:]):
        total = total * square + coefficient
    return total * inverse * square**first
