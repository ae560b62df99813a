"""Ablations of allocation rules: what is compared, verdicts over seeds, and the size of an update against its effective groups."""

import itertools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import binom

from experiments.allocation import yield_and_norm
from experiments.allocation.ablation_regimes import COVERAGE_REGIMES, PILOT_VARIANTS
from experiments.allocation.ablation_report import differences, verdict
from experiments.allocation.prior_variants import LEARNERS, PRIOR_VARIANTS, levels
from experiments.allocation.regimes import SkillRegime
from experiments.allocation.report import Row, over
from experiments.allocation.worlds import SkillPrompts, draw_skill_prompts
from experiments.allocation_ablations import RULES, Config, jobs, main
from tests.experiments.allocation.commands import assert_refused, smoke_report
from tests.stat_asserts import assert_mean, assert_rejected

FEATURES = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 2.0]])
RATES = np.array([0.2, 0.5, 0.9])


def test_the_size_of_an_update_is_that_of_all_its_outcomes() -> None:
    """Every pair of prompts and every outcome of their groups, written out: B = 2, n = 3."""
    size, batch = 3, 2
    outcomes = list(itertools.product(range(3), range(size + 1)))
    total, squares = np.zeros(batch + 1), np.zeros(batch + 1)
    for groups in itertools.product(outcomes, repeat=batch):
        chance = np.prod([binom.pmf(s, size, RATES[prompt]) / 3 for prompt, s in groups])
        pushes = [np.sqrt(s * (size - s)) / size * FEATURES[prompt] for prompt, s in groups]
        update = np.sum(pushes, axis=0) / batch
        effective = sum(0 < s < size for _, s in groups)
        total[effective] += chance
        squares[effective] += chance * float((update**2).sum())
    law = yield_and_norm.effective_groups(FEATURES, RATES, size)
    found = yield_and_norm.squared_norm(law, np.arange(batch + 1), batch)
    np.testing.assert_allclose(found, squares / total, rtol=1e-12, atol=1e-15)
    assert law.share == pytest.approx(total[1] / 2 + total[2], rel=1e-12)


def squared_norms(rates: np.ndarray) -> np.ndarray:
    """Of 40,000 random batches, less their expectation at the rates above, at the number of effective groups that each has."""
    regime = SkillRegime("r", 1.0, 0.0, 4, 3, batch_size=5)
    rng = np.random.default_rng(11)
    counts, squares = yield_and_norm.random_batches(rng, FEATURES, rates, regime, 40_000)
    law = yield_and_norm.effective_groups(FEATURES, RATES, regime.group_size)
    return squares - yield_and_norm.squared_norm(law, counts, regime.batch_size)


def test_random_batches_have_the_exact_size() -> None:
    assert_mean(squared_norms(RATES), 0.0, smallest_bias=0.02)
    harder = np.array([0.05, 0.8, 0.9])
    assert_rejected(lambda: assert_mean(squared_norms(harder), 0.0, smallest_bias=0.02))


def test_the_table_of_sizes_is_of_the_policies_that_uniform_allocation_has_in_expectation() -> None:
    """Rows at the start and after two expected updates, written out prompt by prompt, beside the same random batches."""
    regime = SkillRegime("r", 1.0, 0.3, 3, 6, batch_size=4, learning_rate=2.0)
    num_batches, seed = 400, 5
    drawn = draw_skill_prompts(jax.random.fold_in(jax.random.key(seed), 0), regime)
    features, difficulty = (np.asarray(part, np.float64)[:6] for part in drawn[:2])
    rows = list(yield_and_norm.rows(regime, range(seed, seed + 1), num_batches, 2))
    policies = list(dict.fromkeys(row["policy"] for row in rows))
    assert policies == ["start", "after 2 updates"]
    rng, parameters = np.random.default_rng(seed), np.zeros(features.shape[1])
    for policy, steps in zip(policies, (0, 2), strict=True):
        for _ in range(steps):
            rates = 1 / (1 + np.exp(difficulty - features @ parameters))
            # E[push of a group] along the features of its prompt, over the prompts.
            pushes = [
                sum(binom.pmf(s, 3, p) * np.sqrt(s * (3 - s)) / 3 for s in (1, 2)) for p in rates
            ]
            parameters = parameters + 2.0 * np.mean(np.array(pushes)[:, None] * features, axis=0)
        rates = 1 / (1 + np.exp(difficulty - features @ parameters))
        counts, squares = yield_and_norm.random_batches(rng, features, rates, regime, num_batches)
        law = yield_and_norm.effective_groups(features, rates, 3)
        mine = [row for row in rows if row["policy"] == policy]
        assert [row["effective"] for row in mine] == [
            k for k in range(5) if (counts == k).sum() >= 30
        ]
        for row in mine:
            kept = squares[counts == row["effective"]]
            assert row["batches"] == kept.size
            assert row["squared_norm"] == pytest.approx(kept.mean())
            assert row["standard_error"] == pytest.approx(kept.std(ddof=1) / kept.size**0.5)
            exact = yield_and_norm.squared_norm(law, np.array([row["effective"]]), 4)[0]
            assert row["exact"] == pytest.approx(exact, rel=1e-9)
            assert row["turning_point"] == pytest.approx(law.mean_square / (law.mean**2).sum())


def test_verdicts_over_seeds() -> None:
    assert verdict(np.array([1.0, 1.1, 0.9])) == "better"
    assert verdict(np.array([-1.0, -1.1, -0.9])) == "worse"
    assert verdict(np.array([1.0, -1.1, 0.3])) == "tie"
    assert verdict(np.array([1.0])) == "tie"


def test_differences_are_taken_seed_by_seed() -> None:
    rows: list[Row] = [
        {"method": method, "seed": seed, "accuracy": value}
        for method, values in {"uniform": (0.1, 0.5), "hora": (0.7, 0.2)}.items()
        for seed, value in reversed(list(enumerate(values)))
    ]
    found = differences(rows, "hora", "uniform", "accuracy")
    np.testing.assert_allclose(sorted(found), [-0.3, 0.6])


def test_who_never_arrived_makes_a_bound() -> None:
    def run(rollouts: int, reached: bool) -> dict[str, object]:
        return {"seed": 0, "rollouts": rollouts, "reached": reached}

    assert over([run(100, True)], {0: run(200, True)}) == "2.00"
    assert over([run(100, False)], {0: run(200, True)}) == "at most 2.00"
    assert over([run(100, True)], {0: run(200, False)}) == "at least 2.00"
    assert over([run(100, False)], {0: run(200, False)}) == "? 2.00"


def test_every_variant_cell_and_form_is_run() -> None:
    found = list(jobs(Config()))
    names = [(job.part, job.setting.name, job.rule) for job in found]
    assert len(set(names)) == len(names)
    assert {job.rule for job in found} >= {*PILOT_VARIANTS, "uniform", "hora", "sara"}
    assert len(COVERAGE_REGIMES) == 12
    assert {job.setting.name for job in found} >= {regime.name for regime in COVERAGE_REGIMES}
    assert len({regime.name for regime in COVERAGE_REGIMES}) == 12
    assert set(PILOT_VARIANTS) < set(RULES)
    assert not any(
        "," in name for name in (*PILOT_VARIANTS, *PRIOR_VARIANTS)
    )  # the commas of lists
    priors = [job for job in found if job.part == "priors"]
    assert {job.rule for job in priors} == {"uniform", "hora", *PRIOR_VARIANTS}
    families = {"easy", "hard", "spread", "hard-and-spread"}
    assert {job.setting.name.removesuffix("-rate-0.15") for job in priors} == families


def test_priors_see_the_difficulty_of_the_prompts_that_are_trained_on() -> None:
    """Ten prompts, whose held-out others are out of their order: fifths, like prompts by difficulty, and what each prediction is worth."""
    hard = jnp.array([3.0, -1.0, 4.0, 1.5, -5.0, 9.0, 2.6, 7.0, 5.5, 8.0])
    difficulty = jnp.concatenate([hard, -hard])
    prompts = SkillPrompts(jnp.ones((20, 2)), difficulty, jnp.float32(1), jnp.int32(0))
    assert levels(prompts).tolist() == [2, 0, 2, 1, 0, 4, 1, 3, 3, 4]
    right = jnp.array([1.0, 2, 0, 1, 4, 0, 1, 0, 1, 0])
    believed = {
        name: learner_of(prompts)(right, 4 - right) for name, learner_of in LEARNERS.items()
    }
    for name, prior in believed.items():
        if name[-1].isdigit():
            np.testing.assert_allclose(prior.a + prior.b, float(name[-1]), rtol=1e-5)
    rates = {name: (prior.a / (prior.a + prior.b))[:, 0] for name, prior in believed.items()}
    # (1 + S) / (2 + S + F): over a level, over the population, and of a visit that counts by half.
    np.testing.assert_allclose(rates["level-2"][:3], [2 / 10, 7 / 10, 2 / 10], rtol=1e-5)
    np.testing.assert_allclose(rates["level-8"], rates["level-2"], rtol=1e-5)
    np.testing.assert_allclose(rates["last-visit"], (1 + right / 2) / 4, rtol=1e-5)
    assert np.ptp(rates["population"]) == 0
    for name in ("logistic-2", "logistic-8"):
        assert (np.diff(rates[name][np.argsort(hard)]) < 0).all()
    gaps = (hard[:, None] - hard[None, :]) / hard.std()
    weights = np.exp(-(gaps**2) / 0.02)
    near = (1 + weights @ right) / (2 + weights.sum(axis=1) * 4)
    np.testing.assert_allclose(rates["neighbours-8"], near, rtol=1e-4)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--parts", "pilot"], "unknown part 'pilot'"),
        (["--variants", "k"], "unknown variant 'k'"),
        (["--priors", "levels"], "unknown prior 'levels'"),
        (["--prior-regimes", "easy"], "unknown regime 'easy'"),
        (["--cells", "12"], "--cells 12: must be 0 to 11"),
        (["--seeds", "0"], "--seeds 0: must be at least 1"),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    words: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_refused(main, words, line, capsys)


@pytest.mark.slow
def test_the_smoke_preset_reports_and_resumes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = smoke_report(main, tmp_path, capsys)
    assert "switches of Pilot-Commit" in first and "Forms of the advantage" in first
    assert "HORA with learned priors" in first
