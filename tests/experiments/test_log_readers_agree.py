"""The database reads canonical lines as the checked reader does, whatever a field holds."""

import gzip
from pathlib import Path

import pytest

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
