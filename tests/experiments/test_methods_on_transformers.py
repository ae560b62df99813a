"""Every method draws from a transformer what it draws from the transformer's table, token for token.

On tables the methods are held against exact laws; the same numbers from the same noise carry that over.
"""

import functools

import jax
import numpy as np
import pytest

from experiments.samplers.batches import draw_batches
from experiments.samplers.catalogue import METHODS, make_settings
from experiments.samplers.rows import Rows
from models.tabular.context_model import ContextModel
from tests.models.transformer.tables import small, tabulate

PROMPT = (3, 1, 1)
NUM = 12

OPTIONS: dict[str, dict[str, object]] = {
    "ancestral": {},
    "temperature": {"temperature": 0.7, "top_k": 3},
    "importance": {"alpha": 2.0, "proposal_alpha": 1.5},
    "rejection": {"alpha": 2.0, "log_bound": 0.0},
    "independence-mh": {"steps": 3},
    "suffix-mh": {"steps": 4, "cut": "entropy"},
    "multiple-try-mh": {"steps": 2, "tries": 2},
    "blockwise-mh": {"steps": 2, "block": 2},
    "smc": {"particles": 3, "resample": "every", "bridge": "linear"},
    "adapted-smc": {"particles": 3},
    "lookahead-smc": {"particles": 2, "rollouts": 2},
    "particle-gibbs": {"steps": 2, "particles": 3},
    "parallel-tempering": {"steps": 2},
}
FAST = ("importance", "smc")
# They read a table, or a file of all sequences.
TABLE_ONLY = {"power-exact", "twisted-smc", "tilted-mh"}


@functools.cache
def models() -> tuple[object, ContextModel]:
    transformer = small()
    return transformer, ContextModel.from_table(tabulate(transformer, PROMPT))


def draw(name: str, model: object, prompt: tuple[int, ...]) -> Rows:
    settings = make_settings(name, OPTIONS[name])
    key = jax.random.key(5)
    method = METHODS[name]
    (rows,) = draw_batches(key, model, [prompt], NUM, NUM, method.sampler, settings)  # pyright: ignore
    return rows


@pytest.mark.parametrize(
    "name",
    [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in OPTIONS],
)
def test_a_transformer_and_its_table_give_the_same_rows(name: str) -> None:
    transformer, table = models()
    ours, exact = draw(name, transformer, PROMPT), draw(name, table, ())
    np.testing.assert_array_equal(ours.tokens, exact.tokens)
    np.testing.assert_array_equal(ours.lengths, exact.lengths)
    assert len({tuple(row) for row in ours.tokens.tolist()}) > 1
    for field in (
        "base_logp",
        "behavior_logp",
        "proposal_logp",
        "log_z_sum",
        "log_weight",
        "log_Z_hat",
    ):
        a, b = getattr(ours, field), getattr(exact, field)
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_allclose(a, b, atol=1e-4)


def test_every_method_is_here() -> None:
    assert OPTIONS.keys() | TABLE_ONLY == METHODS.keys()
