"""Particle filters: what the catalogue lists."""

from collections.abc import Callable
from typing import Any

from tests.planted_bugs import smc as planted
from tests.planted_bugs.damage import smc as exact
from tests.planted_bugs.defect import (
    RELATIVE_BIAS,
    TOTAL_VARIATION,
    Defect,
)

HOME = "tests/theory/smc/test_planted_bugs.py"


def _filter(
    kind: str,
    twin: type[planted.Filter],
    measure: Callable[[Any], float],
    damage: float,
    *reports: str,
) -> Defect:
    of_population = measure is not exact.of_evidence
    test = (
        "test_defects_of_the_population_are_rejected"
        if of_population
        else "test_defects_of_the_evidence_are_rejected"
    )
    unit = TOTAL_VARIATION if measure is exact.of_draw else RELATIVE_BIAS
    toy = "E of three tokens, alpha 4, two particles"
    if measure is exact.of_common_ancestors:
        toy = "three coins, two particles"
    return Defect(
        kind, twin, planted.Filter, measure, damage, unit, toy, f"{HOME}::{test}", reports
    )


DEFECTS = (
    _filter(
        "evidence lost at resampling",
        planted.EvidenceLostAtResampling,
        exact.of_evidence,
        69.2383,
        "ArminAzizi98/Power-SMC",
        "Turing#405",
    ),
    _filter("evidence counted again", planted.EvidenceCountedAgain, exact.of_evidence, 0.998001),
    Defect(
        "evidence of an epoch by increments",
        planted.evidence_by_increments,
        exact.evidence_of_products,
        exact.of_ledger,
        0.2,
        RELATIVE_BIAS,
        "weights 1, 3, increments 2, 1",
        f"{HOME}::test_the_wrong_ledger_gives_three",
        ("Turing#1266", "treeppl#64"),
    ),
    _filter(
        "absolute instead of incremental weights",
        planted.AbsoluteWeights,
        exact.of_evidence,
        0.599407,
        "its_hub",
    ),
    _filter(
        "absolute instead of incremental weights",
        planted.AbsoluteWeights,
        exact.of_draw,
        0.0115997,
        "its_hub",
    ),
    _filter(
        "finished particles reweighted",
        planted.FinishedParticlesReweighted,
        exact.of_evidence,
        0.687123,
        "its_hub#208",
    ),
    _filter(
        "finished particles reweighted",
        planted.FinishedParticlesReweighted,
        exact.of_draw,
        0.0472543,
        "its_hub#208",
    ),
    _filter(
        "log z dropped", planted.LogNormaliserDropped, exact.of_draw, 0.0419081, "prime-rl#697"
    ),
    _filter(
        "last reweighting missing",
        planted.LastReweightMissing,
        exact.of_evidence,
        1.63957,
    ),
    _filter("last reweighting missing", planted.LastReweightMissing, exact.of_draw, 0.0358669),
    _filter(
        "last bridged exponent not reached",
        planted.RampWithoutCatchUp,
        exact.of_evidence,
        12.4283,
        "KarthikSubramanian07/power-smc",
        "abdelfattah-lab/smcsd",
    ),
    _filter(
        "model state left behind",
        planted.ModelStateLeftBehind,
        exact.of_draw,
        0.0935207,
        "transformers#46612",
    ),
    _filter("key reuse", planted.ResampleKeyReused, exact.of_common_ancestors, 0.142857),
)
