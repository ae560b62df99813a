"""What a row is scored by when it looks ahead is its future, and nothing else."""

import jax
import jax.numpy as jnp
import numpy as np

from tests.theory.smc import all_outcomes as tree
from theory.generation import generate, start
from theory.keys import row_keys
from theory.ledger import totals
from theory.smc.lookahead import lookahead_score


def test_a_score_is_of_the_future_alone() -> None:
    """After one token: p(second | first)^(alpha - 1), without the first; and nothing is drawn beyond the horizon."""
    empty = jnp.zeros((64, 0), jnp.int32), jnp.zeros(64, jnp.int32)
    keys = row_keys(jax.random.key(14), jnp.arange(64))
    ones = jnp.ones(64, jnp.int32)
    rows = generate(keys, tree.MODEL, (), tree.ALPHA, start(tree.MODEL, *empty), ones)
    score = lookahead_score(tree.MODEL, tree.ALPHA, 1, 5)
    ahead = row_keys(jax.random.key(15), jnp.arange(64))
    log_score, ledger = score(ahead, rows, jnp.zeros((), jnp.int32))
    first = np.asarray(rows.trajectories.tokens[:, 0])
    terms = (tree.ALPHA - 1) * np.log(tree.SECOND[first])
    second = np.isclose(terms, np.asarray(log_score)[:, None], rtol=1e-5)
    assert (second.sum(axis=1) == 1).all()
    assert len({*zip(first.tolist(), second.argmax(axis=1).tolist(), strict=True)}) == 4
    assert totals(ledger)["generated_tokens"] == 2 * 64
