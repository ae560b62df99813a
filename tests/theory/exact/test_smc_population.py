"""Every population of a few particles: the reference, unbiased evidence under every scheme, and what planted bugs do."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from jaxtyping import Float64

from models.tabular.files import read_model
from models.tabular.toys import toy_b, toy_e
from tests.conftest import ROOT
from tests.theory.exact.tables import Recipe, markov, recipes
from theory.errors import InvalidInput
from theory.exact import (
    ContextTable,
    Law,
    Layers,
    base_law,
    chi_square,
    enumerate_sequences,
    make_context_table,
    num_sequences,
    power_law,
    temperature_law,
    unroll,
)
from theory.exact.importance_moments import self_normalised_moments_by_enumeration, weighted_draw
from theory.exact.offspring import (
    Offspring,
    OffspringLaw,
    killing_offspring,
    multinomial_offspring,
    residual_offspring,
    ssp_offspring,
    stratified_offspring,
    systematic_offspring,
    when_ess_below,
)
from theory.exact.smc_population import FiniteRun, adapted_filter, plain_filter

exponents = st.sampled_from([0.5, 1.0, 2.0, 4.0])


def chopthin_of_two(log_weights: Float64[np.ndarray, " 2"]) -> list[Offspring]:
    """Chopthin of two particles, solved by hand for a largest ratio of eta = 3 + sqrt(8).

    With weights light < 2 heavy / eta the threshold is a = light / 2 + heavy / eta. The light one survives with probability
    light / a and then weighs a, what it gained being taken from the heavy one; else the heavy one is cut in two.
    """
    eta = 3 + math.sqrt(8)
    order = (0, 1) if log_weights[0] >= log_weights[1] else (1, 0)
    scale = float(log_weights.max())
    heavy, light = 1.0, math.exp(float(log_weights.min()) - scale)
    if light >= 2 / eta:
        return [Offspring(1.0, (0, 1), tuple(log_weights.tolist()))]
    a = light / 2 + heavy / eta
    kept = (scale + math.log(heavy + light - a), scale + math.log(a))
    half = scale + math.log((heavy + light) / 2)
    return [
        Offspring(light / a, order, kept),
        Offspring(1 - light / a, (order[0], order[0]), (half, half)),
    ]


SCHEMES: dict[str, OffspringLaw] = {
    "multinomial": multinomial_offspring,
    "stratified": stratified_offspring,
    "systematic": systematic_offspring,
    "residual": residual_offspring,
    "killing": killing_offspring,
    "ssp": ssp_offspring,
    "chopthin": chopthin_of_two,
}


def every_step(layers: Layers) -> range:
    return range(1, len(layers) + 1)


def log_errors(layers: Layers, alpha: float, runs: list[FiniteRun]) -> list[float]:
    """|log E[Z_hat] - log Z| of each run."""
    log_Z = power_law(layers, alpha).log_Z
    return [abs(run.evidence.log_mean - log_Z) for run in runs]


def test_reference_values(reference_cases: list[dict[str, Any]]) -> None:
    checked = 0
    for number, case in enumerate(reference_cases):
        path = ROOT / "tests" / "data" / "reference" / f"case-{number}.json"
        layers = unroll(read_model(path).table)
        for truth in case.get("smc", []):
            alpha = float(truth["alpha"])
            proposal = temperature_law(layers, alpha)
            if truth["kind"] == "adapted":
                run = adapted_filter(layers, alpha, truth["n"])
            else:
                steps = truth["resample_after_steps"]
                run = plain_filter(alpha, proposal, truth["n"], steps)
            z_mean = math.exp(run.evidence.log_mean)
            z_variance = run.evidence.relative_variance * z_mean**2
            assert z_mean == pytest.approx(truth["z_mean"], rel=1e-11)
            assert z_variance == pytest.approx(truth["z_variance"], rel=1e-11)
            names = [" ".join(map(str, tokens)) for tokens in run.sequences]
            law = dict(zip(names, run.final_draw.tolist(), strict=True))
            assert law == pytest.approx(truth["final_draw_law"], rel=1e-11)
            power = np.exp(enumerate_sequences((power_law(layers, alpha).law,)).log_probs[0])
            variation = 0.5 * np.abs(run.final_draw - power).sum()
            assert variation == pytest.approx(truth["final_draw_tv_to_power"], rel=1e-10)
            checked += 1
    assert checked == 24


def test_bias_of_the_golden_case() -> None:
    # Simulated elsewhere: mean length 3.446 of the row drawn at the end; the target's is 1.631.
    layers = unroll(toy_e())
    run = plain_filter(4.0, temperature_law(layers, 4.0), 2, every_step(layers))
    mean = sum(p * len(y) for y, p in zip(run.sequences, run.final_draw.tolist(), strict=True))
    assert mean == pytest.approx(3.446, abs=0.01)
    assert mean == pytest.approx(3.4414951, abs=1e-6)  # exact: the simulation was .0045 off


@pytest.mark.parametrize("name", SCHEMES)
@settings(max_examples=10)
@given(recipes, exponents, exponents)
def test_evidence_is_unbiased_under_every_scheme(
    name: str, recipe: Recipe, alpha: float, beta: float
) -> None:
    layers = unroll(recipe.build())
    assume(num_sequences(layers) < 12)
    scheme, proposal = SCHEMES[name], temperature_law(layers, beta)
    adaptive = when_ess_below(0.75, scheme)
    runs = [
        plain_filter(alpha, proposal, 2, every_step(layers), scheme),
        plain_filter(alpha, proposal, 2, every_step(layers), adaptive),
        plain_filter(alpha, proposal, 2, (1,), scheme),
        adapted_filter(layers, alpha, 2, scheme),
        adapted_filter(layers, alpha, 2, adaptive),
    ]
    assert max(log_errors(layers, alpha, runs)) < 1e-10
    assert all(run.final_draw.sum() == pytest.approx(1.0, rel=1e-12) for run in runs)


@pytest.mark.parametrize("name", [name for name in SCHEMES if name != "chopthin"])
def test_evidence_is_unbiased_with_three_particles(name: str) -> None:
    layers = unroll(markov(np.random.default_rng(5), 3, 3, (2,)))
    run = plain_filter(3.0, base_law(layers), 3, every_step(layers), SCHEMES[name])
    assert max(log_errors(layers, 3.0, [run])) < 1e-12


@given(recipes, exponents, exponents)
def test_one_particle_is_one_draw(recipe: Recipe, alpha: float, beta: float) -> None:
    layers = unroll(recipe.build())
    proposal = temperature_law(layers, beta)
    run = plain_filter(alpha, proposal, 1, every_step(layers))
    relative = chi_square(power_law(layers, alpha).law, proposal)
    assert run.evidence.relative_variance == pytest.approx(relative, rel=1e-8, abs=1e-12)
    drawn = np.exp(enumerate_sequences((proposal, base_law(layers))).log_probs[0])
    assert run.final_draw == pytest.approx(drawn, rel=1e-10, abs=1e-15)


@pytest.mark.parametrize("num_particles", [2, 3])
def test_without_resampling_it_is_importance_resampling(num_particles: int) -> None:
    layers = unroll(markov(np.random.default_rng(6), 3, 3, (0,)))
    power, proposal = power_law(layers, 2.0).law, temperature_law(layers, 4.0)
    run = plain_filter(2.0, proposal, num_particles, ())
    assert run.evidence.relative_variance == pytest.approx(
        chi_square(power, proposal) / num_particles, rel=1e-11
    )
    for sequence, probability in zip(run.sequences, run.final_draw.tolist(), strict=True):
        draw = weighted_draw(power, proposal, lambda y, chosen=sequence: float(y == chosen))
        mean = self_normalised_moments_by_enumeration(draw, num_particles).mean
        assert probability == pytest.approx(mean, rel=1e-11)


@pytest.mark.parametrize("name", SCHEMES)
def test_equal_weights_give_the_proposal(name: str) -> None:
    layers = unroll(toy_e())
    base = np.exp(enumerate_sequences((base_law(layers),)).log_probs[0])
    run = plain_filter(1.0, base_law(layers), 2, every_step(layers), SCHEMES[name])
    assert abs(run.evidence.log_mean) < 1e-13 and run.evidence.relative_variance < 1e-25
    assert run.final_draw == pytest.approx(base, rel=1e-11)


def test_the_target_as_proposal_draws_the_target() -> None:
    layers = unroll(toy_b())
    power = power_law(layers, 4.0)
    run = plain_filter(4.0, power.law, 3, ())
    assert run.evidence.relative_variance < 1e-25
    law = np.exp(enumerate_sequences((power.law,)).log_probs[0])
    assert run.final_draw == pytest.approx(law, rel=1e-12)


def ledger_table() -> ContextTable:
    """Weights of the ledger case: with p^(1/2) / p, a (9/10) weighs 1 and b (1/10) weighs 3, times sqrt(10/9).

    After a there are four equal tokens, which weigh 2; after b a certain one, which weighs 1.
    """
    rows = np.full((3, 4), -np.inf)
    rows[0, :2] = np.log([0.9, 0.1])
    rows[1] = -math.log(4)
    rows[2, 0] = 0.0
    return make_context_table(rows, np.tile([1, 2, 0, 0], (3, 1)), 0, (), 2)


def kept_slots(log_mean: Callable[[np.ndarray], float]) -> OffspringLaw:
    """No resampling, but weights set to a common value."""

    def law(log_weights: Float64[np.ndarray, " N"]) -> list[Offspring]:
        size = log_weights.size
        return [Offspring(1.0, tuple(range(size)), (log_mean(log_weights),) * size)]

    return law


def log_mean_weight(log_weights: np.ndarray) -> float:
    return float(np.log(np.exp(log_weights).mean()))


def test_the_ledger_case() -> None:
    # Two particles with weights 1 and 3 and then, unresampled, increments 2 and 1: 2.5, not mean(1, 3) mean(2, 1) = 3.
    layers, scale = unroll(ledger_table()), math.sqrt(10 / 9)
    q, log_Z = base_law(layers), power_law(layers, 0.5).log_Z
    right = plain_filter(0.5, q, 2, ()).evidence
    assert math.exp(right.log_mean) == pytest.approx(scale * (0.81 * 2 + 0.18 * 2.5 + 0.01 * 3))
    second = 0.81 * 2**2 + 0.18 * 2.5**2 + 0.01 * 3**2
    assert right.relative_variance == pytest.approx(second / 2.1**2 - 1, rel=1e-12)
    assert right.log_mean == pytest.approx(log_Z, rel=1e-13)
    # Weights averaged where nothing was resampled: the product of means over steps instead of over epochs.
    wrong = plain_filter(0.5, q, 2, (1,), kept_slots(log_mean_weight)).evidence
    assert math.exp(wrong.log_mean) == pytest.approx(scale * (0.81 * 2 + 0.18 * 3.0 + 0.01 * 3))


def shifted(log_weights: Float64[np.ndarray, " N"]) -> list[Offspring]:
    """Ancestors off by one."""
    size = log_weights.size
    return [
        outcome._replace(ancestors=tuple((i + 1) % size for i in outcome.ancestors))
        for outcome in multinomial_offspring(log_weights)
    ]


def evidence_lost(log_weights: Float64[np.ndarray, " N"]) -> list[Offspring]:
    """Weights set to 1 after resampling."""
    return [
        outcome._replace(log_weights=(0.0,) * log_weights.size)
        for outcome in multinomial_offspring(log_weights)
    ]


def weighted_still(log_weights: Float64[np.ndarray, " N"]) -> list[Offspring]:
    """Offspring that keep the weights of their parents: counted twice."""
    return [
        outcome._replace(log_weights=tuple(log_weights[list(outcome.ancestors)].tolist()))
        for outcome in multinomial_offspring(log_weights)
    ]


def fittest_only(log_weights: Float64[np.ndarray, " N"]) -> list[Offspring]:
    """The heaviest particle takes all slots."""
    size = log_weights.size
    best = int(np.argmax(log_weights))
    return [Offspring(1.0, (best,) * size, (log_mean_weight(log_weights),) * size)]


@pytest.mark.parametrize(
    "bug",
    [shifted, evidence_lost, weighted_still, fittest_only, kept_slots(log_mean_weight)],
    ids=["ancestor_shifted", "evidence_lost", "weighted_still", "fittest_only", "averaged"],
)
def test_planted_bugs_bias_the_evidence(bug: OffspringLaw) -> None:
    layers = unroll(toy_e())
    run = plain_filter(4.0, base_law(layers), 2, (1, 2, 3), bug)
    assert max(log_errors(layers, 4.0, [run])) > 0.01


def test_exponents_beyond_the_double_range() -> None:
    layers = unroll(markov(np.random.default_rng(8), 3, 3, (2,), concentration=0.3))
    power = power_law(layers, 400.0)
    assert power.log_Z < -100
    for run in (
        plain_filter(400.0, temperature_law(layers, 2.0), 2, (1, 2)),
        adapted_filter(layers, 400.0, 2),
    ):
        assert run.evidence.log_mean == pytest.approx(power.log_Z, rel=1e-12)


def test_bad_input_is_refused() -> None:
    layers = unroll(toy_e())

    def log_truncated(depth: int) -> np.ndarray:
        law = np.full((layers[depth].contexts.size, 3), math.log(0.5))
        law[:, 1] = -np.inf
        return law

    with pytest.raises(InvalidInput, match="token 1 after 0 tokens"):
        plain_filter(2.0, Law(layers, log_truncated), 2, ())
    for num_particles, message in ((0, "0 particles"), (5, "5 particles over 31 sequences")):
        with pytest.raises(InvalidInput, match=message):
            plain_filter(2.0, base_law(layers), num_particles, ())
        with pytest.raises(InvalidInput, match=message):
            adapted_filter(layers, 2.0, num_particles)
    with pytest.raises(InvalidInput, match="alpha 0"):
        plain_filter(0.0, base_law(layers), 2, ())
