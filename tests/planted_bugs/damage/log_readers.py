"""How logs are read: every row of a log of a few lines is looked at."""

import json
import math
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from experiments.rollout_logs.adapters.base import Request, Values
from experiments.rollout_logs.records import Raw
from experiments.rollout_logs.spark import Spark, parts_of
from tests.planted_bugs.defect import relative_error


def _read(start: Any, lines: list[dict[str, Any]]) -> list[Values]:
    raws = [
        Raw(line, "log.jsonl", f"log.jsonl, line {place + 1}") for place, line in enumerate(lines)
    ]
    convert = start(raws, Request({}, None)).convert
    return [values for raw in raws for values in convert(raw)]


def of_verdicts(start: Any) -> float:
    """Share of rows with a verdict, of four of verl with scores 0, 1/4, 3/4 and 1 and no verdict."""
    lines = [{"input": "q", "output": "o", "score": score} for score in (0.0, 0.25, 0.75, 1.0)]
    rows = _read(start, lines)
    assert [row["reward"] for row in rows] == [line["score"] for line in lines]
    return sum(row.get("correct") is not None for row in rows) / len(lines)


def of_failed_requests(start: Any) -> float:
    """Share of requests without a row, of three answered ones and one that failed."""
    answered = {"response": {"body": {"choices": [{"index": 0, "message": {"content": "x"}}]}}}
    failed = {"response": None, "error": {"message": "late"}}
    lines = [{"custom_id": f"c{i}", **(failed if i == 2 else answered)} for i in range(4)]
    return 1 - len(_read(start, lines)) / len(lines)


def of_log_probabilities(start: Any) -> float:
    """Relative error of the log probability of two tokens of probabilities 1/2 and 1/4."""
    content = [{"logprob": math.log(p)} for p in (0.5, 0.25)]
    choice = {"index": 0, "message": {"content": "x"}, "logprobs": {"content": content}}
    (row,) = _read(start, [{"id": "r", "object": "o", "choices": [choice]}])
    return relative_error(math.fsum(row["behavior_logp_tokens"]), math.log(0.125))


def of_parts(lines_of: Any) -> float:
    """Lines read too often or not at all over all lines, of eight lines in parts of 25 bytes."""
    lines = [json.dumps({"prompt_id": place}).encode() + b"\n" for place in range(8)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.jsonl"
        path.write_bytes(b"".join(lines))
        read = Counter(line for part in parts_of([str(path)], 25) for line in lines_of(part))
    assert read.keys() <= set(lines)
    return sum(abs(read[line] - 1) for line in lines) / len(lines)


class _Cluster:
    """Two workers, as pyspark shows them."""

    defaultParallelism = 2

    def parallelize(self, items: list[Any], number: int) -> SimpleNamespace:
        assert len(items) == number <= 2

        def mapped(work: Callable[[Any], Any]) -> SimpleNamespace:
            return SimpleNamespace(collect=lambda: [work(item) for item in items])

        return SimpleNamespace(map=mapped)


def of_merging(in_order: Any) -> float:
    """Tasks merged too often or not at all over all tasks, of five chunks of a task each on two workers."""
    backend = Spark(SimpleNamespace(sparkContext=_Cluster()))
    chunks: Iterable[Any] = iter(range(5))
    found = in_order(backend, chunks, lambda task: {"task": np.array([float(task)])})
    merged = Counter(float(each["task"][0]) for each in found)
    return sum(abs(merged[float(task)] - 1) for task in range(5)) / 5
