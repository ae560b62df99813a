"""Layers, enumeration, counts and what is refused."""

import math

import numpy as np
import pytest

from tests.theory.exact.tables import (
    markov,
    tree,
)
from theory.errors import InvalidInput
from theory.exact import (
    ContextTable,
    after_prompt,
    base_law,
    chi_square,
    enumerate_sequences,
    kl_divergence,
    log_ess_fraction,
    log_max_ratio,
    make_context_table,
    mode,
    num_sequences,
    power_law,
    renyi_entropy,
    sequence_blocks,
    summarise,
    temperature_law,
    total_variation,
    total_variation_bounds,
    unroll,
    with_horizon,
)
from theory.exact.enumeration import check_enumerable


def test_mode_counts_ties() -> None:
    uniform = np.log(np.full((1, 2), 0.5))
    table = ContextTable(uniform, np.zeros((1, 2), dtype=np.int64), 0, (), 3)
    assert mode(unroll(table)) == ((0, 0, 0), pytest.approx(3 * math.log(0.5)), 8)


def test_more_modes_than_a_double_holds() -> None:
    uniform = np.log(np.full((1, 2), 0.5))
    table = ContextTable(uniform, np.zeros((1, 2), dtype=np.int64), 0, (), 1100)
    found = mode(unroll(table))
    assert found.num_modes == math.inf
    assert found.log_prob == pytest.approx(-1100 * math.log(2))


def test_laws_over_different_layers_are_refused() -> None:
    rng = np.random.default_rng(2)
    p = base_law(unroll(markov(rng, 2, 3)))
    q = base_law(unroll(markov(rng, 2, 4)))
    for compare in (
        kl_divergence,
        chi_square,
        log_max_ratio,
        log_ess_fraction,
        total_variation,
        total_variation_bounds,
    ):
        with pytest.raises(InvalidInput, match="different layers"):
            compare(p, q)


def test_renyi_entropy_of_order_zero_is_log_support() -> None:
    table = markov(np.random.default_rng(3), 3, 4, eos=(2,), zeros=0.4)
    layers = unroll(table)
    assert renyi_entropy(layers, 0.0) == pytest.approx(math.log(num_sequences(layers)), rel=1e-12)


def test_repeated_layers_are_one_object_and_stop_when_every_sequence_has_ended() -> None:
    rng = np.random.default_rng(0)
    layers = unroll(markov(rng, 3, 50))
    assert len(layers) == 50
    assert len({id(layer) for layer in layers}) <= 4
    certain = np.array([[0.0, -np.inf]])
    ends_at_once = ContextTable(certain, np.zeros((1, 2), dtype=np.int64), 0, (0,), 1000)
    assert len(unroll(ends_at_once)) == 1


def test_streaming_sees_every_sequence_once_in_bounded_blocks() -> None:
    layers = unroll(markov(np.random.default_rng(5), 4, 12, eos=(0,)))
    total, count, longest = 0.0, 0, 0
    for block in sequence_blocks((base_law(layers),)):
        total += float(np.exp(block.log_probs[0]).sum())
        count += block.tokens.shape[0]
        longest = max(longest, block.tokens.shape[0])
    assert count == num_sequences(layers)
    assert total == pytest.approx(1.0, abs=1e-12)
    assert longest <= (1 << 16)


def test_too_many_sequences_are_refused_with_the_count_and_the_mend() -> None:
    layers = unroll(markov(np.random.default_rng(1), 10, 30))
    with pytest.raises(InvalidInput, match=r"1e\+30 sequences.*10000000.*lower the horizon \(30\)"):
        check_enumerable(layers)
    with pytest.raises(InvalidInput, match="sequences"):
        total_variation(base_law(layers), temperature_law(layers, 2.0))
    bounds = total_variation_bounds(power_law(layers, 2.0).law, temperature_law(layers, 2.0))
    assert 0 < bounds.lower < bounds.upper <= 1


@pytest.mark.parametrize("alpha", [0.0, -1.0, math.nan, math.inf])
def test_alpha_must_be_a_positive_number(alpha: float) -> None:
    layers = unroll(markov(np.random.default_rng(1), 2, 2))
    for build in (power_law, temperature_law, summarise):
        with pytest.raises(InvalidInput, match="alpha"):
            build(layers, alpha)


def test_prompt_and_horizon() -> None:
    table = tree(np.random.default_rng(2), 2, 3)
    prompted = with_horizon(after_prompt(table, (1,)), 2)
    whole = dict(
        zip(
            (listed := enumerate_sequences((base_law(unroll(table)),))).sequences,
            listed.log_probs[0],
            strict=True,
        )
    )
    first = float(table.log_probs[0, 1])
    rest = enumerate_sequences((base_law(unroll(prompted)),))
    for tokens, log_prob in zip(rest.sequences, rest.log_probs[0], strict=True):
        assert whole[(1, *tokens)] == pytest.approx(first + log_prob)
    with pytest.raises(InvalidInput, match="prompt token 7 at position 0"):
        after_prompt(table, (7,))
    with pytest.raises(InvalidInput, match="ends the sequence"):
        after_prompt(table._replace(eos=(1,)), (1,))
    zero = table._replace(log_probs=np.where([[True, False]], 0.0, -np.inf) + 0 * table.log_probs)
    with pytest.raises(InvalidInput, match="probability 0"):
        after_prompt(zero, (1,))
    with pytest.raises(InvalidInput, match="horizon 0"):
        with_horizon(table, 0)


def test_a_table_that_runs_out_is_refused() -> None:
    rows = np.array([[np.log(0.5), np.log(0.5)], [np.nan, np.nan]])
    table = ContextTable(rows, np.ones((2, 2), dtype=np.int64), 0, (), 2)
    with pytest.raises(InvalidInput, match="context 1 has no normalised law"):
        unroll(table)


def test_a_prompt_of_two_tokens_is_walked_token_by_token() -> None:
    table = tree(np.random.default_rng(4), 2, 4)
    twice = after_prompt(after_prompt(table, (1,)), (0,))
    assert after_prompt(table, (1, 0)).initial == twice.initial
    assert twice.initial not in (
        after_prompt(table, (0,)).initial,
        after_prompt(table, (1,)).initial,
    )


def test_eos_is_sorted_and_unique() -> None:
    rows = np.log(np.full((1, 3), 1 / 3))
    table = make_context_table(rows, np.zeros((1, 3), dtype=np.int64), 0, (2, 0, 2), 1)
    assert table.eos == (0, 2)


def test_a_row_that_is_not_normalised_is_refused() -> None:
    rows = np.log([[0.5, 0.5 + 1e-6]])
    with pytest.raises(InvalidInput, match="no normalised law"):
        unroll(ContextTable(rows, np.zeros((1, 2), dtype=np.int64), 0, (), 1))


def test_the_limit_is_the_most_sequences_that_are_enumerated() -> None:
    layers = unroll(markov(np.random.default_rng(1), 3, 3))
    assert check_enumerable(layers, 27) == 27
    with pytest.raises(InvalidInput, match="27 sequences"):
        check_enumerable(layers, 26)
