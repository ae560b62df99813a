"""The variance of Z_hat is judged up to float32 rounding, and no further."""

import json
import math
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from experiments.validate import main
from experiments.validation.cases import Sizes
from experiments.validation.findings import BIASED, OK, judge, row_level
from experiments.validation.populations import variance_finding
from models.tabular.toys import toy_e
from theory.exact.laws import PowerLaw, power_law
from theory.exact.layers import unroll

SIZES = Sizes(4096, 4096, 0.1, 0.3, 0.15, 0.5, (2,))


@pytest.fixture(scope="module")
def power() -> PowerLaw:
    return power_law(unroll(toy_e()), 2.0)


def verdict(power: PowerLaw, noise: np.ndarray, exact: float) -> str:
    log_Z_hat = jnp.asarray(power.log_Z + noise, jnp.float32)
    finding = variance_finding(log_Z_hat, power, exact, 2, SIZES, num_tokens=3)
    assert finding.truth == exact
    return judge("smc", "k", "c", finding, row_level(1)).verdict


def test_rounding_is_no_variance(power: PowerLaw) -> None:
    signs = np.where(np.arange(4096) % 3, 1.0, -1.0)
    assert verdict(power, np.zeros(4096), 3e-34) == OK
    assert verdict(power, signs * 2e-7, 0.0) == OK
    assert verdict(power, signs * 1e-5, 0.0) == BIASED
    assert verdict(power, np.full(4096, 1e-5), 0.0) == BIASED


def test_a_variance_beyond_rounding_is_judged_as_ever(power: PowerLaw) -> None:
    noise = np.random.default_rng(0).normal(0, 0.05, 4096)
    exact = math.exp(2 * 0.05**2) - 2 * math.exp(0.05**2 / 2) + 1
    assert verdict(power, noise, exact) == OK
    assert verdict(power, noise, 1.3 * exact) == BIASED
    assert verdict(power, noise, exact / 1.3) == BIASED


def test_equal_weights_are_no_bias(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model: dict[str, object] = {"kind": "tree", "vocab_size": 5, "max_length": 1, "eos": 2}
    model["conditionals"] = {"": ["1/2", 0, "1/4", "1/8", "1/8"]}
    path = tmp_path / "even.json"
    path.write_text(json.dumps(model))
    argv = ["--preset", "quick", "--kernel", "smc,adapted-smc", "--case", str(path)]
    status = main([*argv, "--json", "-"])
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["quantity"] for row in rows if row["verdict"] != "ok"] == []
    assert status == 0
