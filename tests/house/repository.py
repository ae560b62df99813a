"""The files that git tracks, or would track if they were added, and what they hold."""

import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("theory", "models", "experiments", "paper_figures")


@cache
def tracked_files() -> tuple[Path, ...]:
    """Tracked and not-yet-added files; ignored ones are left out."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    paths = [ROOT / name for name in listing.split("\0") if name]
    assert paths, "git lists no files: the tests of the house need a git checkout"
    return tuple(path for path in paths if path.is_file())


@cache
def text_of(path: Path) -> str | None:
    """The text of a file, None if it is binary."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


def python_files(*folders: str) -> list[Path]:
    """Tracked modules in some top-level folders."""
    return [
        path
        for path in tracked_files()
        if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in folders
    ]
