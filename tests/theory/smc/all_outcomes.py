"""A tree of two tokens, and all that a look-ahead filter with two particles can do on it, one population for each outcome."""

import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from models.tabular.constructors import tree_table
from models.tabular.context_model import ContextModel
from theory.generation import Generation
from theory.smc.zeta import with_candidates

ALPHA = 3.0
FIRST = np.array([0.4, 0.6])
SECOND = np.array([[0.9, 0.1], [0.55, 0.45]])
TABLE = tree_table(
    {(): tuple(FIRST), (0,): tuple(SECOND[0]), (1,): tuple(SECOND[1])},
    vocab_size=2,
    eos=(),
    max_length=2,
)
MODEL = ContextModel.from_table(TABLE)
ZETA = (SECOND**ALPHA).sum(axis=1)
LOG_Z = float(np.log(FIRST**ALPHA @ ZETA))


class Outcomes(NamedTuple):
    """M populations of two particles: first tokens, two rollouts of one token each, ancestors, second tokens.

    Attributes:
        first: [M, 2].
        rollouts: [M, 2, 2] of particle, rollout.
        ancestors: [M, 2].
        second: [M, 2].
    """

    first: np.ndarray
    rollouts: np.ndarray
    ancestors: np.ndarray
    second: np.ndarray

    def probability(self, log_score: np.ndarray) -> np.ndarray:
        """[M] of each outcome, if tokens are drawn from the model and ancestors by p^(alpha - 1) times the score [M, 2]."""
        p = FIRST[self.first].prod(axis=1)
        p *= SECOND[self.first[:, :, None], self.rollouts].prod(axis=(1, 2))
        seen = FIRST[self.first] ** (ALPHA - 1) * np.exp(log_score)
        shares = seen / seen.sum(axis=1, keepdims=True)
        p *= np.take_along_axis(shares, self.ancestors, axis=1).prod(axis=1)
        return p * SECOND[self.parents, self.second].prod(axis=1)

    @property
    def parents(self) -> np.ndarray:
        """[M, 2] first tokens after resampling."""
        return np.take_along_axis(self.first, self.ancestors, axis=1)

    @property
    def log_p_of_rollouts(self) -> np.ndarray:
        """[M, 2, 2]."""
        return np.log(SECOND[self.first[:, :, None], self.rollouts])


def outcomes() -> Outcomes:
    """All of them."""
    bits = np.array([*itertools.product((0, 1), repeat=10)])
    return Outcomes(bits[:, :2], bits[:, 2:6].reshape(-1, 2, 2), bits[:, 6:8], bits[:, 8:])


def teach(generation: Generation, tokens: jax.Array) -> Generation:
    """Rows with a given next token, as if the model's own law had drawn it."""
    log_p = jnp.take_along_axis(generation.log_probs, tokens[:, None], axis=1)[:, 0]
    after = with_candidates(MODEL, generation, tokens[:, None])
    rows = after.trajectories
    new = jnp.arange(2)[None, :] == generation.trajectories.lengths[:, None]
    log_p = jnp.where(new, log_p[:, None], rows.log_p)
    return after._replace(trajectories=rows._replace(log_p=log_p, log_q=log_p))


def rollout_tuples(num_rollouts: int) -> tuple[np.ndarray, np.ndarray]:
    """Sets of rollouts after both first tokens, in no order: log p [n, 2, M], and the probability [n] of each set."""
    cells = list(itertools.product((0, 1), repeat=2))
    cell_p = np.array([SECOND[0, u] * SECOND[1, v] for u, v in cells])
    log_p: list[np.ndarray] = []
    probability: list[float] = []
    for chosen in itertools.combinations_with_replacement(range(4), num_rollouts):
        counts = np.bincount(chosen, minlength=4)
        orders = np.exp(_log_factorial(num_rollouts) - sum(map(_log_factorial, counts)))
        probability.append(float(orders * np.prod(cell_p**counts)))
        pairs = np.array([cells[c] for c in chosen])
        log_p.append(np.log(np.stack([SECOND[0, pairs[:, 0]], SECOND[1, pairs[:, 1]]])))
    return np.array(log_p), np.array(probability)


def _log_factorial(n: int) -> float:
    return float(np.log(np.arange(1, n + 1)).sum())
