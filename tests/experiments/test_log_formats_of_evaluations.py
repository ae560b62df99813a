"""Logs of evaluation harnesses and servers: what each field becomes, and the traps of each format."""

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

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


def gym(**fields: Any) -> dict[str, Any]:
    response = {
        "model": "m", "output": [{"type": "reasoning", "generation_log_probs": [-1.0]}, {"type": "function_call"},
                                 {"type": "message", "content": [{"text": "x"}], "generation_log_probs": [0.0, -0.5]}],
        "usage": {"input_tokens": 4, "output_tokens": 3, "total_tokens": 7},
    }  # fmt: skip
    line = {"responses_create_params": {"input": "q"}, "response": response, "reward": -1.0, "answer": "reference", "_ng_task_index": 2, "_ng_rollout_index": 5}  # fmt: skip
    return {**line, **fields, "response": response | fields.get("response", {})}


def test_nemo_gym(tmp_path: Path) -> None:
    lines = [
        gym(),
        gym(response={"usage": {"input_tokens": 0, "output_tokens": 0}}, truncated=True),
        gym(response={"usage": {"output_tokens": 9}, "error": {"code": 1}}),
        gym(response={"incomplete_details": {"reason": "max_output_tokens"}, "output": []}, agent_timed_out=True),
    ]  # fmt: skip
    found = rows(write_lines(tmp_path / "rollouts.jsonl", lines))
    assert found[0] == {
        "prompt_id": 2, "sample_id": 5, "reward": -1.0, "policy_id": "m", "completion_tokens": 3, "prompt_tokens": 4, "tool_calls": 1,
        "_text": "x", "behavior_logp_tokens": [-1.0, 0.0, -0.5], "behavior_logp": -1.5, "_missing_logp_tokens": 0, "_zero_logp_tokens": 1,
    }  # fmt: skip
    assert found[1]["completion_tokens"] == 3 and "prompt_tokens" not in found[1]
    assert found[1]["finish_reason"] == found[3]["finish_reason"] == "length"
    assert found[2]["behavior_logp"] is None and "code" in found[2]["error"]
    assert found[3]["error"] == "agent timed out" and "behavior_logp" not in found[3]


def test_nemo_gym_without_an_index_groups_by_text(tmp_path: Path) -> None:
    lines = [gym(_ng_task_index=None, _ng_rollout_index=None), gym(_ng_task_index=None, responses_create_params={"input": "r"})]  # fmt: skip
    found = rows(write_lines(tmp_path / "rollouts.jsonl", lines))
    assert found[0]["_prompt_hashed"] and found[0]["prompt_id"] != found[1]["prompt_id"]
    empty = records(write_lines(tmp_path / "b.jsonl", [gym(), gym(_ng_task_index=None, responses_create_params={"input": []})]))  # fmt: skip
    assert left_out(empty) == [("no prompt_id", "line 2")]


def inspect(**fields: Any) -> dict[str, Any]:
    choice = {"message": {"content": "attachment://h"}, "stop_reason": "stop", "logprobs": {"content": [{"logprob": -1.0}, {"logprob": -0.5}]}}  # fmt: skip
    line = {
        "id": "s", "epoch": 1, "input": "q", "target": "reference", "output": {"model": "m", "choices": [choice], "usage": {"output_tokens": 9}},
        "scores": {"match": {"value": "C", "answer": "4"}}, "model_usage": {"m": {"input_tokens": 3, "output_tokens": 2}},
        "attachments": {"h": "long text"}, "total_time": 1.5,
    }  # fmt: skip
    return line | fields


def test_inspect_samples(tmp_path: Path) -> None:
    document = {"version": 2, "status": "success", "eval": {}, "samples": [inspect()], "reductions": [{"samples": [1]}]}  # fmt: skip
    assert rows(write_document(tmp_path / "log.json", document)) == [
        {
            "prompt_id": "s", "sample_id": 1, "policy_id": "m", "completion_tokens": 2, "prompt_tokens": 3, "finish_reason": "stop",
            "wall_s": 1.5, "_text": "long text", "correct": True, "reward": 1.0, "answer": "4", "behavior_logp_tokens": [-1.0, -0.5],
            "behavior_logp": -1.5, "_missing_logp_tokens": 0, "_zero_logp_tokens": 0,
        }
    ]  # fmt: skip
    with pytest.raises(InvalidInput, match="no sample in it, and no record"):
        opened(write_document(tmp_path / "b.json", document | {"samples": []}))


@pytest.mark.parametrize(
    ("value", "correct", "reward"),
    [("C", True, 1.0), ("I", False, 0.0), ("P", None, 0.5), ("N", False, 0.0), (1, True, 1.0), (0.25, None, 0.25), (True, True, 1.0),
     (math.nan, None, math.nan), ("?", None, None)],
)  # fmt: skip
def test_inspect_grades(
    tmp_path: Path, value: Any, correct: bool | None, reward: float | None
) -> None:
    (row,) = rows(write_lines(tmp_path / "log.jsonl", [inspect(scores={"match": {"value": value}})]))  # fmt: skip
    assert row.get("correct") is correct
    assert repr(row.get("reward")) == repr(reward)


def test_inspect_scorers_must_be_chosen(tmp_path: Path) -> None:
    scores = {"a": {"value": "C"}, "b": {"value": {"x": 0, "y": 1}, "answer": "attachment://h"}}
    path = write_lines(tmp_path / "log.jsonl", [inspect(scores=scores, limit={"type": "token"}, error={"message": "boom"})])  # fmt: skip
    with pytest.raises(
        InvalidInput, match=r"R16, one row per scorer \(a, b\.x, b\.y\): choose with --filter a"
    ):
        opened(path)
    assert [rows(path, filter_name=name)[0]["correct"] for name in ("a", "b.x", "b.y")] == [True, False, True]  # fmt: skip
    (row,) = rows(path, filter_name="b.x")
    assert (row["answer"], row["finish_reason"], row["error"]) == ("long text", "length", "boom")
    with pytest.raises(InvalidInput, match=r"no scorer 'c', there are a, b\.x, b\.y"):
        opened(path, filter_name="c")
    assert rows(path, mapping={"correct": "scores.b.value.y"})[0]["correct"] is True


def lm_eval(**fields: Any) -> dict[str, Any]:
    line = {"doc_id": 0, "target": "reference", "resps": [["t1"]], "filtered_resps": ["4"], "filter": "strict", "metrics": ["exact_match"], "exact_match": 1.0}  # fmt: skip
    return line | fields


def test_lm_eval_needs_a_filter_even_if_the_second_one_comes_late(tmp_path: Path) -> None:
    lines = [lm_eval(doc_id=n) for n in range(40)] + [lm_eval(doc_id=n, filter="loose", exact_match=0.0) for n in range(40)]  # fmt: skip
    path = write_lines(tmp_path / "samples_gsm8k_2025-01-02T03-04-05.678.jsonl", lines)
    logs = opened(path)
    with pytest.raises(
        InvalidInput,
        match=r"R16, one row per filter \(strict, loose\): choose with --filter strict",
    ):
        list(logs.records())
    found = records(path, filter_name="loose")
    assert [row["correct"] for row in kept(found)] == [False] * 40
    assert kept(found)[7]["prompt_id"] == "gsm8k/7"
    assert left_out(found)[0] == ("row of another filter", "line 1") and len(left_out(found)) == 40
    both = write_lines(tmp_path / "b.jsonl", [lines[0], lines[40]])
    with pytest.raises(InvalidInput, match="R16"):
        opened(both)
    assert rows(write_lines(tmp_path / "c.jsonl", lines[:1]))[0]["prompt_id"] == 0


def test_lm_eval_repeats_are_samples_and_its_metric_is_no_verdict_of_theirs(tmp_path: Path) -> None:
    taken = rows(write_lines(tmp_path / "a.jsonl", [lm_eval(resps=[["w", "r", "w", "w"]])]))
    assert [row["sample_id"] for row in taken] == [0, 1, 2, 3]
    assert [row["_text"] for row in taken] == ["w", "r", "w", "w"]
    assert not any("correct" in row for row in taken)
    kept_all = rows(write_lines(tmp_path / "b.jsonl", [lm_eval(resps=[["w", "r"]], filtered_resps=[["[invalid]", "4"]])]))  # fmt: skip
    assert [row["answer"] for row in kept_all] == [None, "4"]
    listed = rows(write_lines(tmp_path / "c.jsonl", [lm_eval(resps=[["w", "r"]], exact_match=[0, 1])]))  # fmt: skip
    assert [row["correct"] for row in listed] == [False, True]


def test_lm_eval_choices_are_one_sample_and_metrics_are_chosen(tmp_path: Path) -> None:
    line = lm_eval(resps=[[[-1.5, False]], [[-0.5, True]]], filtered_resps=[[-1.5, False], [-0.5, True]], metrics=["acc", "acc_norm"], acc=1.0, acc_norm=0.0)  # fmt: skip
    path = write_lines(tmp_path / "a.jsonl", [line])
    with pytest.raises(InvalidInput, match=r"several metrics \(acc, acc_norm\)"):
        opened(path)
    (row,) = rows(path, mapping={"correct": "acc"})
    assert (row["prompt_id"], row["sample_id"], row["correct"]) == (0, 0, True)
    assert "behavior_logp" not in row and "_text" not in row


def test_human_eval_and_a_completion_that_is_no_text(tmp_path: Path) -> None:
    lines = [{"task_id": "t", "completion": "x", "passed": True}, {"task_id": "t", "completion": ["x"], "passed": False}, {"task_id": "t", "completion": "y", "passed": False, "result": "timed out"}]  # fmt: skip
    found = records(write_lines(tmp_path / "a.jsonl", lines))
    assert [row["correct"] for row in kept(found)] == [True, False]
    assert all("sample_id" not in row for row in kept(found))
    assert left_out(found) == [("completion is not a text", "line 2")]


def evalplus(**fields: Any) -> dict[str, Any]:
    return {"task_id": "H/0", "solution": "def f", "base_status": "pass", "plus_status": "fail"} | fields  # fmt: skip


def test_evalplus_names_its_tests(tmp_path: Path) -> None:
    document = {"hash": "h", "eval": {"H/0": [evalplus(), evalplus(solution=["def f"]), evalplus(plus_status="pass"), 4], "H/1": [evalplus(base_status="timeout")]}}  # fmt: skip
    path = write_document(tmp_path / "a_eval_results.json", document)
    with pytest.raises(InvalidInput, match=r"R16, one row per set of tests \(base, plus\)"):
        opened(path)
    found = records(path, filter_name="plus")
    assert [(row["prompt_id"], row["sample_id"], row["correct"]) for row in kept(found)] == [("H/0", 0, False), ("H/0", 2, True), ("H/1", 0, False)]  # fmt: skip
    assert left_out(found) == [("solution is not a text", "result 2"), ("not an object", "result 4")]  # fmt: skip
    assert [row["correct"] for row in kept(records(path, filter_name="base"))] == [True, True, False]  # fmt: skip
    alone = {"eval": {"H/0": [evalplus(plus_status=None)]}}
    assert rows(write_document(tmp_path / "b.json", alone))[0]["correct"] is True


@pytest.mark.parametrize("around", ["", "__"])
def test_lighteval_with_both_namings(tmp_path: Path, around: str) -> None:
    columns = {
        "doc": [{"id": "d0", "query": "q", "task_name": "t"}, {"id": None, "query": "r", "task_name": "t"}],
        "metric": [{"em": 1.0}, {"em": 0.0}],
        "model_response": [
            {"text": ["<think>x</think>A"], "text_post_processed": ["A"], "output_tokens": [[1, 2, 3]]},
            {"text": ["B", "C"], "text_post_processed": None, "output_tokens": [[1], [1, 2]]},
        ],
    }  # fmt: skip
    path = tmp_path / "details.parquet"
    pq.write_table(pa.table({f"{around}{name}{around}": column for name, column in columns.items()}), path)  # fmt: skip
    found = rows(path)
    assert found[0] == {"prompt_id": "d0", "sample_id": 0, "dataset": "t", "completion_tokens": 3, "_text": "A", "correct": True, "reward": 1.0}  # fmt: skip
    assert [row["_text"] for row in found[1:]] == ["B", "C"]
    assert [row["completion_tokens"] for row in found[1:]] == [1, 2]
    assert found[1]["_prompt_hashed"] and "correct" not in found[1]
    copied = records(path, mapping={"correct": f"{around}metric{around}.em"})
    assert len(kept(copied)) == 1
    assert {reason for reason, _ in left_out(copied)} == {f"one {around}metric{around}.em for several samples"}  # fmt: skip


def test_search_and_learn_takes_the_last_box_and_declared_scores(tmp_path: Path) -> None:
    line = {"unique_id": "u", "problem": "p", "completions": [r"\boxed{1} so \boxed{\frac{1}{2}}", "none", r"cut \boxed{3"], "scores": [[0.1, 0.9], [0.5], [0.2, 0.4]], "agg_scores": [0.9, 0.5, 0.4], "completion_tokens": [5, 6, 7], "pred_maj@4": r"\boxed{2}", "answer": "ref"}  # fmt: skip
    path = write_lines(tmp_path / "a_completions.jsonl", [line, {**line, "agg_scores": [1.0]}])
    found = records(path)
    assert [row["answer"] for row in kept(found)] == [r"\frac{1}{2}", None, None]
    assert [(row["score"], row["completion_tokens"]) for row in kept(found)] == [(0.9, 5), (0.5, 6), (0.4, 7)]  # fmt: skip
    assert left_out(found) == [("lists of unequal length", "line 2")]
    least = kept(records(path, mapping={"score": "scores.min"}))
    assert [row["score"] for row in least] == [0.1, 0.5, 0.2]
    del line["unique_id"], line["agg_scores"]
    plain = rows(write_lines(tmp_path / "b.jsonl", [line]))
    assert plain[0]["_prompt_hashed"] and "score" not in plain[0]


def test_monkeys(tmp_path: Path) -> None:
    for name, verdicts in (("7", [True, False, True]), ("8", [True])):
        text = yaml.safe_dump({"prompt": "p", "question": "q", "samples": ["a", "b", "c"], "is_correct": verdicts, "gt_answer": "a"})  # fmt: skip
        (tmp_path / f"{name}.yaml").write_text(text)
    found = records(tmp_path)
    assert [(row["prompt_id"], row["sample_id"], row["correct"]) for row in kept(found)] == [("7", 0, True), ("7", 1, False), ("7", 2, True)]  # fmt: skip
    assert [record.reason for record in found[3:]] == ["lists of unequal length"]  # pyright: ignore[reportAttributeAccessIssue]
    (tmp_path / "9.yaml").write_text("samples: [a\n")
    with pytest.raises(InvalidInput, match=r"9\.yaml: unreadable"):
        opened(tmp_path / "9.yaml")


def chat(**fields: Any) -> dict[str, Any]:
    content = [{"token": "a", "logprob": -2.3, "top_logprobs": [{"token": "b", "logprob": -0.1}]}, {"token": "c", "logprob": -0.5}]  # fmt: skip
    choice = {"index": 0, "message": {"content": "ac"}, "logprobs": {"content": content}, "finish_reason": "length"}  # fmt: skip
    line = {"id": "r1", "object": "chat.completion", "model": "m", "choices": [choice], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}  # fmt: skip
    return line | fields


def test_openai_chat_takes_the_sampled_token(tmp_path: Path) -> None:
    assert rows(write_lines(tmp_path / "a.jsonl", [chat()])) == [
        {
            "prompt_id": "r1", "_prompt_hashed": True, "sample_id": 0, "policy_id": "m", "completion_tokens": 2, "prompt_tokens": 3,
            "finish_reason": "length", "_text": "ac", "behavior_logp_tokens": [-2.3, -0.5], "behavior_logp": -2.8,
            "_missing_logp_tokens": 0, "_zero_logp_tokens": 0,
        }
    ]  # fmt: skip


@pytest.mark.parametrize("bad", [None, -9999.0, -3.4e38, math.nan, -math.inf, math.inf, 0.5, "x", True])  # fmt: skip
def test_a_sentinel_is_a_missing_log_probability_and_a_zero_is_a_certain_token(
    tmp_path: Path, bad: Any
) -> None:
    legacy = {"index": 1, "text": "x", "logprobs": {"token_logprobs": [-0.5, bad, 0.0]}, "finish_reason": "stop"}  # fmt: skip
    (row,) = rows(write_lines(tmp_path / "a.jsonl", [chat(object="text_completion", choices=[legacy])]))  # fmt: skip
    assert row["behavior_logp_tokens"] == [-0.5, None, 0.0]
    assert row["behavior_logp"] is None
    assert (row["_missing_logp_tokens"], row["_zero_logp_tokens"]) == (1, 1)


def test_openai_batches_and_several_choices(tmp_path: Path) -> None:
    choices = [{"index": n, "message": {"content": str(n)}, "finish_reason": "stop"} for n in (0, 1)]  # fmt: skip
    lines = [
        {"custom_id": "q1", "response": {"status_code": 200, "body": chat(choices=choices)}, "error": None},
        {"custom_id": "q2", "response": None, "error": {"code": "server_error"}},
        {"custom_id": "q3", "response": {"body": {"choices": []}}},
    ]  # fmt: skip
    found = records(write_lines(tmp_path / "a.jsonl", lines))
    assert [(row["prompt_id"], row.get("sample_id")) for row in kept(found)] == [("q1", 0), ("q1", 1), ("q2", None)]  # fmt: skip
    assert "completion_tokens" not in kept(found)[0]
    assert "server_error" in kept(found)[2]["error"]
    assert left_out(found) == [("response without choices", "line 3")]
