"""Inputs of bug reports of other tools, as far as reading and answers decide them: the right value, or left out with a reason."""

from pathlib import Path
from typing import Any

import pytest

from experiments.rollout_logs.answers import canonical_answer
from experiments.rollout_logs.normalise import sequence_logp, token_logps
from tests.experiments.log_reading import (
    kept,
    left_out,
    opened,
    records,
    rows,
    write_document,
    write_lines,
)
from theory.errors import InvalidInput

EQUAL = [
    ("Math-Verify #37: a wrapper of text", r"\text{13}", "13"),
    ("Math-Verify #1: a fraction is not its numerator", "2/3", r"\frac{2}{3}"),
    ("lighteval PR #1335: spaces around", " A\n", "A"),
]
UNEQUAL = [
    ("Math-Verify #1", "2/3", "2"),
    ("Math-Verify #14: small and different", "2^{-99}", "2^{-98}"),
    ("Math-Verify #14: decimals", "0.0000000001", "0.0000000002"),
    ("Math-Verify #14: sets and intervals", r"\{1, 2\}", "(1, 2)"),
    ("Math-Verify #20: no tolerance", "1/3", "0.333"),
    ("Math-Verify #48: root against decimal", r"\sqrt{17}", "4.1231"),
    ("Math-Verify #67: percent against number", "28%", "28"),
    ("Math-Verify #69: percent against decimal", "28%", ".28"),
    ("units", "5 cm", "5"),
    ("the invalid answer of a filter is no answer", "[invalid]", ""),
]


@pytest.mark.parametrize(("report", "one", "other"), EQUAL)
def test_equal_answers(report: str, one: str, other: str) -> None:
    assert canonical_answer(one) == canonical_answer(other) is not None, report


@pytest.mark.parametrize(("report", "one", "other"), UNEQUAL)
def test_unequal_answers(report: str, one: str, other: str) -> None:
    assert canonical_answer(one) != canonical_answer(other), report


def test_a_tolerance_would_be_no_equivalence() -> None:
    keys = [canonical_answer(text) for text in ("0", "0.0000006", "0.0000012")]
    assert len(set(keys)) == 3


@pytest.mark.parametrize(
    ("report", "tokens", "total"),
    [
        ("TRL #6166, #6693: None from the server is no 0", [-0.1, None], None),
        ("TRL #5001: NaN from the server", [-0.1, float("nan")], None),
        ("vLLM #9453: -inf", [-0.1, float("-inf")], None),
        ("vLLM #17637: -9999", [-9999.0, -0.1], None),
        ("sglang #5761: -3.4e38", [-3.4e38, -0.1], None),
        ("Tunix: an exact 0 is a certain token", [0.0, -0.5], -0.5),
        ("TRL #5814: the sum, not the mean", [-0.01] * 200, -2.0),
        ("unsloth-zoo PR #870: 200 tokens at ratio 1", [0.0] * 200, 0.0),
        ("an empty answer is certain", [], 0.0),
        ("a long and unlikely text is no sentinel", [-9.0] * 2000, -18000.0),
    ],
)
def test_log_probabilities(report: str, tokens: list[Any], total: float | None) -> None:
    assert sequence_logp(token_logps(tokens)) == total, report


def test_nemo_rl_3297_the_sampled_token_not_the_first_of_the_dictionary(tmp_path: Path) -> None:
    tops = [{"token": "a", "logprob": -0.10}, {"token": "b", "logprob": -2.30}]
    content = [{"token": "b", "logprob": -2.30, "top_logprobs": tops}]
    choice = {"index": 0, "message": {"content": "b"}, "logprobs": {"content": content}}
    (row,) = rows(write_lines(tmp_path / "a.jsonl", [{"id": "r", "choices": [choice]}]))
    assert row["behavior_logp"] == -2.30


def test_verl_3238_equal_texts_with_identifiers_stay_apart_and_without_are_flagged(
    tmp_path: Path,
) -> None:
    lines = [{"input": "<image>", "output": "o", "score": 0, "step": 1} for _ in range(26)]
    named = [{**line, "uid": f"u{number}"} for number, line in enumerate(lines)]
    assert len({row["prompt_id"] for row in rows(write_lines(tmp_path / "a.jsonl", named))}) == 26
    merged = rows(write_lines(tmp_path / "b.jsonl", lines))
    assert len({row["prompt_id"] for row in merged}) == 1
    assert all(row["_prompt_hashed"] for row in merged)


def test_lm_eval_3080_all_repeats_are_samples(tmp_path: Path) -> None:
    line = {"doc_id": 0, "resps": [["w", "4", "w", "w"]], "filtered_resps": ["w"], "filter": "none", "metrics": ["exact_match"], "exact_match": 0.0}  # fmt: skip
    found = rows(write_lines(tmp_path / "a.jsonl", [line]))
    assert len(found) == 4
    assert not any("correct" in row for row in found)  # the metric is of the first only


def test_evalplus_158_and_cruxeval_malformed_generations_keep_their_place(tmp_path: Path) -> None:
    results = [{"solution": ["def f"], "base_status": "fail"}, {"solution": "def f", "base_status": "pass"}]  # fmt: skip
    found = records(write_document(tmp_path / "a_eval_results.json", {"eval": {"H/0": results}}))
    assert [(row["sample_id"], row["correct"]) for row in kept(found)] == [(1, True)]
    assert left_out(found) == [("solution is not a text", "result 1")]


def test_agent_lightning_594_turns_are_no_rollouts(tmp_path: Path) -> None:
    turns = [{"tokens": {"completion_logprobs": [-1.0]}} for _ in range(3)]
    line = {"example_id": 1, "prompt": "q", "completion": "a", "reward": 1.0, "trajectory": turns}
    (row,) = rows(write_lines(tmp_path / "results.jsonl", [line]))
    assert (row["behavior_logp"], row["model_calls"]) == (-3.0, 3)


@pytest.mark.parametrize("reward", [None, float("nan")])
def test_trl_5773_a_reward_that_is_none_is_no_zero(tmp_path: Path, reward: float | None) -> None:
    lines = [{"prompt_id": 1, "reward": value} for value in (1, reward, 0)]
    values = [row["reward"] for row in rows(write_lines(tmp_path / "a.jsonl", lines))]
    assert values[0] == 1.0 and values[2] == 0.0
    assert values[1] is None or values[1] != values[1]


def test_olmo_eval_399_truncation_is_kept_beside_the_verdict(tmp_path: Path) -> None:
    choices = [{"index": n, "text": "x", "finish_reason": reason} for n, reason in enumerate(("length", "stop", "length"))]  # fmt: skip
    found = rows(write_lines(tmp_path / "a.jsonl", [{"id": "r", "choices": choices}]))
    assert [row["finish_reason"] for row in found] == ["length", "stop", "length"]


@pytest.mark.parametrize(
    "line",
    [
        {"prompt_idx": 1, "sample_idx": 0, "reward": 0.5, "ground_truth": "4"},
        {"uid": 1, "correct": True, "target": "4", "old_logprobs": [-1.0]},
        {"uid": 1, "correct": True, "gts": "4"},
    ],
)
def test_references_and_unclear_log_probabilities_are_never_taken(
    tmp_path: Path, line: dict[str, Any]
) -> None:
    logs = opened(write_lines(tmp_path / "a.jsonl", [line]))
    (row,) = kept(logs.records())
    assert not {"answer", "score", "behavior_logp", "target_logp"} & row.keys()
    assert {"answer", "score", "behavior_logp", "target_logp"} <= set(logs.missing)


def test_lm_eval_run_twice_into_one_file_repeats_its_pairs(tmp_path: Path) -> None:
    line = {"doc_id": 0, "resps": [["4"]], "filtered_resps": ["4"], "filter": "none"}
    found = rows(write_lines(tmp_path / "a.jsonl", [line, line]))
    assert found[0] == found[1] and found[0]["sample_id"] == 0


def test_nemo_gym_profiles_are_no_rollouts(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", [{"mean/reward": 0.5, "max/reward": 1.0, "sample": {}}])  # fmt: skip
    with pytest.raises(InvalidInput, match="R16"):
        opened(path)
