"""The same analysis with Apache Spark: its workers read and check the lines, and compute the numbers of the tasks.

What needs all rows at once (duplicates, the order by prompt and sample, counts) stays with the embedded database of the driver, which spills to
the driver's disk. So a cluster takes over parsing and statistics, and the rows, narrow by then, have to fit on that disk; the files have to be
readable by every worker under the same path. Every statistic is the function that DuckDB's path calls, on the same chunks of whole tasks.
"""

import contextlib
import importlib.util
import itertools
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Collection, Generator, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa

from experiments.rollout_logs.adapters import native
from experiments.rollout_logs.adapters.base import Convert, Request
from experiments.rollout_logs.parsing import parsed
from experiments.rollout_logs.reading import OpenedLogs, rows_of
from experiments.rollout_logs.records import Excluded, Raw, Row
from experiments.rollout_logs.staging import Staged, plain_lines, stage_batches, stage_checked
from experiments.rollout_logs.streams import MAX_LINE_BYTES
from experiments.rollout_logs.task_rows import TaskRows
from experiments.rollout_logs.task_table import Column, Work
from experiments.rollout_logs.typed_fields import ARROW_SCHEMA, typed_row
from theory.errors import InvalidInput

LOCAL = "local[2]"
_BATCH = 20_000
_PART_BYTES = 2**25
# A chunk of rows travels inside its task; Spark's default of 128 MiB is near what one takes.
_MESSAGE_MIB = "1024"


class Spark:
    """Workers read and compute."""

    def __init__(self, session: Any) -> None:
        """Use a session of pyspark, which the caller stops."""
        self._session = session

    def stage(
        self,
        connection: duckdb.DuckDBPyConnection,
        opened: OpenedLogs,
        folder: Path,
        unread: Collection[str],
    ) -> Staged:
        """All fields are read. Canonical JSON lines are read by the workers; any other log, and one with an irregular row, row by row on the driver."""
        del unread
        files = plain_lines(opened)
        if not files:
            return stage_checked(connection, opened, folder)
        from pyspark import StorageLevel

        parts = parts_of([str(Path(name).resolve()) for name in files])
        batches = self._session.sparkContext.parallelize(parts, len(parts)).flatMap(typed_batches)
        batches.persist(StorageLevel.DISK_ONLY)
        try:
            irregular, rows = batches.map(_counts_of).fold((0, 0), _added)
            if irregular or not rows:
                return stage_checked(connection, opened, folder)
            return stage_batches(connection, batches.toLocalIterator(), folder)
        finally:
            batches.unpersist()

    def in_order(self, chunks: Iterable[TaskRows], work: Work) -> Iterator[dict[str, Column]]:
        """As many chunks at a time as the cluster has cores."""
        context = self._session.sparkContext
        left = iter(chunks)
        while wave := list(itertools.islice(left, context.defaultParallelism)):
            yield from context.parallelize(wave, len(wave)).map(work).collect()


class Part(NamedTuple):
    """The lines of a file that begin in a range of its bytes.

    Attributes:
        path: of the file, for every worker.
        start: first byte.
        end: byte after the last.
    """

    path: str
    start: int
    end: int


def parts_of(paths: Iterable[str], size: int = _PART_BYTES) -> list[Part]:
    """Files in parts that workers read by themselves.

    Spark's own reader leaves out files whose names begin with a dot or an underscore, takes brackets in names for patterns, and mends bytes that
    are no UTF-8; a log may lose no row that way.

    Args:
        paths: of the files.
        size: of a part, in bytes.

    Returns:
        Parts that together hold every line once.
    """
    return [
        Part(path, start, start + size)
        for path in paths
        for start in range(0, max(1, os.path.getsize(path)), size)
    ]


def lines_of(part: Part) -> Iterator[bytes]:
    """The lines that begin in a part.

    Args:
        part: of a file.

    Yields:
        Lines that are not blank, with their ends; of one longer than the limit, the limit and a byte.
    """
    with open(part.path, "rb") as stream:
        if part.start:
            stream.seek(part.start - 1)
            while (rest := stream.readline(_PART_BYTES)) and not rest.endswith(b"\n"):
                pass
        while stream.tell() < part.end and (line := stream.readline(MAX_LINE_BYTES + 1)):
            if line.strip():
                yield line


def typed_batches(part: Part) -> Iterator[pa.RecordBatch | None]:
    """What a worker makes of its part.

    Args:
        part: of a file.

    Yields:
        Typed rows of `ARROW_SCHEMA`; None, and nothing after it, where a line needs the checked path, which can name it.
    """
    convert = native.ADAPTER.start([Raw({"prompt_id": ""}, "", "")], Request({}, None)).convert
    lines = lines_of(part)
    while some := list(itertools.islice(lines, _BATCH)):
        try:
            rows = [typed_row(values) for line in some for values in _values_of(line, convert)]
            batch = pa.RecordBatch.from_pylist(rows, schema=ARROW_SCHEMA)
        except (_IrregularLine, pa.ArrowException, OverflowError):
            yield None
            return
        yield batch


class _IrregularLine(Exception):
    """A line that only the checked path can read or name."""


def _values_of(line: bytes, convert: Convert) -> Iterator[dict[str, Any]]:
    raw = parsed(line.rstrip(b"\r\n"), "", "")
    if isinstance(raw, Excluded) or len(line) > MAX_LINE_BYTES:
        raise _IrregularLine
    for record in rows_of(raw, "native", convert, {}):
        if not isinstance(record, Row):
            raise _IrregularLine
        yield record.values


def _counts_of(batch: pa.RecordBatch | None) -> tuple[int, int]:
    return (1, 0) if batch is None else (0, batch.num_rows)


def _added(first: tuple[int, int], second: tuple[int, int]) -> tuple[int, int]:
    return first[0] + second[0], first[1] + second[1]


@contextlib.contextmanager
def open_spark() -> Generator[Spark, None, None]:
    """Start Spark: under spark-submit as that says, else at SPARK_MASTER, else on two threads of this machine.

    No web page is served and nothing is printed; the messages of its virtual machine go to a file of the run.

    Yields:
        The backend, until the block ends.

    Raises:
        InvalidInput: pyspark or Java is missing, or Spark does not start.
    """
    if importlib.util.find_spec("pyspark") is None:
        raise InvalidInput(
            "--engine spark: pyspark is not installed, install the extra `spark` or leave --engine out"
        )
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if not submitted and _java() is None:
        raise InvalidInput(
            "--engine spark: no Java found, install Java 17 and set JAVA_HOME, or leave --engine out"
        )
    with tempfile.TemporaryDirectory(prefix="rolloutlab-spark-") as folder:
        log = Path(folder) / "spark.log"
        try:
            with _stderr_into(log):
                session = _start(submitted, folder)
        except Exception as error:
            # Whatever the reason (a master that is no master, a port, a version of Java), it is not of this program.
            words = str(error).strip().splitlines()
            raise InvalidInput(
                f"--engine spark: Spark did not start ({words[-1].strip() if words else type(error).__name__}), "
                "check SPARK_MASTER and JAVA_HOME or leave --engine out"
            ) from error
        try:
            yield Spark(session)
        finally:
            session.stop()


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    return shutil.which(str(Path(home) / "bin" / "java") if home else "java")


def _start(submitted: bool, folder: str) -> Any:
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {
        "spark.app.name": "rolloutlab analyze",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.rpc.message.maxSize": _MESSAGE_MIB,
    }
    if not submitted:
        master = os.environ.get("SPARK_MASTER", LOCAL)
        settings["spark.master"] = master
        if master.startswith("local"):
            settings |= {
                "spark.driver.host": "127.0.0.1",
                "spark.driver.bindAddress": "127.0.0.1",
                "spark.local.dir": folder,
                "spark.sql.warehouse.dir": folder,
                # Workers have to find this package where it is not installed.
                "spark.executorEnv.PYTHONPATH": str(Path(__file__).resolve().parents[2]),
            }
    builder: Any = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        # Java is started by fork and exec. JAX, once used in this process, warns of forks that go on in Python.
        warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


@contextlib.contextmanager
def _stderr_into(path: Path) -> Generator[None, None, None]:
    """The file descriptor that a process started inside inherits and keeps."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with path.open("wb") as stream:
            os.dup2(stream.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
