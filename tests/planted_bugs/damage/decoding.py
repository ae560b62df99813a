"""Token rules, drawing and sampling without replacement: laws of the next token, and quadrature where thresholds are continuous."""

from collections.abc import Callable
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

from tests.planted_bugs import decoding as planted
from tests.planted_bugs.defect import (
    relative_error,
    total_variation,
)
from tests.theory.decoding import reference
from tests.theory.decoding.laws import (
    NUM_ROWS,
    VOCAB_SIZE,
    as_logits,
    padded,
    pmfs_of,
)
from theory.decoding import (
    TokenLaw,
    TokenRule,
    block_race,
    log_importance_weights,
    min_tokens,
    no_counts,
    presence,
    token_law,
    top_k,
)
from theory.decoding import sample as sampling
from theory.errors import InvalidInput
from theory.keys import Role, role_key, row_keys

FOUR = [0.4, 0.3, 0.2, 0.1]


def of_rule(
    pmf: list[float], parameter: float, definition: reference.Rule
) -> Callable[[Any], float]:
    """Total variation between the law that a transform leaves and the definition's."""

    def measure(transform: Any) -> float:
        law = pmfs_of(transform, padded(pmf), parameter)[0]
        return total_variation(law, definition(padded(pmf)[0]))

    return measure


def without_a_law(transform: Any) -> float:
    """Share of rows that temperature 0 leaves without a law."""
    with np.errstate(invalid="ignore"):
        laws = pmfs_of(transform, padded(FOUR), 0.0)
    return float(np.isnan(laws).any(axis=1).mean())


def nan_rows(law: Any) -> float:
    """Share of NaN in the log law of a row without a possible token."""
    return float(np.isnan(np.asarray(law(jnp.full((1, 3), -jnp.inf)))).mean())


def log_law(logits: jax.Array) -> jax.Array:
    """The right log law."""
    return token_law((), logits, no_counts(logits)).log_probs


def of_counts(count: Any) -> float:
    """Total variation that padding makes through a presence penalty of 1: the row is token 1 and two pads."""
    rows = np.zeros((NUM_ROWS, 3), np.int64)
    rows[:, 0] = 1
    counts = count(jnp.asarray(rows), jnp.ones(NUM_ROWS, jnp.int32), VOCAB_SIZE)
    law = token_law((presence(1.0),), as_logits(padded(FOUR)), counts).log_probs
    once = (np.arange(VOCAB_SIZE) == 1).astype(int)
    return total_variation(
        np.exp(np.asarray(law)[0]), reference.presence(1.0, once)(padded(FOUR)[0])
    )


def of_absent_eos(mask: Any) -> float:
    """Probability of what is masked for an eos of -1, which means none."""
    try:
        masked = np.asarray(mask((-1,), 4))
    except InvalidInput:
        return 0.0
    return float(np.array(FOUR)[masked].sum())


def eos_mask(tokens: tuple[int, ...], vocab_size: int) -> Any:
    """The right mask."""
    return min_tokens(1, tokens, vocab_size).eos


def of_pipeline(rules: tuple[TokenRule, ...], definition: reference.Rule) -> Callable[[Any], float]:
    """Total variation between the law of rules in an order and the one that was declared."""

    def measure(arrange: Any) -> float:
        logits = as_logits(padded(FOUR))
        law = token_law(arrange(*rules), logits, no_counts(logits)).log_probs
        return total_variation(np.exp(np.asarray(law)[0]), definition(padded(FOUR)[0]))

    return measure


def of_penalty(
    parameter: float, definition: Callable[[float, np.ndarray], reference.Rule]
) -> Callable[[Any], float]:
    """Total variation between a penalty and its definition; token 0 was generated twice, token 3 once."""

    def measure(penalise: Any) -> float:
        counts = np.zeros((NUM_ROWS, VOCAB_SIZE), np.int64)
        counts[:, 0], counts[:, 3] = 2, 1
        logits = penalise(as_logits(padded(FOUR)), jnp.asarray(counts), parameter)
        law = np.exp(np.asarray(jax.nn.log_softmax(logits, axis=-1), np.float64)[0])
        return total_variation(law, definition(parameter, counts[0])(padded(FOUR)[0]))

    return measure


def penalty_of(make: Callable[[float], TokenRule]) -> Callable[..., Any]:
    """The right penalty, in the form of its twins."""

    def penalise(logits: jax.Array, counts: jax.Array, parameter: float) -> jax.Array:
        return make(parameter)(logits, counts)

    return penalise


def of_tail(exponential: Any) -> float:
    """Relative error of the noise of the uniform 1 - 2^-40 from above: 27.7 is right."""
    bits = jnp.array([2**32 - 1], jnp.uint32), jnp.array([2**32 - 2**24], jnp.uint32)
    return relative_error(float(exponential(*bits)[0]), 40 * np.log(2.0))


TWO_OF_FOUR = (top_k(2),)


def draw_of(sample: Any) -> tuple[TokenLaw, Any]:
    """The law that a sampler hands to the drawing of tokens, and its record."""
    laws: list[TokenLaw] = []
    original = sampling.draw_tokens

    def noted(keys: jax.Array, law: TokenLaw) -> jax.Array:
        laws.append(law)
        return original(keys, law)

    logits = as_logits(padded(FOUR))
    keys = row_keys(role_key(jax.random.key(3), Role.TOKEN), jnp.arange(NUM_ROWS))
    with (
        mock.patch.object(sampling, "draw_tokens", noted),
        mock.patch.object(planted, "draw_tokens", noted),
    ):
        draw = sample(keys, TWO_OF_FOUR, logits, no_counts(logits))
    return laws[-1], draw


def of_law_drawn_from(sample: Any) -> float:
    """Total variation between the law that is drawn from and that of the rules."""
    law, _ = draw_of(sample)
    expected = reference.top_k(2)(padded(FOUR)[0])
    return total_variation(np.exp(np.asarray(law.log_probs)[0]), expected)


def of_record(sample: Any) -> float:
    """Relative error of the recorded probability of a token, for the law of the rules."""
    _, draw = draw_of(sample)
    expected = reference.top_k(2)(padded(FOUR)[0])[np.asarray(draw.tokens)]
    return float(np.abs(np.exp(np.asarray(draw.log_q, np.float64)) / expected - 1).mean())


def keys_without_effect(sample: Any) -> float:
    """Share of rows whose token depends on no key of their own: 64 sets of keys, the first key always the same."""
    logits = as_logits(padded(FOUR))
    keys = row_keys(role_key(jax.random.key(4), Role.TOKEN), jnp.arange(64 * NUM_ROWS))
    keys = keys.reshape(64, NUM_ROWS).at[:, 0].set(keys[0])
    program = jax.jit(lambda each: sample(each, (), logits, no_counts(logits)).tokens)
    tokens = np.stack([np.asarray(program(each)) for each in keys])
    return float((tokens == tokens[0]).all(axis=0)[1:].mean())


def without_their_maximum(given_max: Any) -> float:
    """Share of families of children whose largest value is not their parent's."""
    rng = np.random.default_rng(0)
    perturbed, maximum = rng.gumbel(size=(64, 5)), rng.gumbel(size=64)
    moved = given_max(jnp.asarray(perturbed, jnp.float32), jnp.asarray(maximum, jnp.float32))
    return float((np.asarray(moved).max(axis=1) != maximum.astype(np.float32)).mean())


P_THREE, Q_THREE = np.array([0.2, 0.3, 0.5]), np.array([0.5, 0.3, 0.2])


def of_distinct_draws(weigh: Any) -> float:
    """Relative bias for the mass 1 of p = (.2, .3, .5) from two distinct draws of q = (.5, .3, .2).

    exp(-score) is exponential with rate q. Given which two come first, the later of them at time t and the third d after it,
    the integral over t and d is a trapezoid rule in their logarithms.
    """
    logs = np.arange(-34.0, 5.0, 0.1)
    t, d = (np.exp(grid).ravel() for grid in np.meshgrid(logs, logs, indexing="ij"))
    total = 0.0
    for left_out in range(3):
        pair = [place for place in range(3) if place != left_out]
        rates, rest = Q_THREE[pair], Q_THREE[left_out]
        later = rates * np.exp(-rates * t[:, None]) * -np.expm1(-rates[::-1] * t[:, None])
        density = later.sum(axis=1) * np.exp(-rest * t) * rest * np.exp(-rest * d)
        with jax.enable_x64(True):
            log_weights = weigh(
                jnp.broadcast_to(jnp.log(P_THREE[pair]), (t.size, 2)),
                jnp.asarray(np.stack([-np.log(t) + 1.0, -np.log(t)], axis=1)),
                jnp.broadcast_to(jnp.log(rates), (t.size, 2)),
                jnp.asarray(-np.log(t + d)),
            )
        estimates = np.exp(np.asarray(log_weights, np.float64)).sum(axis=1)
        total += float((density * estimates * t * d).sum()) * 0.1**2
    return relative_error(total, 1.0)


def right_weights(log_p: Any, scores: Any, log_q: Any, kappa: Any) -> Any:
    """In the form of the twins."""
    return log_importance_weights(log_p, log_q, kappa)


def shared_noise(draw: Any) -> float:
    """Share of the numbers of the race of blocks that come again in the race inside a block."""
    seen: list[tuple[Any, Any]] = []

    def race(law: TokenLaw, block_noise: Any, token_noise: Any) -> Any:
        seen.append((block_noise, token_noise[:, : block_noise.shape[1]]))
        return jnp.zeros(law.failed.shape, jnp.int32)

    log_probs = jnp.full((4, 2 * block_race.BLOCK + 5), -1.0)
    keys = row_keys(role_key(jax.random.key(0), Role.TOKEN), jnp.arange(4))
    with (
        mock.patch.object(block_race, "race_by_blocks", race),
        mock.patch.object(planted, "race_by_blocks", race),
    ):
        draw(keys, token_law((), log_probs, no_counts(log_probs)))
    return float(np.mean(seen[0][0] == seen[0][1]))
