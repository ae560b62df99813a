"""Enumeration of completions: everything where the threshold is nothing, and bounds that hold where it is coarse."""

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from experiments import enumerated_truth
from experiments.enumerated_truth import (
    Bounds,
    Enumeration,
    base_bounds,
    enumerate_completions,
    kl_power_temperature,
    mean_under,
    power_bounds,
    power_weights,
    temperature_bounds,
)
from experiments.progress import track
from experiments.prompts import padded
from models.tabular.constructors import markov_table
from models.tabular.context_model import ContextModel
from models.tabular.toys import toy_e
from tests.models.transformer.tables import small, tabulate
from tests.planted_bugs.damage.on_transformers import forked, of_bounds
from tests.planted_bugs.on_transformers import base_share_missing
from theory.errors import InvalidInput
from theory.exact import base_law, enumerate_sequences, power_law, temperature_law, unroll
from theory.exact.context_table import ContextTable

PROMPTS = ((3, 1, 1), (), (0,))
Value = Callable[[tuple[int, ...]], float]


@cache
def tables() -> tuple[ContextTable, ...]:
    return tuple(tabulate(small(), prompt) for prompt in PROMPTS)


def sequences(found: Enumeration) -> list[tuple[int, ...]]:
    return [tuple(row[:n].tolist()) for row, n in zip(found.tokens, found.lengths, strict=True)]


def values_of(found: Enumeration, value: Value) -> np.ndarray:
    return np.array([value(row) for row in sequences(found)])


def expectations(table: ContextTable, alpha: float, value: Value) -> np.ndarray:
    """Under the base, the temperature and the power law."""
    layers = unroll(table)
    laws = (base_law(layers), temperature_law(layers, alpha), power_law(layers, alpha).law)
    listed = enumerate_sequences(laws)
    values = np.array([value(tuple(row)) for row in listed.sequences])
    return np.exp(listed.log_probs) @ values


def coin(seed: int) -> Value:
    """A 0 or a 1 for every sequence."""

    def toss(tokens: tuple[int, ...]) -> float:
        return float(np.random.default_rng([seed, len(tokens), *tokens]).random() < 0.4)

    return toss


BOUNDS = (base_bounds, temperature_bounds, power_bounds)


@pytest.mark.parametrize("alpha", [pytest.param(1.0, marks=pytest.mark.slow), 2.5])
def test_without_a_threshold_the_three_laws_are_exact(alpha: float) -> None:
    found = enumerate_completions(small(), padded(PROMPTS), alpha, 1e-30, track)
    np.testing.assert_array_equal(found.missing_p, 0)
    for prompt in range(len(PROMPTS)):
        own = [
            row for row, of in zip(sequences(found), found.prompt_of, strict=True) if of == prompt
        ]
        listed = enumerate_sequences((base_law(unroll(tables()[prompt])),)).sequences
        assert sorted(own) == sorted(map(tuple, listed))
    for seed in range(2):
        truths = np.array([expectations(table, alpha, coin(seed)) for table in tables()])
        for law, bounds in enumerate(BOUNDS):
            low, high = bounds(found, values_of(found, coin(seed)))
            np.testing.assert_allclose(low, truths[:, law], atol=2e-6)
            np.testing.assert_array_equal(low, high)
    lengths = np.array([expectations(table, alpha, len) for table in tables()])
    weights = (np.exp(found.log_p), np.exp(found.log_q), power_weights(found))
    for law, weight in enumerate(weights):
        mean = mean_under(found, 3 * weight, found.lengths.astype(float))
        np.testing.assert_allclose(mean, lengths[:, law], atol=1e-5)
    np.testing.assert_allclose(np.bincount(found.prompt_of, power_weights(found)), 1, atol=1e-12)


# On a table: the rest is the same code, and nothing is compiled for long.
TOY = toy_e()
TOY_MODEL = ContextModel.from_table(TOY)
EMPTY = padded([()])


def coarse(alpha: float, threshold: float) -> Enumeration:
    return enumerate_completions(TOY_MODEL, EMPTY, alpha, threshold, track)


@pytest.mark.parametrize("alpha", [1.0, 1.5, 4.0])
@pytest.mark.parametrize("threshold", [0.03, 0.1, 0.3])
def test_what_is_missing_accounts_for_the_rest(alpha: float, threshold: float) -> None:
    found = coarse(alpha, threshold)
    assert found.missing_p[0] > 0
    assert np.exp(found.log_p).sum() + found.missing_p[0] == pytest.approx(1, abs=1e-9)
    assert np.exp(found.log_q).sum() + found.missing_q[0] == pytest.approx(1, abs=1e-9)
    log_Z = power_law(unroll(TOY), alpha).log_Z
    missing = np.exp(log_Z) - np.exp(alpha * found.log_p).sum()
    assert missing <= np.exp(found.log_missing_power[0]) * (1 + 1e-6)
    if alpha == 1:
        np.testing.assert_allclose(np.exp(found.log_missing_power), found.missing_p, rtol=1e-12)
    else:
        # Strictly less: what is missing branches.
        assert missing < np.exp(found.log_missing_power[0]) < found.missing_p[0]
    for seed in range(8):
        truths = expectations(TOY, alpha, coin(seed))
        for law, bounds in enumerate(BOUNDS):
            low, high = bounds(found, values_of(found, coin(seed)))
            assert 0 <= low[0] <= truths[law] + 1e-6 and truths[law] - 1e-6 <= high[0] <= 1 + 1e-9


@pytest.mark.parametrize("threshold", [1e-30, 0.1])
def test_the_divergence_is_that_of_the_laws_given_what_was_found(threshold: float) -> None:
    layers = unroll(TOY)
    found = coarse(2.5, threshold)
    laws = (power_law(layers, 2.5).law, temperature_law(layers, 2.5))
    listed = enumerate_sequences(laws)
    seen = set(sequences(found))
    kept = np.array([tuple(row) in seen for row in listed.sequences])
    assert kept.all() == (threshold < 1e-9)
    log_pi, log_q = np.asarray(listed.log_probs, np.float64)[:, kept]
    log_pi, log_q = (log_p - np.log(np.exp(log_p).sum()) for log_p in (log_pi, log_q))
    expected = np.exp(log_pi) @ (log_pi - log_q)
    assert expected > 0.01
    np.testing.assert_allclose(kl_power_temperature(found), [expected], atol=2e-6)


def test_every_eos_ends_a_completion() -> None:
    table = markov_table(
        (0.5, 0.3, 0.2), ((0.6, 0.1, 0.3), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)), (1, 2), horizon=3
    )
    model = ContextModel.from_table(table)
    found = enumerate_completions(model, EMPTY, 2.0, 1e-30, track)
    listed = enumerate_sequences((base_law(unroll(table)),)).sequences
    assert sorted(sequences(found)) == sorted(map(tuple, listed))


@pytest.mark.parametrize("alpha", [300.0, 1e6])
def test_powers_too_small_for_a_double_have_their_law_too(alpha: float) -> None:
    found = coarse(alpha, 0.1)
    assert (np.exp(alpha * found.log_p) == 0).any() and found.log_missing_power[0] > -np.inf
    for seed in range(4):
        low, high = power_bounds(found, values_of(found, coin(seed)))
        truth = expectations(TOY, alpha, coin(seed))[2]
        assert low[0] == pytest.approx(truth, abs=1e-9) and high[0] == pytest.approx(
            truth, abs=1e-9
        )


def test_bounds_are_reached_by_the_worst_that_could_be_missing() -> None:
    """All that is missing is 1, and then all of it is 0."""
    found = coarse(1.0, 0.1)
    seen = set(sequences(found))
    for value, end in (
        (lambda row: float(row in seen), 0),
        (lambda row: float(row not in seen), 1),
    ):
        truth = expectations(TOY, 1.0, value)[0]
        for bounds in BOUNDS:
            got = bounds(found, values_of(found, value))[end][0]
            assert got == pytest.approx(truth, abs=1e-6)


def test_a_prefix_is_followed_if_either_law_makes_it_likely() -> None:
    """What the threshold drops is less likely under both; nothing that is likely is dropped."""
    alpha, threshold = 4.0, 0.25
    found = coarse(alpha, threshold)
    law, heat = (
        enumerate_sequences((of,))
        for of in (base_law(unroll(TOY)), temperature_law(unroll(TOY), alpha))
    )
    prefixes: dict[tuple[int, ...], np.ndarray] = {}
    for row, log_p, log_q in zip(law.sequences, law.log_probs[0], heat.log_probs[0], strict=True):
        for end in range(1, len(row) + 1):
            mass = prefixes.setdefault(tuple(row[:end]), np.zeros(2))
            mass += np.exp([log_p, log_q])
    expected = {
        tuple(row)
        for row in law.sequences
        if all(prefixes[tuple(row[:end])].max() >= threshold for end in range(1, len(row)))
    }
    assert set(sequences(found)) == expected
    # Each law matters: by one alone fewer are followed.
    for which in range(2):
        alone = {
            tuple(row)
            for row in law.sequences
            if all(prefixes[tuple(row[:end])][which] >= threshold for end in range(1, len(row)))
        }
        assert alone < expected


def test_several_prompts_are_each_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    prompts = ((1, 0), (), (1,))
    together = enumerate_completions(TOY_MODEL, padded(prompts), 2.0, 0.05, track)
    for place, prompt in enumerate(prompts):
        alone = enumerate_completions(TOY_MODEL, padded([prompt]), 2.0, 0.05, track)
        own = together.prompt_of == place
        for field in ("tokens", "lengths", "log_p", "log_q"):
            np.testing.assert_array_equal(getattr(together, field)[own], getattr(alone, field))
        for field in ("missing_p", "missing_q", "log_missing_power"):
            ours, theirs = getattr(together, field)[place], getattr(alone, field)[0]
            assert ours == pytest.approx(theirs, rel=1e-12)
            assert ours > (-np.inf if field.startswith("log") else 0)
    assert len(set(together.missing_p)) == 3
    monkeypatch.setattr(enumerated_truth, "GROUP", 2)
    grouped = enumerate_completions(TOY_MODEL, padded(prompts), 2.0, 0.05, track)
    np.testing.assert_array_equal(grouped.log_missing_power, together.log_missing_power)
    # In another order.
    seen = [
        set(zip(found.prompt_of.tolist(), sequences(found), found.log_q.tolist(), strict=True))
        for found in (grouped, together)
    ]
    assert seen[0] == seen[1] and len(seen[0]) == len(grouped.log_q)


def test_what_is_missing_of_the_base_law_is_not_what_is_missing_of_the_power_law() -> None:
    """A prefix that is unlikely and then certain has most of the power law's mass: the bounds know, `base_share_missing` does not."""
    assert of_bounds(power_bounds) < 1e-6
    assert of_bounds(base_share_missing) > 0.6


def test_what_has_no_bound_or_no_room_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput, match=r"alpha 0\.9: .*at alpha >= 1 only"):
        coarse(0.9, 0.1)
    monkeypatch.setattr(enumerated_truth, "MAX_PREFIXES", 3)
    with pytest.raises(
        InvalidInput, match=r"prefixes of 2 tokens of 1 prompts .* at most 3; raise the threshold"
    ):
        coarse(2.0, 1e-9)


def test_real_zeros_are_neither_followed_nor_missing() -> None:
    found = forked()
    assert set(found.tokens[:, 0].tolist()) == {0}
    assert isinstance(power_bounds(found, np.ones(len(found.log_p))), Bounds)
    assert found.missing_p[0] == pytest.approx(0.15, abs=1e-6)
