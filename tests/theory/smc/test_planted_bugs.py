"""The checks that certify the samplers reject their wrong twins, and pass the twin without a defect."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from tests.planted_bugs import smc as planted
from tests.stat_asserts import assert_rejected
from tests.theory.smc.runs import check_draws, check_evidence, reference_law, reference_table
from theory.generation import Trajectories


def ran(
    twin: type[planted.Filter], cases: list[dict[str, Any]], number: int, num_populations: int
) -> tuple[planted.Filter, dict[str, Any]]:
    """Two particles, resampled after every step but the last."""
    truth = [item for item in cases[number]["smc"] if item["kind"] == "plain"][2]
    table, alpha = reference_table(number), float(truth["alpha"])
    return twin(table, alpha, (num_populations, 2), seed=1).run(), truth


def evidence(done: planted.Filter, truth: dict[str, Any]) -> None:
    """The check of test_smc."""
    log_Z = float(np.log(truth["z_mean"]))
    check_evidence(jnp.asarray(done.log_Z, jnp.float32), log_Z, smallest_bias=0.3)


def draws(done: planted.Filter, truth: dict[str, Any]) -> None:
    """The check of test_smc."""
    tokens, lengths = done.draw()
    numbers = jnp.zeros(tokens.shape, jnp.float32)
    rows = Trajectories(
        jnp.asarray(tokens, jnp.int32),
        jnp.asarray(lengths, jnp.int32),
        jnp.asarray(lengths < tokens.shape[1]),
        numbers,
        numbers,
        numbers,
    )
    check_draws(rows, reference_law(truth["final_draw_law"]))


@pytest.mark.parametrize("number", [1, 3])
def test_the_twin_without_a_defect_passes(
    reference_cases: list[dict[str, Any]], number: int
) -> None:
    done, truth = ran(planted.Filter, reference_cases, number, 20_000)
    evidence(done, truth)
    draws(done, truth)


@pytest.mark.parametrize(
    "twin",
    [
        planted.EvidenceLostAtResampling,
        planted.EvidenceCountedAgain,
        planted.AbsoluteWeights,
        planted.FinishedParticlesReweighted,
        planted.LastReweightMissing,
        planted.RampWithoutCatchUp,
    ],
)
def test_defects_of_the_evidence_are_rejected(
    reference_cases: list[dict[str, Any]], twin: type[planted.Filter]
) -> None:
    done, truth = ran(twin, reference_cases, 1, 60_000)
    assert_rejected(lambda: evidence(done, truth))


@pytest.mark.parametrize(
    ("twin", "number"),
    [
        (planted.AbsoluteWeights, 1),
        (planted.FinishedParticlesReweighted, 1),
        (planted.LogNormaliserDropped, 1),
        (planted.LastReweightMissing, 1),
        (planted.ModelStateLeftBehind, 1),
        (planted.ResampleKeyReused, 3),
        (planted.RampWithoutCatchUp, 1),
    ],
)
def test_defects_of_the_population_are_rejected(
    reference_cases: list[dict[str, Any]], twin: type[planted.Filter], number: int
) -> None:
    done, truth = ran(twin, reference_cases, number, 20_000)
    assert_rejected(lambda: draws(done, truth))


def test_a_dropped_normaliser_says_that_z_is_one(reference_cases: list[dict[str, Any]]) -> None:
    """Every replicate is 1: no test of a mean is needed."""
    done, truth = ran(planted.LogNormaliserDropped, reference_cases, 1, 10)
    assert (done.log_Z == 0).all() and truth["z_mean"] < 0.2


def test_the_wrong_ledger_gives_three() -> None:
    wrong = planted.evidence_by_increments(np.log([[1.0, 3.0]]), np.log([[2.0, 1.0]]))
    assert np.exp(wrong[0]) == pytest.approx(3.0)
