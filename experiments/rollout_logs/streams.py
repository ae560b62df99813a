"""Bytes of a file or a pipe, unpacked, and their lines, none of them longer than memory should hold."""

import gzip
import io
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from experiments.rollout_logs.inputs import STDIN
from theory.errors import InvalidInput

MAX_LINE_BYTES = 2**26
"""Longest line that is read, 64 MiB; a longer one is left out, with its number, without being held in memory."""

_UNPACKED_BYTES = 2**16
"""Asked of a packed stream at a time."""

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
BROKEN = (OSError, EOFError, zlib.error)
"""What reading a damaged or cut packed stream raises."""


class Line(NamedTuple):
    """One line.

    Attributes:
        number: from 1.
        data: its bytes without the line end, or None if it is longer than the limit.
        broken: whether the stream ended in an error here: what follows is lost.
    """

    number: int
    data: bytes | None
    broken: bool = False


def open_bytes(path: str) -> io.BufferedReader:
    """Open a file, a pipe or stdin; gzip and zstd are told by their first bytes, not by the name.

    Args:
        path: its name, or `-`.

    Returns:
        Its bytes, unpacked.

    Raises:
        InvalidInput: it cannot be opened.
    """
    if path == STDIN and sys.stdin is None:
        raise InvalidInput("-: stdin is closed, give a file or a pipe")
    try:
        stream: Any = (
            io.BufferedReader(io.FileIO(os.dup(sys.stdin.fileno())))
            if path == STDIN
            else open(path, "rb")  # noqa: SIM115, closed by whoever reads it
        )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidInput(f"{path}: cannot be opened ({reason})") from error
    try:
        start = stream.peek(4)[:4]
    except OSError as error:
        stream.close()
        raise InvalidInput(f"{path}: cannot be read ({error.strerror})") from error
    if start.startswith(_GZIP):
        unzipped: Any = gzip.GzipFile(fileobj=stream)
        unzipped.myfileobj = stream  # closed with it
        return io.BufferedReader(_UntilCut(unzipped, unzipped.readinto1), _UNPACKED_BYTES)
    if start.startswith(_ZSTD):
        unpacked: Any = pa.CompressedInputStream(stream, "zstd")
        return io.BufferedReader(_UntilCut(unpacked, unpacked.readinto), _UNPACKED_BYTES)
    return stream


class _UntilCut(io.RawIOBase):
    """A packed stream, unpacked up to the place where it is cut or damaged, and only then in error.

    A reader that fails halfway through a block has put what it had unpacked into the block, but does not say how much. The byte 0xff is in no
    UTF-8 text, so the rest of the block shows by it.
    """

    def __init__(self, packed: Any, read_into: Callable[[Any], int]) -> None:
        self._packed = packed
        self._read_into = read_into
        self._error: Exception | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._error is not None:
            raise self._error
        buffer[:] = b"\xff" * len(buffer)
        try:
            return self._read_into(buffer)
        except BROKEN as error:
            self._error = error
            count = len(bytes(buffer).rstrip(b"\xff"))
            if not count:
                raise
            return count

    def close(self) -> None:
        if not self.closed:
            self._packed.close()
        super().close()


def lines(stream: io.BufferedReader, limit: int = MAX_LINE_BYTES) -> Iterator[Line]:
    """The lines of a stream that are not blank; a byte order mark and carriage returns are no part of them.

    Args:
        stream: bytes.
        limit: longest line, in bytes.

    Yields:
        Lines in order.
    """
    number = 0
    while True:
        number += 1
        try:
            data = stream.readline(limit + 1)
            too_long = len(data) > limit and not data.endswith(b"\n")
            if too_long:
                _skip_line(stream)
        except BROKEN:
            yield Line(number, None, broken=True)
            return
        if not data:
            return
        if too_long:
            yield Line(number, None)
            continue
        if number == 1:
            data = data.removeprefix(b"\xef\xbb\xbf")
        if data.strip():
            yield Line(number, data.rstrip(b"\r\n"))


def _skip_line(stream: io.BufferedReader) -> None:
    while (part := stream.readline(2**20)) and not part.endswith(b"\n"):
        pass
