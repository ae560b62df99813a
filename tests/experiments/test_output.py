import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.output import check_keeps, check_writable, make_folder, open_output
from tests.conftest import ROOT
from theory.errors import InvalidInput


def test_a_file_is_replaced_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"before")
    with pytest.raises(RuntimeError), open_output(path) as stream:
        stream.write(b"half")
        raise RuntimeError
    assert path.read_bytes() == b"before"
    with open_output(path) as stream:
        stream.write(b"after")
        assert path.read_bytes() == b"before"
    assert path.read_bytes() == b"after"
    assert os.listdir(tmp_path) == ["out"]


def test_a_link_stays_a_link_and_its_target_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"before")
    (tmp_path / "link").symlink_to("target")
    with open_output(tmp_path / "link") as stream:
        stream.write(b"after")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"after"


def test_a_device_is_written_to_and_never_replaced() -> None:
    with open_output("/dev/null") as stream:
        stream.write(b"gone")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_stdout_gets_the_bytes(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    with open_output("-") as stream:
        stream.write(b"\x00\xff")
    assert capfdbinary.readouterr().out == b"\x00\xff"


@pytest.mark.parametrize("name", ["", ".", "missing/out", "file/out", "n" * 300])
def test_what_cannot_be_written_is_known_beforehand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    with pytest.raises(InvalidInput, match=r"^output '"):
        check_writable(name)
    with pytest.raises(InvalidInput), open_output(name):
        pytest.fail("it was opened")
    assert os.listdir(tmp_path) == ["file"]


def test_checking_leaves_no_trace(tmp_path: Path) -> None:
    check_writable(tmp_path / "out")
    check_writable("-")
    assert os.listdir(tmp_path) == []


def test_a_folder_is_made_with_its_parents_or_refused(tmp_path: Path) -> None:
    assert make_folder(make_folder(tmp_path / "a" / "b")).is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(InvalidInput, match="cannot be made"):
        make_folder(tmp_path / "file" / "c")


def test_a_named_pipe_is_written_to_and_not_ended_by_the_check(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE) as reader:
        check_writable(pipe)
        with open_output(pipe) as stream:
            stream.write(b"whole")
        assert reader.communicate()[0] == b"whole"
    assert pipe.is_fifo()


def test_a_file_descriptor_has_no_other_name() -> None:
    read_end, write_end = os.pipe()
    check_writable(f"/dev/fd/{write_end}")
    with open_output(f"/dev/fd/{write_end}") as stream:
        stream.write(b"whole")
    os.close(write_end)
    with os.fdopen(read_end, "rb") as reader:
        assert reader.read() == b"whole"


@pytest.mark.parametrize("argv", [["--json", "/dev/full"], ["--json", "-"], []])
def test_a_full_device_is_one_line(argv: list[str]) -> None:
    command = [sys.executable, "-m", "experiments.exact", "builtin:toy-b", *argv]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "No space left" in done.stderr


def test_a_result_never_replaces_its_input(tmp_path: Path) -> None:
    source, link = tmp_path / "model.json", tmp_path / "link.json"
    source.write_text("{}")
    link.symlink_to(source)
    for destination in (source, link):
        with pytest.raises(InvalidInput, match="is the input itself"):
            check_keeps(destination, source)
    check_keeps(tmp_path / "other.json", source)
    check_keeps("-", source)
    check_keeps(source, "builtin:toy-b")
