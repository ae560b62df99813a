"""Spoiled logs: never a traceback, never a record that vanishes."""

import io
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.rollout_logs.normalise import normalise
from experiments.rollout_logs.reading import Excluded, Row
from experiments.rollout_logs.schema import BY_NAME
from experiments.rollout_logs.sources import json_lines
from tests.experiments.log_reading import records
from tests.experiments.log_samples import ODD, SAMPLES, spoiled
from theory.errors import InvalidInput

ROOT = Path(__file__).resolve().parents[2]


def read_or_refuse(path: Path, format: str, lines: list[bytes]) -> int:
    """Read spoiled lines under a format; the number of records, after the laws have been checked."""
    path.write_bytes(b"\n".join(lines))
    try:
        found = records(path, format)
    except InvalidInput as refusal:
        assert "\n" not in str(refusal)
        return 0
    numbers = {
        int(record.where.split("line ")[1].split(",")[0]) for record in found if "line " in record.where
    }  # fmt: skip
    wanted = {number for number, line in enumerate(lines, start=1) if line.strip()}
    assert numbers == wanted, "a line vanished"
    for record in found:
        assert isinstance(record, Row | Excluded)
        if isinstance(record, Row):
            again = dict(record.values)
            assert normalise(again) is None and repr(again) == repr(record.values)
            json.dumps({name: record.values[name] for name in record.values if name in BY_NAME})
    return len(found)


@pytest.mark.parametrize("format", SAMPLES)
def test_the_sample_of_a_format_is_told_and_read(tmp_path: Path, format: str) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps(SAMPLES[format]) + "\n")
    found = records(path)
    assert found and all(isinstance(record, Row) for record in found)
    assert [repr(record) for record in records(path, format)] == [repr(record) for record in found]


@pytest.mark.parametrize("format", ["auto", *SAMPLES])
@given(seed=st.integers(0, 2**32))
@settings(max_examples=8)
def test_spoiled_records(tmp_path_factory: pytest.TempPathFactory, format: str, seed: int) -> None:
    rng = random.Random(seed)
    sample = SAMPLES[rng.choice(list(SAMPLES))] if format == "auto" else SAMPLES[format]
    lines = [json.dumps(spoiled(sample, rng)).encode() for _ in range(5)]
    read_or_refuse(tmp_path_factory.getbasetemp() / "fuzz.jsonl", format, lines)


@given(st.lists(st.binary(max_size=20)), st.integers(1, 30))
def test_any_bytes_are_lines(chunks: list[bytes], limit: int) -> None:
    data = b"\n".join(chunks)
    found = list(json_lines(io.BufferedReader(io.BytesIO(data)), "log", limit))
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    blank = [number for number, line in enumerate(lines, start=1) if not line.strip() and len(line) <= limit]  # fmt: skip
    numbers = [int(item.where.rpartition(" ")[2]) for item in found]
    assert numbers == sorted(set(numbers))
    assert {*numbers, *blank} >= {number for number, line in enumerate(lines, start=1) if line}


@given(st.dictionaries(st.sampled_from(sorted(BY_NAME)), st.sampled_from(ODD), max_size=6))
def test_a_row_that_is_let_in_fits_the_schema(values: dict[str, Any]) -> None:
    values = {"prompt_id": "p", **values}
    if normalise(values) is None:
        assert set(values) <= {*BY_NAME, "_missing_logp_tokens", "_zero_logp_tokens"}
        for name, value in values.items():
            if value is not None and name in BY_NAME:
                assert BY_NAME[name].kind.accepts(value), name


ATHERIS = """
import sys, random, json
from pathlib import Path
import atheris
with atheris.instrument_imports(include=["experiments.rollout_logs"]):
    from tests.experiments.test_log_fuzz import SAMPLES, read_or_refuse, spoiled
PATH, ROWS, SEEN, READ = Path(sys.argv[1]), int(sys.argv[2]), 0, 0
FORMATS = ["auto", *SAMPLES]

def one(data):
    global SEEN, READ
    provider = atheris.FuzzedDataProvider(data)
    rng = random.Random(provider.ConsumeIntInRange(0, 2**31))
    format = FORMATS[provider.ConsumeIntInRange(0, len(FORMATS) - 1)]
    sample = SAMPLES[rng.choice(list(SAMPLES)) if format == "auto" else format]
    lines = [json.dumps(spoiled(sample, rng)).encode() for _ in range(9)]
    lines.append(bytes(provider.ConsumeBytes(40)).replace(b"\\n", b" ").replace(b"\\r", b" "))
    spot = rng.randrange(len(lines[0]) + 1)
    lines.append(lines[0][:spot] + bytes(provider.ConsumeBytes(4)).replace(b"\\n", b"") + lines[0][spot:])
    READ += read_or_refuse(PATH, format, lines)
    SEEN += len(lines)

atheris.Setup([sys.argv[0], f"-atheris_runs={ROWS // 11 + 1}", "-seed=1", "-len_control=0", "-max_len=64", "-rss_limit_mb=0", f"-artifact_prefix={PATH.parent}/"], one)
import atexit
atexit.register(lambda: print(f"{SEEN} rows spoiled, {READ} records", flush=True))
atheris.Fuzz()
"""


@pytest.mark.slow
def test_a_hundred_thousand_spoiled_rows_under_atheris(tmp_path: Path) -> None:
    script = tmp_path / "fuzz.py"
    script.write_text(ATHERIS)
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "log.jsonl"), "100000"],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    seen = int(done.stdout.split(" rows spoiled")[0].split()[-1])
    read = int(done.stdout.split(" records")[0].split()[-1])
    assert seen >= 100_000
    assert read > seen // 3
