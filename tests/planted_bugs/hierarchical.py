"""Wrong twins of the likelihood of the hierarchical model."""

from typing import Any

import jax.numpy as jnp
from jax.scipy.special import betaln


def ignores_the_atoms(log_weights: Any, a: Any, b: Any, n: Any, c: Any, num_tasks: Any) -> Any:
    """A plain Beta-Binomial: tasks that are never or always solved are forced into the Beta law."""
    del log_weights
    return jnp.sum(num_tasks * (betaln(a + c, b + n - c) - betaln(a, b)))


def atoms_take_all_ties(log_weights: Any, a: Any, b: Any, n: Any, c: Any, num_tasks: Any) -> Any:
    """Whoever failed n times is taken to be never solved, whoever succeeded n times always."""
    beta = log_weights[2] + betaln(a + c, b + n - c) - betaln(a, b)
    one = jnp.where(c == n, log_weights[1], beta)
    return jnp.sum(num_tasks * jnp.where(c == 0, log_weights[0], one))
