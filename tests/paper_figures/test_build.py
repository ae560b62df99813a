"""The same tables give the same bytes, whoever builds them, wherever, whenever."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from paper_figures import build
from paper_figures.build import (
    FIGURES,
    HOME,
    check,
    digests,
    draw_to_files,
    record_digests,
)
from tests.conftest import ROOT
from theory.errors import InvalidInput

PROGRAM = """
import sys
from pathlib import Path
from paper_figures.build import FIGURES, build
for name in FIGURES:
    build(name, Path(sys.argv[1]), Path(sys.argv[2]))
assert "matplotlib.pyplot" not in sys.modules, "pyplot keeps state"
assert "jax" not in sys.modules, "a figure is drawn without the samplers"
"""


def start(out_dir: Path, cwd: Path, **changes: str) -> subprocess.Popen[str]:
    # No display and no backend: what a fresh machine without a screen has.
    kept = {k: v for k, v in os.environ.items() if k not in {"DISPLAY", "MPLBACKEND"}}
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", PROGRAM, str(HOME / "tables"), str(out_dir)],
        cwd=cwd,
        env=kept | {"PYTHONPATH": str(HOME.parent)} | changes,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )


@pytest.mark.slow
def test_two_processes_that_differ_in_all_that_should_not_matter_build_the_same_bytes(
    tmp_path: Path,
) -> None:
    settings = tmp_path / "settings"
    settings.mkdir()
    (settings / "matplotlibrc").write_text("font.size: 30\nlines.linewidth: 9\n")
    here = start(tmp_path / "here", HOME.parent, PYTHONHASHSEED="1", TZ="UTC")
    there = start(
        tmp_path / "there",
        tmp_path,
        PYTHONHASHSEED="2",
        TZ="Asia/Kathmandu",
        SOURCE_DATE_EPOCH="86400",
        MATPLOTLIBRC=str(settings),
        LC_ALL="C",
    )
    for process in (here, there):
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0 and errors == "", errors
    first, second = (digests((tmp_path / side).iterdir()) for side in ("here", "there"))
    assert first == second
    assert sorted(first) == sorted(
        f"{name}.{ending}" for name in FIGURES for ending in ("pdf", "png")
    )


def test_files_name_neither_a_time_nor_a_version(tmp_path: Path) -> None:
    figure = Figure(figsize=(1.0, 1.0))
    pdf, png = draw_to_files(figure, tmp_path / "new" / "folder", "empty")
    for word in (b"CreationDate", b"Matplotlib v", b"Software", b"D:20"):
        assert word not in pdf.read_bytes() and word not in png.read_bytes()


def test_fonts_are_embedded_as_type_42(tmp_path: Path) -> None:
    figure = Figure(figsize=(1.0, 1.0))
    figure.text(0.1, 0.5, "text")
    pdf, _ = draw_to_files(figure, tmp_path, "text")
    assert b"/CIDFontType2" in pdf.read_bytes() and b"/Type3" not in pdf.read_bytes()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one small figure on record."""
    monkeypatch.setattr(build, "FIGURES", {"two_laws": FIGURES["two_laws"]})
    (tmp_path / "tables").mkdir()
    lines = (HOME / "tables" / "two_laws.csv").read_text().splitlines()
    (tmp_path / "tables" / "two_laws.csv").write_text("\n".join(lines[:4]) + "\n")
    record_digests(tmp_path)
    return tmp_path


def test_a_changed_table_is_caught_until_its_digests_are_recorded(home: Path) -> None:
    assert check("two_laws", home) == ([], "the digests on record")
    path = home / "tables" / "two_laws.csv"
    head, _, last = path.read_text().strip().rpartition(",")
    path.write_text(f"{head},{float(last) / 2}\n")
    assert check("two_laws", home).problems == [
        f"two_laws.{ending}: differs from the digests on record" for ending in ("pdf", "png")
    ]
    record_digests(home)
    assert check("two_laws", home).problems == []


def test_other_versions_are_said_and_two_builds_are_compared_instead(home: Path) -> None:
    record = json.loads((home / "digests.json").read_text())
    record["versions"]["matplotlib"] = "0.1"
    (home / "digests.json").write_text(json.dumps(record))
    assert check("two_laws", home) == ([], "the digests on record")
    record["sha256"] = {}
    (home / "digests.json").write_text(json.dumps(record))
    problems, compared_with = check("two_laws", home)
    assert problems == []
    assert compared_with.startswith("a second build, not the record (matplotlib 0.1 -> ")


def test_two_builds_that_differ_are_caught(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "digests.json").write_text(json.dumps({"versions": {}, "sha256": {}}))

    def unstable(name: str, home: Path, out_dir: Path, hash_seed: str) -> dict[str, str]:
        return {f"{name}.pdf": hash_seed, f"{name}.png": "same"}

    monkeypatch.setattr(build, "_build_elsewhere", unstable)
    (problem,) = check("two_laws", home).problems
    assert problem.startswith("two_laws.pdf: differs from a second build")


def test_what_cannot_be_built_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidInput, match=r"figure 'three_laws': unknown, must be one of two_laws"
    ):
        build.build("three_laws", HOME / "tables", tmp_path)
    with pytest.raises(InvalidInput, match=r"two_laws\.csv: no such table"):
        build.build("two_laws", tmp_path, tmp_path)
    with pytest.raises(InvalidInput, match=r"digests\.json: missing"):
        check("two_laws", tmp_path)


def test_every_figure_makes_a_claim_in_one_line() -> None:
    for spec in FIGURES.values():
        assert spec.claim.endswith(".") and len(spec.claim) <= 100 and "\n" not in spec.claim


def test_the_figure_in_the_readme_is_the_one_that_the_tables_give() -> None:
    recorded = json.loads((HOME / "digests.json").read_text())["sha256"]
    shown = ROOT / "docs" / "first_token_ranking.png"
    assert digests([shown]) == {shown.name: recorded[shown.name]}
