"""Draws follow the law of the whole pipeline, whatever the batch, and what is recorded of them is true."""

import math
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.planted_bugs import decoding as planted
from tests.stat_asserts import assert_counts, assert_rejected
from tests.theory.decoding import reference
from tests.theory.decoding.laws import NUM_ROWS, VOCAB_SIZE, as_logits, random_pmfs
from theory.decoding import (
    TokenDraw,
    TokenRule,
    blocked,
    default_rules,
    log_normaliser,
    no_counts,
    repetition,
    sample_tokens,
    temperature,
    token_counts,
    token_law,
    top_k,
    top_p,
)
from theory.decoding.noise import exponential_from_bits, gumbels, random_words
from theory.decoding.sample import draw_from_noise
from theory.keys import Role, role_key, row_keys

Sample = Callable[
    [jax.Array, tuple[TokenRule, ...], jax.Array, jax.Array],
    TokenDraw,
]

RULES = default_rules(temperature(1.4), top_k(5), top_p(0.85))
REFERENCE = reference.in_sequence(
    reference.temperature(1.4),
    reference.side_by_side(reference.top_k(5), reference.top_p(0.85)),
)
PMF = np.array([0.04, 0.3, 0.0, 0.21, 0.11, 0.02, 0.25, 0.07])


def keys_of(rows: jax.Array) -> jax.Array:
    return row_keys(role_key(jax.random.key(11), Role.TOKEN), rows)


def draws(sample: Sample, num: int = 20_000) -> TokenDraw:
    logits = jnp.tile(as_logits(PMF)[None], (num, 1))
    return jax.jit(sample)(keys_of(jnp.arange(num)), RULES, logits, no_counts(logits))


def check_draws(sample: Sample) -> None:
    """Tokens come from the law of the whole pipeline."""
    tokens = np.asarray(draws(sample).tokens)
    assert_counts(np.bincount(tokens, minlength=VOCAB_SIZE), REFERENCE(PMF))


def check_record(sample: Sample) -> None:
    """log q is that of the law that drew, log p that of the model."""
    draw = draws(sample)
    tokens = np.asarray(draw.tokens)
    np.testing.assert_allclose(np.exp(np.asarray(draw.log_q)), REFERENCE(PMF)[tokens], rtol=3e-6)
    np.testing.assert_allclose(np.exp(np.asarray(draw.log_p)), PMF[tokens], rtol=3e-6)


def check_batch_invariance(sample: Sample) -> None:
    """A row's draw is the same bit for bit alone and in any place of a batch."""
    logits = as_logits(random_pmfs(seed=21))
    counts = no_counts(logits)
    heat = jnp.asarray(np.tile([0.0, 1.4], NUM_ROWS // 2))
    compiled = jax.jit(sample)

    def part(rows: np.ndarray) -> TokenDraw:
        return compiled(
            keys_of(jnp.asarray(rows)), (temperature(heat[rows]),), logits[rows], counts[rows]
        )

    everything = part(np.arange(NUM_ROWS))
    for rows in (np.arange(7, 8), np.arange(NUM_ROWS)[::-1]):
        for ours, whole in zip(part(rows), everything, strict=True):
            np.testing.assert_array_equal(np.asarray(ours), np.asarray(whole)[rows])


def test_draws_follow_the_law() -> None:
    check_draws(sample_tokens)


def test_draws_from_the_untruncated_law_are_rejected() -> None:
    assert_rejected(partial(check_draws, planted.draws_from_the_law_before_the_rules))


def test_what_is_recorded() -> None:
    check_record(sample_tokens)


def test_the_log_prob_of_the_untruncated_law_is_caught() -> None:
    with pytest.raises(AssertionError):
        check_record(planted.reports_the_law_before_the_rules)


def test_draws_do_not_depend_on_the_batch() -> None:
    check_batch_invariance(sample_tokens)


def test_a_key_of_the_whole_batch_is_caught() -> None:
    with pytest.raises(AssertionError):
        check_batch_invariance(planted.one_key_for_the_batch)


def test_scoring_what_was_sampled_gives_a_ratio_of_exactly_1() -> None:
    """On policy at T = .6: the same rules, not temperature 1, which would give another number."""
    logits = as_logits(random_pmfs(seed=22))
    rules = (temperature(0.6),)
    draw = sample_tokens(keys_of(jnp.arange(NUM_ROWS)), rules, logits, no_counts(logits))
    rows = jnp.arange(NUM_ROWS)
    scored = token_law(rules, logits, no_counts(logits)).log_probs[rows, draw.tokens]
    np.testing.assert_array_equal(np.exp(np.asarray(scored - draw.log_q)), 1.0)
    assert np.abs(np.asarray(draw.log_p - draw.log_q)).max() > 0.1
    log_z = log_normaliser(logits, 1 / 0.6)
    expected = draw.log_p / 0.6 - log_z
    np.testing.assert_allclose(np.asarray(draw.log_q), np.asarray(expected), rtol=1e-5, atol=2e-6)


def test_a_failed_row_says_so() -> None:
    logits = jnp.tile(as_logits(PMF)[None], (NUM_ROWS, 1))
    logits = logits.at[3].set(-jnp.inf).at[5].set(jnp.nan)
    keys = keys_of(jnp.arange(NUM_ROWS))
    draw = sample_tokens(keys, (top_p(0.9),), logits, no_counts(logits))
    failed = np.isin(np.arange(NUM_ROWS), [3, 5])
    np.testing.assert_array_equal(np.asarray(draw.failed), failed)
    assert (np.asarray(draw.tokens)[failed] == 0).all()
    for recorded in (draw.log_q, draw.log_p):
        np.testing.assert_array_equal(np.isneginf(np.asarray(recorded)), failed)
        assert not np.isnan(np.asarray(recorded)).any()
    np.testing.assert_array_equal(np.isneginf(np.asarray(log_normaliser(logits, 2.0))), failed)
    masked = (blocked(tuple(range(VOCAB_SIZE)), VOCAB_SIZE),)
    assert np.asarray(sample_tokens(keys, masked, logits, no_counts(logits)).failed).all()


def test_penalties_do_not_see_how_a_row_was_padded() -> None:
    """Two rows of different lengths in one batch, and each alone."""
    tokens, lengths = jnp.array([[3, 1, 3, 6], [1, 0, 0, 0]]), [4, 1]
    together = token_counts(tokens, jnp.array(lengths), VOCAB_SIZE)
    logits = jnp.tile(as_logits(PMF)[None], (NUM_ROWS, 1))
    for row, length in enumerate(lengths):
        alone = token_counts(tokens[row : row + 1, :length], jnp.array([length]), VOCAB_SIZE)
        batched, single = (
            token_law((repetition(1.5),), logits, jnp.tile(counts, (NUM_ROWS, 1))).log_probs
            for counts in (together[row : row + 1], alone)
        )
        np.testing.assert_array_equal(np.asarray(batched), np.asarray(single))


BITS = [0, 1, 7, 2**12, 2**24 + 1, 2**31 - 1, 2**31, 2**32 - 2**10, 2**32 - 2, 2**32 - 1]


def check_exponential(exponential: Callable[[jax.Array, jax.Array], jax.Array]) -> None:
    """-log(1 - v) to float32 precision at both ends of the 64-bit grid of v."""
    high, low = (grid.ravel() for grid in np.meshgrid(BITS, BITS, indexing="ij"))
    expected: list[float] = []
    for upper, lower in zip(high.tolist(), low.tolist(), strict=True):
        place = 2 * (2**32 * upper + lower) + 1  # of 2^65
        near_zero = place < 2**64
        expected.append(
            -math.log1p(-place / 2**65) if near_zero else -math.log((2**65 - place) / 2**65)
        )
    actual = exponential(jnp.asarray(high, jnp.uint32), jnp.asarray(low, jnp.uint32))
    np.testing.assert_allclose(np.asarray(actual), expected, rtol=5e-7)


def test_the_noise_is_exponential_in_both_tails() -> None:
    check_exponential(exponential_from_bits)
    with pytest.raises(AssertionError):
        check_exponential(planted.exponential_from_23_bits)


def check_rare_token(exponential: Callable[[jax.Array, jax.Array], jax.Array]) -> None:
    """A token of probability 2^-40 wins exactly when its noise is that rare.

    Against noise log 2 of the common token it wins iff E < 2^-40 log 2, that is v < 2^-40 log 2: on the 64-bit grid, low below
    2^24 log 2 with high 0.
    """
    edge = int(2**24 * math.log(2))
    low = np.array([0, edge // 2, edge - 100, edge + 100, 2 * edge], np.uint32)
    rare = exponential(jnp.zeros(low.size, jnp.uint32), jnp.asarray(low))
    noise = np.zeros((NUM_ROWS, VOCAB_SIZE), np.float32)
    noise[:, 0] = -math.log(math.log(2))
    noise[: low.size, 1] = -np.log(np.asarray(rare))
    logits = jnp.tile(as_logits(np.array([1.0, 2.0**-40, 0, 0, 0, 0, 0, 0]))[None], (NUM_ROWS, 1))
    law = token_law((), logits, no_counts(logits))
    tokens = draw_from_noise(law, jnp.asarray(noise))[: low.size]
    assert np.asarray(tokens).tolist() == [1, 1, 1, 0, 0]


def test_rare_tokens_are_drawn_as_often_as_they_should() -> None:
    """Down to probabilities of 1e-12; 23 random bits end at 1e-7 and never draw them."""
    check_rare_token(exponential_from_bits)
    with pytest.raises(AssertionError):
        check_rare_token(planted.exponential_from_23_bits)


def test_noise_is_a_matter_of_its_row_alone() -> None:
    keys = keys_of(jnp.arange(4))
    noise = np.asarray(gumbels(keys, 8))
    np.testing.assert_array_equal(np.asarray(gumbels(keys[2:3], 5)), noise[2:3, :5])
    assert np.unique(noise).size == noise.size


def test_the_two_halves_of_the_bits_are_independent() -> None:
    """What the noise cannot show: with equal halves it would still be right to 32 bits."""
    high, low = random_words(keys_of(jnp.arange(4)), 64)
    agreeing = 32 - np.bitwise_count(np.asarray(high) ^ np.asarray(low))
    counts = np.array([agreeing.sum(), 32 * agreeing.size - agreeing.sum()])
    assert_counts(counts, np.array([0.5, 0.5]))
    assert_rejected(lambda: assert_counts(np.array([32 * agreeing.size, 0]), np.array([0.5, 0.5])))


@pytest.mark.parametrize("alpha", [1e-6, 0.5, 1.0, 7.0, 1e12])
def test_the_normaliser_is_right_at_every_exponent(alpha: float) -> None:
    """Compiled, where a product and a sum may be fused: the largest term is exactly 1."""
    law = np.array([[0.7, 0.2, 0.1, 0.0], [0.25, 0.25, 0.25, 0.25]])
    with np.errstate(divide="ignore"):
        log_probs = np.log(law).astype(np.float32)
    scaled = alpha * log_probs.astype(np.float64)
    peak = scaled.max(axis=1, keepdims=True)
    expected = peak[:, 0] + np.log(np.exp(scaled - peak).sum(axis=1))
    log_z = jax.jit(log_normaliser)(jnp.asarray(log_probs), alpha)
    np.testing.assert_allclose(np.asarray(log_z), expected, rtol=1e-6, atol=1e-6)
