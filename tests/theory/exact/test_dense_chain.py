"""The linear-space forward-backward against the log-space program, and its certificate."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.theory.exact.tables import ALPHAS, Recipe, markov, recipes
from theory.exact import ContextTable, power_law, power_marginals, token_marginals, unroll
from theory.exact.dense_chain import _forward_backward, _weight_matrix  # pyright: ignore[reportPrivateUsage]


@given(recipes, st.sampled_from(ALPHAS))
def test_equals_the_log_space_program(recipe: Recipe, alpha: float) -> None:
    table = recipe.build()
    layers = unroll(table)
    power = power_law(layers, alpha)
    found = power_marginals(table, alpha)
    assert found.log_Z == pytest.approx(power.log_Z, rel=1e-12, abs=1e-12)
    assert found.marginals.shape == (table.horizon, table.vocab_size)
    truth = token_marginals(power.law)
    np.testing.assert_allclose(found.marginals[: len(layers)], truth, atol=1e-11)
    assert not found.marginals[len(layers) :].any()


@pytest.mark.parametrize("eos", [(), (3,), (0, 5)])
@pytest.mark.parametrize("alpha", [0.5, 2.0, 100.0])
def test_the_fast_path_runs_and_is_right(eos: tuple[int, ...], alpha: float) -> None:
    table = markov(np.random.default_rng(4), 20, 60, eos=eos)
    matrix = _weight_matrix(table, alpha)
    assert matrix is not None
    with np.errstate(under="ignore"):
        fast = _forward_backward(table, alpha, *matrix)
    assert fast is not None
    power = power_law(unroll(table), alpha)
    assert fast.log_Z == pytest.approx(power.log_Z, rel=1e-12)
    np.testing.assert_allclose(fast.marginals, token_marginals(power.law), atol=1e-11)


def test_the_tail_of_the_length_law_keeps_its_digits() -> None:
    """P(y_t = eos) far out in the tail, where a difference of cumulated mass would give 0."""
    rows = np.log([[0.45, 0.45, 0.1]])
    table = ContextTable(np.tile(rows, (4, 1)), np.tile([0, 1, 2], (4, 1)), 3, (2,), 80)
    found = power_marginals(table, 2.0).marginals[:, 2]
    s = 2 * 0.45**2
    ratio = found[1:79] / found[:78]
    np.testing.assert_allclose(ratio, s, rtol=1e-10)
    assert 0 < found[70] < 1e-20


def test_without_the_certificate_the_log_space_path_is_taken() -> None:
    # From token 1 even the best continuation is 2**-1000 of that from token 0.
    rows = np.log([[1 - 1e-9, 1e-9], [0.5, 0.5], [0.5, 0.5]])
    table, alpha = ContextTable(rows, np.tile([0, 1], (3, 1)), 2, (), 40), 1000.0
    matrix = _weight_matrix(table, alpha)
    assert matrix is not None
    with np.errstate(under="ignore"):
        assert _forward_backward(table, alpha, *matrix) is None
    found, power = power_marginals(table, alpha), power_law(unroll(table), alpha)
    assert found.log_Z == power.log_Z
    np.testing.assert_array_equal(found.marginals, token_marginals(power.law))


def test_a_model_of_higher_order_has_no_weight_matrix() -> None:
    rows = np.log(np.full((3, 2), 0.5))
    following = np.array([[1, 2], [2, 1], [0, 0]])
    assert _weight_matrix(ContextTable(rows, following, 0, (), 5), 2.0) is None


def test_fifty_tokens_five_hundred_steps_against_a_plain_numpy_recursion() -> None:
    for eos in ((), (7,)):
        table = markov(np.random.default_rng(6), 50, 500, eos=eos)
        for alpha in (0.5, 2.0, 8.0):
            weights = alpha * table.log_probs
            value = np.zeros(50)
            for _ in range(499):
                total = weights[:50] + value
                value = np.logaddexp.reduce(total, axis=1)
                value[list(eos)] = 0.0
            log_Z = np.logaddexp.reduce(weights[50] + value)
            assert power_marginals(table, alpha).log_Z == pytest.approx(log_Z, rel=1e-12)
            assert power_law(unroll(table), alpha).log_Z == pytest.approx(log_Z, rel=1e-12)
