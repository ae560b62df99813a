"""The rollouts that other people published: each file gives its rows, or the one line that says why not."""

import json
import math
from collections import Counter
from pathlib import Path

import pytest

from experiments.rollout_logs.reading import Row
from tests.experiments.log_reading import kept, opened, records, rows
from theory.errors import InvalidInput

GYM = "NVIDIA-NeMo+Gym"
INSPECT = "UKGovernmentBEIS+inspect_ai"

# file, format, rows, prompts, least and most rows of a prompt, sum of correct or of reward
FILES = [
    ("princeton-nlp+tree-of-thought-llm/game24_cot100.rollouts.jsonl", "native", 10_000, 100, (100, 100), None),
    ("princeton-nlp+tree-of-thought-llm/game24_tot_bfs_b5.rollouts.jsonl", "native", 500, 100, (5, 5), None),
    (f"{GYM}/aalcr__example_rollouts.jsonl", "nemo-gym", 5, 2, (2, 3), 3),
    (f"{GYM}/anyswe_agent__example_rollouts_pi.jsonl", "nemo-gym", 5, 1, (5, 5), 4),
    (f"{GYM}/blackjack__example_rollouts.jsonl", "nemo-gym", 5, 1, (5, 5), 1),
    (f"{GYM}/competitive_coding_challenges__example_rollouts.jsonl", "nemo-gym", 5, 1, (5, 5), 0),
    (f"{GYM}/competitive_coding_challenges.rollouts.jsonl", "native", 5, 1, (5, 5), 0),
    (f"{GYM}/graphwalks__example_rollouts.jsonl", "nemo-gym", 5, 4, (1, 2), 5),
    ("ZyQiu6+verl_dev/1.jsonl", "verl", 128, 128, (1, 1), 2),
    ("tcc-inatel-2025+PoE-Evaluation/codellama_7b_results.jsonl", "human-eval", 164, 164, (1, 1), None),
    ("tcc-inatel-2025+PoE-Evaluation/qwen2.5-coder_7b_samples.jsonl", "human-eval", 164, 164, (1, 1), None),
    ("openai+human-eval/example_samples.jsonl", "human-eval", 6, 1, (6, 6), None),
    (f"{INSPECT}/2025-02-11T15-18-04-05-00_popularity_mj7khqpMM4GBCfVQozKgzB.eval", "inspect", 10, 10, (1, 1), None),
    (f"{INSPECT}/2025-02-11T15-17-00-05-00_popularity_dPiJifoWeEQBrfWsAopzWr.eval", "inspect", 10, 10, (1, 1), None),
    (f"{INSPECT}/log_streaming.eval", "inspect", 4, 2, (2, 2), None),
    (f"{INSPECT}/2025-05-12T20-28-13-04-00_popularity.json", "inspect", 3, 3, (1, 1), None),
    (f"{INSPECT}/log_read_sample.json", "inspect", 1, 1, (1, 1), 1),
]  # fmt: skip


@pytest.mark.parametrize(("name", "format", "number", "prompts", "least_most", "total"), FILES)
def test_every_row_is_read(
    shared_data_dir: Path,
    name: str,
    format: str,
    number: int,
    prompts: int,
    least_most: tuple[int, int],
    total: float | None,
) -> None:
    logs = opened(shared_data_dir / name)
    found = list(logs.records())
    values = kept(found)
    assert logs.format == format
    assert len(found) == len(values) == number
    counts = Counter(row["prompt_id"] for row in values)
    assert len(counts) == prompts
    assert (min(counts.values()), max(counts.values())) == least_most
    if total is not None:
        assert sum(row["reward"] for row in values) == total


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (f"{GYM}/asr_with_pc__example_rollouts_reward_profiling.jsonl", "R16: aggregates of a task"),
        ("openai+human-eval/example_problem.jsonl", "no known format has the fields task_id, prompt"),
        ("openai+grade-school-math/example_model_solutions.head300.jsonl", "no known format has the fields question, ground_truth"),
        ("facebookresearch+cruxeval/sample_scored_codellama-7b_temp0.2_input.json", "no known format has the fields raw_generations"),
        ("golden_stats.json", "no known format"),
    ],
)  # fmt: skip
def test_what_is_no_log_is_refused(shared_data_dir: Path, name: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        opened(shared_data_dir / name)


def test_log_probabilities_of_real_tokens(shared_data_dir: Path) -> None:
    full = rows(shared_data_dir / GYM / "competitive_coding_challenges__example_rollouts.jsonl")
    flat = shared_data_dir / GYM / "competitive_coding_challenges.rollouts.jsonl"
    wanted = [json.loads(line) for line in flat.read_text().splitlines()]
    for row, line in zip(full, wanted, strict=True):
        assert math.isclose(row["behavior_logp"], line["behavior_logp"], rel_tol=1e-12)
        assert row["completion_tokens"] == line["n_tokens"] == len(row["behavior_logp_tokens"])
        assert row["_zero_logp_tokens"] == line["exact_zero_tokens"]
        assert (row["sample_id"], row["_missing_logp_tokens"]) == (line["sample_id"], 0)


def test_files_that_tell_their_traps(shared_data_dir: Path) -> None:
    graphs = rows(shared_data_dir / GYM / "graphwalks__example_rollouts.jsonl")
    keys = Counter((row["prompt_id"], row["sample_id"]) for row in graphs)
    assert [key for key, count in keys.items() if count > 1] == [(11, 0)]
    calendar = rows(shared_data_dir / GYM / "calendar__example_rollouts.jsonl")
    assert all(row["_prompt_hashed"] and "sample_id" not in row for row in calendar)
    verl = rows(shared_data_dir / "ZyQiu6+verl_dev" / "1.jsonl")
    assert all(row["_prompt_hashed"] and "correct" not in row for row in verl)
    beams = rows(shared_data_dir / "princeton-nlp+tree-of-thought-llm" / "game24_tot_bfs_b5.rollouts.jsonl")  # fmt: skip
    first = [len({row["branch_path"][0] for row in beams[start : start + 5]}) for start in range(0, 500, 5)]  # fmt: skip
    assert sum(first) / 100 == 2.0
    empty = opened(shared_data_dir / INSPECT / "2025-02-11T15-17-00-05-00_popularity_dPiJifoWeEQBrfWsAopzWr.eval")  # fmt: skip
    assert {"correct", "reward", "answer"} <= set(empty.missing)


def test_one_policy_of_four_at_a_time(shared_data_dir: Path) -> None:
    path = shared_data_dir / "openai+grade-school-math" / "example_model_solutions.head300.jsonl"
    shares: list[float] = []
    for policy in ("6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification"):
        mapping = {"prompt_id": "question", "correct": f"{policy}.is_correct"}
        found = rows(path, mapping=mapping)
        shares.append(sum(row["correct"] for row in found) / len(found))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert shares == [
        sum(line[policy]["is_correct"] for line in lines) / 300
        for policy in ("6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification")
    ]


def test_a_folder_of_rollouts_and_their_aggregates(shared_data_dir: Path) -> None:
    with pytest.raises(InvalidInput, match=r"looks like .* and .* like"):
        opened(shared_data_dir / GYM)
    logs = opened(shared_data_dir / GYM / "*example_rollouts.jsonl")
    assert logs.format == "nemo-gym"
    assert len(logs.inputs) == 5
    folder = records(shared_data_dir / INSPECT)
    assert len(folder) == 28 and all(isinstance(record, Row) for record in folder)
