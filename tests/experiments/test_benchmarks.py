import json
import subprocess
import sys
import venv
from collections.abc import Callable
from dataclasses import replace
from math import comb
from pathlib import Path

import jax
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.benchmarks import __main__ as benchmarks
from experiments.benchmarks.exact_markov import power_text
from experiments.benchmarks.memory import decode_memory
from experiments.benchmarks.pairing import (
    BenchmarkReport,
    Result,
    compare,
    interval_rank,
    median_interval,
)
from experiments.benchmarks.particle_filter import agreement
from experiments.benchmarks.peers import peer_python, running_peer
from experiments.benchmarks.registry import BENCHMARKS, Benchmark
from models.transformer import random_transformer
from tests.models.transformer.families import BASE
from theory.errors import InvalidInput


class Machine:
    """A clock and callables that take the time they are told to; the speed may drift."""

    def __init__(self, drift: float = 0.0) -> None:
        self.now = 0.0
        self.calls: list[str] = []
        self._drift = drift

    def clock(self) -> float:
        return self.now

    def work(self, name: str, seconds: float, first: float = 0.0) -> Callable[[], None]:
        def call() -> None:
            extra = 0.0 if name in self.calls else first
            self.calls.append(name)
            self.now += seconds * (1 + self._drift * len(self.calls)) + extra

        return call


@pytest.mark.parametrize(("ours", "reference", "runs"), [(1.0, 2.0, 15), (3.0, 1.5, 6)])
def test_the_ratio_is_ours_over_the_reference(ours: float, reference: float, runs: int) -> None:
    machine = Machine()
    result = compare(
        "toy", machine.work("A", ours), machine.work("B", reference), {"V": 3}, machine.clock
    )
    ratio = ours / reference
    assert result == Result(
        "toy", ratio, ours, reference, "second per call", {"V": 3}, runs, ratio, ratio
    )


def test_pairs_are_interleaved_both_ways() -> None:
    machine = Machine()
    compare("toy", machine.work("A", 1.0), machine.work("B", 1.0), {}, machine.clock)
    assert "".join(machine.calls) == "ABAB" + "ABBA" * 7 + "AB"


def test_compilation_is_not_timed() -> None:
    machine = Machine()
    slow_start = machine.work("A", 1.0, first=100.0)
    assert compare("toy", slow_start, machine.work("B", 1.0), {}, machine.clock).high == 1.0


def test_short_calls_are_repeated_and_reported_by_call() -> None:
    machine = Machine()
    result = compare("toy", machine.work("A", 1e-3), machine.work("B", 0.1), {}, machine.clock)
    assert result.numerator == pytest.approx(1e-3)
    assert result.ratio == pytest.approx(1e-2)
    assert machine.calls.count("A") == 2 + 50 * 15
    assert machine.calls.count("B") == 2 + 15


def test_a_machine_that_slows_down_favours_neither() -> None:
    machine = Machine(drift=0.01)
    result = compare("toy", machine.work("A", 1.0), machine.work("B", 1.0), {}, machine.clock)
    assert result.low < 1.0 < result.high
    # Always A before B would make every ratio less than 1, by about the drift.
    assert abs(np.log(result.low * result.high)) < 0.01 / 2


def coverage(num_values: int, rank: int) -> float:
    """Exact probability that the rank-th smallest and largest enclose the median: binomial counts of signs."""
    return sum(comb(num_values, k) for k in range(rank, num_values - rank + 1)) / 2**num_values


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("num_values", range(1, 60))
def test_the_interval_is_the_narrowest_that_covers(num_values: int, level: float) -> None:
    rank = interval_rank(num_values, level)
    if rank > 0:
        assert coverage(num_values, rank) >= level
    assert coverage(num_values, rank + 1) < level or 2 * rank + 1 >= num_values


@pytest.mark.parametrize("num_values", [6, 9])
def test_the_interval_covers_as_often_as_it_says(num_values: int) -> None:
    # All sign patterns about a median of 0, equally likely for any continuous law.
    covered = 0
    for pattern in range(2**num_values):
        signs = [1.0 if pattern >> i & 1 else -1.0 for i in range(num_values)]
        low, high = median_interval(np.array(signs) * np.arange(1, num_values + 1))
        covered += low < 0 < high
    rank = interval_rank(num_values, 0.95)
    assert covered / 2**num_values == coverage(num_values, rank) >= 0.95


@given(st.lists(st.floats(-1e6, 1e6), min_size=6, max_size=40))
def test_the_interval_holds_the_median_and_ignores_order(values: list[float]) -> None:
    low, high = median_interval(values)
    assert low <= np.median(values) <= high
    assert median_interval(values[::-1]) == (low, high)


def test_too_few_values_give_no_interval() -> None:
    with pytest.raises(ValueError, match="5 values are too few"):
        median_interval([1.0] * 5)


RESULT = Result("toy", 0.5, 1.0, 2.0, "second per call", {"V": 3}, 15, 0.4, 0.6)


def run_toy(quick: bool) -> BenchmarkReport:
    table = pa.table({"T": [1, 2], "seconds": [0.5, 1.0]})
    return BenchmarkReport(RESULT, (f"quick: {quick}",), {"growth with T": table})


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BENCHMARKS, "toy", Benchmark(1.0, "a toy", f"{__name__}:run_toy"))


@pytest.mark.usefixtures("toy")
def test_the_result_goes_to_stdout_and_the_rest_to_stderr(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert benchmarks.main(["toy", "--quick"]) == 0
    out, err = capfd.readouterr()
    assert json.loads(out) == RESULT._asdict()
    for text in ("quick: True", "growth with T", "ratio 0.500", "goal met: ratio <= 1"):
        assert text in err
    assert benchmarks.main(["toy", "--json", str(tmp_path / "out.json")]) == 0
    assert capfd.readouterr().out == ""
    assert json.loads((tmp_path / "out.json").read_text()) == RESULT._asdict()


@pytest.mark.usefixtures("toy")
def test_a_missed_goal_is_said(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BENCHMARKS, "toy", BENCHMARKS["toy"]._replace(largest_ratio=0.49))
    assert benchmarks.main(["toy"]) == 0
    assert "goal missed: ratio <= 0.49" in capfd.readouterr().err


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_the_power_that_cost_grows_with_is_read_off_the_numbers(power: float) -> None:
    sizes = [64, 128, 256]
    growth = pa.table({"T": sizes, "seconds": [3e-6 * size**power for size in sizes]})
    assert power_text(growth, "T") == f"seconds ~ T^{power:.2f}"


def test_the_list_names_goals(capfd: pytest.CaptureFixture[str]) -> None:
    assert benchmarks.main(["--list"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(BENCHMARKS)
    assert "ratio <= 1.2" in lines[0]


def test_a_missing_peer_is_named(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BENCHMARKS, "toy", Benchmark(1.0, "a toy", "no_such_package:run"))
    assert benchmarks.main(["toy"]) == 2
    out, err = capfd.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "package no_such_package" in err and "rolloutlab[dev]" in err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "no benchmark named"),
        (["exact_markof"], "did you mean 'exact_markov'?"),
        (["exact_markov", "--json", "missing/out.json"], "its folder does not exist"),
    ],
)
def test_bad_input_is_one_line(
    capfd: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    assert benchmarks.main(words) == 2
    out, err = capfd.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert says in err


ECHO = """
import json, sys
problem = json.loads(sys.stdin.readline())
for line in sys.stdin:
    print(json.dumps({"seconds": problem["cost"] / int(line)}), flush=True)
"""


def test_a_peer_is_asked_line_by_line_and_ends_with_its_block(tmp_path: Path) -> None:
    program = tmp_path / "echo.py"
    program.write_text(ECHO)
    with running_peer(Path(sys.executable), program, {"cost": 6.0}) as ask:
        assert ask(1) == {"seconds": 6.0} and ask(3) == {"seconds": 2.0}
    program.write_text("import sys; sys.stdin.readline(); sys.exit(3)")
    with (
        running_peer(Path(sys.executable), program, {}) as ask,
        pytest.raises(RuntimeError, match="status 3"),
    ):
        ask(1)


def test_an_environment_is_made_once_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Path] = []
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(
        venv, "create", lambda folder, **_: (folder.mkdir(parents=True), made.append(folder))
    )
    status = 1

    def pip(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        assert command[1:] == ["-m", "pip", "install", "--quiet", "a==1", "b<2"]
        return subprocess.CompletedProcess(command, status, "", "some\nno such package\n")

    monkeypatch.setattr(subprocess, "run", pip)
    with pytest.raises(
        InvalidInput, match=r"peer p: pip could not install a==1 b<2 \(no such package\)"
    ):
        peer_python("p", ("a==1", "b<2"))
    status = 0
    made[0].rmdir()
    python = peer_python("p", ("a==1", "b<2"))
    assert python.is_relative_to(tmp_path / "rolloutlab") and len(made) == 2
    assert peer_python("p", ("a==1", "b<2")) == python and len(made) == 2


def test_the_filter_is_timed_where_its_evidence_is_right() -> None:
    said = agreement("ours", np.log([1.1, 0.9, 1.0, 1.2, 0.8]), 0.0)
    assert said.startswith("ours: 5 runs") and "z = 0.00" in said
    assert "z = 3.46" in agreement("ours", np.log([1.0, 1.2, 1.1, 1.05, 1.15, 1.1]), 0.0)


def test_a_decode_step_holds_little_beside_weights_and_cache() -> None:
    """A copy of one layer's keys would show: it is a quarter of the cache."""
    model = random_transformer(jax.random.key(0), replace(BASE, context=512), horizon=500)
    said = decode_memory(model, num_rows=16, prompt_length=12)
    temporaries, held = (float(said.split()[place]) for place in (2, 7))
    # 16 rows of 512 places, two layers of keys and values of 16 numbers, 4 bytes each.
    assert 2.0 < held < 2.2
    assert 0 < temporaries < 0.2 * held


def test_the_pandas_peer_computes_what_we_compute(tmp_path: Path) -> None:
    """Both scripts and ours on one log: the same numbers, so that their times may be compared."""
    from experiments.benchmarks.made_log import write_log
    from experiments.benchmarks.pandas_peer import customary_statistics, fair_statistics
    from experiments.benchmarks.rollout_logs import analyze

    log = tmp_path / "log.jsonl"
    write_log(log, 320)
    found = analyze(log)
    ours = {each.name: each.value for each in found.statistics}
    assert found.counts.used == 320 and found.counts.prompts == 20
    theirs = fair_statistics(log)
    assert {name for name in theirs if " " not in name} == ours.keys()
    for each in found.statistics:
        assert each.value == pytest.approx(theirs[each.name], rel=1e-9), each.name
        if each.interval is not None and each.name != "ess":
            ends = [theirs[f"{each.name} {word}"] for word in ("low", "high")]
            width = ends[1] - ends[0]
            assert [each.interval.low, each.interval.high] == pytest.approx(ends, abs=width / 10)
    customary = customary_statistics(log)
    for name in ("pass@1", "pass@8", "unique_answer_rate", "tokens_mean"):
        assert ours[name] == pytest.approx(customary[name], rel=1e-9), name
