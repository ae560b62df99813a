"""Fixtures of the tests of commands."""

from pathlib import Path

import pytest

from tests.experiments.rollout_log_tools import Run, analyze, write_log


@pytest.fixture(name="run")
def _run(tmp_path: Path) -> Run:  # pyright: ignore[reportUnusedFunction]
    """Analyze the rows of one log."""
    return lambda rows, **options: analyze(write_log(tmp_path / "log.jsonl", rows), **options)
