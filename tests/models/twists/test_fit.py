"""What the loop that fits twists does with its schedule and its rows, seen through losses that tell."""

import jax
import jax.numpy as jnp
import numpy as np

from models.tabular.context_model import ContextModel
from models.tabular.toys import toy_e
from models.twists.fit import Schedule, fit_twist
from theory.smc import ChildTwist, Prefixes
from theory.smc.twist_losses import TwistRows

MODEL = ContextModel.from_table(toy_e())
NUM_ROWS = 3
ROWS = TwistRows(
    jnp.zeros((NUM_ROWS, 2), jnp.int32),
    jnp.array([1, 2, 2], jnp.int32),
    jnp.zeros((NUM_ROWS, 2, MODEL.vocab_size)),
    jnp.array([[1.0, 0.0], [10.0, 0.0], [100.0, 0.0]]),  # which row it is
)


def one_number(value: jax.Array) -> ChildTwist:
    """The same log psi everywhere."""

    def twist(prefixes: Prefixes) -> jax.Array:
        return jnp.broadcast_to(value, prefixes.log_probs.shape)

    return twist


def names_rows(values: jax.Array, rows: TwistRows) -> jax.Array:
    """A constant slope in the number, and the rows of the batch in the loss."""
    return rows.log_gains.sum() + values.sum() - jax.lax.stop_gradient(values.sum())


def test_steps_are_those_of_the_cosine_and_every_row_is_drawn() -> None:
    schedule = Schedule(num_steps=60, batch_size=2, learning_rate=0.1)
    after, losses = fit_twist(
        jax.random.key(0), jnp.zeros(()), one_number, names_rows, MODEL, ROWS, schedule
    )
    # Slopes of one size move Adam by its rate, which falls as half a cosine.
    rates = 0.1 * (1 + np.cos(np.pi * np.arange(60) / 60)) / 2
    np.testing.assert_allclose(after, -rates.sum(), rtol=1e-4)
    # Two of three rows a step, with replacement: every pair turns up, and steps differ.
    pairs = {round(float(loss)) for loss in losses}
    assert pairs == {2, 20, 200, 11, 101, 110}
