"""Each rule against its definition; each planted twin is caught by the same check."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.planted_bugs import decoding as planted
from tests.theory.decoding import laws, reference
from tests.theory.decoding.laws import (
    NUM_ROWS,
    VOCAB_SIZE,
    Transform,
    as_logits,
    kept_sets,
    padded,
    pmfs_of,
    random_pmfs,
    transform_of,
)
from theory.decoding import (
    TokenRule,
    add_tokens,
    allowed,
    blocked,
    epsilon,
    eta,
    forced,
    frequency,
    min_p,
    min_tokens,
    no_counts,
    presence,
    repetition,
    temperature,
    token_counts,
    token_law,
    top_k,
    top_n_sigma,
    top_p,
    typical,
)
from theory.decoding.row_law import reaches_floor
from theory.errors import InvalidInput


def top_k_float(k: float) -> TokenRule:
    return top_k(int(k))


def test_temperature_is_its_definition() -> None:
    laws.check_temperature(transform_of(temperature))


def test_top_k_is_its_definition() -> None:
    laws.check_top_k(transform_of(top_k_float))


def test_top_p_is_its_definition() -> None:
    laws.check_top_p(transform_of(top_p))


def test_min_p_is_its_definition() -> None:
    laws.check_min_p(transform_of(min_p))


@pytest.mark.parametrize(
    ("make", "definition", "parameters"),
    [
        (typical, reference.typical, (0.0, 0.2, 0.5, 0.9, 1.0)),
        (epsilon, reference.epsilon, (0.0, 0.01, 0.1, 0.9)),
        (eta, reference.eta, (0.0, 0.003, 0.05, 0.9)),
        (top_n_sigma, reference.top_n_sigma, tuple(np.linspace(0.0, 3.0, 13).tolist())),
    ],
)
def test_the_other_filters_are_their_definitions(
    make: Callable[[float], TokenRule],
    definition: Callable[[float], reference.Rule],
    parameters: tuple[float, ...],
) -> None:
    laws.check_against_reference(transform_of(make), definition, parameters)


@pytest.mark.parametrize(
    ("check", "bug"),
    [
        (laws.check_top_p, planted.top_p_drops_the_crossing_token),
        (laws.check_top_p, planted.top_p_keeps_one_more_at_equality),
        (laws.check_top_k, planted.top_k_keeps_ties),
        (laws.check_min_p, planted.min_p_writes_zero),
        (laws.check_temperature, planted.temperature_divides_first),
        (laws.check_top_k, planted.top_k_keeps_one_more),
        (laws.check_min_p, planted.min_p_of_one),
        (laws.check_temperature, planted.greedy_takes_the_last_of_ties),
        (laws.check_temperature, planted.greedy_shares_ties),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
def test_planted_rules_are_caught(check: Callable[[Transform], None], bug: Transform) -> None:
    with pytest.raises(AssertionError):
        check(bug)


def test_typical_may_drop_the_mode() -> None:
    # Surprises .51, 2.30 and 2.30 around an entropy of 1.23: the mode is nearest; with a flat tail it is not.
    pmf = [0.4] + [0.6 / 7] * 7
    assert 0 not in kept_sets(transform_of(typical), padded(pmf), 0.5)[0]


def test_top_n_sigma_does_not_depend_on_the_temperature() -> None:
    pmfs = random_pmfs(seed=3)
    hot = np.stack([reference.temperature(1.7)(row) for row in pmfs])
    transform = transform_of(top_n_sigma)
    assert kept_sets(transform, pmfs, 1.2) == kept_sets(transform, hot, 1.2)


def test_parameters_may_differ_by_row() -> None:
    """A greedy row beside hot ones: no flag of the whole batch."""
    pmfs = random_pmfs(seed=4)
    temperatures = np.tile([0.0, 0.5, 1.0, 3.0], NUM_ROWS // 4)
    logits = as_logits(pmfs)
    law = token_law((temperature(jnp.asarray(temperatures)),), logits, no_counts(logits))
    expected = [reference.temperature(t)(row) for t, row in zip(temperatures, pmfs, strict=True)]
    np.testing.assert_allclose(np.exp(np.asarray(law.log_probs)), expected, atol=2e-6)


@pytest.mark.parametrize(
    ("make", "definition", "parameter"),
    [
        (repetition, reference.repetition, 1.3),
        (repetition, reference.repetition, 0.8),
        (frequency, reference.frequency, 0.4),
        (presence, reference.presence, -0.7),
    ],
)
def test_penalties_are_their_definitions(
    make: Callable[[float], TokenRule],
    definition: Callable[[float, np.ndarray], reference.Rule],
    parameter: float,
) -> None:
    pmfs = random_pmfs(seed=5)
    counts = np.random.default_rng(5).integers(0, 4, pmfs.shape)
    law = token_law((make(parameter),), as_logits(pmfs) + 1.7, jnp.asarray(counts))
    expected = [definition(parameter, c)(row) for c, row in zip(counts, pmfs, strict=True)]
    np.testing.assert_allclose(np.exp(np.asarray(law.log_probs)), expected, atol=2e-6)
    np.testing.assert_array_equal(np.asarray(law.support), pmfs > 0)


@pytest.mark.parametrize(
    ("make", "definition", "bug"),
    [
        (repetition, reference.repetition, planted.repetition_divides_negative_logits),
        (presence, reference.presence, planted.presence_charges_every_time),
    ],
)
def test_planted_penalties_are_caught(
    make: Callable[[float], TokenRule],
    definition: Callable[[float, np.ndarray], reference.Rule],
    bug: Callable[..., jax.Array],
) -> None:
    pmfs = random_pmfs(seed=9)
    counts = np.random.default_rng(9).integers(0, 4, pmfs.shape)
    expected = [definition(1.3, c)(row) for c, row in zip(counts, pmfs, strict=True)]

    def check(logits: jax.Array) -> None:
        law = np.exp(np.asarray(jax.nn.log_softmax(logits, axis=-1), np.float64))
        np.testing.assert_allclose(law, expected, atol=2e-6)

    check(make(1.3)(as_logits(pmfs), jnp.asarray(counts)))
    with pytest.raises(AssertionError):
        check(bug(as_logits(pmfs), jnp.asarray(counts), 1.3))


def test_pads_are_never_counted() -> None:
    laws.check_counts(token_counts)
    with pytest.raises(AssertionError):
        laws.check_counts(planted.counts_with_pads)


def test_counts_token_by_token_are_those_of_the_whole_row() -> None:
    tokens = jnp.array([[1, 1, 4], [2, 0, 0], [0, 7, 0]])
    lengths = jnp.array([3, 1, 2])
    counts = jnp.zeros((3, VOCAB_SIZE), jnp.int32)
    for step in range(3):
        counts = add_tokens(counts, tokens[:, step], step < lengths)
    np.testing.assert_array_equal(
        np.asarray(counts), np.asarray(token_counts(tokens, lengths, VOCAB_SIZE))
    )


def test_masks() -> None:
    pmfs = random_pmfs(seed=6, zeros=False)
    everything = set(range(VOCAB_SIZE))

    def kept(rule: TokenRule) -> list[set[int]]:
        return kept_sets(lambda logits, _: rule(logits, no_counts(logits)), pmfs, 0.0)

    assert kept(blocked((0, 7), VOCAB_SIZE))[0] == everything - {0, 7}
    assert kept(blocked((), VOCAB_SIZE))[0] == everything
    assert kept(forced((5,), VOCAB_SIZE)) == [{5}] * NUM_ROWS
    mask = np.random.default_rng(6).random(pmfs.shape) < 0.5
    rows = [set(np.flatnonzero(row).tolist()) for row in mask]
    assert kept(allowed(jnp.asarray(mask))) == rows


def test_no_eos_among_the_first_generated_tokens() -> None:
    """The prompt is not counted: the counts are of generated tokens."""
    logits = as_logits(random_pmfs(seed=7, zeros=False))
    rule = min_tokens(4, (2, 6), VOCAB_SIZE)
    num_generated = jnp.arange(NUM_ROWS) % 7
    counts = no_counts(logits).at[:, 1].set(num_generated)
    may_end = np.asarray(rule(logits, counts))[:, [2, 6]] > -np.inf
    np.testing.assert_array_equal(may_end.all(axis=1), np.asarray(num_generated) >= 4)
    np.testing.assert_array_equal(may_end.any(axis=1), np.asarray(num_generated) >= 4)


def test_an_absent_eos_blocks_nothing() -> None:
    """An id of -1 is refused; in the twin it is the last token of the vocabulary."""
    assert not np.asarray(min_tokens(3, (), VOCAB_SIZE).eos).any()
    with pytest.raises(InvalidInput, match=r"token -1: must be in 0\.\.7"):
        min_tokens(3, (-1,), VOCAB_SIZE)
    assert np.asarray(planted.mask_with_wrapped_index((-1,), VOCAB_SIZE))[-1]


@pytest.mark.parametrize(
    ("make", "parameter", "message"),
    [
        (temperature, -1.0, "temperature -1.0: must be a finite number from 0 up"),
        (temperature, float("inf"), "temperature inf"),
        (temperature, float("nan"), "temperature nan"),
        (temperature, jnp.array([1.0, -2.0]), "temperature -2.0 in row 1"),
        (top_k, 0, "top_k 0: must be a whole number from 1 up"),
        (top_k, 2.5, "top_k 2.5"),
        (top_p, 1.5, "top_p 1.5: must be in 0..1"),
        (top_p, float("nan"), "top_p nan"),
        (min_p, -0.1, "min_p -0.1: must be in 0..1"),
        (typical, 2.0, "typical 2.0"),
        (epsilon, -1.0, "epsilon -1.0"),
        (eta, 1.1, "eta 1.1"),
        (top_n_sigma, -1.0, "top_n_sigma -1.0: must be a finite number from 0 up"),
        (repetition, 0.0, "repetition penalty 0.0: must be a finite number above 0"),
        (frequency, float("inf"), "frequency penalty inf: must be finite"),
        (presence, float("nan"), "presence penalty nan: must be finite"),
    ],
)
def test_parameters_outside_their_domain_are_refused(
    make: Callable[[object], TokenRule], parameter: object, message: str
) -> None:
    with pytest.raises(InvalidInput) as error:
        make(parameter)
    assert message in str(error.value)


def test_masks_refuse_what_does_not_exist() -> None:
    with pytest.raises(InvalidInput, match="token 8"):
        blocked((8,), VOCAB_SIZE)
    with pytest.raises(InvalidInput, match="name at least one"):
        forced((), VOCAB_SIZE)
    with pytest.raises(InvalidInput, match="min_tokens -1"):
        min_tokens(-1, (0,), VOCAB_SIZE)


def test_equal_logits_in_half_precision_are_one_token_at_k_1() -> None:
    logits = jnp.full((NUM_ROWS, VOCAB_SIZE), 21.375, jnp.bfloat16).at[:, 0].set(1.0)
    law = token_law((top_k(1),), logits, no_counts(logits))
    assert law.log_probs.dtype == jnp.float32
    np.testing.assert_array_equal(np.asarray(law.support)[0], np.eye(VOCAB_SIZE, dtype=bool)[1])


def test_half_precision_is_widened_before_anything_is_computed() -> None:
    """10 000 equal logits: in bfloat16 their probabilities would not even sum to 1."""
    logits = jnp.full((1, 10_000), 3.0, jnp.bfloat16)
    law = token_law((), logits, no_counts(logits))
    np.testing.assert_allclose(np.asarray(law.log_probs), -np.log(10_000), rtol=1e-6)


def test_transforms_shift_with_nothing() -> None:
    """A law knows no origin of its logits: adding a constant changes no rule's result."""
    pmfs = random_pmfs(seed=8)
    for make, parameter in [(temperature, 0.7), (top_n_sigma, 1.0), (min_p, 0.2), (eta, 0.1)]:
        transform = transform_of(make)
        shifted = pmfs_of(lambda x, t, f=transform: f(x + 11.0, t), pmfs, parameter)
        np.testing.assert_allclose(shifted, pmfs_of(transform, pmfs, parameter), atol=5e-6)


def test_a_floor_that_is_met_exactly_keeps_the_token() -> None:
    log_probs = jnp.log(jnp.array([[0.5, 0.25, 0.125, 0.125]]))
    kept = reaches_floor(log_probs, log_probs[:, 1:2])
    np.testing.assert_array_equal(kept, [[True, True, False, False]])
