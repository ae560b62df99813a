"""`rolloutlab learned-twists`: what is measured is what the sampler gives, exact variances are exact, and twists help."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from experiments import tables
from experiments.learned_twists import PRESETS, main, measure
from experiments.twist_fits import Prompts
from experiments.twist_summary import MEASURED, NO_TWIST, summary_of
from models.tabular.context_model import ContextModel
from models.tabular.toys import toy_e
from tests.models.pretrained.published import PUBLISHED

# Whole runs of the experiment.
pytestmark = pytest.mark.slow

SMOKE = PRESETS["smoke"].config


def test_the_command_learns_and_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.json"
    argv = ["--preset", "smoke", "--results-dir", str(tmp_path), "--json", str(out)]
    assert main(argv) == 0
    shown = capsys.readouterr().out
    assert "Var(log Z_hat)" in shown and "exact" in shown and "soft-bellman" in shown
    found = json.loads(out.read_text())
    summary = {row["twist"]: row for row in found["summary"]}
    exact = {row["twist"]: row["relative_variance"] for row in found["exact"]}
    assert set(summary) == set(exact) == {"none", "plain filter", "soft-bellman", "contrastive"}
    assert summary["none"]["ratio"] == summary["none"]["low"] == summary["none"]["high"] == 1.0
    for loss in ("soft-bellman", "contrastive"):
        assert 0 <= summary[loss]["low"] <= summary[loss]["ratio"] <= summary[loss]["high"] < 0.2
        assert exact[loss] < 0.05 * exact["none"]
    assert exact["none"] < exact["plain filter"]
    assert summary["none"]["unit"] == "populations"
    assert main(argv) == 0  # from the run folder


def test_several_prompts_of_any_model_are_measured_one_by_one() -> None:
    """A prompt's populations are those that it has alone, at the same place in the list."""
    model = ContextModel.from_table(toy_e())
    prompts = Prompts(np.array([[0, 1], [1, 0]], np.int32), np.array([2, 1], np.int32))
    config = dataclasses.replace(SMOKE, num_populations=5)
    table = measure(config, "E", model, prompts, prompts)
    assert table.num_rows == 4 * 2 * 5
    first = Prompts(prompts.tokens[:1], prompts.lengths[:1])
    alone = measure(config, "E", model, prompts, first)
    for twist in (NO_TWIST, "contrastive"):
        np.testing.assert_array_equal(
            tables.column(table, "log_Z_hat", twist=twist, prompt=0),
            tables.column(alone, "log_Z_hat", twist=twist, prompt=0),
        )


def measured(values: dict[str, np.ndarray]) -> pa.Table:
    """A table of log Z_hat, [prompts, populations] for each twist."""
    return tables.from_rows(
        MEASURED,
        (
            {
                "model": "m",
                "twist": twist,
                "prompt": prompt,
                "num_particles": 2,
                "population": population,
                "log_Z_hat": value,
            }
            for twist, found in values.items()
            for (prompt, population), value in np.ndenumerate(found)
        ),
    )


def test_the_summary_is_of_variances_within_prompts() -> None:
    rng = np.random.default_rng(0)
    level = 10 * np.arange(4.0)[:, None]  # between prompts nothing counts
    none, half = level + 2 * rng.normal(size=(4, 6)), level + rng.normal(size=(4, 6))
    rows = summary_of(measured({"none": none, "half": half}), 0).to_pylist()
    by_twist = {row["twist"]: row for row in rows}
    variances = {"none": none.var(axis=1, ddof=1), "half": half.var(axis=1, ddof=1)}
    for twist, variance in variances.items():
        assert by_twist[twist]["unit"] == "prompts"
        assert by_twist[twist]["variance_log_Z_hat"] == pytest.approx(variance.mean())
    ratios = variances["half"] / variances["none"]
    found = by_twist["half"]
    assert found["ratio"] == pytest.approx(variances["half"].sum() / variances["none"].sum())
    assert ratios.min() <= found["low"] <= found["ratio"] <= found["high"] <= ratios.max()


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--alpha", "0"], "alpha 0"),
        (["--num-populations", "1"], "--num-populations 1"),
        (["--models", str(PUBLISHED / "gpt2")], "belongs to no task, give a shipped transformer"),
        (["--seed", "-1"], "--seed -1: must be in 0..4294967295"),
        (["--learning-rate", "0"], "--learning-rate 0"),
        (["--models", "builtin:toy-z"], "toy-z"),
    ],
)
def test_what_the_user_can_mend(
    argv: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and words in err
