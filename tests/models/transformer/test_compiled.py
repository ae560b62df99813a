"""A loop in Python over the compiled entry points is the model's own walk, in as many programs as there are shapes."""

import jax
import jax.numpy as jnp
import numpy as np

from models.transformer.compiled import decode_step, prefill
from tests.models.transformer.tables import small


def test_a_loop_in_python_gives_the_laws_of_the_model() -> None:
    model = small()
    prompts, lengths = jnp.array([[3, 1], [1, 0]]), jnp.array([2, 1])
    tokens = np.array([[1, 3], [3, 0], [0, 1]], np.int32)
    state, law = prefill(model, prompts, lengths)
    kept, _ = model.init(prompts, lengths)
    np.testing.assert_allclose(law, model.init(prompts, lengths)[1], atol=1e-6)
    before = decode_step._cache_size()  # pyright: ignore
    for row in tokens:
        active = jnp.array([True, row[1] > 0])
        old = state
        state, law = decode_step(model, old, jnp.asarray(row), active)
        assert old.cache.layers[0].is_deleted()
        kept, expected = model.step(kept, jnp.asarray(row), active)
        np.testing.assert_allclose(law, expected, atol=1e-6)
    assert decode_step._cache_size() == before + 1  # pyright: ignore
    assert jax.tree.map(np.shape, state) == jax.tree.map(np.shape, kept)
