"""Two small races draw from the law of one large race."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from tests.planted_bugs import decoding as planted
from tests.stat_asserts import assert_counts, assert_rejected
from theory.decoding import no_counts, sample_tokens
from theory.decoding.block_race import BLOCK, draw_by_blocks, race_by_blocks
from theory.decoding.pipeline import TokenLaw, token_law
from theory.decoding.sample import MOST_IN_ONE_RACE
from theory.keys import Role, role_key, row_keys

VOCAB_SIZE = 2 * BLOCK + 5
# Heavy tokens at the seams of blocks, and at places that answer to the numbers of blocks.
HEAVY = {0: 0.2, 1: 0.05, BLOCK: 0.1, BLOCK + 1: 0.25, 2 * BLOCK - 1: 0.05, VOCAB_SIZE - 1: 0.15}

Draw = Callable[[jax.Array, TokenLaw], jax.Array]


def pmf() -> np.ndarray:
    law = np.full(VOCAB_SIZE, (1 - sum(HEAVY.values())) / (VOCAB_SIZE - len(HEAVY) - 1))
    law[list(HEAVY)] = list(HEAVY.values())
    law[7] = 0.0
    return law


def laws(num: int) -> TokenLaw:
    log_probs = jnp.tile(jnp.log(jnp.asarray(pmf(), jnp.float32))[None], (num, 1))
    return token_law((), log_probs, no_counts(log_probs))


def check_counts(draw: Draw) -> None:
    num = 20_000
    keys = row_keys(role_key(jax.random.key(5), Role.TOKEN), jnp.arange(num))
    tokens = np.asarray(jax.jit(draw)(keys, laws(num)))
    counts = np.bincount(tokens, minlength=VOCAB_SIZE)
    light = np.setdiff1d(np.arange(VOCAB_SIZE), [*HEAVY])
    assert counts[7] == 0
    assert_counts(
        np.append(counts[list(HEAVY)], counts[light].sum()),
        np.append(pmf()[list(HEAVY)], pmf()[light].sum()),
    )


def test_draws_follow_the_law() -> None:
    check_counts(draw_by_blocks)


def test_one_noise_for_both_races_is_rejected() -> None:
    assert_rejected(lambda: check_counts(planted.one_noise_for_both_races))


def test_factors_multiply_to_the_law() -> None:
    """Exactly: without noise in one race, the other chooses by the factor that the docstring names."""
    law = laws(1)
    ends = np.minimum(np.arange(1, 4) * BLOCK, VOCAB_SIZE)
    mass = np.add.reduceat(pmf(), ends - np.append(BLOCK, np.diff(ends)))
    still = jnp.zeros((1, BLOCK))
    for block in range(3):
        for other in range(3):
            # The race is even where the noise makes up for the masses, and goes to whoever has a little more.
            gap = np.log(mass[block]) - np.log(mass[other])
            for extra in (0.01, -0.01):
                noise = np.full((1, 3), -50.0, np.float32)
                noise[0, block], noise[0, other] = 0.0, gap + extra
                if block == other:
                    continue
                token = int(race_by_blocks(law, jnp.asarray(noise), still)[0])
                assert token // BLOCK == (other if extra > 0 else block)


def test_large_vocabularies_race_in_blocks_and_small_ones_do_not() -> None:
    keys = row_keys(role_key(jax.random.key(9), Role.TOKEN), jnp.arange(8))
    for size, blocks in ((MOST_IN_ONE_RACE, False), (MOST_IN_ONE_RACE + 1, True)):
        logits = jax.random.normal(jax.random.key(size), (8, size))
        log_probs = jax.nn.log_softmax(logits)
        drawn = sample_tokens(keys, (), log_probs, no_counts(log_probs))
        by_blocks = draw_by_blocks(keys, token_law((), log_probs, no_counts(log_probs)))
        assert (np.asarray(drawn.tokens) == np.asarray(by_blocks)).all() == blocks
        np.testing.assert_array_equal(
            drawn.log_p, np.asarray(log_probs)[np.arange(8), np.asarray(drawn.tokens)]
        )


def test_failed_rows_draw_token_0() -> None:
    log_probs = jnp.full((2, VOCAB_SIZE), -jnp.inf).at[1].set(laws(1).log_probs[0])
    law = token_law((), log_probs, no_counts(log_probs))
    keys = row_keys(role_key(jax.random.key(2), Role.TOKEN), jnp.arange(2))
    assert law.failed.tolist() == [True, False]
    assert draw_by_blocks(keys, law)[0] == 0
