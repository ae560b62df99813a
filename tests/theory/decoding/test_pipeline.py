"""Rules in their order: what is drawn from is the composition of the definitions, and nothing is ever NaN."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.planted_bugs import decoding as planted
from tests.theory.decoding import reference
from tests.theory.decoding.laws import (
    NUM_ROWS,
    VOCAB_SIZE,
    as_logits,
    check_law,
    law_under,
    padded,
    random_pmfs,
)
from theory.decoding import (
    DEFAULT_ORDER,
    LIBRARIES,
    TokenLaw,
    TokenRule,
    arrange,
    blocked,
    default_rules,
    epsilon,
    eta,
    frequency,
    is_truncating,
    joint,
    jointly,
    log_normaliser,
    min_p,
    min_tokens,
    no_counts,
    presence,
    reads_counts,
    repetition,
    temperature,
    token_law,
    top_k,
    top_n_sigma,
    top_p,
    typical,
)
from theory.errors import InvalidInput

RULES = (min_p(0.1), top_p(0.8), top_k(3), temperature(1.6), blocked((2,), VOCAB_SIZE))


def law_by(rules: tuple[TokenRule, ...]):
    return lambda pmfs: law_under(rules, pmfs)


FILTERS = (reference.top_k(3), reference.top_p(0.8), reference.min_p(0.1))
DEFAULT = reference.in_sequence(
    reference.blocked((2,)), reference.temperature(1.6), reference.side_by_side(*FILTERS)
)
SEQUENTIAL = reference.in_sequence(reference.blocked((2,)), reference.temperature(1.6), *FILTERS)
TEMPERATURE_LAST = reference.in_sequence(
    reference.blocked((2,)), *FILTERS, reference.temperature(1.6)
)


def test_the_default_order() -> None:
    check_law(law_by(default_rules(*RULES)), DEFAULT)


def test_the_sequential_reading() -> None:
    check_law(law_by(arrange(RULES, DEFAULT_ORDER)), SEQUENTIAL)


def test_temperature_last() -> None:
    order = ("allowed", *LIBRARIES["llama.cpp"].order)
    check_law(law_by(arrange(RULES, order)), TEMPERATURE_LAST)


@pytest.mark.parametrize(
    "bug",
    [
        (*arrange(RULES[:3], DEFAULT_ORDER), *arrange(RULES[3:], DEFAULT_ORDER)),
        arrange(RULES, DEFAULT_ORDER),
        arrange(RULES, ("allowed", *LIBRARIES["llama.cpp"].order)),
    ],
    ids=["masks after filters", "sequential for joint", "temperature last"],
)
def test_another_order_is_another_law(bug: tuple[TokenRule, ...]) -> None:
    """The check of the default order sees every one of these."""
    with pytest.raises(AssertionError):
        check_law(law_by(bug), DEFAULT)


@pytest.mark.parametrize(
    ("rules", "definition", "bug"),
    [
        (
            (temperature(2.0), top_p(0.7)),
            reference.in_sequence(reference.temperature(2.0), reference.top_p(0.7)),
            planted.top_p_before_temperature,
        ),
        (
            (top_k(2), top_p(0.5)),
            reference.side_by_side(reference.top_k(2), reference.top_p(0.5)),
            planted.filters_one_after_the_other,
        ),
    ],
)
def test_an_order_that_was_not_declared_is_another_law(
    rules: tuple[TokenRule, TokenRule],
    definition: reference.Rule,
    bug: Callable[[TokenRule, TokenRule], tuple[TokenRule, ...]],
) -> None:
    check_law(law_by(default_rules(*rules)), definition)
    with pytest.raises(AssertionError):
        check_law(law_by(bug(*rules)), definition)


def test_swapped_sequential_filters_are_seen() -> None:
    """Top-k leaves less for top-p to reach; the other way round top-p sees the whole law."""
    swapped = (*arrange(RULES[3:], DEFAULT_ORDER), top_p(0.8), top_k(3), min_p(0.1))
    with pytest.raises(AssertionError):
        check_law(law_by(swapped), SEQUENTIAL)


def kept(rules: tuple[TokenRule, ...], pmf: np.ndarray) -> set[int]:
    return set(np.flatnonzero(law_under(rules, pmf)[0]).tolist())


def from_logits(logits: list[float]) -> np.ndarray:
    return padded(np.exp(logits).tolist())


def test_inputs_that_tell_the_orders_apart() -> None:
    heat, nucleus, pmf = temperature(0.5), top_p(0.8), from_logits([3.0, 2.0, 1.0])
    assert kept((heat, nucleus), pmf) == {0}
    assert kept((nucleus, heat), pmf) == {0, 1}

    pmf = from_logits([0.0, -3.0])
    assert kept((min_p(0.1), temperature(2.0)), pmf) == {0}
    assert kept((temperature(2.0), min_p(0.1)), pmf) == {0, 1}

    pmf = padded([0.4, 0.3, 0.2, 0.1])
    assert kept((top_k(2), top_p(0.5)), pmf) == {0}
    assert kept((joint(top_k(2), top_p(0.5)),), pmf) == {0, 1}
    assert kept((top_p(0.5), top_k(2)), pmf) == {0, 1}


def test_default_rules_without_filters_leave_temperature_its_effect() -> None:
    """No filter is on unless it is asked for: T = 2 is not undone by a hidden top-k of 1."""
    pmfs = random_pmfs(seed=9)
    check_law(law_by(default_rules(temperature(2.0))), reference.temperature(2.0))
    assert (law_under((), pmfs) > 0).sum() == (pmfs > 0).sum()


def test_a_pure_temperature_has_log_q_alpha_log_p_minus_log_z() -> None:
    log_probs = token_law(
        (), as_logits(random_pmfs(seed=10)), jnp.zeros((NUM_ROWS, VOCAB_SIZE), int)
    )
    log_p = log_probs.log_probs
    alpha = jnp.asarray(np.tile([0.5, 1.0, 4.0, 20.0], NUM_ROWS // 4), jnp.float32)
    log_q = token_law((temperature(1 / alpha),), log_p, no_counts(log_p)).log_probs
    expected = alpha[:, None] * log_p - log_normaliser(log_p, alpha)[:, None]
    np.testing.assert_allclose(np.asarray(log_q), np.asarray(expected), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rules", [default_rules(*RULES), arrange(RULES, DEFAULT_ORDER)])
def test_compiled_is_as_written(rules: tuple[TokenRule, ...]) -> None:
    logits = as_logits(random_pmfs(seed=15))
    compiled = jax.jit(token_law)(rules, logits, no_counts(logits))
    written = token_law(rules, logits, no_counts(logits))
    np.testing.assert_array_equal(np.asarray(compiled.support), np.asarray(written.support))
    np.testing.assert_allclose(
        np.asarray(compiled.log_probs), np.asarray(written.log_probs), rtol=2e-6, atol=2e-6
    )


def test_in_double_precision_the_law_is_exact() -> None:
    """The same code on float64 logits: no digit is lost to a cast."""
    pmfs = random_pmfs(seed=11)
    with jax.enable_x64(True), np.errstate(divide="ignore"):
        logits = jnp.asarray(np.log(pmfs))
        law = jax.jit(token_law)(default_rules(*RULES), logits, jnp.zeros(pmfs.shape, int))
        q = np.exp(np.asarray(law.log_probs))
    np.testing.assert_allclose(q, np.stack([DEFAULT(row) for row in pmfs]), atol=1e-13)


BAD_ROWS = {
    "all -inf": [-np.inf] * VOCAB_SIZE,
    "one NaN": [0.0, np.nan] + [-1.0] * (VOCAB_SIZE - 2),
    "all NaN": [np.nan] * VOCAB_SIZE,
    "+inf": [0.0, np.inf] + [-1.0] * (VOCAB_SIZE - 2),
}
PIPELINES: dict[str, tuple[TokenRule, ...]] = {
    "none": (),
    "default": default_rules(
        temperature(0.0), top_k(3), top_p(0.9), min_p(0.1), epsilon(0.1), eta(0.1)
    ),
    "others": default_rules(
        repetition(1.2), presence(0.1), frequency(0.1), top_n_sigma(1.0), typical(0.9)
    ),
}


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_a_row_without_a_law_is_flagged_and_disturbs_no_other(pipeline: str) -> None:
    good = np.asarray(as_logits(random_pmfs(seed=12)))
    logits = good.copy()
    logits[: len(BAD_ROWS)] = list(BAD_ROWS.values())
    bad = np.arange(NUM_ROWS) < len(BAD_ROWS)
    counts = jnp.ones(logits.shape, jnp.int32)
    law = token_law(PIPELINES[pipeline], jnp.asarray(logits), counts)
    np.testing.assert_array_equal(np.asarray(law.failed), bad)
    assert np.isneginf(np.asarray(law.log_probs)[bad]).all()
    assert not np.asarray(law.support)[bad].any()
    untouched = token_law(PIPELINES[pipeline], jnp.asarray(good), counts)
    for ours, alone in zip(law, untouched, strict=True):
        np.testing.assert_array_equal(np.asarray(ours)[~bad], np.asarray(alone)[~bad])


def test_a_plain_softmax_of_nothing_is_nan() -> None:
    """The twin: what the flag is there for."""
    assert np.isnan(np.asarray(planted.softmax_of_nothing(jnp.full((1, 3), -jnp.inf)))).all()


def test_a_row_whose_tokens_are_all_masked_is_flagged() -> None:
    """An empty mask on one particle kills that particle only."""
    pmfs = padded([0.5, 0.5])
    pmfs[3] = padded([0.0, 0.0, 1.0])[0]
    logits = as_logits(pmfs)
    rules = (blocked((2,), VOCAB_SIZE), temperature(0.0), top_p(0.9))
    law = token_law(rules, logits, no_counts(logits))
    np.testing.assert_array_equal(np.asarray(law.failed), np.arange(NUM_ROWS) == 3)
    assert not np.isnan(np.asarray(law.log_probs)).any()


def test_what_truncates() -> None:
    full = (
        temperature(0.5),
        temperature(1e-30),
        top_p(1.0),
        min_p(0.0),
        typical(1.0),
        epsilon(0.0),
        eta(0.0),
        repetition(3.0),
        presence(9.0),
        frequency(9.0),
        blocked((), VOCAB_SIZE),
        min_tokens(0, (1,), VOCAB_SIZE),
        min_tokens(3, (), VOCAB_SIZE),
    )
    cutting = (
        temperature(0.0),
        top_p(0.99),
        top_p(jnp.array([1.0, 0.5])),
        top_k(3),
        min_p(0.01),
        typical(0.9),
        epsilon(0.01),
        eta(0.01),
        top_n_sigma(2.0),
        blocked((1,), VOCAB_SIZE),
        min_tokens(1, (1,), VOCAB_SIZE),
        joint(top_p(1.0), top_k(2)),
    )
    assert not is_truncating(full)
    assert all(is_truncating((*full, rule)) for rule in cutting)
    pmfs = random_pmfs(seed=13)
    np.testing.assert_array_equal(law_under(full[2:], pmfs) > 0, pmfs > 0)


def test_a_tiny_temperature_is_sharp_but_does_not_truncate() -> None:
    logits = jnp.tile(jnp.array([[300.0, 299.0, -300.0, -jnp.inf]]), (NUM_ROWS, 2))
    law = token_law((temperature(1e-37),), logits, no_counts(logits))
    np.testing.assert_array_equal(np.asarray(law.support), np.asarray(logits) > -np.inf)
    np.testing.assert_allclose(np.exp(np.asarray(law.log_probs))[0, [0, 1, 4]], [0.5, 0, 0.5])


def test_what_reads_counts() -> None:
    assert not reads_counts(default_rules(*RULES))
    for rule in (repetition(1.1), presence(1.0), frequency(1.0), min_tokens(1, (), 3)):
        assert reads_counts((temperature(1.0), rule))


def test_joint_refuses_a_filter_that_may_drop_the_mode() -> None:
    with pytest.raises(InvalidInput, match="typical may drop the most likely token"):
        joint(top_k(2), typical(0.5))
    # jointly leaves it where it stands, and merges what is beside it.
    rules = jointly((top_k(2), top_p(0.5), typical(0.5), min_p(0.1)))
    assert [rule.name for rule in rules] == ["joint", "typical", "min_p"]


def test_an_order_refuses_a_rule_it_does_not_know() -> None:
    with pytest.raises(InvalidInput, match="rule typical: no place in this order"):
        arrange((typical(0.5),), LIBRARIES["tunix"].order)


def test_every_order_names_rules_that_exist() -> None:
    known = set(DEFAULT_ORDER)
    for library, entry in LIBRARIES.items():
        assert set(entry.order) <= known, library
        assert len(set(entry.order)) == len(entry.order), library


def test_a_sweep_over_parameters_compiles_once() -> None:
    num_traces = 0

    @jax.jit
    def traced(rules: tuple[TokenRule, ...], logits: jax.Array) -> TokenLaw:
        nonlocal num_traces
        num_traces += 1
        return token_law(rules, logits, no_counts(logits))

    logits = as_logits(random_pmfs(seed=14))
    for heat, mass in ((0.3, 0.5), (0.9, 0.8), (2.0, 1.0)):
        traced((temperature(heat), top_p(mass)), logits)
    assert num_traces == 1
