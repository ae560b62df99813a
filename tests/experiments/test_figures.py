from pathlib import Path

import pytest

from experiments import figures
from paper_figures.build import FIGURES, HOME, Verdict


def test_names_are_listed_one_a_line(capfd: pytest.CaptureFixture[str]) -> None:
    assert figures.main(["--list"]) == 0
    assert capfd.readouterr().out.splitlines() == list(FIGURES)


def test_the_figures_named_are_built(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, Path, Path]] = []

    def draw(name: str, tables: Path, out: Path) -> list[Path]:
        asked.append((name, tables, out))
        return [out / f"{name}.pdf", out / f"{name}.png"]

    monkeypatch.setattr(figures, "build", draw)
    name, out = next(iter(FIGURES)), tmp_path / "new" / "folder"
    assert figures.main([name, "--out", str(out)]) == 0
    assert asked == [(name, HOME / "tables", out)]
    assert out.is_dir()
    assert capfd.readouterr().out.splitlines() == [f"{out / name}.pdf", f"{out / name}.png"]
    asked.clear()
    assert figures.main(["--out", str(out)]) == 0
    assert [name for name, _, _ in asked] == list(FIGURES)


def test_a_check_that_finds_a_difference_is_status_1(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *_, last = FIGURES

    def verdict(name: str) -> Verdict:
        return Verdict(
            [f"{name}.pdf: differs from the record"] if name == first else [], "the record"
        )

    monkeypatch.setattr(figures, "check", verdict)
    assert figures.main([first, last, "--check"]) == 1
    out, err = capfd.readouterr()
    assert out == ""
    assert err.splitlines() == [
        f"{first}.pdf: differs from the record",
        f"{last}: the same as the record",
    ]
    assert figures.main([last, "--check"]) == 0


def test_bad_input_is_one_line(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    name = next(iter(FIGURES))
    for words, says in (
        ([name + "x"], f"did you mean '{name}'?"),
        ([name, "--out", str(tmp_path / "file")], "cannot be made"),
    ):
        assert figures.main(words) == 2
        err = capfd.readouterr().err
        assert err.count("\n") == 1
        assert says in err
