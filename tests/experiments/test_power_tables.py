"""The tables of the demonstration against theory, law by law: a column that holds another law's number is seen."""

import math

import numpy as np
import pytest

from experiments import power_verdicts
from experiments.model_argument import load_model
from experiments.power_summary import FIRST_TOKEN, summary_rows
from experiments.power_tables import (
    crossover_rows,
    divergence_rows,
    ess_rows,
    first_token_rows,
    two_laws_rows,
)
from theory.exact import (
    base_law,
    base_log_prob_moments,
    enumerate_sequences,
    expected_length,
    kl_divergence,
    log_ess_fraction,
    power_law,
    small_alpha_law,
    temperature_law,
    total_variation,
    unroll,
)
from theory.exact.length_scaling import crossover_length, variances_at_length

MODEL = load_model("builtin:toy-e")
LAYERS = unroll(MODEL.table)
LAWS = {
    "base": base_law(LAYERS),
    "temperature": temperature_law(LAYERS, 3.0),
    "power": power_law(LAYERS, 3.0).law,
}


def test_summary() -> None:
    rows = summary_rows(MODEL, 3.0)
    found = {(row["law"], row["quantity"], row["token"]): row["value"] for row in rows}
    power, temperature, base = LAWS["power"], LAWS["temperature"], LAWS["base"]
    truth = {
        ("power", "kl_power_temperature"): kl_divergence(power, temperature),
        ("temperature", "kl_temperature_power"): kl_divergence(temperature, power),
        ("power", "kl_power_base"): kl_divergence(power, base),
        ("power", "tv_power_temperature"): total_variation(power, temperature),
        ("base", "log_ess_fraction_from_base"): log_ess_fraction(power, base),
        ("temperature", "log_ess_fraction_from_temperature"): log_ess_fraction(power, temperature),
    }
    for name, law in LAWS.items():
        truth[name, "expected_length"] = expected_length(law)
        truth[name, "expected_base_logp"] = base_log_prob_moments(law).mean
        for token, prob in zip(MODEL.token_labels, np.exp(law.log_conditional(0)[0]), strict=True):
            assert found[name, FIRST_TOKEN, token] == pytest.approx(prob, abs=1e-15)
    for (law, quantity), value in truth.items():
        assert found[law, quantity, ""] == pytest.approx(value, abs=1e-12), (law, quantity)


def test_two_laws_are_sorted_by_power_and_hold_each_law() -> None:
    rows = two_laws_rows(MODEL, 3.0)
    listed = enumerate_sequences([LAWS["base"], LAWS["temperature"], LAWS["power"]])
    order = np.argsort(-listed.log_probs[2], kind="stable")
    for row, index in zip(rows[:5], order[:5], strict=True):
        base, temperature, power = np.exp(listed.log_probs[:, index])
        assert (row["base"], row["temperature"], row["power"]) == pytest.approx(
            (base, temperature, power)
        )


def test_divergences_and_the_law_beside_them() -> None:
    law = small_alpha_law(LAYERS)
    for row in divergence_rows(MODEL, (0.5, 3.0)):
        alpha, other = row["alpha"], row["quantity"].removeprefix("kl_power_")
        power = power_law(LAYERS, alpha).law
        second = base_law(LAYERS) if other == "base" else temperature_law(LAYERS, alpha)
        predicted = {"base": law.kl_power_base, "temperature": law.kl_power_temperature}[other]
        assert row["exact"] == pytest.approx(kl_divergence(power, second), abs=1e-15)
        assert row["small_alpha_law"] == predicted(alpha)
        assert row["radius_alpha"] == 1 + law.radius


@pytest.mark.slow
def test_effective_sample_sizes_and_crossovers() -> None:
    model = load_model("builtin:toy-d")
    rows = ess_rows(model, 2.0, (4, 8))
    assert {row["length"] for row in rows} == {4, 8}
    for length in (4, 8):
        truth = {v.method: v for v in variances_at_length(model.table, 2.0, length)}
        for row in (row for row in rows if row["length"] == length):
            found = truth[row["method"]]
            assert row["log_ess_fraction"] == -found.log_one_plus_variance
            assert row["proposal_alpha"] == found.proposal_alpha
    for row in crossover_rows(model, 2.0, 512):
        pair = (row["first"], row["second"])
        assert row["length"] == crossover_length(model.table, 2.0, *pair, 512)


def test_first_tokens() -> None:
    for row in first_token_rows(MODEL, (3.0,)):
        token = MODEL.token_labels.index(row["token"])
        truth = math.exp(LAWS[row["law"]].log_conditional(0)[0, token])
        assert row["probability"] == pytest.approx(truth, abs=1e-15)


def test_a_program_that_differs_from_enumeration_fails_its_verdict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(power_verdicts, "_enumeration_error", lambda layers, alpha: 1e-9)
    rows = power_verdicts.verdict_rows(MODEL, 2.0, 2000, 0)
    assert [row["check"] for row in rows if not row["ok"]] == ["dynamic program = enumeration"]


def test_the_random_models_are_always_the_same() -> None:
    for name, first in (
        ("random-markov", 0.00745317928),
        ("random-endless", 0.00745317928),
        ("random-tree", 0.038030238695),
    ):
        table = load_model(f"builtin:{name}").table
        assert math.exp(table.log_probs[table.initial, 0]) == pytest.approx(first, rel=1e-8), name
