"""What ends an analysis from outside is one line, and leaves nothing on the disk."""

import sys
import tempfile
from pathlib import Path

import pytest

from experiments.analyze import main
from experiments.command_line import guard
from experiments.rollout_logs import database
from experiments.rollout_logs.database import open_database
from tests.experiments.rollout_log_tools import verdicts, write_log


def test_an_interrupted_query_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    def action() -> int:
        with tempfile.TemporaryDirectory() as folder, open_database(Path(folder)):
            raise RuntimeError("Query interrupted")  # what the database makes of a signal

    assert guard("tool", action) == 130
    assert capsys.readouterr().err == "tool: interrupted\n"


def test_an_error_of_ours_inside_stays_what_it_is(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="another"), open_database(tmp_path):
        raise RuntimeError("another")


def test_without_room_it_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = write_log(tmp_path / "log.jsonl", verdicts([1, 0], [0, 1]))
    monkeypatch.setattr(database, "MEMORY_LIMIT", "1MB")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert main([str(log), "--json", "-"]) == 2
    said = capsys.readouterr()
    assert "make room or set TMPDIR" in said.err and said.err.count("\n") == 1 and not said.out
    assert list(tmp_path.iterdir()) == [log]


def test_a_closed_stdin_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert main(["-"]) == 2
    assert "-: stdin is closed" in capsys.readouterr().err
