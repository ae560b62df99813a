"""The records of one file, whatever it is stored as: JSON lines, a JSON document or array, Parquet, CSV, YAML, an .eval archive."""

import csv
import io
import json
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from experiments.rollout_logs.json_arrays import array_items
from experiments.rollout_logs.parsing import parsed, undecoded
from experiments.rollout_logs.records import NOT_AN_OBJECT, TOO_LONG, UNREADABLE, Excluded, Raw
from experiments.rollout_logs.streams import BROKEN, MAX_LINE_BYTES, lines, open_bytes

MAX_DOCUMENT_BYTES = 2**27
"""Largest JSON or YAML document, or member of an archive, that is read: 128 MiB, of which small objects take 1 GB in memory. Lines and arrays are read piece by piece."""

_LINES = (".jsonl", ".ndjson")
_ZSTD_IN_ZIP = 93
_DAMAGED = (
    pa.ArrowException, zipfile.BadZipFile, struct.error, RuntimeError, ValueError, TypeError, KeyError, OverflowError, MemoryError,
    *BROKEN,
)  # fmt: skip
"""What the libraries raise on Parquet files and archives whose bytes are not as they should be."""


def raw_records(path: str) -> Iterator[Raw | Excluded]:
    """Read a file once, in order.

    Args:
        path: a file, a pipe, or `-`.

    Yields:
        Its records; a part that cannot be read as what was left out.

    Raises:
        InvalidInput: it cannot be opened.
    """
    stream = open_bytes(path)
    with stream:
        yield from _by_content(stream, path)


def _by_content(stream: io.BufferedReader, path: str) -> Iterator[Raw | Excluded]:
    try:
        start = stream.peek(4)[:4]
    except BROKEN:
        yield Excluded(UNREADABLE, path)
        return
    name = path.removesuffix(".gz").removesuffix(".zst")
    if start.startswith(b"PAR1"):
        yield from _parquet(stream, path)
    elif start.startswith(b"PK\x03\x04"):
        yield from _archive(stream, path)
    elif name.endswith(".csv"):
        yield from _csv(stream, path)
    elif name.endswith((".yaml", ".yml")):
        yield from _yaml(stream, path)
    elif name.endswith(_LINES) or not name.endswith(".json"):
        yield from json_lines(stream, path)
    else:
        yield from _json(stream, path)


def json_lines(
    stream: io.BufferedReader, path: str, limit: int = MAX_LINE_BYTES
) -> Iterator[Raw | Excluded]:
    """Records of JSON lines.

    Args:
        stream: bytes.
        path: for messages.
        limit: longest line, in bytes.

    Yields:
        One record a line that is not blank.
    """
    for line in lines(stream, limit):
        where = f"{path}, line {line.number}"
        if line.data is None:
            yield Excluded(UNREADABLE if line.broken else TOO_LONG, where)
            continue
        yield parsed(line.data, where, path)


def _parquet(stream: io.BufferedReader, path: str) -> Iterator[Raw | Excluded]:
    number = 0
    try:
        with pq.ParquetFile(stream) as file:
            twice = [name for name, times in Counter(file.schema_arrow.names).items() if times > 1]
            if twice:
                yield Excluded(UNREADABLE, path, f"column '{twice[0]}' is there twice")
                return
            for batch in file.iter_batches(batch_size=1024):
                for value in batch.to_pylist():
                    number += 1
                    yield Raw(value, f"{path}, row {number}", path)
    except _DAMAGED:
        yield Excluded(UNREADABLE, f"{path}, row {number + 1}")


def _json(stream: io.BufferedReader, path: str) -> Iterator[Raw | Excluded]:
    """A document, an array of records, or JSON lines under a name that does not say so."""
    try:
        while (start := stream.peek()) and not start.strip():
            stream.read(len(start))
        encoding = json.detect_encoding(start)
        if start.decode(encoding, "replace").lstrip().startswith("["):
            yield from array_items(stream, path, encoding)
            return
        head = stream.readline(MAX_LINE_BYTES).removeprefix(b"\xef\xbb\xbf")
        if isinstance(parsed(head, path, path), Raw):
            rest = _Joined(head, stream)
            yield from json_lines(io.BufferedReader(rest), path)
            return
        data = head + stream.read(MAX_DOCUMENT_BYTES + 1)
    except BROKEN:
        yield Excluded(UNREADABLE, path)
        return
    if len(data) > MAX_DOCUMENT_BYTES:
        yield Excluded("document too large", path)
    elif data.strip():
        yield parsed(data, path, path)


class _Joined(io.RawIOBase):
    """Bytes that were read already, then the rest of their stream."""

    def __init__(self, head: bytes, rest: io.BufferedReader) -> None:
        self._head = memoryview(head)
        self._rest = rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._head:
            data = self._rest.read(len(buffer))
            buffer[: len(data)] = data
            return len(data)
        count = min(len(buffer), len(self._head))
        buffer[:count] = self._head[:count]
        self._head = self._head[count:]
        return count


def _csv(stream: io.BufferedReader, path: str) -> Iterator[Raw | Excluded]:
    """Rows of texts; a cell may span lines, so rows are counted."""
    csv.field_size_limit(MAX_LINE_BYTES)
    number = 0
    try:
        with io.TextIOWrapper(stream, "utf-8-sig", "surrogateescape", newline="") as text:
            for number, row in enumerate(csv.DictReader(text), start=1):
                where = f"{path}, row {number}"
                cells = [*row.keys(), *row.values()]
                fits = all(isinstance(cell, str) and not undecoded(cell) for cell in cells)
                yield Raw(row, where, path) if fits else Excluded(UNREADABLE, where)
    except (csv.Error, *BROKEN):
        yield Excluded(UNREADABLE, f"{path}, row {number + 1}")


def _yaml(stream: io.BufferedReader, path: str) -> Iterator[Raw | Excluded]:
    try:
        data = stream.read(MAX_DOCUMENT_BYTES + 1)
        value = yaml.load(data, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, ValueError, RecursionError, *BROKEN):
        yield Excluded(UNREADABLE, path)
        return
    if isinstance(value, dict):
        yield Raw({str(name): item for name, item in value.items()}, path, path)
    elif value is not None:
        yield Excluded(NOT_AN_OBJECT, path)


def _archive(stream: io.BufferedReader, path: str) -> Iterator[Raw | Excluded]:
    """The samples of an .eval archive, one member each."""
    try:
        archive = zipfile.ZipFile(stream)
        members = [info for info in archive.infolist() if info.filename.startswith("samples/")]
    except _DAMAGED:
        yield Excluded(UNREADABLE, path)
        return
    for info in members:
        where = f"{path}, {info.filename}"
        data = _member(archive, stream, info)
        yield Excluded(UNREADABLE, where) if data is None else parsed(data, where, path)


def _member(
    archive: zipfile.ZipFile, stream: io.BufferedReader, info: zipfile.ZipInfo
) -> bytes | None:
    """The bytes of a member; Python reads zstd inside a zip only from 3.14 on."""
    if info.file_size > MAX_DOCUMENT_BYTES:
        return None
    try:
        if info.compress_type != _ZSTD_IN_ZIP:
            return archive.read(info)
        stream.seek(info.header_offset + 26)
        name_length, extra_length = struct.unpack("<HH", stream.read(4))
        stream.seek(name_length + extra_length, io.SEEK_CUR)
        packed = stream.read(info.compress_size)
        data = pa.decompress(packed, info.file_size, codec="zstd", asbytes=True)
        return data if zlib.crc32(data) == info.CRC else None
    except _DAMAGED:
        return None
