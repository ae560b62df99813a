"""Rows of `rolloutlab sample` on a reference case, drawn in process, and what is checked of them."""

import functools
import json
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from experiments.sample import main
from models.tabular.files import read_model
from tests.conftest import ROOT
from tests.stat_asserts import assert_counts, assert_mean

CASE_PATH = ROOT / "tests" / "data" / "reference" / "case-1.json"  # a tree of 11 sequences, eos 2
CASE: dict[str, Any] = json.loads(CASE_PATH.read_text())
TABLE = read_model(CASE_PATH).table
POWER = {block["alpha"]: block for block in CASE["power"]}
NUM = 4000

Rows = tuple[dict[str, Any], ...]
Law = Mapping[tuple[int, ...], float]


@functools.cache
def draw(*words: str, model: str = str(CASE_PATH)) -> Rows:
    """The rows that a command line draws; a command line is run once."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "rows.jsonl"
        assert main([model, "--out", str(out), *words]) == 0
        return tuple(json.loads(line) for line in out.read_text().splitlines())


def named_law(named: Mapping[str, float]) -> dict[tuple[int, ...], float]:
    """A law of a reference case; rounded to sum to 1."""
    total = sum(named.values())
    return {tuple(map(int, name.split())): p / total for name, p in named.items()}


def check_rows(rows: Rows, law: Law) -> None:
    """Independent rows follow a finite law."""
    counts = Counter(tuple(row["tokens"]) for row in rows)
    cells = [*law, *(counts.keys() - law.keys())]
    # A row that is no sequence of the law is in a cell of probability 0.
    assert_counts([counts[cell] for cell in cells], [law.get(cell, 0.0) for cell in cells])


def check_weights(rows: Rows, log_Z: float, *, smallest_bias: float) -> None:
    """The mean of exp(log_weight) over independent draws, or over the rows of each population, estimates Z."""
    groups: dict[Any, list[float]] = {}
    for place, row in enumerate(rows):
        weight = row["log_weight"]
        assert weight is not None or row["log_weight_reason"] == "-infinity"
        groups.setdefault(row.get("population_id", place), []).append(
            0.0 if weight is None else float(np.exp(weight - log_Z))
        )
    assert_mean([np.mean(group) for group in groups.values()], 1.0, smallest_bias=smallest_bias)
