"""The commands `analyze` and `compare`: published numbers, files and messages."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.analyze import main
from experiments.compare import main as main_of_compare
from tests.experiments.rollout_log_tools import by_name, code, value, verdicts, warned, write_log

Run = Callable[..., dict[str, Any]]


@pytest.fixture(name="run")
def _run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:  # pyright: ignore[reportUnusedFunction]
    """Run a command and read its JSON."""

    def run(*words: Path | str, command: Callable[..., int] = main) -> dict[str, Any]:
        out = tmp_path / "out.json"
        assert command([*map(str, words), "--json", str(out)]) == 0
        capsys.readouterr()
        return json.loads(out.read_text())

    return run


def test_published_pass_at_k_of_cruxeval(run: Run, shared_data_dir: Path) -> None:
    path = shared_data_dir / "facebookresearch+cruxeval" / "cruxeval_input.rollouts.jsonl"
    found = run(path, "--k", "1,5,10")
    assert value(found, "pass@1") == pytest.approx(0.3595, abs=1e-9)
    assert value(found, "pass@5") == pytest.approx(0.44991071, abs=1e-8)
    assert found["counts"]["rows"] == found["counts"]["used"] == 8000
    assert value(found, "majority@10") == pytest.approx(0.363083, abs=1e-6)
    assert "88 tasks have a tie among all their rows" in by_name(found)["majority@10"]["notes"]
    notes = by_name(found)["pass@1"]["notes"]
    assert any("standard error 0.015525" in note and "0.0053" in note for note in notes)
    interval = by_name(found)["pass@1"]["interval"]
    assert (interval["low"], interval["high"]) == pytest.approx((0.3299, 0.3906), abs=0.002)
    assert "R5" in warned(found)


@pytest.mark.parametrize(
    "name", [pytest.param("game24_cot100", marks=pytest.mark.slow), "game24_io100"]
)
def test_golden_values(name: str, run: Run, shared_data_dir: Path) -> None:
    golden = {
        each["name"]: each
        for each in json.loads((shared_data_dir / "golden_stats.json").read_text())
    }[name]
    folder = shared_data_dir / "princeton-nlp+tree-of-thought-llm"
    ks = (1, 2, 10, 100)
    found = run(folder / f"{name}.rollouts.jsonl", "--k", ",".join(map(str, ks)))
    for k in ks:
        assert value(found, f"pass@{k}") == pytest.approx(golden[f"pass@{k}"], abs=1e-6)
    assert value(found, "majority@100") == pytest.approx(golden["maj tie-averaged"], abs=1e-6)
    rate = golden["unique answer rate"]
    assert value(found, "unique_answer_rate") == pytest.approx(rate, abs=1e-6)


def test_beams_are_told_from_independent_samples(run: Run, shared_data_dir: Path) -> None:
    folder = shared_data_dir / "princeton-nlp+tree-of-thought-llm"
    golden = json.loads((shared_data_dir / "golden_stats2.json").read_text())["tot_bfs"]
    found = run(folder / "game24_tot_bfs_b5.rollouts.jsonl", "--k", "1,5")
    assert code(found, "pass@5") == "R3"
    assert code(found, "brier") == "R12"
    for name, key in (
        ("best_of_n@5", "bon_tie_avg"),
        ("weighted_majority@5", "weighted_majority_tieavg"),
        ("oracle@N", "oracle5"),
        ("auroc_pooled", "auroc_pooled"),
        ("auroc_within", "auroc_within_mean"),
    ):
        assert value(found, name) == pytest.approx(golden[key], abs=1e-5)
    (message,) = [w["message"] for w in found["warnings"] if "first steps" in w["message"]]
    assert "2 different first steps and 2.62 different first two steps" in message


def test_policies_of_one_question_are_not_pooled(
    run: Run, shared_data_dir: Path, tmp_path: Path
) -> None:
    path = shared_data_dir / "openai+grade-school-math" / "example_model_solutions.head300.jsonl"
    names = ("6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification")
    rows: list[dict[str, Any]] = [
        {
            "prompt_id": place,
            "sample_id": name,
            "policy_id": name,
            "correct": row[name]["is_correct"],
        }
        for place, row in enumerate(map(json.loads, path.read_text().splitlines()))
        for name in names
    ]
    assert code(run(write_log(tmp_path / "all.jsonl", rows)), "pass@1") == "R4"
    for name in names:
        own = [row for row in rows if row["policy_id"] == name]
        found = run(write_log(tmp_path / "own.jsonl", own))
        share = np.mean([row["correct"] for row in own])
        assert value(found, "pass@1") == pytest.approx(share)
        assert by_name(found)["pass@1"]["policy"]["collected"] == [name]


def test_paired_differences_on_common_prompts(run: Run, tmp_path: Path) -> None:
    first = write_log(tmp_path / "a.jsonl", verdicts([1, 1], [1, 0], [0, 1]))
    rows = [*verdicts([1, 0], [0, 0]), {"prompt_id": "other", "sample_id": 0, "correct": True}]
    second = write_log(tmp_path / "b.jsonl", rows)
    found = run(first, second, "--k", "1", command=main_of_compare)
    assert found["prompts"] == {"common": 2, "only_first": 1, "only_second": 1}
    assert value(found, "pass@1") == pytest.approx(0.5)
    interval = by_name(found)["pass@1"]["interval"]
    assert interval["low"] == interval["high"] == 0.5  # the same difference in both tasks
    assert warned(found)["R17"] == 2
    assert value(found, "oracle@N") == pytest.approx(0.5)
    more = write_log(tmp_path / "more.jsonl", verdicts([1, 0, 1], [0, 0]))
    uneven = run(first, more, "--k", "1", command=main_of_compare)
    assert code(uneven, "oracle@N") == "R17"  # a task with more rows has more chances
    assert code(found, "mean_reward") == "R0"
    same = run(first, first, "--k", "1", command=main_of_compare)
    assert {s["value"] for s in same["statistics"]} == {0.0, None}
    apart = run(
        first,
        write_log(tmp_path / "c.jsonl", [{"prompt_id": "x", "correct": True}]),
        "--k",
        "1",
        command=main_of_compare,
    )
    assert code(apart, "pass@1") == "R17"


def test_prompts_of_one_log_alone_refuse_no_difference(run: Run, tmp_path: Path) -> None:
    first = write_log(tmp_path / "a.jsonl", verdicts([1, 1], [1, 0], [0, 1]))
    rows = verdicts([1, 0], [0, 0], [1, 1])
    second = write_log(tmp_path / "b.jsonl", rows)
    alone = {"prompt_id": "other", "sample_id": 0, "correct": True, "policy_id": "p"}
    longer = write_log(
        tmp_path / "c.jsonl", [*rows, alone, alone | {"sample_id": 1, "policy_id": "q"}]
    )
    short = write_log(tmp_path / "d.jsonl", [*rows, alone])
    wanted = run(first, second, "--k", "1,2", command=main_of_compare)
    for log in (longer, short):
        found = run(first, log, "--k", "1,2", command=main_of_compare)
        assert found["statistics"] == wanted["statistics"]
        assert found["prompts"] == {"common": 3, "only_first": 0, "only_second": 1}
    assert value(wanted, "pass@2") == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    "row",
    [
        {"correct": "yes"},
        {"sample_id": 10**27},
        {"correct": 0.5},
    ],
)
def test_a_log_of_irregular_rows_alone_is_one_line(
    row: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = write_log(tmp_path / "log.jsonl", [{"prompt_id": 1, "sample_id": 0} | row])
    assert main([str(log)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "line 1: invalid" in said and "no row of 1" in said


def test_missing_rewards_have_bounds(run: Run, tmp_path: Path) -> None:
    rows = [{"prompt_id": 0, "sample_id": s, "reward": r} for s, r in enumerate([3.0, 1.0, 2.0])]
    rows.append({"prompt_id": 0, "sample_id": 3})
    found = by_name(run(write_log(tmp_path / "log.jsonl", rows)))["mean_reward"]
    assert found["value"] == 2.0
    assert "at the least reward of the log: 1.75, at the greatest: 2.25" in found["notes"][1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--k", "0"], "--k 0"),
        (["--power-alpha", "-1"], "--power-alpha -1"),
        (["--success-threshold", "nan"], "--success-threshold nan"),
        (["--clip", "0"], "--clip 0"),
        (["--g-pass-threshold", "0"], "--g-pass-threshold 0"),
        (["--verifier-tpr", "0.9"], "--verifier-tpr and --verifier-fpr: give both"),
        (["--verifier-tpr", "0.2", "--verifier-fpr", "0.2"], "--verifier-tpr 0.2"),
        (["--seed", "-1"], "--seed -1"),
        (["--engine", "abacus"], "--engine abacus"),
        (["--map", "prompt_id"], "--map 'prompt_id'"),
        (["--map", "prompt_id=nowhere"], "nowhere"),
        (
            ["--map", "reward=correct", "--map", "reward=x"],
            "--map: 'reward' is given twice, as 'correct' and as 'x'",
        ),
        (["--map", "=x"], "--map '=x': give FIELD=NAME"),
        (["--filter", "strict"], "--filter 'strict': logs of the format native have none"),
        (["--k", ""], "--k: is empty, give an entry"),
        (["--format", "nothing"], "unknown format"),
    ],
)
def test_bad_options_have_one_line(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = write_log(tmp_path / "log.jsonl", verdicts([1, 0]))
    assert main([str(log), *words]) == 2
    message = capsys.readouterr().err
    assert said in message
    assert message.count("\n") == 1


def test_the_log_is_never_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = write_log(tmp_path / "log.jsonl", verdicts([1, 0]))
    before = log.read_bytes()
    assert main([str(log), "--json", str(log)]) == 2
    assert log.read_bytes() == before
    assert "is the input itself" in capsys.readouterr().err


def test_same_arguments_same_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = write_log(tmp_path / "log.jsonl", verdicts([1, 0], [0, 0], [1, 1], score=0.5, answer="A"))
    outs = [tmp_path / "a.json", tmp_path / "b.json"]
    for out in outs:
        assert main([str(log), "--json", str(out)]) == 0
    assert outs[0].read_bytes() == outs[1].read_bytes()
    capsys.readouterr()


@pytest.mark.slow
def test_a_killed_run_leaves_no_half_file(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", verdicts(*([1, 0, 1, 0] for _ in range(20_000))))
    out = tmp_path / "out.json"
    words = [sys.executable, "-m", "experiments.analyze", str(log), "--json", str(out)]
    for wait in (0.5, 1.5, 2.5):
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, env=os.environ)
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
        process.wait()
        if out.exists():
            json.loads(out.read_text())
            out.unlink()
