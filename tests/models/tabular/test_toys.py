"""Sequence probabilities by hand, and the first-token laws that were published or computed elsewhere."""

import itertools
import math
from collections.abc import Callable

import pytest

from models.tabular import toys
from tests.models.tabular.naive import (
    Tokens,
    first_token_power,
    first_token_temperature,
    sequences,
)
from theory.exact.context_table import ContextTable, with_horizon


def probabilities(table: ContextTable) -> dict[Tokens, float]:
    return {tokens: math.exp(value) for tokens, value in sequences(table).items()}


def normaliser(table: ContextTable, alpha: float) -> float:
    return sum(map(math.exp, sequences(table, alpha).values()))


def test_toy_a_keeps_the_ratios_of_the_printed_masses() -> None:
    printed = {(0, 1): 0.40, (1, 0): 0.25, (1, 1): 0.25}
    by_hand = {tokens: mass / 0.90 for tokens, mass in printed.items()}
    assert probabilities(toys.toy_a()) == pytest.approx(by_hand, rel=1e-14)


def test_toy_a_normalised() -> None:
    by_hand = {(0, 1): 0.45, (1, 0): 0.275, (1, 1): 0.275}
    assert probabilities(toys.toy_a_normalised()) == pytest.approx(by_hand, rel=1e-14)


def test_toy_b() -> None:
    by_hand = {(0, 2): 0.38, (0, 3): 0.02, (1, 2): 0.33, (1, 3): 0.27}
    assert probabilities(toys.toy_b()) == pytest.approx(by_hand, rel=1e-14)


@pytest.mark.parametrize(
    ("make", "tokens", "stop"),
    [
        (toys.toy_c_long, (0.45, 0.45), 0.1),
        (toys.toy_c_skewed, (0.7, 0.1), 0.2),
        (toys.toy_c_short, (0.25, 0.25), 0.5),
    ],
)
def test_toy_c(make: Callable[[], ContextTable], tokens: tuple[float, float], stop: float) -> None:
    found = probabilities(with_horizon(make(), 4))
    assert len(found) == 1 + 2 + 4 + 8 + 16
    for sequence, probability in found.items():
        ended = sequence[-1] == 2
        body = sequence[:-1] if ended else sequence
        by_hand = math.prod(tokens[token] for token in body) * (stop if ended else 1)
        assert probability == pytest.approx(by_hand, rel=1e-14)


def chain(tokens: Tokens, initial: list[float], transition: list[list[float]]) -> float:
    return initial[tokens[0]] * math.prod(transition[a][b] for a, b in itertools.pairwise(tokens))


@pytest.mark.parametrize(
    ("make", "initial", "transition", "num_sequences"),
    [
        (toys.toy_d, [0.5, 0.5], [[0.9, 0.1], [0.4, 0.6]], 64),
        (toys.toy_e, [0.5, 0.3, 0.2], [[0.6, 0.1, 0.3], [0.2, 0.2, 0.6]], 31),
        (toys.toy_f, [0.5, 0.3, 0.2], [[0.3, 0.6, 0.1], [0.45, 0.15, 0.4]], 31),
    ],
)
def test_chains(
    make: Callable[[], ContextTable],
    initial: list[float],
    transition: list[list[float]],
    num_sequences: int,
) -> None:
    found = probabilities(make())
    by_hand = {tokens: chain(tokens, initial, transition) for tokens in found}
    assert len(found) == num_sequences
    assert found == pytest.approx(by_hand, rel=1e-13)
    assert sum(by_hand.values()) == pytest.approx(1, rel=1e-13)


# Toy, alpha, P(first token = 0) under power and under temperature, and half a unit of the last digit given.
FIRST_TOKEN = [
    (toys.toy_a, 2, 0.561404, 0.390244, 5e-7),
    (toys.toy_a, 4, 0.766180, 0.290579, 5e-7),
    (toys.toy_a_normalised, 2, 0.572, 0.401, 5.1e-4),
    (toys.toy_a_normalised, 4, 0.782, 0.309, 5.1e-4),
    (toys.toy_a_normalised, 8, 0.963, 0.167, 5.1e-4),
    (toys.toy_b, 4, 0.548357 + 0.0000042, 0.164947 + 0.0000013, 1.1e-6),
    (toys.toy_d, 2, 0.733621, 0.5, 5e-7),
    (toys.toy_d, 4, 0.953372, 0.5, 5e-7),
    (toys.toy_e, 2, 0.3854, 0.25 / 0.38, 5.1e-5),
    (toys.toy_e, 4, 0.2129, 0.0625 / 0.0722, 5.1e-5),
]


@pytest.mark.parametrize(("make", "alpha", "power", "temperature", "digit"), FIRST_TOKEN)
def test_first_token(
    make: Callable[[], ContextTable], alpha: float, power: float, temperature: float, digit: float
) -> None:
    assert first_token_power(make(), alpha)[0] == pytest.approx(power, abs=digit)
    assert first_token_temperature(make(), alpha)[0] == pytest.approx(temperature, abs=digit)


@pytest.mark.parametrize(
    ("make", "alpha", "value"),
    [
        (toys.toy_b, 4, 0.03802514),
        (toys.toy_d, 2, 0.12312292535),
        (toys.toy_d, 4, 0.00797190945),
        (toys.toy_e, 2, 0.1216516),
        (toys.toy_e, 4, 0.00336921903),
        (toys.toy_f, 2, 0.0887310453),
        (toys.toy_f, 4, 0.002075455716),
    ],
)
def test_normaliser(make: Callable[[], ContextTable], alpha: float, value: float) -> None:
    assert normaliser(make(), alpha) == pytest.approx(value, rel=2e-7)
