"""The database reads canonical lines as the checked reader does, whatever a field holds."""

import gzip
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from experiments.rollout_logs.records import Excluded
from tests.experiments.log_reading import kept, records
from tests.experiments.rollout_log_tools import analyze

ODD_FIELDS = (
    '"completion_tokens": -3',
    '"completion_tokens": 3.0',
    '"score": "0.7"',
    '"score": true',
    '"correct": 0.5',
    '"correct": "true"',
    '"correct": 1',
    '"reward": 1e400',
    '"reward": NaN',
    '"reward": null, "reward_reason": "infinity"',
    '"answer": 42',
    '"answer": "\\u00e9\\n"',
    '"answer": "\\ud800"',
    '"prompt_id": 1.5',
    '"prompt_id": 12345678901234567890',
    '"prompt_id": null',
    '"tokens": ["a"]',
    '"tokens": [1, 2]',
    '"law": "unknown"',
    '"sampler": []',
    '"sampler": {"b": 1, "a": [2.5, "x"]}',
    '"top_k": -1',
    '"behavior_logp_tokens": [-0.5, -1.5]',
    '"error": ""',
    '"unknown": {"deep": 1}',
    '"score": 0.5, "score": 0.6',
)


@pytest.mark.parametrize("field", ODD_FIELDS)
def test_both_readers_agree_on_odd_values(field: str, tmp_path: Path) -> None:
    plain, packed = tmp_path / "log.jsonl", tmp_path / "log.jsonl.gz"
    names = '"prompt_id": 7, ' if "prompt_id" not in field else ""
    plain.write_text(
        '{"prompt_id": 7, "sample_id": 0, "correct": true, "score": 0.25, "reward": 1}\n'
        f'{{{names}"sample_id": 1, {field}}}\n'
    )
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    first, second = (analyze(path, ks=(1,), power_alpha=1.0) for path in (plain, packed))
    assert first["counts"] == second["counts"]
    assert first["statistics"] == second["statistics"]
    assert first["counts"]["rows"] == 2
    assert first["counts"]["used"] + sum(first["counts"]["excluded"].values()) == 2


def test_a_decimal_of_a_table_is_a_number(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    rewards = pa.array([Decimal("1.25"), Decimal(-3), None], pa.decimal128(12, 2))
    pq.write_table(pa.table({"prompt_id": [1, 2, 3], "reward": rewards}), path)
    assert [row["reward"] for row in kept(records(path))] == [1.25, -3.0, None]


def test_a_column_that_is_there_twice_is_not_chosen_from(tmp_path: Path) -> None:
    path, other = tmp_path / "a.parquet", tmp_path / "b.jsonl"
    columns = [pa.array([1]), pa.array([True]), pa.array([False])]
    table = pa.Table.from_arrays(columns, names=["prompt_id", "correct", "correct"])
    pq.write_table(table, path)
    other.write_text('{"prompt_id": 2, "correct": true}\n')
    found = records([path, other])
    assert [row["prompt_id"] for row in kept(found)] == [2]
    (twice,) = (record for record in found if isinstance(record, Excluded))
    assert twice.words == f"{path}: unreadable (column 'correct' is there twice)"
