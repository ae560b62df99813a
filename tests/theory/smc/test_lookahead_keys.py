"""The noise that looks ahead, and that of a filter, has an address of its own at every step."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.theory.smc import all_outcomes as tree
from tests.theory.smc.runs import MODEL, begin
from theory.generation import Generation
from theory.ledger import Ledger
from theory.smc import every, lookahead
from theory.smc.lookahead import lookahead_power_sampling
from theory.smc.step import run_steps
from theory.smc.zeta import child_keys


def test_no_rollouts_serve_two_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    keys: list[bytes] = []

    def law(seen: jax.Array, *rest: object) -> tuple[jax.Array, jax.Array, object]:
        keys.extend(row.tobytes() for row in np.asarray(jax.random.key_data(seen)))
        return jnp.log(jnp.full((3, 2), 0.5)), jnp.ones(3), rest[2].ledger  # pyright: ignore[reportAttributeAccessIssue]

    monkeypatch.setattr(lookahead, "next_token_law", law)
    prompts, lengths = jnp.zeros((3, 0), jnp.int32), jnp.zeros(3, jnp.int32)
    with jax.disable_jit():
        lookahead_power_sampling(
            jax.random.key(0), tree.MODEL, 2.0, prompts, lengths, jnp.arange(3), 2, 2, 2
        )
    assert len(set(keys)) == len(keys) == 3 * 2


def test_no_noise_of_a_filter_serves_two_stages() -> None:
    """That of the scores belongs to particles, that of the resampling to populations."""
    seen: list[bytes] = []

    def note(keys: jax.Array) -> None:
        seen.extend(row.tobytes() for row in np.asarray(jax.random.key_data(keys)))

    def log_score(keys: jax.Array, now: Generation, stage: jax.Array) -> tuple[jax.Array, Ledger]:
        note(keys)
        return jnp.zeros(6), now.ledger

    def resampler(key: jax.Array, log_weights: jax.Array) -> tuple[jax.Array, jax.Array]:
        note(key)
        return jnp.tile(jnp.arange(3, dtype=jnp.int32), (2, 1)), log_weights

    with jax.disable_jit():
        run_steps(
            jax.random.key(0),
            MODEL,
            2.0,
            begin(MODEL, 2, 3),
            resampler,
            every(4),
            lambda keys, now, limits, stage: now,
            log_score,
        )
    assert len(set(seen)) == len(seen) == 3 * (6 + 2)


def test_a_candidate_has_its_noise_by_its_token() -> None:
    """In whatever order the candidates of a row are listed; and rows have noise of their own."""
    keys = jax.random.split(jax.random.key(0), 2)
    there, back = (
        np.asarray(jax.random.key_data(child_keys(keys, jnp.asarray([order, order], jnp.int32))))
        for order in ([4, 0, 7], [7, 0, 4])
    )
    np.testing.assert_array_equal(there.reshape(2, 3, -1)[:, ::-1], back.reshape(2, 3, -1))
    assert len(np.unique(there, axis=0)) == 6
