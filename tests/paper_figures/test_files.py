"""A file is there as a whole or not at all."""

from pathlib import Path

import pytest

from paper_figures.files import write_whole


def test_a_killed_writer_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "table.csv"
    write_whole(b"old", path)

    def killed(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        write_whole(b"new", path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    path, link = tmp_path / "table.csv", tmp_path / "link.csv"
    path.write_bytes(b"old")
    link.symlink_to(path)
    write_whole(b"new", link)
    assert link.is_symlink() and path.read_bytes() == b"new"
