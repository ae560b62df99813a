"""Where rows are read and tasks are computed: on this machine or on a cluster. The statistics are the same functions, so the numbers are equal."""

import contextlib
from collections.abc import Collection, Generator, Iterable, Iterator
from pathlib import Path
from typing import Protocol, runtime_checkable

import duckdb

from experiments.rollout_logs.reading import OpenedLogs
from experiments.rollout_logs.staging import Staged, stage
from experiments.rollout_logs.task_rows import TaskRows
from experiments.rollout_logs.task_table import Column, Work, on_threads

ENGINES = ("duckdb", "spark")


@runtime_checkable
class Backend(Protocol):
    """What an analysis needs from the place where it runs."""

    def stage(
        self,
        connection: duckdb.DuckDBPyConnection,
        opened: OpenedLogs,
        folder: Path,
        unread: Collection[str],
    ) -> Staged:
        """Read the rows into the database, as `experiments.rollout_logs.staging.stage`."""
        ...

    def in_order(self, chunks: Iterable[TaskRows], work: Work) -> Iterator[dict[str, Column]]:
        """Do some work on every chunk of whole tasks; results in the order of the chunks."""
        ...


class OneMachine:
    """DuckDB reads, threads compute."""

    def stage(
        self,
        connection: duckdb.DuckDBPyConnection,
        opened: OpenedLogs,
        folder: Path,
        unread: Collection[str],
    ) -> Staged:
        """See `Backend`."""
        return stage(connection, opened, folder, unread)

    def in_order(self, chunks: Iterable[TaskRows], work: Work) -> Iterator[dict[str, Column]]:
        """See `Backend`."""
        return on_threads(chunks, work)


ONE_MACHINE = OneMachine()


@contextlib.contextmanager
def open_backend(engine: str) -> Generator[Backend, None, None]:
    """A backend by its name on the command line.

    Args:
        engine: of `ENGINES`.

    Yields:
        The backend, until the block ends.

    Raises:
        InvalidInput: Spark was asked for and cannot start.
    """
    if engine == "duckdb":
        yield ONE_MACHINE
        return
    from experiments.rollout_logs.spark import open_spark  # an extra: few installations have it

    with open_spark() as backend:
        yield backend
