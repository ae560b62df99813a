"""What every adapter owes: its format is told from its neighbours, and what a file does not say is not filled in."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.experiments.log_reading import kept, left_out, opened, records, rows, write_lines
from tests.experiments.log_samples import SAMPLES
from theory.errors import InvalidInput

# Fields of a native row that writers of other formats add.
NATIVE = {"uid": "p_0_0", "task_id": "t", "correct": True, "acc": 1, "question": "q"}


@pytest.mark.parametrize("format", [name for name in SAMPLES if name != "native"])
def test_a_format_of_its_own_is_no_native_log_for_some_fields_more(
    tmp_path: Path, format: str
) -> None:
    for more in (["uid", "acc"], ["task_id", "correct"], ["question", "correct"]):
        line = {**{name: NATIVE[name] for name in more}, **SAMPLES[format]}
        assert opened(write_lines(tmp_path / "a.jsonl", [line] * 3)).format == format


@pytest.mark.parametrize("absent", ["task_id", "completion"])
def test_human_eval_is_told_by_task_and_completion_together(tmp_path: Path, absent: str) -> None:
    sample = {"task_id": "t", "completion": "x"}
    assert opened(write_lines(tmp_path / "a.jsonl", [sample])).format == "human-eval"
    del sample[absent]
    with pytest.raises(InvalidInput, match="no known format"):
        opened(write_lines(tmp_path / "a.jsonl", [sample]))


def test_a_verdict_tells_results_of_human_eval_from_other_completions(tmp_path: Path) -> None:
    line = {"task_id": "t", "prompt": "q", "completion": "x", "step": 1}
    with pytest.raises(InvalidInput, match=r"trl.*human-eval"):
        opened(write_lines(tmp_path / "a.jsonl", [line]))
    for more, format in (({"passed": False}, "human-eval"), ({"advantage": 0.5}, "trl")):
        assert opened(write_lines(tmp_path / "a.jsonl", [{**line, **more}])).format == format


def test_one_log_probability_tells_openrlhf(tmp_path: Path) -> None:
    for name in ("rollout_log_probs", "action_log_probs", "base_action_log_probs"):
        line = {"uid": "u", "reward": 1.0, "rewards": 0.5, "action_mask": [1], name: [-1.0], "prompts": "q"}  # fmt: skip
        assert opened(write_lines(tmp_path / "a.jsonl", [line])).format == "openrlhf"


def test_a_turn_without_log_probabilities_leaves_a_conversation_without(tmp_path: Path) -> None:
    """A sum over the other turns would be the log probability of nothing."""
    turn = {"tokens": {"completion_logprobs": [-1.0, -2.0]}}
    for turns, wanted in (([turn, turn], -6.0), ([turn, {"tokens": {}}], None), ([{}, turn], None)):
        line = {**SAMPLES["verifiers"], "trajectory": turns}
        (row,) = rows(write_lines(tmp_path / "a.jsonl", [line]))
        assert row.get("behavior_logp") == wanted


def test_a_trace_of_prime_rl(tmp_path: Path) -> None:
    """A weight that is not given is 1; the task may be the episode's; tokens are known where every call tells them."""
    usage = {"usage": {"completion_tokens": 3}}
    trace = {"nodes": [], "rewards": {"a": {"score": 0.5}, "b": {"score": 1.0, "weight": 0.25}}}
    for calls, tokens in (([usage, usage], 6), ([usage, {}], None), ([], None)):
        line = {"task": {"key": "k"}, "traces": [{**trace, "calls": calls}]}
        (row,) = rows(write_lines(tmp_path / "a.jsonl", [line]))
        assert (row["prompt_id"], row["reward"], row.get("completion_tokens")) == (
            "k",
            0.75,
            tokens,
        )
        assert row["model_calls"] == len(calls)


def test_no_log_probabilities_are_none_and_not_a_sum_of_nothing(tmp_path: Path) -> None:
    short = {**SAMPLES["tunix"], "old_logprobs": "[0.0]"}
    (row,) = rows(write_lines(tmp_path / "a.jsonl", [short]), "tunix")
    assert row["behavior_logp"] is None
    sample = SAMPLES["inspect"]
    output = {"choices": [{"message": {"content": "x"}, "logprobs": {"content": []}}]}
    (row,) = rows(write_lines(tmp_path / "a.jsonl", [{**sample, "output": output}]))
    assert "behavior_logp" not in row


def test_tokens_of_two_models_are_no_tokens_of_the_policy(tmp_path: Path) -> None:
    sample = SAMPLES["inspect"]
    usage = {"policy": {"output_tokens": 3}, "grader": {"output_tokens": 99}}
    output = {**sample["output"], "usage": {"output_tokens": 4}}
    (row,) = rows(write_lines(tmp_path / "a.jsonl", [{**sample, "model_usage": usage, "output": output}]))  # fmt: skip
    assert row["completion_tokens"] == 4


def test_a_task_that_evalplus_did_not_judge_has_no_verdict(tmp_path: Path) -> None:
    results = [{"solution": "x", "base_status": status} for status in ("pass", "fail", "timeout", None)]  # fmt: skip
    found = rows(write_lines(tmp_path / "a.jsonl", [{"eval": {"H/0": results}}]))
    assert [row.get("correct") for row in found] == [True, False, False, None]


@pytest.mark.parametrize(
    ("format", "field"),
    [("monkeys", "is_correct"), ("search-and-learn", "agg_scores"), ("search-and-learn", "completion_tokens")],
)  # fmt: skip
@pytest.mark.parametrize("count", [1, 3])
def test_a_list_longer_or_shorter_than_the_samples_belongs_to_none_of_them(
    tmp_path: Path, format: str, field: str, count: int
) -> None:
    line = {**SAMPLES[format], field: [1] * count}
    found = records(write_lines(tmp_path / "a.jsonl", [line]), format)
    assert left_out(found) == [("lists of unequal length", "line 1")] and len(found) == 1


def test_a_request_that_failed_is_a_row_with_its_error(tmp_path: Path) -> None:
    inside = {"custom_id": "c", "response": {"body": {"error": {"message": "late"}}}}
    beside = {"custom_id": "c", "response": None, "error": {"message": "late"}}
    for line in (inside, beside):
        (row,) = rows(write_lines(tmp_path / "a.jsonl", [line]))
        assert row["prompt_id"] == "c" and "late" in row["error"]


def test_a_conversation_is_one_prompt_whatever_the_order_of_its_fields(tmp_path: Path) -> None:
    orders = [{"role": "user", "content": "q"}, {"content": "q", "role": "user"}]
    lines = [{**SAMPLES["skyrl"], "input_prompt": [message]} for message in orders]
    first, second = rows(write_lines(tmp_path / "a.jsonl", lines))
    assert first["prompt_id"] == second["prompt_id"]


def test_the_settings_of_nemo_gym_are_kept_apart(tmp_path: Path) -> None:
    sample = SAMPLES["nemo-gym"]
    line = {**sample, "response": {**sample["response"], "temperature": 0.7, "top_p": 0.9}}
    (row,) = rows(write_lines(tmp_path / "a.jsonl", [line]))
    assert (row["temperature"], row["top_p"]) == (0.7, 0.9)


@pytest.mark.parametrize(
    ("format", "field", "cut"),
    [
        ("skyrl", "stop_reason", "length"),
        ("skyrl", "stop_reason", "max_tokens"),
        ("verifiers", "stop_condition", "max_tokens"),
        ("prime-rl", "finish_reason", "MAX_TOKENS"),
        ("nemo-rl", "finish_reason", "max_new_tokens"),
    ],
)
def test_a_stop_at_the_horizon_is_length_in_every_format(
    tmp_path: Path, format: str, field: str, cut: str
) -> None:
    def reason(written: str) -> Any:
        line = dict(SAMPLES[format])
        inner = line["traces"][0] if "traces" in line else line
        line = {**line, "traces": [{**inner, field: written}]} if "traces" in line else {**line, field: written}  # fmt: skip
        return rows(write_lines(tmp_path / "a.jsonl", [line]), format)[0]["finish_reason"]

    assert (reason(cut), reason("stop")) == ("length", "stop")


def _trl(path: Path, **columns: list[Any]) -> Path:
    count = len(next(iter(columns.values())))
    base = {"prompt": ["q"] * count, "completion": ["a"] * count, "step": [1] * count}
    pq.write_table(pa.table({**base, **columns}), path)
    return path


def test_a_reward_function_of_trl_has_numbers_only(tmp_path: Path) -> None:
    lines = [{"step": 1, "prompt": "q", "completion": "a", "note": note, "exact": 1.0} for note in (0.5, "x")]  # fmt: skip
    logs = opened(write_lines(tmp_path / "a.jsonl", lines))
    assert logs.field_map["reward"] == "exact"
    assert [row["reward"] for row in kept(logs.records())] == [1.0, 1.0]


def test_one_prompt_at_two_steps_is_two_groups_for_trl(tmp_path: Path) -> None:
    found = rows(_trl(tmp_path / "c.parquet", step=[1, 1, 2], exact=[1.0, 0.0, None]))
    ids = [row["prompt_id"] for row in found]
    assert ids[0] == ids[1] != ids[2]
    assert [row["reward"] for row in found] == [1.0, 0.0, None]


def test_log_probabilities_of_nemo_rl_without_their_mask_are_not_used(tmp_path: Path) -> None:
    line = {key: value for key, value in SAMPLES["nemo-rl"].items() if key != "token_loss_mask"}
    line["prompt"] = "q"
    logs = opened(write_lines(tmp_path / "a.jsonl", [line]))
    assert logs.format == "nemo-rl" and "behavior_logp" in logs.missing
    assert all("behavior_logp_tokens" not in row for row in kept(logs.records()))
    with_mask = opened(write_lines(tmp_path / "b.jsonl", [SAMPLES["nemo-rl"]]))
    assert with_mask.field_map["behavior_logp"] == "generation_logprobs"


@pytest.mark.parametrize("format", sorted(SAMPLES))
def test_a_reference_is_never_an_answer(tmp_path: Path, format: str) -> None:
    """Fields that mostly hold the reference change nothing."""
    plain = SAMPLES[format]
    more = {name: "REF" for name in ("ground_truth", "gts", "target", "gt_answer", "expected_answer") if name not in plain}  # fmt: skip
    if format != "native":
        more.setdefault("answer", "REF")
    line = {**more, **plain}
    before = records(write_lines(tmp_path / "a.jsonl", [plain]), format)
    after = records(write_lines(tmp_path / "a.jsonl", [line]), format)
    assert before == after
