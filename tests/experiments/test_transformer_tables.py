"""Tables of power sampling on transformers: unbiased diversity, weighted means, paired gaps, and what is said of them."""

from typing import Any

import numpy as np
import pytest

from experiments import tables
from experiments.enumerated_truth import Enumeration
from experiments.transformer_methods import Handed
from experiments.transformer_sentences import sentences
from experiments.transformer_tables import (
    LAWS,
    METHOD_SCHEMA,
    METRICS,
    NUM_RESAMPLES,
    SUMMARY_SCHEMA,
    TRUTH_SCHEMA,
    diversity,
    method_rows,
    summary_rows,
    truth_rows,
)
from models.tasks.registry import task
from models.tasks.text import parse, parse_prompts
from tests.planted_bugs.damage.on_transformers import of_diversity
from tests.planted_bugs.on_transformers import replicates_paired_with_themselves
from theory.estimators.bootstrap import difference_interval, resample_counts

COUNTDOWN = task("countdown-3")
PROMPTS = parse_prompts(COUNTDOWN, ["2 7 5 1 9 =", "5 3 5 2 0 ="])
EOS = COUNTDOWN.labels[COUNTDOWN.eos]
# Right for the first, for the second, for neither, and nonsense that is cut off.
ROWS = [f"7 * 2 + 5 {EOS}", f"5 * 3 + 5 {EOS}", f"2 + 7 + 5 {EOS}", "+ + + + + +"]


def tokens_of(rows: list[int]) -> np.ndarray:
    return np.array([parse(COUNTDOWN, ROWS[row]) for row in rows], np.int32)


def test_diversity_is_unbiased() -> None:
    """Over all outcomes of two replicates; pairs of a replicate with itself agree too often."""
    assert of_diversity(diversity) < 1e-12
    assert of_diversity(replicates_paired_with_themselves) > 0.3


def test_diversity_by_hand() -> None:
    same, other = np.zeros((3, 1, 2), int), np.arange(6).reshape(3, 1, 2)
    assert diversity(same, np.ones((3, 1))) == pytest.approx(0.0)
    assert diversity(other, np.ones((3, 1))) == pytest.approx(1.0)
    pair = np.array([[[0], [1]], [[1], [2]]])
    weights = np.array([[0.25, 0.75], [0.4, 0.6]])
    assert diversity(pair, weights) == pytest.approx(1 - 0.75 * 0.4)


def handed(rows: list[list[list[int]]], weights: list[list[list[float]]]) -> Handed:
    tokens = np.array([[tokens_of(one) for one in prompt] for prompt in rows])
    shape = tokens.shape[:3]
    return Handed(
        size=2,
        tokens=tokens,
        lengths=np.full(shape, 6, np.int32),
        log_p=-1.0 - np.array(rows),
        weights=np.array(weights),
        ess_fraction=np.array([[0.5, 0.7], [0.2, 0.4]]),
        accept_rate=np.array([0.1, np.nan]),
        cost={"generated_tokens": 12.0, "model_calls": 6.0},
    )


def test_a_method_is_a_weighted_mean_over_rows_then_replicates() -> None:
    """Row k has log p = -1 - k here."""
    given = handed(
        [[[0, 2], [0, 3]], [[0, 1], [1, 1]]],
        [[[0.25, 0.75], [0.5, 0.5]], [[0.9, 0.1], [0.5, 0.5]]],
    )
    first, second = method_rows(2.0, "smc", given, COUNTDOWN, PROMPTS)
    assert (first["accuracy"], second["accuracy"]) == (
        pytest.approx(0.375),
        pytest.approx(0.55),
    )
    assert first["log_p"] == pytest.approx(-(0.25 + 3 * 0.75 + 0.5 + 4 * 0.5) / 2)
    assert second["log_p"] == pytest.approx(-(0.9 + 0.2 + 2) / 2)
    assert first["diversity"] == pytest.approx(1 - 0.25 * 0.5)
    assert second["diversity"] == pytest.approx(1 - 0.1)
    assert (first["ess_fraction"], second["ess_fraction"]) == (
        pytest.approx(0.6),
        pytest.approx(0.3),
    )
    assert (first["accept_rate"], first["length"], first["size"]) == (0.1, 6.0, 2)
    assert (first["prompt"], second["prompt"]) == (0, 1)
    assert tables.from_rows(METHOD_SCHEMA, [first, second]).num_rows == 2


def test_the_truth_is_of_each_law_and_says_what_is_missing() -> None:
    """Two prompts with two completions each, and a rest of 0.1 of the base law."""
    p, q = np.array([0.6, 0.3, 0.2, 0.7]), np.array([0.8, 0.15, 0.1, 0.85])
    found = Enumeration(
        np.array([0, 0, 1, 1]),
        tokens_of([0, 2, 0, 1]),
        np.full(4, 6),
        np.log(p),
        np.log(q),
        2.0,
        np.array([0.1, 0.1]),
        np.array([0.05, 0.05]),
        np.log([0.01, 0.02]),
    )
    rows = truth_rows(found, COUNTDOWN, PROMPTS)
    assert [(row["law"], row["prompt"]) for row in rows] == [
        (law, i) for law in LAWS for i in (0, 1)
    ]
    by = {(row["law"], row["prompt"]): row for row in rows}
    base, heat, power = (by[law, 0] for law in LAWS)
    assert (base["accuracy"], base["accuracy_high"]) == (pytest.approx(0.6), pytest.approx(0.7))
    assert (heat["accuracy"], heat["accuracy_high"]) == (pytest.approx(0.8), pytest.approx(0.85))
    whole = 0.36 + 0.09 + 0.01
    assert power["accuracy"] == pytest.approx(0.36 / whole)
    assert power["accuracy_high"] == pytest.approx(0.37 / whole)
    assert [row["missing"] for row in (base, heat, power)] == pytest.approx(
        [0.1, 0.05, 0.01 / whole]
    )
    assert by["power_law", 1]["accuracy"] == pytest.approx(0.49 / (0.04 + 0.49 + 0.02))
    assert base["diversity"] == pytest.approx(1 - (0.6**2 + 0.3**2) / 0.81)
    assert power["diversity"] == pytest.approx(1 - (0.36**2 + 0.09**2) / 0.45**2)
    expected = (0.36 * np.log(0.6) + 0.09 * np.log(0.3)) / 0.45
    assert power["log_p"] == pytest.approx(expected)
    assert power["length"] == pytest.approx(6.0)
    assert tables.from_rows(TRUTH_SCHEMA, rows).num_rows == 6


def truth_and_methods() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Prompts differ widely; "near" is off by exactly 0.01 on each, "far" by something else on each."""
    rng = np.random.default_rng(0)
    truth: list[dict[str, Any]] = []
    methods: list[dict[str, Any]] = []
    for prompt in range(12):
        values = {metric: rng.normal() * 10 for metric in METRICS}
        for law in LAWS:
            shifted = {metric: value + len(law) for metric, value in values.items()}
            truth.append(
                {
                    "alpha": 2.0,
                    "law": law,
                    "prompt": prompt,
                    "accuracy_high": shifted["accuracy"],
                    **shifted,
                }
            )
        target = truth[-1]
        for name, gap in (("near", 0.01), ("far", 1 + 5 * rng.normal()), ("temperature", 0.0)):
            off = {metric: target[metric] + gap for metric in METRICS}
            methods.append({"alpha": 2.0, "method": name, "prompt": prompt, **off})
    rng.shuffle(methods)  # pyright: ignore[reportArgumentType]
    return truth, methods


def test_gaps_are_paired_by_prompt() -> None:
    """A constant gap has an interval of no width, however much prompts differ."""
    truth, methods = truth_and_methods()
    rows = {(row["method"], row["metric"]): row for row in summary_rows(methods, truth, 0)}
    counts = resample_counts(np.random.default_rng(0), 12, NUM_RESAMPLES)
    assert len(rows) == (3 + len(LAWS)) * len(METRICS)
    for metric in METRICS:
        near, far, target = (rows[name, metric] for name in ("near", "far", "power_law"))
        ends = [near[name] for name in ("gap", "gap_low", "gap_high")]
        assert ends == pytest.approx([0.01] * 3, abs=1e-9)
        assert near["high"] - near["low"] > 1
        own = [row[metric] for row in methods if row["method"] == "far"]
        assert far["value"] == pytest.approx(np.mean(own))
        assert far["gap"] == pytest.approx(far["value"] - target["value"])
        ours, exact = (
            np.array([row[metric] for row in sorted(given, key=lambda row: row["prompt"])])
            for given in (
                [row for row in methods if row["method"] == "far"],
                [row for row in truth if row["law"] == "power_law"],
            )
        )
        gaps = difference_interval(counts, ours, exact)
        assert (far["gap_low"], far["gap_high"]) == (gaps.low, gaps.high)
        assert (target["gap"], target["gap_low"], target["gap_high"]) == (0, 0, 0)
        assert near["prompts"] == 12
    base = rows["base_law", "log_p"]
    assert base["gap"] == pytest.approx(len("base_law") - len("power_law"))


def test_sentences_name_the_nearest_and_the_truth() -> None:
    truth, methods = truth_and_methods()
    summary = summary_rows(methods, truth, 0)
    foretold = [
        {"alpha": a, "predicted": 0.02, "low": 0.01, "high": 0.03, "exact": exact, "radius": 0.3, "inside_radius": a < 1.3}
        for a, exact in ((1.1, 0.9), (1.2, 0.025), (2.0, 0.5))
    ]  # fmt: skip

    def said(prediction: list[dict[str, Any]]) -> list[str]:
        schema = tables.schema(
            alpha=float, predicted=float, low=float, high=float, exact=float, radius=float, inside_radius=bool,
        )  # fmt: skip
        found = {
            "summary": tables.from_rows(SUMMARY_SCHEMA, summary),
            "truth": tables.from_rows(TRUTH_SCHEMA, ({"missing": 0.0, **row} for row in truth)),
            "prediction": tables.from_rows(schema, prediction),
        }
        return sentences(found, 64)

    first, *nearest, last = said(foretold)
    assert "alpha 2, exact to 0.0e+00 over 12 prompts" in first
    assert len(nearest) == 3
    assert all(
        "64 tokens: near comes nearest" in line and "farthest is far" in line for line in nearest
    )
    assert not any("temperature" in line for line in nearest)
    assert "alpha 1.2" in last and "holds it" in last
    assert "does not hold it" in said(foretold[:1])[-1]
    assert "no exponent asked for is" in said(foretold[2:])[-1]
    assert len(said([])) == 4
