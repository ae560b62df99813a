"""The noise that looks ahead has an address of its own at every step."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.theory.smc import all_outcomes as tree
from theory.smc import lookahead
from theory.smc.lookahead import lookahead_power_sampling


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
