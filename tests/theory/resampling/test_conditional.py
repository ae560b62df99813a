"""Conditional resampling is the unconditional scheme, shuffled, given that slot 0 has ancestor 0: exactly, by enumeration."""

import math
from collections.abc import Callable

import jax
import numpy as np
import pytest

from tests.planted_bugs import resampling as planted
from tests.theory.resampling import laws
from tests.theory.resampling.laws import EQUAL_SCHEMES, Scheme, counts_of, outcomes, planted_scheme
from theory import resampling
from theory.exact import (
    conditional_killing_offspring,
    conditional_multinomial_offspring,
    conditional_stratified_offspring,
    conditional_systematic_offspring,
)
from theory.resampling.ancestors import equal_log_weights

CASES = tuple(w for w in laws.WEIGHTS if len(w) == 3 and w[0] > 0)
BASE = {scheme.name: scheme for scheme in EQUAL_SCHEMES}
Law = dict[tuple[int, ...], float]
Shuffle = Callable[[np.ndarray], list[np.ndarray]]


def multinomial(uniforms: jax.Array, log_weights: jax.Array) -> tuple[jax.Array, jax.Array]:
    ancestors = resampling.conditional_multinomial_from_uniforms(uniforms, log_weights)
    return ancestors, equal_log_weights(log_weights)


def systematic(uniforms: jax.Array, log_weights: jax.Array) -> tuple[jax.Array, jax.Array]:
    ancestors = resampling.conditional_systematic_from_uniforms(uniforms[:, 0], log_weights)
    return ancestors, equal_log_weights(log_weights)


def stratified(uniforms: jax.Array, log_weights: jax.Array) -> tuple[jax.Array, jax.Array]:
    ancestors = resampling.conditional_stratified_from_uniforms(
        uniforms[:, 0], uniforms[:, 1], uniforms[:, 2:], log_weights
    )
    return ancestors, equal_log_weights(log_weights)


def killing(uniforms: jax.Array, log_weights: jax.Array) -> tuple[jax.Array, jax.Array]:
    size = log_weights.shape[1]
    ancestors = resampling.conditional_killing_from_uniforms(
        uniforms[:, 0], uniforms[:, 1 : size + 1], uniforms[:, size + 1 :], log_weights
    )
    return ancestors, equal_log_weights(log_weights)


def systematic_cuts(weights: np.ndarray) -> list[np.ndarray]:
    """The point of slot 0 is u N w_0; the outcome changes where its fraction passes a cut or its stratum ends."""
    end = weights.size * weights[0] / weights.sum()
    inner = np.append(laws.systematic_cuts(weights)[0], 0.0)
    return [((inner + np.arange(weights.size)[:, None]) / end).ravel()]


def stratified_cuts(weights: np.ndarray) -> list[np.ndarray]:
    """For each place of particle 0, the pivot's uniform is cut where a stratum ends; the others as without a pivot."""
    size, pivot, others = weights.size, [], []
    expected = size * weights / weights.sum()
    for place in range(size):
        before = np.roll(expected, place)[:place].sum()
        pivot.append((np.arange(size + 1) - before) / expected[0])
        others.append(laws.stratified_cuts(np.roll(weights, place)))
    strata = [np.concatenate(cuts) for cuts in zip(*others, strict=True)]
    return [np.arange(size) / size, np.concatenate(pivot), *strata]


def killing_cuts(weights: np.ndarray) -> list[np.ndarray]:
    """The slot's uniform is cut by the cumulative probabilities of the slots."""
    killed = 1 - weights / weights.max()
    probs = np.append(weights.size - killed[1:].sum(), killed[1:]) / weights.size
    return [np.cumsum(probs), *laws.killing_cuts(weights)]


def rotations(ancestors: np.ndarray) -> list[np.ndarray]:
    """The same ancestors, beginning at each slot."""
    return [np.roll(ancestors, -start) for start in range(ancestors.size)]


def swaps(ancestors: np.ndarray) -> list[np.ndarray]:
    """The same ancestors, slot 0 swapped with each slot."""
    result: list[np.ndarray] = []
    for slot in range(ancestors.size):
        order = np.arange(ancestors.size)
        order[[0, slot]] = order[[slot, 0]]
        result.append(ancestors[order])
    return result


def unshuffled(ancestors: np.ndarray) -> list[np.ndarray]:
    """As they are."""
    return [ancestors]


CONDITIONAL: list[tuple[Scheme, Shuffle]] = [
    (Scheme("multinomial", int, multinomial, laws.multinomial_cuts), unshuffled),
    (Scheme("systematic", lambda size: 1, systematic, systematic_cuts), rotations),
    (Scheme("stratified", lambda size: size + 2, stratified, stratified_cuts), rotations),
    (Scheme("killing", lambda size: 2 * size + 1, killing, killing_cuts), swaps),
]


def ancestor_law(scheme: Scheme, weights: tuple[float, ...], shuffle: Shuffle) -> Law:
    """Probability of each vector of ancestors, slots shuffled uniformly."""
    ancestors, _, probs = outcomes(scheme, weights)
    law: Law = {}
    for row, probability in zip(ancestors, probs, strict=True):
        shuffled = shuffle(row)
        for outcome in shuffled:
            key = tuple(int(a) for a in outcome)
            law[key] = law.get(key, 0.0) + float(probability) / len(shuffled)
    return law


def shuffled_law(base: Scheme, weights: tuple[float, ...], shuffle: Shuffle) -> Law:
    """The same for an unconditional scheme; where it lays strata the particles are rotated first."""
    size, law = len(weights), {}
    places = range(size) if base.name == "stratified" else (0,)
    for place in places:
        rotated = tuple(np.roll(weights, place).tolist())
        for ancestors, probability in ancestor_law(base, rotated, shuffle).items():
            key = tuple((a - place) % size for a in ancestors)
            law[key] = law.get(key, 0.0) + probability / len(places)
    return law


def check_conditional(scheme: Scheme, base: Scheme, shuffle: Shuffle) -> None:
    """P(ancestors) under the scheme is P(ancestors | ancestor of slot 0 is 0) under the shuffled base."""
    for weights in CASES:
        joint = shuffled_law(base, weights, shuffle)
        # What makes conditional SMC valid: slot 0 has ancestor i with probability w_i.
        first = [sum(p for a, p in joint.items() if a[0] == i) for i in range(len(weights))]
        np.testing.assert_allclose(first, np.array(weights) / sum(weights), atol=1e-12)
        given = {a: p / first[0] for a, p in joint.items() if a[0] == 0}
        found = ancestor_law(scheme, weights, unshuffled)
        for ancestors in given.keys() | found.keys():
            difference = given.get(ancestors, 0.0) - found.get(ancestors, 0.0)
            assert abs(difference) < 1e-12, (scheme.name, weights, ancestors)


@pytest.mark.parametrize(("scheme", "shuffle"), CONDITIONAL, ids=lambda v: getattr(v, "name", ""))
def test_law_given_the_pivot(scheme: Scheme, shuffle: Shuffle) -> None:
    check_conditional(scheme, BASE[scheme.name], shuffle)


@pytest.mark.parametrize(("scheme", "shuffle"), CONDITIONAL, ids=lambda v: getattr(v, "name", ""))
def test_any_particle_may_be_the_reference(scheme: Scheme, shuffle: Shuffle) -> None:
    """Naming particles and slots anew, by what can bring any of them to the front, names the ancestors anew."""
    base = BASE[scheme.name]
    # Killing and multinomial treat all particles alike before any shuffle.
    renamings, shuffle = (rotations, shuffle) if shuffle is rotations else (swaps, unshuffled)
    for weights in CASES:
        law, size = shuffled_law(base, weights, shuffle), len(weights)
        for names in renamings(np.arange(size)):
            renamed = shuffled_law(base, tuple(weights[i] for i in names.tolist()), shuffle)
            for ancestors, probability in renamed.items():
                before = np.zeros(size, np.int64)
                before[names] = names[list(ancestors)]
                assert law.get(tuple(before.tolist()), 0.0) == pytest.approx(probability, abs=1e-12)


def test_without_its_second_rotation_stratified_cares_which_is_the_reference() -> None:
    base, names = BASE["stratified"], np.array([1, 2, 0])
    weights = (0.5, 0.2, 1.1)
    law = ancestor_law(base, weights, rotations)
    renamed = ancestor_law(base, tuple(weights[i] for i in names.tolist()), rotations)
    worst = 0.0
    for ancestors, probability in renamed.items():
        before = np.zeros(3, np.int64)
        before[names] = names[list(ancestors)]
        worst = max(worst, abs(probability - law.get(tuple(before.tolist()), 0.0)))
    assert worst > 0.01


def test_the_exact_laws_are_those_of_the_samplers() -> None:
    """Closed forms of `theory.exact.conditional_offspring` against enumeration of the samplers' uniforms."""
    closed = {
        "multinomial": conditional_multinomial_offspring,
        "systematic": conditional_systematic_offspring,
        "stratified": conditional_stratified_offspring,
        "killing": conditional_killing_offspring,
    }
    for scheme, _ in CONDITIONAL:
        for weights in CASES:
            with np.errstate(divide="ignore"):
                log_weights = np.log(np.array(weights))
            listed = closed[scheme.name](log_weights)
            mean = math.log(sum(weights) / len(weights))
            assert sum(each.probability for each in listed) == pytest.approx(1, abs=1e-12)
            exact = {each.ancestors: each.probability for each in listed}
            assert len(exact) == len(listed)
            for each in listed:
                assert each.log_weights == pytest.approx((mean,) * len(weights), abs=1e-12)
            found = ancestor_law(scheme, weights, unshuffled)
            for ancestors in exact.keys() | found.keys():
                assert exact.get(ancestors, 0.0) == pytest.approx(
                    found.get(ancestors, 0.0), abs=1e-12
                )


def test_keeping_the_first_particle_is_not_enough() -> None:
    bug = planted_scheme(planted.first_particle_always_kept)
    with pytest.raises(AssertionError):
        check_conditional(bug, BASE["systematic"], rotations)


@pytest.mark.parametrize("name", ["multinomial", "killing"])
def test_pivot_from_the_weights_and_the_rest_given_it_is_the_unconditional_law(name: str) -> None:
    """Bayes: schemes that treat all particles alike may put any of them in front."""
    scheme = {s.name: s for s, _ in CONDITIONAL}[name]
    weights = (0.5, 0.2, 1.1)
    composed: Law = {}
    for pivot in range(3):
        front = np.arange(3)
        front[[0, pivot]] = front[[pivot, 0]]
        ancestors, _, probs = outcomes(scheme, tuple(np.array(weights)[front]))
        for counts, p in zip(counts_of(ancestors, 3)[:, front], probs, strict=True):
            key = tuple(int(c) for c in counts)
            composed[key] = composed.get(key, 0.0) + p * weights[pivot] / sum(weights)
    unconditional: Law = {}
    ancestors, _, probs = outcomes(BASE[name], weights)
    for counts, p in zip(counts_of(ancestors, 3), probs, strict=True):
        key = tuple(int(c) for c in counts)
        unconditional[key] = unconditional.get(key, 0.0) + float(p)
    assert composed.keys() == unconditional.keys()
    for key, probability in unconditional.items():
        assert composed[key] == pytest.approx(probability, abs=1e-12)


@pytest.mark.parametrize(("scheme", "shuffle"), CONDITIONAL, ids=lambda v: getattr(v, "name", ""))
def test_in_float32(scheme: Scheme, shuffle: Shuffle) -> None:
    del shuffle
    laws.check_all_dead(scheme)
    generator = np.random.default_rng(6)
    for scale in (0.0, 3.0):
        log_weights = generator.normal(scale=scale, size=laws.SIZE)
        dead = generator.random(laws.SIZE) < 0.5
        dead[0], dead[-2:] = False, True
        log_weights[dead] = -np.inf
        ancestors, after = laws.run_at_edges(scheme, log_weights)
        assert (ancestors[:, 0] == 0).all()
        assert ancestors.min() >= 0 and ancestors.max() < laws.SIZE
        assert not dead[ancestors].any()
        mean = np.logaddexp.reduce(log_weights) - np.log(laws.SIZE)
        np.testing.assert_allclose(after, mean, rtol=0, atol=1e-5)
