"""The rules of tests/conftest.py, each broken on purpose in a run of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.repository import ROOT


def run_pytest(tmp_path: Path, source: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run one test file under the project's configuration and conftest."""
    path = tmp_path / "test_planted.py"
    path.write_text(source)
    # As a conftest and not by `-p`: jaxtyping must come before the packages that it checks.
    (tmp_path / "conftest.py").write_text(
        "from tests.conftest import *\nfrom tests.conftest import _x64_stays_as_it_was\n"
    )
    command = [sys.executable, "-m", "pytest", "--rootdir", str(ROOT)]
    command += ["-c", str(ROOT / "pyproject.toml"), "-p", "no:cacheprovider", *options, str(path)]
    return subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)


PLANTED = """
import warnings
import jax
import jax.numpy as jnp

def test_x64_left_on():
    jax.config.update("jax_enable_x64", True)

def test_x64_is_off_again():
    assert jnp.ones(()).dtype == jnp.float32

def test_rank_promotion():
    jnp.ones(3) * jnp.ones((3, 1, 1))

def test_dtype_promotion():
    jnp.ones(3, jnp.float32) * jnp.ones(3, jnp.int32)

def test_warning():
    warnings.warn("deprecated")

def test_shapes_are_checked():
    from theory.keys import row_keys
    row_keys(jax.random.key(0), jnp.zeros((2, 2), jnp.int32))

def test_four_devices():
    assert jax.device_count() == 4

def test_statistical_assertion():
    from tests.stat_asserts import assert_counts
    assert_counts([50, 50], [0.5, 0.5])
"""


MANY_ASSERTIONS = """
import pytest
from tests.stat_asserts import assert_counts

@pytest.mark.parametrize("half", [1, 2])
def test_many(half):
    for _ in range(501):
        assert_counts([50, 50], [0.5, 0.5])
"""


def test_rules_are_enforced(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, PLANTED, "-rA")
    outcomes = {
        line.split("::")[1].split()[0]: line.split()[0]
        for line in done.stdout.splitlines()
        if line.startswith(("PASSED", "FAILED", "ERROR")) and "::" in line
    }
    assert outcomes == {
        "test_x64_left_on": "ERROR",
        "test_x64_is_off_again": "PASSED",
        "test_rank_promotion": "FAILED",
        "test_dtype_promotion": "FAILED",
        "test_warning": "FAILED",
        "test_shapes_are_checked": "FAILED",
        "test_four_devices": "PASSED",
        "test_statistical_assertion": "PASSED",
    }
    assert "statistical assertions: 1 of" in done.stdout


@pytest.mark.slow
def test_assertions_beyond_the_budget_fail_the_run(tmp_path: Path) -> None:
    # Two workers, 501 assertions each: neither breaks the budget by itself.
    done = run_pytest(tmp_path, MANY_ASSERTIONS, "-n", "2")
    assert "1002 of at most 1000" in done.stdout
    assert "2 passed" in done.stdout
    assert done.returncode == 1
