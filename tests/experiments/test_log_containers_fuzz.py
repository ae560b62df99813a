"""Packed files, tables, archives and documents whose bytes were changed: read, or refused in a line."""

import gzip
import io
import json
import random
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from experiments.rollout_logs.reading import Excluded, Row
from tests.experiments.log_reading import records
from tests.experiments.log_samples import SAMPLES
from theory.errors import InvalidInput

LINES = b"".join(json.dumps(SAMPLES["native"] | {"prompt_id": n}).encode() + b"\n" for n in range(40))  # fmt: skip


def parquet(rows: list[dict[str, object]]) -> bytes:
    """Rows as a Parquet file."""
    stream = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), stream, compression="zstd")
    return stream.getvalue()


def archive() -> bytes:
    """Three samples of inspect."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as file:
        for number in range(3):
            file.writestr(f"samples/{number}.json", json.dumps(SAMPLES["inspect"]))
    return stream.getvalue()


FILES = {
    "a.jsonl.gz": gzip.compress(LINES),
    "a.jsonl.zst": pa.compress(LINES, codec="zstd", asbytes=True),
    "a.parquet": parquet([{"prompt_id": n, "answer": "x", "tokens": [1, 2]} for n in range(40)]),
    "nested.parquet": parquet([SAMPLES["lighteval"]] * 5),
    "a.eval": archive(),
    "a.yaml": yaml.safe_dump(SAMPLES["monkeys"]).encode(),
    "a.csv": b"group_id,trajectory_reward,old_logprobs,conversation_masks,status\n"
    + b'g,1.0,"[0.0, -1]","[0, 1]",OK\n' * 5,
    "array.json": json.dumps([SAMPLES["native"]] * 5, indent=1).encode(),
    "document.json": json.dumps(SAMPLES["evalplus"], indent=1).encode(),
}


def changed(data: bytes, rng: random.Random) -> bytes:
    """One to four places replaced, taken out, filled in or cut off."""
    found = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(found) + 1)
        action = rng.randrange(4)
        if action == 0:
            found[place : place + 1] = rng.randbytes(1)
        elif action == 1:
            del found[place : place + rng.randint(1, 20)]
        elif action == 2:
            found[place:place] = rng.randbytes(rng.randint(1, 5))
        else:
            del found[place:]
    return bytes(found)


def check(path: Path, number: int) -> None:
    """Change a file some times and read it each time."""
    rng = random.Random(path.name)
    for _ in range(number):
        path.write_bytes(changed(FILES[path.name], rng))
        try:
            found = records(path)
        except InvalidInput as refusal:
            assert "\n" not in str(refusal)
            continue
        assert found and all(isinstance(record, Row | Excluded) for record in found)


@pytest.mark.parametrize("name", FILES)
def test_changed_bytes(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(FILES[name])
    assert all(isinstance(record, Row) for record in records(tmp_path / name, filter_name=None))
    check(tmp_path / name, 25)


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_bytes_changed_many_times(tmp_path: Path, name: str) -> None:
    check(tmp_path / name, 1500)
