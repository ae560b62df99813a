"""Forms of the advantage, as what a whole group does to the policy of `experiments.allocation.worlds`.

With grad log pi(r) = (r - p) x, a group of s successes and f failures moves the parameters along x by its push,

    1/n sum_j A_j (r_j - p),     n = s + f,     rbar = s / n

Where advantages sum to 0 over the group, p cancels. One step is taken a batch, at the policy that drew it: every ratio is 1 and clipping, PPO's or DAPO's,
never acts. What differs is the baseline and the scale.
"""

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

Push = Callable[
    [Bool[Array, " P"], Int[Array, " P"], Int[Array, " P"], Float[Array, " P"]], Float[Array, " P"]
]
"""(ready, successes, failures, success rates) -> push of every group; 0 where not ready."""


def grpo(
    ready: Bool[Array, " P"],
    successes: Int[Array, " P"],
    failures: Int[Array, " P"],
    rates: Float[Array, " P"],
) -> Float[Array, " P"]:
    """A = (r - rbar) / std: sqrt(rbar (1 - rbar))."""
    return jnp.sqrt(dr_grpo(ready, successes, failures, rates))


def dr_grpo(
    ready: Bool[Array, " P"],
    successes: Int[Array, " P"],
    failures: Int[Array, " P"],
    rates: Float[Array, " P"],
) -> Float[Array, " P"]:
    """A = r - rbar: rbar (1 - rbar)."""
    mean = _mean(successes, failures)
    return jnp.where(ready, mean * (1 - mean), 0.0)


def rloo(
    ready: Bool[Array, " P"],
    successes: Int[Array, " P"],
    failures: Int[Array, " P"],
    rates: Float[Array, " P"],
) -> Float[Array, " P"]:
    """A = r - mean of the others: n / (n - 1) rbar (1 - rbar)."""
    size = (successes + failures).astype(jnp.float32)
    return dr_grpo(ready, successes, failures, rates) * size / jnp.maximum(size - 1, 1.0)


def reinforce_plus_plus(
    ready: Bool[Array, " P"],
    successes: Int[Array, " P"],
    failures: Int[Array, " P"],
    rates: Float[Array, " P"],
) -> Float[Array, " P"]:
    """A = (r - mean of the batch) / std of the batch: (rbar (1 - p - mean) + p mean) / std. Groups without contrast move the policy too."""
    right = jnp.sum(jnp.where(ready, successes, 0)).astype(jnp.float32)
    total = jnp.sum(jnp.where(ready, successes + failures, 0)).astype(jnp.float32)
    mean = right / jnp.maximum(total, 1.0)
    variance = mean * (1 - mean)
    own = _mean(successes, failures)
    push = (own * (1 - rates - mean) + rates * mean) / jnp.sqrt(jnp.maximum(variance, 1e-12))
    # A batch of equal rewards has no advantages.
    return jnp.where(ready & (variance > 0), push, 0.0)


def critic(
    ready: Bool[Array, " P"],
    successes: Int[Array, " P"],
    failures: Int[Array, " P"],
    rates: Float[Array, " P"],
) -> Float[Array, " P"]:
    """A = r - p, the baseline of PPO with a critic that is right: mean (r - p)^2. Groups without contrast move the policy too."""
    own = _mean(successes, failures)
    return jnp.where(ready, own * (1 - 2 * rates) + rates**2, 0.0)


def _mean(successes: Int[Array, " P"], failures: Int[Array, " P"]) -> Float[Array, " P"]:
    size = (successes + failures).astype(jnp.float32)
    return successes.astype(jnp.float32) / jnp.maximum(size, 1.0)


PUSHES: dict[str, Push] = {
    "grpo": grpo,
    "dr-grpo": dr_grpo,
    "rloo": rloo,
    "reinforce-plus-plus": reinforce_plus_plus,
    "ppo": critic,
}
"""In the order of their numbers in a world."""
