"""Exact Var(Z_hat / Z) on toy models, with twists of one number a context."""

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa

from experiments import tables
from experiments.model_argument import LoadedModel
from experiments.twist_fits import NO_PROMPT, losses, rows_to_learn_from
from experiments.twist_summary import NO_TWIST, PLAIN
from models.tabular.context_model import ContextModel
from models.twists.fit import Schedule, fit_twist
from theory.exact.laws import power_law, temperature_law
from theory.exact.layers import unroll
from theory.exact.smc_finite_variance import (
    adapted_relative_variance,
    every_step_relative_variance,
    twisted_relative_variance,
)
from theory.exact.twisted_law import induced_law
from theory.smc import ChildTwist, ExactTwist, asking_each_child, exact_twist

EXACT = tables.schema(model=str, twist=str, num_particles=int, relative_variance=float)


def exact_table(
    toy: LoadedModel,
    alpha: float,
    num_particles: int,
    num_rows: int,
    schedule: Schedule,
    seed: int,
) -> pa.Table:
    """Exact Var(Z_hat / Z) at N particles: without a twist, and with one number a context that each loss has learned.

    Args:
        toy: a tabular model.
        alpha: target exponent.
        num_particles: N.
        num_rows: to learn from, drawn at token temperature 1/alpha.
        schedule: how long and how fast.
        seed: of all random numbers.

    Returns:
        A row a twist.
    """
    layers, model = unroll(toy.table), ContextModel.from_table(toy.table)
    power = power_law(layers, alpha)
    temperature = temperature_law(layers, alpha)
    found = {
        PLAIN: every_step_relative_variance(power, temperature, num_particles),
        NO_TWIST: adapted_relative_variance(layers, alpha, num_particles),
    }
    twist, key = exact_twist(power), jax.random.key(seed)
    for name, values in _learned(key, model, twist, alpha, num_rows, schedule).items():
        rows = [values[t, : layer.contexts.size] for t, layer in enumerate(layers)]
        induced = induced_law(layers, alpha, rows.__getitem__)
        found[name] = twisted_relative_variance(
            power, induced.law, induced.log_backup, num_particles
        )
    return tables.from_rows(
        EXACT,
        (
            {
                "model": toy.name,
                "twist": name,
                "num_particles": num_particles,
                "relative_variance": float(variance),
            }
            for name, variance in found.items()
        ),
    )


def _learned(
    key: jax.Array,
    model: ContextModel,
    twist: ExactTwist,
    alpha: float,
    num_rows: int,
    schedule: Schedule,
) -> dict[str, np.ndarray]:
    """[D, C] log psi of each layer row, learned by each loss from psi = 1."""
    rows = rows_to_learn_from(key, model, NO_PROMPT, num_rows, alpha)

    def as_twist(log_lookahead: jax.Array) -> ChildTwist:
        return asking_each_child(twist._replace(log_lookahead=log_lookahead), model)

    start = jnp.zeros_like(twist.log_lookahead)
    fitted = {
        name: fit_twist(key, start, as_twist, loss, model, rows, schedule)[0]
        for name, loss in losses(alpha).items()
    }
    return {name: np.asarray(values, np.float64) for name, values in fitted.items()}
