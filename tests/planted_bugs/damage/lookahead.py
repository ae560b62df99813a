"""Look-ahead estimates: sums over all sets of rollouts of a tree of two tokens, and rollouts that can be told apart."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from models.tabular.constructors import markov_table
from models.tabular.context_model import ContextModel
from tests.planted_bugs.defect import relative_error, total_variation
from tests.theory.smc import all_outcomes as tree
from theory.generation import start
from theory.keys import Role, role_key, row_keys

NUM_ROWS = 8
# Two rollouts of it agree with a probability of 2^-30; no two rows have futures of equal probability.
LONG = markov_table((0.5, 0.5), ((0.7, 0.3), (0.4, 0.6)), eos=(), horizon=30)


def of_zeta(log_zeta: Any) -> float:
    """Relative bias for zeta after the worse of two first tokens, over all sets of three rollouts."""
    log_p, probability = tree.rollout_tuples(3)
    with jax.enable_x64(True):
        found = probability @ np.exp(np.asarray(log_zeta(jnp.asarray(log_p), tree.ALPHA)))
    return max(map(relative_error, found, tree.ZETA))


def of_jackknife(rule: Any) -> float:
    """Total variation to M p - (M - 1) mean_s p_-s, written out, for two candidates with three rollouts each."""
    log_power = np.log([0.3, 0.7])
    terms = np.log([[1.0, 2.0, 4.0], [5.0, 1.0, 1.0]])

    def plug_in(kept: np.ndarray) -> np.ndarray:
        weights = np.exp(log_power) * np.exp(kept).mean(axis=1)
        return weights / weights.sum()

    without = [plug_in(np.delete(terms, s, axis=1)) for s in range(3)]
    expected = 3 * plug_in(terms) - 2 * np.mean(without, axis=0)
    with jax.enable_x64(True):
        found = np.asarray(rule(jnp.asarray(log_power), jnp.asarray(terms)))
    return total_variation(found, expected)


def of_carried(carry: Any) -> float:
    """Relative bias of the weight of the offspring of a particle; two of weight 1, drawn twice by their scores."""
    score = tree.ZETA
    ancestors = np.array([[0, 1]])
    log_mean = np.log(score.mean(keepdims=True))
    carried = np.exp(
        np.asarray(
            carry(
                jnp.asarray(log_mean, jnp.float32),
                jnp.asarray(np.log(score)[None], jnp.float32),
                jnp.asarray(ancestors),
            ),
            np.float64,
        )
    )[0]
    expected_offspring = 2 * score / score.sum()
    return max(abs(float(weight) - 1.0) for weight in expected_offspring * carried)


def score_taken_out(log_mean: Any, log_score: Any, ancestors: Any) -> Any:
    """What the resampler saw in them is taken out of what children carry."""
    return log_mean[:, None] - jnp.take_along_axis(log_score, ancestors, axis=1)


def futures(roll_out: Any) -> np.ndarray:
    """Log probabilities [8, 2] of two rollouts of eight particles at the empty prefix."""
    model = ContextModel.from_table(LONG)
    begun = start(model, jnp.zeros((NUM_ROWS, 0), jnp.int32), jnp.zeros(NUM_ROWS, jnp.int32))
    keys = row_keys(role_key(jax.random.key(0), Role.LOOKAHEAD), jnp.arange(NUM_ROWS))
    return np.asarray(roll_out(keys, model, begun, 2, LONG.horizon).log_p, np.float64)


def futures_that_repeat(roll_out: Any) -> float:
    """Share of particles whose futures are another particle's."""
    return 1.0 - len(np.unique(futures(roll_out), axis=0)) / NUM_ROWS


def futures_cut_short(roll_out: Any) -> float:
    """Share of rollouts that are likelier than any of 30 tokens can be."""
    return float((futures(roll_out) > np.log(0.5) + 29 * np.log(0.7) + 1e-4).mean())
