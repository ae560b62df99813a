"""Logs of trainers: what each field becomes, and the traps of each format."""

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

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

NAN = math.nan


def verl(**fields: Any) -> dict[str, Any]:
    return {"input": "q1", "output": "o", "gts": "4", "score": 1.0, "step": 1} | fields


def test_verl_without_identifiers_groups_by_text_within_a_step(tmp_path: Path) -> None:
    lines = [verl(), verl(score=0.0), verl(input="q2"), verl(step=2)]
    logs = opened(write_lines(tmp_path / "1.jsonl", lines))
    found = kept(logs.records())
    assert [row["reward"] for row in found] == [1.0, 0.0, 1.0, 1.0]
    ids = [row["prompt_id"] for row in found]
    assert ids[0] == ids[1] and len(set(ids)) == 3
    assert all(row["_prompt_hashed"] for row in found)
    assert logs.format == "verl"
    assert logs.field_map == {"prompt_id": "sha256 of step and input", "reward": "score", "step": "step"}  # fmt: skip
    assert "answer" in logs.missing and "correct" in logs.missing


def test_verl_takes_its_verdict_and_prediction_never_the_reference(tmp_path: Path) -> None:
    lines = [verl(acc=True, pred="4"), verl(acc=0.0, pred=None), verl(acc=1, pred="[A]")]
    found = rows(write_lines(tmp_path / "1.jsonl", lines))
    assert [row["correct"] for row in found] == [True, False, True]
    assert [row["answer"] for row in found] == ["4", None, "[A]"]
    partial = rows(write_lines(tmp_path / "2.jsonl", [verl(acc=0.5), verl(acc=1.0)]))
    assert all("correct" not in row for row in partial)


def test_the_outputs_of_one_verl_rollout_are_one_sample(tmp_path: Path) -> None:
    uids = ["p_a_0_0", "p_a_0_1", "p_a_1_0", "p_b_0_0", "p_a_1_2"]
    found = records(write_lines(tmp_path / "1.jsonl", [verl(uid=uid) for uid in uids]))
    assert [(row["prompt_id"], row["sample_id"]) for row in kept(found)] == [("p_a", 0), ("p_a", 1), ("p_b", 0)]  # fmt: skip
    assert left_out(found) == [("further output of one rollout", f"line {n}") for n in (2, 5)]
    assert not any("_prompt_hashed" in row for row in kept(found))
    again = records(
        write_lines(tmp_path / "2.jsonl", [verl(uid="p_a_0_0", step=s) for s in (1, 2)])
    )
    assert len(kept(again)) == 2
    plain = rows(write_lines(tmp_path / "3.jsonl", [verl(uid="img-1"), verl(uid="img-2")]))
    assert [row["prompt_id"] for row in plain] == ["img-1", "img-2"]


def trl(path: Path, **columns: list[Any]) -> Path:
    table = {
        "step": [1, 1],
        "prompt": ["q", "q"],
        "completion": ["a", "b"],
        "advantage": [1.0, -1.0],
    }
    pq.write_table(pa.table(table | columns), path)
    return path


def test_trl_reads_its_reward_function_and_keeps_nan(tmp_path: Path) -> None:
    logs = opened(trl(tmp_path / "a.parquet", accuracy=[1.0, NAN], source=["x", "y"]))
    found = kept(logs.records())
    assert found[0]["reward"] == 1.0 and math.isnan(found[1]["reward"])
    assert found[0]["prompt_id"] == found[1]["prompt_id"] and found[0]["_prompt_hashed"]
    assert [row["_text"] for row in found] == ["a", "b"]
    assert logs.field_map["reward"] == "accuracy"
    none = rows(trl(tmp_path / "b.parquet", accuracy=[1.0, None]))
    assert none[1]["reward"] is None


def test_trl_conversations_and_several_rewards(tmp_path: Path) -> None:
    talks = [[{"role": "user", "content": text}] for text in ("q", "r")]
    path = trl(tmp_path / "a.parquet", prompt=talks, completion=talks, accuracy=[1.0, 0.0], form=[0.0, 1.0])  # fmt: skip
    with pytest.raises(InvalidInput, match=r"several reward functions \(accuracy, form\)"):
        opened(path)
    found = rows(path, mapping={"reward": "form"})
    assert [row["reward"] for row in found] == [0.0, 1.0]
    assert [row["_text"] for row in found] == ["q", "r"]
    assert found[0]["prompt_id"] != found[1]["prompt_id"]


def openrlhf(**fields: Any) -> dict[str, Any]:
    line = {
        "index": [7], "prompts": "q", "rewards": [0.5], "response_length": [2], "truncated": [False],
        "rollout_log_probs": [[-0.5, 0.0, -1.0]], "action_log_probs": [[-0.25, 0.0, -1.0]], "action_mask": [[1, 0, 1]],
    }  # fmt: skip
    return line | fields


def test_openrlhf_counts_only_tokens_under_the_mask(tmp_path: Path) -> None:
    found = rows(write_lines(tmp_path / "a.jsonl", [openrlhf(), openrlhf(truncated=[True])]))
    assert found[0] | {"behavior_logp_tokens": 0} == {
        "prompt_id": 7, "reward": 0.5, "completion_tokens": 2, "behavior_logp_tokens": 0, "behavior_logp": -1.5,
        "target_logp_tokens": [-0.25, -1.0], "target_logp": -1.25, "_missing_logp_tokens": 0, "_zero_logp_tokens": 0,
    }  # fmt: skip
    assert found[1]["finish_reason"] == "length"
    line = openrlhf()
    del line["action_mask"]
    with pytest.raises(InvalidInput, match=r"line 1: log probabilities without a mask"):
        opened(write_lines(tmp_path / "b.jsonl", [line]))
    short = records(write_lines(tmp_path / "c.jsonl", [openrlhf(), openrlhf(action_mask=[[1]])]))
    assert left_out(short) == [("not a record of openrlhf", "line 2")]


def nemo_rl(**fields: Any) -> dict[str, Any]:
    line = {
        "content": ["q a"], "rewards": [0.5], "input_lengths": [5], "token_ids": [[1, 2, 3, 4, 0]], "token_loss_mask": [[0, 0, 1, 1, 0]],
        "sample_loss_mask": [1.0], "generation_logprobs": [[0.0, 0.0, -0.5, -1.0, 0.0]], "prev_logprobs": [[9.0, 9.0, -0.25, -1.0, 9.0]],
        "idx": 0,
    }  # fmt: skip
    return line | fields


def test_nemo_rl_unpacks_its_batches_of_one_and_masks_prompt_and_padding(tmp_path: Path) -> None:
    lines = [nemo_rl(), nemo_rl(idx=1, token_ids=[[1, 2, 8, 9, 0]]), nemo_rl(idx=2, token_ids=[[1, 5, 3, 4, 0]], sample_loss_mask=[0.0])]  # fmt: skip
    logs = opened(write_lines(tmp_path / "train_data_step12.jsonl", lines))
    found = kept(logs.records())
    assert logs.format == "nemo-rl"
    first = found[0]
    assert (first["reward"], first["behavior_logp"], first["target_logp"]) == (0.5, -1.5, -1.25)
    assert (first["completion_tokens"], first["step"]) == (2, 12)
    ids = [row["prompt_id"] for row in found]
    assert ids[0] == ids[1] != ids[2]
    assert "error" not in found[0] and "sample_loss_mask" in found[2]["error"]


def test_nemo_rl_without_masks_has_no_log_probabilities_and_needs_a_prompt(tmp_path: Path) -> None:
    line = nemo_rl()
    del line["token_loss_mask"]
    path = write_lines(tmp_path / "a.jsonl", [line])
    with pytest.raises(InvalidInput, match="--map prompt_id=FIELD"):
        opened(path)
    found = rows(path, mapping={"prompt_id": "content.0"})
    assert found[0]["prompt_id"] == "q a" and "behavior_logp" not in found[0]


def test_nemo_rl_validation_and_evaluation(tmp_path: Path) -> None:
    def talk(answer: str) -> list[dict[str, str]]:
        return [{"role": "user", "content": "q"}, {"role": "assistant", "content": answer}]

    lines = [{"content": [talk("a")], "rewards": [1.0], "idx": 0}, {"content": [talk("b")], "rewards": [0.0], "idx": 1}]  # fmt: skip
    found = rows(write_lines(tmp_path / "val_data_step3.jsonl", lines))
    assert [row["reward"] for row in found] == [1.0, 0.0]
    assert found[0]["prompt_id"] == found[1]["prompt_id"] and found[1]["_text"] == "b"
    items = [{"prompt": "q", "response": "a", "reward": 1.0, "extracted_answer": "4"}, {"prompt": "q", "response": "b", "reward": 0.0}, 3]  # fmt: skip
    path = write_document(tmp_path / "evaluation_data.json", {"evaluation_data": items})
    mixed = records(path)
    assert [(row["reward"], row.get("answer")) for row in kept(mixed)] == [(1.0, "4"), (0.0, None)]
    assert left_out(mixed) == [("not an object", "item 3")]


def skyrl(**fields: Any) -> dict[str, Any]:
    return {"input_prompt": "q", "output_response": "a", "score": 1.0, "stop_reason": "stop", "data_source": "gsm8k"} | fields  # fmt: skip


def test_skyrl_scores_by_row_or_by_declared_reduction(tmp_path: Path) -> None:
    folder = tmp_path / "dumped_evals" / "global_step_20_evals"
    found = rows(write_lines(folder / "gsm8k.jsonl", [skyrl(), skyrl(score=0.5, stop_reason="length")]))  # fmt: skip
    assert [row["reward"] for row in found] == [1.0, 0.5]
    assert found[1]["finish_reason"] == "length"
    assert (found[0]["step"], found[0]["policy_version"], found[0]["dataset"]) == (20, 20, "gsm8k")
    path = write_lines(tmp_path / "b.jsonl", [skyrl(score=[0.0, 0.25, 0.5]), skyrl(score=[1.0])])
    with pytest.raises(InvalidInput, match=r"--map reward=score\.sum or --map reward=score\.last"):
        opened(path)
    for reduction, wanted in (("sum", [0.75, 1.0]), ("last", [0.5, 1.0]), ("mean", [0.25, 1.0]), ("min", [0.0, 1.0]), ("prod", [0.0, 1.0])):  # fmt: skip
        assert [
            row["reward"] for row in rows(path, mapping={"reward": f"score.{reduction}"})
        ] == wanted
    late = records(write_lines(tmp_path / "c.jsonl", [skyrl()] * 20 + [skyrl(score=[1.0])]))
    assert left_out(late) == [("score by token among scores by row", "line 21")]


def test_verifiers_answer_is_the_reference_and_errors_are_marked(tmp_path: Path) -> None:
    line = {
        "example_id": 3, "task": "t", "prompt": [], "completion": [{"role": "assistant", "content": "x"}], "answer": "42", "reward": 0.0,
        "is_truncated": True, "stop_condition": "max_turns", "error": {"type": "E"}, "token_usage": {"input_tokens": 5.0, "output_tokens": 7.0},
        "timing": {"total_ms": 1500},
        "trajectory": [
            {"tokens": {"completion_logprobs": [-1.0, 0.0], "completion_mask": [1, 0]}}, {"tokens": {"completion_logprobs": [-0.5]}},
        ],
    }  # fmt: skip
    assert rows(write_lines(tmp_path / "results.jsonl", [line])) == [
        {
            "prompt_id": 3, "dataset": "t", "reward": 0.0, "finish_reason": "length", "error": "{'type': 'E'}", "prompt_tokens": 5,
            "completion_tokens": 7, "wall_s": 1.5, "model_calls": 2, "_text": "x", "behavior_logp_tokens": [-1.0, -0.5],
            "behavior_logp": -1.5, "_missing_logp_tokens": 0, "_zero_logp_tokens": 0,
        }
    ]  # fmt: skip


def test_a_trace_of_prime_rl_with_branches_is_one_sample(tmp_path: Path) -> None:
    path_of = [{"id": 0, "content": "q"}, {"id": 1, "parent": 0, "logprobs": [-1.0], "reference_logprobs": [-2.0]}, {"id": 2, "parent": 1, "logprobs": [-0.5, 0.0], "reference_logprobs": [-1.0, -1.0]}]  # fmt: skip
    branched = [*path_of, {"id": 3, "parent": 0, "logprobs": [-3.0], "reference_logprobs": [-3.0]}]
    rewards = {"a": {"score": 1.0, "weight": 0.5}, "b": {"score": 0.25, "weight": 2.0}}
    trace = {"task": {"key": "k"}, "nodes": path_of, "rewards": rewards, "ok": True, "calls": [{"usage": {"completion_tokens": 3}}], "timing": {"total_s": 2.0}}  # fmt: skip
    episode = {"traces": [trace, {**trace, "nodes": branched, "finish_reason": "length"}, 5]}
    found = records(write_lines(tmp_path / "traces.jsonl", [episode]))
    one, other = kept(found)
    assert (one["prompt_id"], one["reward"], one["behavior_logp"], one["base_logp"]) == ("k", 1.0, -1.5, -4.0)  # fmt: skip
    assert (one["completion_tokens"], one["model_calls"], one["wall_s"]) == (3, 1, 2.0)
    assert "correct" not in one and one["_zero_logp_tokens"] == 1
    assert "behavior_logp" not in other and other["finish_reason"] == "length"
    assert left_out(found) == [("not an object", "trace 3")]


def test_tunix_lists_are_literals_and_need_their_mask(tmp_path: Path) -> None:
    path = tmp_path / "trajectory_log_1.csv"
    path.write_text(
        "group_id,original_input,conversation_text,trajectory_reward,old_logprobs,conversation_masks,status\n"
        "g,q,\"[{'role': 'assistant', 'content': 'x'}]\",1.0,\"[0.0, -1.0, -0.5]\",\"[0, 1, 1]\",SUCCEEDED\n"
        'g,q,text,nan,"[0.0, nan, -0.5]","[0, 1, 1]",TRUNCATED\n'
        'g,q,text,0.5,"__import__(\'os\').getcwd()","[1]",ENV_TIMEOUT\n'
    )
    logs = opened(path)
    found = kept(logs.records())
    assert logs.format == "tunix"
    assert (found[0]["behavior_logp"], found[0]["completion_tokens"], found[0]["_text"]) == (-1.5, 2, "x")  # fmt: skip
    assert math.isnan(found[1]["reward"]) and found[1]["finish_reason"] == "length"
    assert found[1]["behavior_logp"] is None and found[1]["_missing_logp_tokens"] == 1
    assert "behavior_logp" not in found[2] and found[2]["error"] == "ENV_TIMEOUT"
