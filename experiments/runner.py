"""Runs an experiment once per configuration, keeps what it found, and picks it up where it was killed.

    results/<experiment>/<config hash>/
        config.json      what was asked
        table.parquet    the main table; further tables beside it
        manifest.json    how it was made: written last, so a folder with a manifest is complete
        stages/          tables of finished stages, while the run is incomplete
        .lock            held by the process that is at this run

The hash covers the experiment's name, its declared version and every value of its configuration. The version is to be
raised whenever the same configuration would give other numbers.
"""

import contextlib
import fcntl
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Generator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import pyarrow as pa
from rich.console import Console

from experiments.json_output import to_plain, write_json
from experiments.output import STDOUT, check_writable, make_folder
from experiments.progress import Progress, say, track
from experiments.tables import read_parquet, read_unfinished, write_parquet
from experiments.terminal import report_console
from theory.errors import InvalidInput

ConfigT = TypeVar("ConfigT")

MAIN_TABLE = "table"
_MANIFEST = "manifest.json"
_STAGES = "stages"
_PACKAGES = ("rolloutlab", "jax", "jaxlib", "numpy", "scipy", "pyarrow")


@dataclass(frozen=True)
class RunOptions:
    """How to run; nothing here changes the numbers."""

    preset: Literal["smoke", "default", "full"] = "default"
    """Sizes to start from: smoke takes seconds, default is what is reported, full is for papers. Single options override it."""

    force: bool = False
    """Compute again even if the same configuration has been run before."""

    results_dir: Path = Path("results")
    """Folder of the run folders <experiment>/<config hash>."""


class Checkpoint:
    """The finished stages of an incomplete run.

    Attributes:
        folder: of the run, for files that belong to what it found.
        stages: folder of what is kept while the run is incomplete, and removed when it is complete.
    """

    def __init__(self, folder: Path, writes: bool = True) -> None:
        """Look into a run folder.

        Args:
            folder: of the run.
            writes: whether this process stores what it computes.
        """
        self.resumed: list[str] = []
        self.folder = folder
        self.stages = folder / _STAGES
        self._writes = writes

    def stage(self, name: str, compute: Callable[[], pa.Table]) -> pa.Table:
        """Compute a table, or read it back where an earlier attempt has finished it.

        Args:
            name: of the stage, unique in its run: letters, digits, `-`, `_`, `.`.
            compute: without side effects.

        Returns:
            The table; the same whether computed now or before.
        """
        if not re.fullmatch(r"[\w.-]+", name):
            raise ValueError(f"stage name '{name}': letters, digits, '-', '_' and '.' only")
        path = self.stages / f"{name}.parquet"
        if path.exists():
            self.resumed.append(name)
            return read_unfinished(path)
        table = compute()
        if self._writes:
            write_parquet(table, make_folder(path.parent) / path.name)
        return table


@dataclass(frozen=True)
class Experiment(Generic[ConfigT]):
    """A question with a name.

    Attributes:
        name: of its folder under the results.
        version: raised whenever the same configuration would give other numbers.
        run: (config, progress, checkpoint) -> tables by name; the main one is called "table". A pure function of the
            configuration: no clock, no environment.
    """

    name: str
    version: int
    run: Callable[[ConfigT, Progress, Checkpoint], Mapping[str, pa.Table]]


class Run(NamedTuple):
    """A complete run.

    Attributes:
        folder: where it is kept.
        tables: by name.
    """

    folder: Path
    tables: dict[str, pa.Table]


def config_hash(experiment: Experiment[ConfigT], config: ConfigT) -> str:
    """The name of a configuration's run folder.

    Args:
        experiment: its name and version count.
        config: a frozen dataclass.

    Returns:
        12 hexadecimal digits; the same for equal configurations whatever the order of their fields.
    """
    canonical = json.dumps(_describe(experiment, config), sort_keys=True, allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:12]


def run_experiment(
    experiment: Experiment[ConfigT],
    config: ConfigT,
    options: RunOptions | None = None,
    progress: Progress = track,
) -> Run:
    """Run an experiment, unless the same configuration has been run before.

    A second process that is given the same run waits for the first and then takes its result. Of several JAX
    processes only the one with index 0 writes; the others must see the same folder.

    Args:
        experiment: what to run.
        config: a frozen dataclass.
        options: where, and whether to compute again; its preset is not read.
        progress: shows how far the work has come.

    Returns:
        The run.

    Raises:
        InvalidInput: the folder cannot be written.
    """
    options = options or RunOptions()
    folder = options.results_dir / experiment.name / config_hash(experiment, config)
    writes = _is_first_process()
    with _exclusive(make_folder(folder)) if writes else contextlib.nullcontext():
        if options.force and writes:
            _clear(folder)
        if not options.force and (folder / _MANIFEST).exists():
            say(f"{folder}: done before, not computed again (--force does)")
            return Run(folder, read_run(folder))
        if (folder / _STAGES).exists():
            say(f"{folder}: resumed, finished stages are read back")
        checkpoint = Checkpoint(folder, writes)
        if writes:
            write_json(_describe(experiment, config), folder / "config.json")
        started, clock = datetime.now(UTC), time.perf_counter()
        tables = dict(experiment.run(config, progress, checkpoint))
        if writes:
            wall_s = time.perf_counter() - clock
            _store(folder, tables, _manifest(config, checkpoint, started, wall_s))
            tables = read_run(folder)  # a fresh run and a skipped one return the same
        return Run(folder, tables)


def run_and_report(
    experiment: Experiment[ConfigT],
    config: ConfigT,
    options: RunOptions,
    json_file: str | None,
    show: Callable[[Console, Run], None],
    kept: Collection[str] | None = None,
) -> Run:
    """What a command does with an experiment: run it, show what was found and where it is kept, write it as JSON.

    Args:
        experiment: what to run.
        config: checked.
        options: see `run_experiment`.
        json_file: for {table: [row, ...]}, - for stdout, where people then read on stderr; None for no such file.
        show: prints what was found.
        kept: tables of the JSON; all by default.

    Returns:
        The run.

    Raises:
        InvalidInput: a file cannot be written.
    """
    if json_file is not None:
        check_writable(json_file)
    done = run_experiment(experiment, config, options)
    console = report_console(stderr=json_file == STDOUT)
    show(console, done)
    console.print(str(done.folder), soft_wrap=True)
    if json_file is not None:
        names = done.tables if kept is None else kept
        write_json({name: done.tables[name].to_pylist() for name in names}, json_file)
    return done


def read_run(folder: Path) -> dict[str, pa.Table]:
    """Read the tables of a complete run.

    Args:
        folder: a run folder with a manifest.

    Returns:
        The tables by name.

    Raises:
        InvalidInput: a file of it is missing or damaged.
    """
    try:
        manifest = json.loads((folder / _MANIFEST).read_text())
        return {name: read_parquet(folder / f"{name}.parquet") for name in manifest["tables"]}
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
        cause = str(error).splitlines()[0]
        raise InvalidInput(
            f"{folder}: this run is damaged ({cause}), compute it again with --force"
        ) from error


def _describe(experiment: Experiment[ConfigT], config: ConfigT) -> dict[str, Any]:
    return {
        "experiment": experiment.name,
        "version": experiment.version,
        "config": to_plain(config),
    }


def _store(folder: Path, tables: Mapping[str, pa.Table], manifest: Mapping[str, Any]) -> None:
    if MAIN_TABLE not in tables:
        raise ValueError(f"an experiment returns a table named '{MAIN_TABLE}'")
    for name, table in tables.items():
        write_parquet(table, folder / f"{name}.parquet")
    rows = {name: table.num_rows for name, table in tables.items()}
    write_json({**manifest, "tables": rows}, folder / _MANIFEST)
    shutil.rmtree(folder / _STAGES, ignore_errors=True)
    for leftover in folder.glob(".*.partial"):  # of attempts that were killed while writing
        leftover.unlink()


def _clear(folder: Path) -> None:
    (folder / _MANIFEST).unlink(missing_ok=True)  # first: from here on the run is incomplete
    shutil.rmtree(folder / _STAGES, ignore_errors=True)


@contextlib.contextmanager
def _exclusive(folder: Path) -> Generator[None, None, None]:
    """Hold a run folder alone; the system gives the lock back however the process ends."""
    with (folder / ".lock").open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"{folder}: another process is at this run, waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _is_first_process() -> bool:
    jax = sys.modules.get("jax")  # where JAX has not been imported there is one process
    return jax is None or jax.process_index() == 0


def _manifest(
    config: object, checkpoint: Checkpoint, started: datetime, wall_s: float
) -> dict[str, Any]:
    changes = _git("status", "--porcelain")
    return {
        "commit": _git("rev-parse", "HEAD"),
        "dirty": None if changes is None else changes != "",
        "versions": _versions(),
        "device": _device(),
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        "seed": getattr(config, "seed", None),
        "started": started.isoformat(timespec="seconds"),
        "ended": datetime.now(UTC).isoformat(timespec="seconds"),
        "wall_s": wall_s,
        "resumed_stages": checkpoint.resumed,
    }


def _git(*arguments: str) -> str | None:
    """Ask git about the checkout that this file belongs to; None where there is none."""
    root = Path(__file__).resolve().parents[1]
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    return versions


def _device() -> list[str]:
    jax = sys.modules.get("jax")
    return [] if jax is None else [device.device_kind for device in jax.devices()]
