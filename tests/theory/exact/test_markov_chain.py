"""Laws, gaps and bounds of Markov chains: matrices of the reference, chains solved by hand, random chains."""

import math
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.tabular.files import read_model
from models.tabular.toys import toy_b, toy_d
from tests.conftest import ROOT
from theory.errors import InvalidInput
from theory.exact import (
    ContextTable,
    base_law,
    enumerate_sequences,
    log_max_ratio,
    power_law,
    temperature_law,
    unroll,
)
from theory.exact.markov_chain import (
    chi_square_bounds,
    detailed_balance_error,
    doeblin_bounds,
    doeblin_constant,
    laws_after,
    move_rate,
    spectral_gap,
    stationarity_error,
    stationary_law,
    stay_rate,
    total_variation_curve,
)

seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(1, 7)


class Stored(NamedTuple):
    """A matrix of the reference, with the laws it is about."""

    truth: dict[str, Any]
    transition: np.ndarray
    power: np.ndarray
    proposal: np.ndarray


@pytest.fixture(scope="module")
def stored(reference_cases: list[dict[str, Any]]) -> list[Stored]:
    found: list[Stored] = []
    for number, case in enumerate(reference_cases):
        path = ROOT / "tests" / "data" / "reference" / f"case-{number}.json"
        layers = unroll(read_model(path).table)
        for truth in case.get("mh", []) + case.get("multiple_try_mh", []):
            pi = power_law(layers, float(truth["alpha"])).law
            q = temperature_law(layers, float(truth["proposal_alpha"]))
            listed = enumerate_sequences((pi, q))
            names = [" ".join(map(str, tokens)) for tokens in listed.sequences]
            assert names == truth["sequences"]
            matrix = np.array(truth["transition"], dtype=np.float64)
            found.append(Stored(truth, matrix, *np.exp(listed.log_probs)))
    assert len(found) == 33
    return found


def random_chain(rng: np.random.Generator, size: int) -> np.ndarray:
    rates = rng.gamma(0.3, size=(size, size)) + 1e-9
    return rates / rates.sum(axis=1, keepdims=True)


def random_law(rng: np.random.Generator, size: int) -> np.ndarray:
    masses = rng.gamma(0.5, size=size) + 1e-6
    return masses / masses.sum()


def independence_sampler(target: np.ndarray, proposal: np.ndarray) -> np.ndarray:
    """Metropolis-Hastings with independent proposals."""
    weights = target / proposal
    matrix = proposal * np.minimum(1.0, weights / weights[:, None])
    np.fill_diagonal(matrix, 0.0)
    np.fill_diagonal(matrix, 1 - matrix.sum(axis=1))
    return matrix


def power_and_temperature(table: ContextTable, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    layers = unroll(table)
    laws = power_law(layers, alpha).law, temperature_law(layers, alpha)
    power, temperature = np.exp(enumerate_sequences(laws).log_probs)
    return power, temperature


def test_reference_laws_and_rates(stored: list[Stored]) -> None:
    for truth, matrix, power, proposal in stored:
        assert stationary_law(matrix) == pytest.approx(power, rel=1e-11)
        assert detailed_balance_error(matrix, power) < 1e-15
        assert stationarity_error(matrix, power) < 1e-14
        assert spectral_gap(matrix, power).absolute > 0.01
        moves = truth["stationary_move_rate"]
        assert move_rate(matrix, power) == pytest.approx(moves, rel=1e-11, abs=1e-15)
        assert stay_rate(matrix, power) == pytest.approx(1 - moves, rel=1e-11)
        curve = truth["tv_to_power_after_n_steps_from_proposal"]
        found = total_variation_curve(matrix, proposal, power, len(curve) - 1)
        assert found == pytest.approx(np.array(curve), rel=1e-9, abs=1e-15)
        laws = laws_after(matrix, proposal, 5)
        for steps, law in truth["law_after_n_steps_from_proposal"].items():
            listed = np.array([law.get(name, 0.0) for name in truth["sequences"]])
            assert laws[int(steps)] == pytest.approx(listed, rel=1e-9, abs=1e-15)


def test_bounds_hold_on_the_reference(stored: list[Stored]) -> None:
    for _, matrix, power, proposal in stored:
        curve = total_variation_curve(matrix, proposal, power, 40)
        gap = spectral_gap(matrix, power).absolute
        assert (curve <= chi_square_bounds(proposal, power, gap, 40) + 1e-14).all()
        assert (curve <= doeblin_bounds(matrix, 40) + 1e-14).all()
        # In the end the rate is that of the gap: a bound with a larger one fails.
        if matrix.shape[0] > 1:
            long = total_variation_curve(matrix, proposal, power, 1000)
            faster = chi_square_bounds(proposal, power, 1.5 * gap, 1000)
            assert (long > faster + 1e-13).any()


@pytest.mark.parametrize(
    ("table", "from_temperature", "from_base"),
    [(toy_b(), 0.300802, 0.692979), (toy_d(), None, None)],
)
def test_gap_of_the_independence_sampler(
    table: ContextTable, from_temperature: float | None, from_base: float | None
) -> None:
    # The gap is 1 / max w.
    layers = unroll(table)
    pi = power_law(layers, 4.0).law
    for q, golden in (
        (temperature_law(layers, 4.0), from_temperature),
        (base_law(layers), from_base),
    ):
        power, proposal = np.exp(enumerate_sequences((pi, q)).log_probs)
        gap = spectral_gap(independence_sampler(power, proposal), power)
        assert gap.spectral == pytest.approx(math.exp(-log_max_ratio(pi, q)), rel=1e-9)
        assert gap.absolute == pytest.approx(gap.spectral, rel=1e-12)
        if golden is not None:
            assert gap.spectral == pytest.approx(golden, abs=1e-6)


def test_the_wrong_hastings_sign_is_seen() -> None:
    power, temperature = power_and_temperature(toy_b(), 4.0)
    right = independence_sampler(power, temperature)
    # +(log q' - log q) for -(log q' - log q): the law kept is proportional to p^alpha q^2.
    wrong = independence_sampler(power * temperature**2, temperature)
    assert detailed_balance_error(right, power) < 1e-16
    assert detailed_balance_error(wrong, power) > 1e-2
    assert stationarity_error(wrong, power) > 1e-2
    law = stationary_law(wrong)
    assert law == pytest.approx([0.116598, 5e-17, 0.810468, 0.072935], abs=1e-6)
    assert law[1] == pytest.approx(5e-17, rel=0.1)
    assert 0.5 * np.abs(law - power).sum() == pytest.approx(0.498590, abs=1e-6)
    with pytest.raises(InvalidInput, match="detailed balance is off"):
        spectral_gap(wrong, power)


@given(seeds, sizes)
def test_stationary_law_of_a_random_chain(seed: int, size: int) -> None:
    matrix = random_chain(np.random.default_rng(seed), size)
    law = stationary_law(matrix)
    assert law.sum() == pytest.approx(1.0, rel=1e-14) and (law > 0).all()
    assert law @ matrix == pytest.approx(law, rel=1e-12)
    long_run = np.linalg.matrix_power(matrix, 2**40)[0]
    assert long_run / long_run.sum() == pytest.approx(law, rel=1e-6, abs=1e-9)


@given(seeds, st.integers(2, 7))
def test_gap_of_a_random_reversible_chain(seed: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    target, proposal = random_law(rng, size), random_law(rng, size)
    matrix = independence_sampler(target, proposal)
    assert stationary_law(matrix) == pytest.approx(target, rel=1e-10)
    eigenvalues = np.sort(np.real(np.linalg.eigvals(matrix)))
    gap = spectral_gap(matrix, target)
    assert gap.spectral == pytest.approx(1 - eigenvalues[-2], abs=1e-9)
    assert gap.absolute == pytest.approx(1 - max(eigenvalues[-2], -eigenvalues[0]), abs=1e-9)
    start = random_law(rng, size)
    curve = total_variation_curve(matrix, start, target, 30)
    assert (np.diff(curve) <= 1e-15).all()
    assert (curve <= chi_square_bounds(start, target, gap.absolute, 30) + 1e-12).all()
    assert (curve <= doeblin_bounds(matrix, 30) + 1e-12).all()


def test_digits_of_rare_states() -> None:
    # A birth-and-death chain that climbs at 1e-12 a step: the law falls by 2e-12 each state.
    up, down = 1e-12, 0.5
    matrix = np.diag([up] * 5, 1) + np.diag([down] * 5, -1)
    np.fill_diagonal(matrix, 1 - matrix.sum(axis=1))
    truth = (up / down) ** np.arange(6.0)
    truth /= truth.sum()
    assert stationary_law(matrix) == pytest.approx(truth, rel=1e-14)
    # An eigenvector has digits relative to its largest entry only.
    values, vectors = np.linalg.eig(matrix.T)
    leading = np.abs(vectors[:, int(np.argmax(np.real(values)))])
    assert abs(leading[-1] / leading.sum() / truth[-1] - 1) > 0.5


def test_states_left_for_good_and_chains_that_fall_apart() -> None:
    leaving = np.array([[0.5, 0.25, 0.25], [0.0, 0.2, 0.8], [0.0, 0.4, 0.6]])
    assert stationary_law(leaving) == pytest.approx([0.0, 1 / 3, 2 / 3], rel=1e-14)
    apart = np.array([[1.0, 0.0, 0.0], [0.3, 0.4, 0.3], [0.0, 0.0, 1.0]])
    with pytest.raises(InvalidInput, match="from state 0 to state 2"):
        stationary_law(apart)
    assert spectral_gap(np.eye(2), np.array([0.5, 0.5])).spectral == 0.0
    assert doeblin_constant(np.eye(2)) == 0.0


def test_two_states_by_hand() -> None:
    a, b = 0.3, 0.1
    matrix = np.array([[1 - a, a], [b, 1 - b]])
    law = np.array([b, a]) / (a + b)
    assert stationary_law(matrix) == pytest.approx(law, rel=1e-15)
    assert spectral_gap(matrix, law) == pytest.approx((a + b, a + b), rel=1e-14)
    assert doeblin_constant(matrix) == pytest.approx(a + b, rel=1e-15)
    curve = total_variation_curve(matrix, np.array([1.0, 0.0]), law, 6)
    assert curve == pytest.approx(law[1] * (1 - a - b) ** np.arange(7), rel=1e-13)
    assert move_rate(matrix, law) == pytest.approx(2 * a * b / (a + b), rel=1e-15)
    # Periodic: it never forgets, whatever its spectral gap.
    swap = spectral_gap(np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([0.5, 0.5]))
    assert swap == pytest.approx((2.0, 0.0), abs=1e-15)
    assert chi_square_bounds(np.array([1.0, 0.0]), np.array([0.5, 0.5]), 0.0, 1) == pytest.approx(
        [0.5, 0.5]
    )
    one = spectral_gap(np.ones((1, 1)), np.ones(1))
    assert one == (1.0, 1.0)


def test_a_start_outside_the_support_has_no_bound() -> None:
    start, law = np.array([0.5, 0.5]), np.array([1.0, 0.0])
    assert np.isinf(chi_square_bounds(start, law, 0.5, 3)).all()


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[0.5, 0.4], [0.5, 0.5]], "row 0 of the transition matrix does not sum to 1"),
        ([[1.0, 0.0], [1.5, -0.5]], "row 1 of the transition matrix has an entry"),
        ([[1.0, 0.0], [math.nan, 0.5]], "row 1 of the transition matrix has an entry"),
    ],
)
def test_what_is_no_transition_matrix_is_refused(matrix: list[list[float]], message: str) -> None:
    transition, law = np.array(matrix), np.array([0.5, 0.5])
    for use in (
        lambda: stationary_law(transition),
        lambda: spectral_gap(transition, law),
        lambda: laws_after(transition, law, 1),
        lambda: doeblin_constant(transition),
    ):
        with pytest.raises(InvalidInput, match=message):
            use()


def test_numbers_out_of_range_are_refused() -> None:
    law = np.array([0.5, 0.5])
    with pytest.raises(InvalidInput, match="-1 steps"):
        laws_after(np.eye(2), law, -1)
    with pytest.raises(InvalidInput, match="-1 steps"):
        doeblin_bounds(np.eye(2), -1)
    with pytest.raises(InvalidInput, match="-1 steps"):
        chi_square_bounds(law, law, 0.5, -1)
    with pytest.raises(InvalidInput, match=r"gap 1\.5"):
        chi_square_bounds(law, law, 1.5, 1)
    with pytest.raises(InvalidInput, match="without states"):
        stationary_law(np.zeros((0, 0)))
