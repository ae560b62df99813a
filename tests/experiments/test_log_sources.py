"""Damaged files: each bad part is left out with its place, and nothing else is lost."""

import contextlib
import gzip
import io
import json
import os
import random
import subprocess
import sys
import threading
import tracemalloc
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from experiments.rollout_logs import streams
from experiments.rollout_logs.inputs import expand
from experiments.rollout_logs.records import Excluded, Raw
from experiments.rollout_logs.sources import json_lines, raw_records
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

GOOD = [b'{"prompt_id": 1, "correct": true}', b'{"prompt_id": 2, "correct": 0}']
WANTED = [{"prompt_id": 1, "correct": True}, {"prompt_id": 2, "correct": False}]
BOM = b"\xef\xbb\xbf"


@pytest.mark.parametrize(
    ("data", "bad"),
    [
        (b"\n".join(GOOD), []),
        (b"\r\n".join(GOOD) + b"\r\n", []),
        (BOM + b"\n".join(GOOD) + b"\n", []),
        (b"\n\n  \n" + b"\n\n".join(GOOD) + b"\n\t\n", []),
        (b"\n".join(reversed(GOOD)), []),
        (b"\n".join([*GOOD, b'{"prompt_id": 3, "corr']), [("unreadable", "line 3")]),
        (b"\n".join([GOOD[0], b'{"prompt_id": "\xff\xfe"}', GOOD[1]]), [("unreadable", "line 2")]),
        (b"\n".join([GOOD[0], b'{"prompt_id": "\xe9t\xe9"}', GOOD[1]]), [("unreadable", "line 2")]),
        (b"\n".join([GOOD[0], GOOD[0] + GOOD[1], GOOD[1]]), [("unreadable", "line 2")]),
        (b"\n".join([b"[1]", *GOOD, b"3", b"null"]), [("not an object", f"line {n}") for n in (1, 4, 5)]),
        (b"\n".join([*GOOD, b"\0" * 40]), [("unreadable", "line 3")]),
        (b"\n".join([*GOOD, '{"prompt_id": 3}'.encode("utf-16-le")]), [("unreadable", "line 3")]),
        (b"\n".join([*GOOD, b"[" * 10**5]), [("unreadable", "line 3")]),
        (b"\n".join([*GOOD, b'{"prompt_id": 1, "prompt_id": 2}']), [("unreadable", "line 3")]),
        (b"\n".join([*GOOD, b'{"reward": %s}' % (b"9" * 5000)]), [("unreadable", "line 3")]),
        (b"\n".join([*GOOD, b"{'prompt_id': 1}", b"prompt_id: 1"]), [("unreadable", "line 3"), ("unreadable", "line 4")]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("packed", ["", ".gz", ".zst"])
def test_every_bad_line_is_named_and_no_good_one_is_lost(
    tmp_path: Path, data: bytes, bad: list[tuple[str, str]], packed: str
) -> None:
    path = tmp_path / f"log.jsonl{packed}"
    if packed == ".gz":
        data = gzip.compress(data)
    elif packed == ".zst":
        data = pa.compress(data, codec="zstd", asbytes=True)
    path.write_bytes(data)
    found = records(path)
    assert sorted(kept(found), key=lambda row: row["prompt_id"]) == WANTED
    assert left_out(found) == bad
    if bad:
        with pytest.raises(InvalidInput, match=f"{bad[0][1]}: {bad[0][0]}"):
            records(path, strict=True)


def test_numbers_that_are_not_finite_are_read(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"prompt_id": 1, "reward": NaN, "score": -Infinity, "base_logp": 1e999}\n')
    values = rows(path)[0]
    assert values["reward"] != values["reward"]
    assert (values["score"], values["base_logp"]) == (float("-inf"), float("inf"))


def test_our_own_stand_ins_come_back_as_numbers(tmp_path: Path) -> None:
    line = {"prompt_id": 1, "log_weight": None, "log_weight_reason": "-infinity"}
    assert rows(write_lines(tmp_path / "log.jsonl", [line])) == [
        {"prompt_id": 1, "log_weight": float("-inf")}
    ]


def test_a_line_over_the_limit_is_left_out_without_being_held(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    long = b'{"prompt_id": 9, "answer": "' + b"x" * 5000 + b'"}'
    path.write_bytes(b"\n".join([GOOD[0], long, GOOD[1], long]))
    with streams.open_bytes(str(path)) as stream:
        found = list(json_lines(stream, "log", limit=len(long) - 1))
    assert [item.where for item in found] == [f"log, line {number}" for number in (1, 2, 3, 4)]
    assert [isinstance(item, Raw) for item in found] == [True, False, True, False]
    assert isinstance(found[1], Excluded) and found[1].reason == "line too long"
    with streams.open_bytes(str(path)) as stream:
        found = list(json_lines(stream, "log", limit=len(long)))
    assert all(isinstance(item, Raw) for item in found)


@pytest.mark.slow
def test_a_line_of_a_gigabyte_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    with path.open("wb") as stream:
        stream.write(GOOD[0] + b"\n")
        for _ in range(1024):
            stream.write(b"x" * 2**20)
        stream.write(b"\n" + GOOD[1] + b"\n")
    tracemalloc.start()
    found = records(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert kept(found) == WANTED
    assert left_out(found) == [("line too long", "line 2")]
    assert peak < 4 * streams.MAX_LINE_BYTES


def _unpacked(data: bytes, ending: str) -> bytes:
    """All that can be unpacked of a cut stream, byte by byte."""
    if ending == ".gz":
        return zlib.decompressobj(31).decompress(data)
    stream, found = pa.CompressedInputStream(pa.py_buffer(data), "zstd"), io.BytesIO()
    with contextlib.suppress(OSError):
        while byte := stream.read(1):
            found.write(byte)
    return found.getvalue()


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_a_cut_packed_file_gives_every_line_before_the_cut_and_one_that_is_cut(
    tmp_path: Path, ending: str
) -> None:
    random.seed(0)
    lines = [
        b'{"prompt_id": %d, "answer": "%s"}\n' % (number, random.randbytes(60).hex().encode())
        for number in range(3_000)
    ]
    lines[1000] = lines[1000].replace(b'"}\n', b"\xff\xff\xff\n")  # no UTF-8, but a line
    text = b"".join(lines)
    whole = (
        gzip.compress(text) if ending == ".gz" else pa.compress(text, codec="zstd", asbytes=True)
    )
    path = tmp_path / f"log.jsonl{ending}"
    for cut in (len(whole) // 3, len(whole) * 2 // 3, len(whole) - 1):
        path.write_bytes(whole[:cut])
        number = _unpacked(whole[:cut], ending).count(b"\n")
        found = records(path)
        numbers = [n for n in range(number) if n != 1000]
        assert [row["prompt_id"] for row in kept(found)] == numbers
        bad = [("unreadable", f"line {n + 1}") for n in (1000, number) if n <= number]
        assert left_out(found) == sorted(set(bad), key=bad.index)
    assert number == 3_000 if ending == ".gz" else number > 1000


def test_parts_packed_one_after_another_are_read_to_the_end(tmp_path: Path) -> None:
    for name, pack in (("a.gz", gzip.compress), ("b.zst", lambda data: pa.compress(data, codec="zstd", asbytes=True))):  # fmt: skip
        path = tmp_path / name
        path.write_bytes(pack(GOOD[0] + b"\n") + pack(GOOD[1]))
        assert rows(path) == WANTED


@pytest.mark.parametrize("data", [b"", b"\n \n", BOM, gzip.compress(b"", mtime=0)])
def test_an_empty_log_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(data)
    with pytest.raises(InvalidInput, match=r"log\.jsonl: no record in it"):
        opened(path)


def test_an_empty_or_broken_file_beside_a_good_one_is_no_error(tmp_path: Path) -> None:
    good = write_lines(tmp_path / "a.jsonl", [{"prompt_id": 1}])
    (tmp_path / "b.jsonl").write_bytes(b"")
    (tmp_path / "c.jsonl").write_bytes(b"oops\n")
    found = records([good, tmp_path / "b.jsonl", tmp_path / "c.jsonl"])
    assert kept(found) == [{"prompt_id": 1}]
    assert left_out(found) == [("unreadable", "line 1")]
    with pytest.raises(InvalidInput, match=r"c\.jsonl, line 1: unreadable, and no record"):
        opened(tmp_path / "c.jsonl")


def test_many_bad_lines_before_the_first_good_one(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"oops\n" * 50 + GOOD[0])
    found = records(path)
    assert kept(found) == WANTED[:1]
    assert len(left_out(found)) == 50


def test_documents_arrays_and_lines_under_the_name_json(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [
        {"prompt_id": 1, "correct": True},
        {"prompt_id": 2, "correct": 0},
    ]
    assert rows(write_document(tmp_path / "a.json", lines)) == WANTED
    assert rows(write_document(tmp_path / "b.json", lines[0])) == WANTED[:1]
    assert rows(write_lines(tmp_path / "c.json", lines)) == WANTED
    (tmp_path / "d.json").write_bytes(BOM + json.dumps(lines).encode())
    assert rows(tmp_path / "d.json") == WANTED
    (tmp_path / "e.json").write_bytes(gzip.compress(BOM + b"\n" + json.dumps(lines).encode()))
    assert rows(tmp_path / "e.json") == WANTED
    found = records(write_document(tmp_path / "f.json", [*lines, 3]))
    assert kept(found) == WANTED and left_out(found) == [("not an object", "item 3")]
    (tmp_path / "g.json").write_text(json.dumps(lines, indent=1)[:-5])
    cut = records(tmp_path / "g.json")
    assert kept(cut) == WANTED[:1] and left_out(cut) == [("unreadable", "item 2")]
    (tmp_path / "h.json").write_text(json.dumps(lines[0])[:-1])
    with pytest.raises(InvalidInput, match=r"h\.json: unreadable"):
        opened(tmp_path / "h.json")


def test_a_canonical_csv_file_spells_its_values(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(BOM + b"prompt_id,correct,reward,answer,tokens\r\n1,True,0.5,\"a\r\nb\",\"[1, 2]\"\r\n2,0,,,\r\n3,maybe,1,x,\r\n\xff,1,1,x,\r\n4,1\r\n")  # fmt: skip
    found = records(path)
    assert kept(found) == [
        {"prompt_id": "1", "correct": True, "reward": 0.5, "answer": "a\r\nb", "tokens": [1, 2]},
        {"prompt_id": "2", "correct": False, "reward": None, "answer": None, "tokens": None},
    ]
    assert left_out(found) == [
        ("invalid correct", "row 3"), ("unreadable", "row 4"), ("unreadable", "row 5"),
    ]  # fmt: skip


def test_parquet_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "log.bin"
    pq.write_table(pa.table({"prompt_id": [1, 2], "correct": [True, False]}), path)
    assert rows(path) == WANTED
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(InvalidInput, match=r"row 1: unreadable, and no record"):
        opened(path)


def test_a_pipe_is_read_once_and_whole(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    data = b"".join(b'{"prompt_id": %d}\n' % number for number in range(100))
    writer = threading.Thread(target=pipe.write_bytes, args=(data,))
    writer.start()
    logs = opened(pipe)
    assert logs.plain_files == []
    assert [row["prompt_id"] for row in kept(logs.records())] == list(range(100))
    writer.join()


def test_stdin(tmp_path: Path) -> None:
    code = "from tests.experiments.log_reading import *; from experiments.rollout_logs.reading import open_logs; print([r.values['prompt_id'] for r in open_logs(['-'], 'auto', {}, None, True).records()])"  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", code], input=gzip.compress(b"\n".join(GOOD)), capture_output=True, check=True
    )  # fmt: skip
    assert done.stdout == b"[1, 2]\n"


def archive(path: Path, samples: list[dict[str, Any]], method: int, spoil: bool = False) -> Path:
    """An .eval archive; Python cannot write zstd members, so those are made by hand."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("header.json", "{}")
        file.writestr("reductions.json", "[]")
        if method != 93:
            for number, sample in enumerate(samples):
                file.writestr(f"samples/{number}.json", json.dumps(sample))
    if method == 93:
        _append_zstd(path, samples, spoil)
    return path


def _append_zstd(path: Path, samples: list[dict[str, Any]], spoil: bool) -> None:
    """Rewrite the archive with stored members of packed bytes, then mark them as zstd in both directories."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as file:
        file.writestr("header.json", "{}")
        plain = [json.dumps(sample).encode() for sample in samples]
        for number, data in enumerate(plain):
            packed = pa.compress(data, codec="zstd", asbytes=True)
            file.writestr(f"samples/{number}.json", packed)
        infos = [info for info in file.infolist() if info.filename.startswith("samples")]
        for info, data in zip(infos, plain, strict=True):
            info.compress_type = 93
            info.CRC = zlib.crc32(data) ^ spoil
            info.file_size = len(data)


SAMPLE = {"id": "a", "epoch": 1, "input": "?", "target": "4", "scores": {"match": {"value": "C", "answer": "4"}}}  # fmt: skip


@pytest.mark.parametrize("method", [8, 93])
def test_the_samples_of_an_archive(tmp_path: Path, method: int) -> None:
    samples = [SAMPLE, {**SAMPLE, "epoch": 2, "scores": {"match": {"value": "I", "answer": "5"}}}]
    path = archive(tmp_path / "log.eval", samples, method)
    assert [(row["sample_id"], row["correct"], row["answer"]) for row in rows(path)] == [(1, True, "4"), (2, False, "5")]  # fmt: skip


def test_a_spoiled_member_of_an_archive_is_left_out(tmp_path: Path) -> None:
    path = archive(tmp_path / "log.eval", [SAMPLE], 93, spoil=True)
    assert [item.where for item in raw_records(str(path))] == [f"{path}, samples/0.json"]
    with pytest.raises(InvalidInput, match=r"samples/0\.json: unreadable"):
        opened(path)
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(InvalidInput, match=r"log\.eval: unreadable"):
        opened(path)


def test_what_cannot_be_opened_is_said(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no such file"):
        opened(tmp_path / "missing.jsonl")
    with pytest.raises(InvalidInput, match="no file fits"):
        opened(tmp_path / "*.jsonl")
    with pytest.raises(InvalidInput, match="holds no file that ends in"):
        opened(tmp_path)
    with pytest.raises(InvalidInput, match="no log given"):
        opened([])


def test_a_file_named_twice_is_read_once_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"prompt_id": 1}\n')
    assert [file.path for file in expand([str(path), str(path)])] == [str(path)]
    assert capsys.readouterr().err == f"{path}: named more than once, read once\n"
