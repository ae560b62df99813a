"""Small inputs of bug reports on other tools, with the right value (each from an issue of the project named)."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from tests.experiments.rollout_log_tools import (
    Rows,
    Run,
    analyze,
    by_name,
    code,
    value,
    verdicts,
    warned,
)


def _answers(*tasks: str, right: str = "A") -> list[dict[str, Any]]:
    """A row for each letter; a dot is a row without an answer."""
    return [
        {
            "prompt_id": place,
            "sample_id": sample,
            "answer": None if letter == "." else letter,
            "correct": letter in right,
        }
        for place, task in enumerate(tasks)
        for sample, letter in enumerate(task)
    ]


def _columns(**columns: list[Any]) -> list[dict[str, Any]]:
    """Rows of one task."""
    length = len(next(iter(columns.values())))
    return [
        {"prompt_id": 0, "sample_id": place, **{name: new[place] for name, new in columns.items()}}
        for place in range(length)
    ]


def _weighted(weights: list[float], **columns: list[Any]) -> list[dict[str, Any]]:
    logs = [math.log(weight) - 50 if weight else -5000.0 for weight in weights]
    return _columns(target_logp=logs, behavior_logp=[-50.0] * len(weights), **columns)


# Source, rows, k, statistic, right value: a number, or the code of a refusal.
REPORTS: list[tuple[str, Rows, int, str, float | str]] = [
    ("human-eval 35: n=2, c=0, k=5 gave 1.0", verdicts([0, 0]), 5, "pass@5", "R1"),
    ("verl 7240: with replacement .684", verdicts([1, 0, 0, 0]), 4, "pass@4", 1.0),
    ("marin 2493: n=16, c=2, k=8", verdicts([1, 1] + [0] * 14), 8, "pass@8", 0.7666666666666667),
    ("lm-eval 3080: only the second of four is right", verdicts([0, 1, 0, 0]), 4, "pass@4", 1.0),
    ("lm-eval 3080: and pass@1", verdicts([0, 1, 0, 0]), 1, "pass@1", 0.25),
    (
        "KernelBench 33: A 1 of 10, B 4 of 5",
        verdicts([1] + [0] * 9, [1] * 4 + [0]),
        5,
        "pass@5",
        0.75,
    ),
    (
        "KernelBench 33: pass@10 of A alone",
        verdicts([1] + [0] * 9, [1] * 4 + [0]),
        10,
        "pass@10",
        "R1",
    ),
    ("lighteval 1054: 4 of 16 came back", verdicts([1] * 4), 1, "pass@1", 1.0),
    ("lighteval 1054: and k above them", verdicts([1] * 4), 16, "pass@16", "R1"),
    ("lighteval 1046: mean of 4", verdicts([1, 1, 0, 1]), 1, "pass@1", 0.75),
    ("cruxeval: a malformed generation counts", verdicts([0, 1]), 1, "pass@1", 0.5),
    ("pass^k: n=5, c=3", verdicts([1, 1, 1, 0, 0]), 2, "pass^2", 0.3),
    ("majority of 3 of AAB", _answers("AAB"), 3, "majority@3", 1.0),
    ("majority of 3 of AABBC", _answers("AABBC"), 3, "majority@3", 13 / 30),
    ("majority of 5 of AABBC, tie averaged", _answers("AABBC"), 5, "majority@5", 0.5),
    ("its_hub 130: an unseeded random tie", _answers("AB"), 2, "majority@2", 0.5),
    ("verl: None is a vote like any other", _answers("...A"), 4, "majority@4", 1.0),
    ("NeMo Gym: all None is 0", _answers("...", "A.."), 3, "majority@3", 0.5),
    (
        "weighted vote with negative scores picks B",
        _columns(answer=["A", "A", "B"], correct=[True, True, False], score=[-1.0, -1.0, -1.5]),
        3,
        "weighted_majority@3",
        "R12",
    ),
    (
        "over-optimisation: best-of-4 falls",
        _columns(score=[0.1, 0.4, 0.7, 0.9], correct=[False, True, True, False]),
        4,
        "best_of_n@4",
        0.0,
    ),
    (
        "over-optimisation: best-of-3",
        _columns(score=[0.1, 0.4, 0.7, 0.9], correct=[False, True, True, False]),
        3,
        "best_of_n@3",
        0.25,
    ),
    (
        "verl 6806: share above the clip from clamped weights was 0",
        _weighted([3.0], reward=[1.0]),
        1,
        "clipped_share",
        1.0,
    ),
    ("ESS of 1 1 1 1000", _weighted([1, 1, 1, 1000]), 1, "ess", 1003**2 / 1000003),
    (
        "pyprob 36: ESS depends on the scale",
        _weighted([10, 10, 10, 10000]),
        1,
        "ess",
        1003**2 / 1000003,
    ),
    ("ESS fraction", _weighted([1, 1, 1, 1000]), 1, "ess_fraction", 1003**2 / 1000003 / 4),
    ("importance sampling", _weighted([0.5, 1, 2, 4], reward=[0, 1, 0, 1]), 1, "is_mean", 1.25),
    ("self-normalised", _weighted([0.5, 1, 2, 4], reward=[0, 1, 0, 1]), 1, "snis_mean", 2 / 3),
    (
        "unsloth-zoo 870: 200 tokens at ratio 1 gave 200",
        _columns(target_logp=[-30.0], behavior_logp=[-30.0], reward=[1.0]),
        1,
        "is_mean",
        1.0,
    ),
    (
        "TRL 5814: 200 tokens of .01 are a ratio of e^2",
        _columns(target_logp=[-28.0], behavior_logp=[-30.0], reward=[1.0]),
        1,
        "is_mean",
        math.exp(2.0),
    ),
    (
        "TRL 4772: 100 tokens of .012",
        _columns(target_logp=[-28.8], behavior_logp=[-30.0], reward=[1.0]),
        1,
        "is_mean",
        math.exp(1.2),
    ),
    (
        "verl 7196: old is rollout, so the mismatch is not measured",
        _columns(behavior_logp=[-1.0]),
        1,
        "ess",
        "R0",
    ),
    (
        "trl 4159: one side at temperature 1",
        _columns(
            target_logp=[-0.3],
            behavior_logp=[-0.1],
            temperature=[0.6],
            behavior_logp_source=["raw"],
        ),
        1,
        "ess",
        "R19",
    ),
    (
        "TRL 6789: processed against the whole vocabulary",
        _columns(
            target_logp=[-0.3],
            behavior_logp=[-0.1],
            top_p=[0.8],
            behavior_logp_source=["processed"],
            target_logp_source=["raw"],
        ),
        1,
        "is_mean",
        "R9",
    ),
    (
        "vLLM 17637: -9999 as a log probability",
        _columns(target_logp=[-9999.0, -1.0], behavior_logp=[-1.0, -1.0]),
        1,
        "ess",
        "R8",
    ),
    (
        "TRL 6166: None as a log probability",
        _columns(target_logp=[-1.0, None], behavior_logp=[-1.0, -1.0]),
        1,
        "max_weight",
        "R8",
    ),
    (
        "NeMo RL: four rewards of .5 are no two successes",
        _columns(reward=[0.5] * 4),
        2,
        "pass@2",
        "R10",
    ),
    ("NeMo RL 3882: equal prompts are two groups", verdicts([1] * 4, [0] * 4), 4, "pass@4", 0.5),
    ("evalplus 24: nothing graded is nothing known", _columns(answer=["A"]), 1, "pass@1", "R0"),
    ("NeMo Gym: rewards of -1 and 1", _columns(reward=[-1, 1]), 1, "oracle@N", "R10"),
    (
        "agent-lightning 594: turns are no rollouts",
        verdicts([1, 1, 1], parent_id=0),
        1,
        "pass@1",
        "R3",
    ),
]


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report[0])
def test_right_value(report: tuple[str, Rows, int, str, float | str], run: Run) -> None:
    _, rows, k, name, right = report
    found = run(rows, ks=(k,))
    if isinstance(right, str):
        assert code(found, name) == right
    else:
        assert code(found, name) is None
        assert value(found, name) == pytest.approx(right, abs=1e-12)


@pytest.mark.parametrize(
    "scores", [["NaN", "0.9", "0.1"], ["0.9", "NaN", "0.1"], ["0.9", "0.1", "NaN"]]
)
def test_place_of_a_nan_does_not_matter(scores: list[str], tmp_path: Path) -> None:
    """inspect_ai 3911 and its_hub: Python's max picks NaN in the first place; here 1 % may be missing, and more is refused."""
    others = verdicts(*([0] * 10 for _ in range(40)), score=0.0)
    lines = [json.dumps(row) for row in others] + [
        f'{{"prompt_id": "x", "sample_id": {place}, "correct": {"true" if score == "0.9" else "false"}, "score": {score}}}'
        for place, score in enumerate(scores)
    ]
    log = tmp_path / "log.jsonl"
    log.write_text("\n".join(lines))
    found = analyze(log, ks=(2,))
    assert value(found, "best_of_n@2") == pytest.approx(1 / 41)
    assert by_name(found)["best_of_n@2"]["excluded"] == {"no finite score": 1}
    assert warned(found)["R8"] == 1


def test_error_over_runs_is_no_error_over_tasks(run: Run) -> None:
    """NeMo Gym's std_err_across_runs: two tasks, always right and always wrong, gave 0."""
    notes = by_name(run(verdicts([1] * 4, [0] * 4)))["pass@1"]["notes"]
    assert any("standard error 0.5 over tasks" in note for note in notes)


def test_the_first_rows_are_not_the_curve(run: Run) -> None:
    """lighteval 661: one pass@1 from all rows, whatever k is asked for."""
    rows = verdicts([1, 0, 0, 0], [0, 0, 1, 1])
    assert {value(run(rows, ks=ks), "pass@1") for ks in ((1,), (1, 2), (1, 2, 4))} == {0.375}


def test_power_of_real_log_probabilities(run: Run) -> None:
    """Five samples of about 1000 tokens: the sum collapses at once, and a mean over tokens would hide it."""
    sums = [-172.42134364710617, -175.4466751779612, -160.0407476739, -208.0043, -187.3719]
    rows = _columns(base_logp=sums, behavior_logp=sums, reward=[0, 0, 0, 0, 0])
    for alpha, ess in ((1.01, 4.8826), (1.1, 2.1939), (1.5, 1.0050), (2.0, 1.0000)):
        assert value(run(rows, power_alpha=alpha), "power_ess") == pytest.approx(ess, abs=2e-4)


def test_weights_far_below_the_range_of_numbers(run: Run) -> None:
    rows = _columns(target_logp=[-1000.0, -1001.0, -1002.0], behavior_logp=[0.0, 0.0, 0.0])
    found = run(rows)
    assert value(found, "ess") == pytest.approx(1.9587, abs=1e-4)
    assert value(found, "max_weight") == pytest.approx(0.6652, abs=1e-4)


def test_a_weight_at_the_clip_is_not_clipped(run: Run) -> None:
    rows = _columns(target_logp=[-2.0, -1.0], behavior_logp=[-2.0, -2.0])
    assert value(run(rows, clip=1.0), "clipped_share") == 0.5
