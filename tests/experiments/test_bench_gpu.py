"""The benchmark for accelerators, small and on the CPU, with nothing installed but JAX and flax."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

# A process that compiles everything anew.
pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
# None in sys.modules is a package that cannot be imported.
ABSENT = ("jaxtyping", "pyarrow", "tyro", "safetensors", "tokenizers", "matplotlib", "tensorboardX")
PROGRAM = f"""
import importlib.util, runpy, sys
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name in {ABSENT} else find(name, *rest)
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {ABSENT}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
sys.argv = ["gpu", "--quick"]
runpy.run_module("experiments.benchmarks.gpu", run_name="__main__")
"""


def test_it_runs_with_nothing_but_jax_and_flax() -> None:
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    # A tied head, two layers and a norm; keys and values of 9 of 13 places in each row. Two bytes a number.
    layer = 28 * 18 * 4 + 18 * 4 + 14 * 4 * 28 + 3 * 28 * 64 + 2 * 28
    assert found["step_bytes"] == 2 * (2048 * 28 + 2 * layer + 28) + 8 * 9 * 2 * (2 * 2 * 2 * 4)
    assert found["smc_resamplings"] == 3
    numbers = ("copy_bytes_per_second", "tokens_per_second", "smc_overhead")
    shares = ("decode_share_of_bandwidth", "decode_share_without_sampling")
    assert all(found[number] > 0 for number in numbers + shares)
    least = 8 * found["step_bytes"] / found["copy_bytes_per_second"]
    assert found[shares[0]] == pytest.approx(least * found["tokens_per_second"] / (8 * 8))
