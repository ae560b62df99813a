"""What a log may not say: every refusal, its mend, and the nearest log that it must leave alone."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.analyze import main
from experiments.rollout_logs.refusals import REFUSALS
from tests.conftest import ROOT
from tests.experiments.rollout_log_tools import (
    Rows,
    Run,
    analyze,
    by_name,
    code,
    value,
    verdicts,
    warned,
    write_log,
)


def _with(rows: Rows, **columns: Any) -> list[dict[str, Any]]:
    """More fields; a callable is given the number of the row."""
    return [
        {**row, **{name: new(i) if callable(new) else new for name, new in columns.items()}}
        for i, row in enumerate(rows)
    ]


DOCUMENT = (ROOT / "docs" / "refusals.md").read_text()
BASE = verdicts(*([1, 0, 1, 0],) * 3)
WEIGHED = _with(
    BASE,
    base_logp=lambda i: -10.0 - i % 3,
    behavior_logp=lambda i: -10.0 - i % 2,
    target_logp=lambda i: -9.0 - i % 4,
)
SCORED = _with(BASE, score=lambda i: (i % 5) / 4, answer=lambda i: "AB"[i % 2])

# Name -> rows, statistic, refusal of it, and the same rows mended so that the number is given.
CASES: dict[str, tuple[Rows, str, str, Rows]] = {
    "k above n": (BASE[:-1], "pass@4", "R1", BASE),
    "shared branch": (_with(BASE, branch_id="b"), "pass@2", "R3", BASE),
    "shared population": (
        _with(BASE, population_id=0),
        "pass@1",
        "R3",
        _with(BASE, population_id=lambda i: i),
    ),
    "shared chain": (
        _with(BASE, chain_id=lambda i: i // 2, answer="A"),
        "majority@2",
        "R3",
        _with(BASE, chain_id=lambda i: i, answer="A"),
    ),
    "revisions": (_with(BASE, attempt=lambda i: i % 4), "pass@2", "R3", _with(BASE, attempt=0)),
    "one revision": (_with(BASE, attempt=lambda i: i % 2), "pass@2", "R3", BASE),
    "parent": (_with(BASE, parent_id=0), "pass@2", "R3", BASE),
    "two policies": (
        _with(BASE, policy_id=lambda i: i % 2),
        "pass@1",
        "R4",
        _with(BASE, policy_id=lambda i: i // 4),
    ),
    "two temperatures": (
        _with(BASE, temperature=lambda i: 0.5 + i % 2),
        "pass@1",
        "R4",
        _with(BASE, temperature=0.5),
    ),
    "some rows without a policy": (
        _with(BASE, policy_id=lambda i: None if i % 2 else "p"),
        "pass@1",
        "R4",
        _with(BASE, policy_id="p"),
    ),
    "one verifier": (
        _with(SCORED, verifier_id_search="v", verifier_id_final="v"),
        "best_of_n@2",
        "R6",
        _with(SCORED, verifier_id_search="v", verifier_id_final="w"),
    ),
    "mean log probabilities": (
        _with(WEIGHED, logp_reduction="mean"),
        "ess",
        "R7",
        _with(WEIGHED, logp_reduction="sum"),
    ),
    "log probabilities that look like means": (
        _with(WEIGHED, behavior_logp=-0.2, base_logp=-0.3, completion_tokens=1000),
        "power_ess",
        "R7",
        _with(WEIGHED, behavior_logp=-200.0, base_logp=-300.0, completion_tokens=1000),
    ),
    "stand-ins": (_with(WEIGHED, target_logp=-9999.0), "is_mean", "R8", WEIGHED),
    "positive log probability": (
        _with(WEIGHED, behavior_logp=lambda i: 0.5 if i == 0 else -1.0),
        "snis_mean",
        "R8",
        WEIGHED,
    ),
    "absent score": (
        _with(SCORED, score=lambda i: None if i == 0 else 0.5),
        "brier",
        "R8",
        SCORED,
    ),
    "truncated against the whole vocabulary": (
        _with(WEIGHED, top_p=0.9, behavior_logp_source="processed", target_logp_source="raw"),
        "ess",
        "R9",
        _with(WEIGHED, top_p=0.9, behavior_logp_source="processed", target_logp_source="processed"),
    ),
    "partial rewards": (
        [{k: v for k, v in row.items() if k != "correct"} | {"reward": 0.5} for row in BASE],
        "pass@1",
        "R10",
        [{k: v for k, v in row.items() if k != "correct"} | {"reward": 1} for row in BASE],
    ),
    "scores above 1": (_with(SCORED, score=lambda i: i % 3), "ece", "R12", SCORED),
    "negative scores in a vote": (
        _with(SCORED, score=lambda i: -1.0 - i % 2),
        "weighted_majority@2",
        "R12",
        SCORED,
    ),
    "no behaviour": (
        [{k: v for k, v in row.items() if k != "behavior_logp"} for row in WEIGHED],
        "ess",
        "R18",
        WEIGHED,
    ),
    "tempered and raw": (
        _with(WEIGHED, temperature=0.5, behavior_logp_source="raw"),
        "ess",
        "R19",
        _with(WEIGHED, temperature=0.5, behavior_logp_source="processed"),
    ),
    "tempered and equal to the base": (
        _with(WEIGHED, temperature=0.5, base_logp=-3.0, behavior_logp=-3.0),
        "power_ess",
        "R19",
        _with(WEIGHED, temperature=1, base_logp=-3.0, behavior_logp=-3.0),
    ),
    "truncated proposal": (
        _with(WEIGHED, top_k=5),
        "power_ess",
        "R20",
        _with(WEIGHED, top_k=0),
    ),
    "no mass left": (
        _with(WEIGHED, base_logp=lambda i: -100.0 * (i % 4 + 1)),
        "power_accuracy",
        "R20",
        _with(WEIGHED, base_logp=-10.0, behavior_logp=-10.0),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_refused_and_mended(case: str, run: Run) -> None:
    rows, name, refusal, mended = CASES[case]
    options: Mapping[str, Any] = {"ks": (1, 2, 4), "power_alpha": 1.1}
    found = run(rows, **options)
    assert code(found, name) == refusal
    assert refusal in warned(found)
    statistic = by_name(found)[name]
    assert REFUSALS[refusal].option in statistic["reason"]
    assert code(run(mended, **options), name) is None


def test_every_code_is_explained() -> None:
    assert list(REFUSALS) == [f"R{number}" for number in range(21)]
    for entry in REFUSALS.values():
        assert all(entry)
        assert f"## {entry.code}: {entry.condition}" in DOCUMENT
        assert entry.option in DOCUMENT


def test_selected_proxy_score_has_the_number_under_its_name(run: Run) -> None:
    rows = _with(SCORED, verifier_id_search="v", verifier_id_final="v")
    found = run(rows, ks=(1, 2))
    assert code(found, "selected_proxy_score@2") is None
    assert value(found, "selected_proxy_score@1") == pytest.approx(
        float(np.mean([row["score"] for row in rows]))
    )
    assert "selected_proxy_score@1" not in by_name(run(SCORED, ks=(1, 2)))
    notes = by_name(run(SCORED, ks=(1, 2)))["best_of_n@2"]["notes"]
    assert any("not known" in note for note in notes)


def test_what_is_chosen_among_all_related_rows_is_told(run: Run) -> None:
    found = run(_with(SCORED, branch_id="b"), ks=(2, 4))
    assert code(found, "best_of_n@2") == "R3"
    assert code(found, "best_of_n@4") is None
    assert code(found, "oracle@N") is None
    assert any("related" in note for note in by_name(found)["majority@4"]["notes"])


def test_identical_rows_are_left_out_and_different_ones_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = write_log(tmp_path / "log.jsonl", [*BASE, BASE[0], BASE[0]])
    found = analyze(log)
    assert found["counts"]["duplicates"] == found["counts"]["excluded"]["duplicate"] == 2
    assert found["counts"]["used"] == len(BASE)
    assert warned(found)["R2"] == 2
    assert found["statistics"] == analyze(write_log(tmp_path / "clean.jsonl", BASE))["statistics"]
    write_log(log, [*BASE, {**BASE[5], "correct": not BASE[5]["correct"]}])
    assert main([str(log)]) == 2
    message = capsys.readouterr().err
    assert "prompt 'task 1', sample '1'" in message
    assert message.count("\n") == 1


def test_cut_lines_are_counted_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = write_log(tmp_path / "log.jsonl", BASE)
    log.write_text(log.read_text() + '{"prompt_id": "task 0", "sam')
    found = analyze(log)
    assert found["counts"]["excluded"] == {"unreadable": 1}
    assert found["counts"]["rows"] == found["counts"]["used"] + 1 == len(BASE) + 1
    (message,) = [w["message"] for w in found["warnings"] if w["code"] == "unreadable"]
    assert f"line {len(BASE) + 1}" in message
    assert main([str(log), "--strict"]) == 2
    assert f"line {len(BASE) + 1}" in capsys.readouterr().err


def test_unknown_outcomes_have_bounds(run: Run) -> None:
    """Two of four rows are known to be right and wrong, one failed, one was cut."""
    rows = _with(
        [{"prompt_id": t, "sample_id": s, "correct": s == 0} for t in range(2) for s in range(4)],
        error=lambda i: "timeout" if i % 4 == 2 else None,
        finish_reason=lambda i: "length" if i % 4 == 3 else "eos",
    )
    found = run(rows)
    assert found["counts"]["errors"] == found["counts"]["truncated"] == 2
    notes = by_name(found)["pass@1"]["notes"]
    assert any("error or no outcome (25.00%) all wrong: 0.25, all right: 0.5" in n for n in notes)
    assert any("truncated rows (25.00%) all wrong: 0.25, all right: 0.5" in n for n in notes)
    assert {"R11", "R14", "R15"} <= set(warned(found))


def test_rewards_that_are_not_numbers_are_left_out(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    lines = [
        f'{{"prompt_id": 1, "sample_id": {sample}, "reward": {reward}}}'
        for sample, reward in enumerate(("1", "NaN", "0"))
    ]
    log.write_text("\n".join(lines))
    found = analyze(log, ks=(1, 2))
    assert value(found, "mean_reward") == 0.5
    assert by_name(found)["mean_reward"]["excluded"] == {"reward not finite": 1}
    assert value(found, "pass@2") == 1
    assert warned(found)["R11"] == 1


def test_thresholds(run: Run) -> None:
    """More than, not from, 1 % missing, 5 % truncated; fewer than 20 tasks."""
    many = verdicts(*([1, 0, 0, 1, 0],) * 20)
    scores = _with(many, score=lambda i: None if i == 0 else 0.5)
    assert code(run(scores), "brier") is None
    assert warned(run(scores))["R8"] == 1
    two = _with(many, score=lambda i: None if i < 2 else 0.5)
    assert code(run(two), "brier") == "R8"
    for cut, expected in ((5, False), (6, True)):
        rows = _with(many, finish_reason=lambda i, cut=cut: "length" if i < cut else "eos")
        assert ("R15" in warned(run(rows))) == expected
    assert "R14" not in warned(run(many))
    assert "R14" in warned(run(many[:-5]))


def test_policies_and_lag_are_named(run: Run) -> None:
    found = run(_with(BASE, policy_id="p", policy_version=lambda i: 9 + i % 2))
    policy = by_name(found)["pass@1"]["policy"]
    assert policy == {
        "collected": ["p version 9 ... 10"],
        "evaluated": "p version 9 ... 10",
        "lag": 1,
    }


def test_votes_without_answers_and_mixed_verdicts_are_told(run: Run) -> None:
    rows = _with(BASE, answer=lambda i: "A" if i % 4 < 2 else None)
    found = run(rows, ks=(1, 2))
    assert {"no-answers", "mixed-answers"} <= set(warned(found))
    # A is worth 1/2; of two of four rows, five of six subsets hold an A.
    assert value(found, "majority@2") == pytest.approx(5 / 6 / 2)


@pytest.mark.slow
def test_our_own_populations_and_chains(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from experiments.sample import main as sample

    log = tmp_path / "log.jsonl"
    model = "builtin:random-tree"
    options = ["--alpha", "2", "--num", "3", "--particles", "4", "--out", str(log)]
    assert sample([model, "--method", "smc", *options]) == 0
    rows = [{**json.loads(line), "correct": True} for line in log.read_text().splitlines()]
    found = analyze(write_log(log, rows))
    assert code(found, "pass@1") == "R3"
    assert code(found, "ess") is None
    assert "weighted" in warned(found)
    assert sample([model, "--method", "smc", "--draw-one", *options]) == 0
    rows = [{**json.loads(line), "correct": True} for line in log.read_text().splitlines()]
    found = analyze(write_log(log, rows), ks=(1,))
    assert value(found, "pass@1") == 1
    assert "approximate" in warned(found)
    capsys.readouterr()


def test_more_samples_than_any_task_has(run: Run) -> None:
    rows = _with(SCORED, finish_reason="eos")
    found = run(rows, ks=(100,))
    for name in ("pass@", "majority@", "weighted_majority@", "best_of_n@", "optimism_gap@"):
        assert code(found, f"{name}100") == "R1"


@pytest.mark.parametrize(
    ("more", "is_warned"),
    [
        ({}, True),
        ({"temperature": 0.7}, True),
        ({"temperature": 1.0, "top_p": 0.9}, True),
        ({"temperature": lambda i: 1.0 if i else None}, True),
        ({"base_logp_source": "raw"}, True),
        ({"law": lambda i: "exact" if i else None}, True),
        ({"temperature": 1.0}, False),
        ({"behavior_logp_source": "raw"}, False),
        ({"law": "exact"}, False),
        ({"behavior_logp": None}, False),
    ],
)
def test_where_log_probabilities_come_from_is_said_to_be_unknown(
    run: Run, more: Mapping[str, Any], is_warned: bool
) -> None:
    rows = _with(WEIGHED, **more)
    found = warned(run(rows))
    assert found.get("provenance") == (len(rows) if is_warned else None)


@pytest.mark.parametrize(("zeros", "is_warned"), [(1, False), (2, True)])
def test_certain_tokens_make_raw_log_probabilities_doubtful(
    run: Run, zeros: int, is_warned: bool
) -> None:
    """5 % of them do not, more do, whatever the temperature that was asked for."""
    tokens = [-1.0] * (20 - zeros) + [0.0] * zeros
    found = run(_with(BASE, temperature=1.0, behavior_logp_tokens=tokens, completion_tokens=20))
    messages = [each["message"] for each in found["warnings"] if each["code"] == "provenance"]
    assert [("10.0% of the tokens" in message) for message in messages] == [True] * is_warned
