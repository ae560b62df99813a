"""Dependencies, import rules, what the wheel holds, and a fresh clone."""

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.house.repository import PACKAGES, ROOT, tracked_files

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def declared_requirements() -> list[Requirement]:
    """What pyproject.toml (all extras) and constraints.in ask for."""
    project = PYPROJECT["project"]
    extras = [line for group in project["optional-dependencies"].values() for line in group]
    reserved = (ROOT / "constraints.in").read_text().splitlines()
    lines = project["dependencies"] + extras + reserved
    return [Requirement(line) for line in lines if line.strip() and not line.startswith("#")]


def pinned_versions(python_version: str) -> dict[str, str]:
    """Name to version, as constraints.txt pins it for one Python on Linux."""
    environment = {
        "python_version": python_version,
        "python_full_version": f"{python_version}.1",
        "sys_platform": "linux",
        "platform_machine": "x86_64",
    }
    pins: dict[str, str] = {}
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        pin = Requirement(line)
        assert re.fullmatch(r"==[\w.]+", str(pin.specifier)), f"`{line}` does not pin a version"
        if pin.marker is None or Marker(str(pin.marker)).evaluate(environment):
            name = canonicalize_name(pin.name)
            assert name not in pins, f"{name} is pinned twice for Python {python_version}"
            pins[name] = str(pin.specifier).removeprefix("==")
    return pins


@pytest.mark.parametrize("python_version", ["3.11", "3.12", "3.13"])
def test_constraints_pin_every_dependency(python_version: str) -> None:
    pins = pinned_versions(python_version)
    environment = {"python_version": python_version, "python_full_version": f"{python_version}.0"}
    for requirement in declared_requirements():
        if requirement.marker is not None and not requirement.marker.evaluate(environment):
            continue
        version = pins.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement.name} is not pinned: run make constraints"
        assert requirement.specifier.contains(version), f"{requirement} is pinned to {version}"


def test_every_dependency_is_accounted_for() -> None:
    document = (ROOT / "docs" / "dependencies.md").read_text()
    accounted = {Requirement(word).name for word in re.findall(r"\*\*([^*]+)\*\*", document)}
    assert accounted == {requirement.name for requirement in declared_requirements()}


def test_versions_in_step() -> None:
    version = PYPROJECT["project"]["version"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\n## [{version}]" in (ROOT / "CHANGELOG.md").read_text()


def test_import_rules_are_kept() -> None:
    lint_imports = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run(
        [lint_imports, "--no-cache"], check=False, cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_wheel_holds_the_packages_and_nothing_else(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", "."]
    subprocess.run([*build, str(ROOT)], cwd=tmp_path, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    expected = {
        path.relative_to(ROOT).as_posix()
        for path in tracked_files()
        if path.relative_to(ROOT).parts[0] in PACKAGES
    }
    assert held == expected


def clean_environment(home: Path) -> dict[str, str]:
    """This process's environment as a newcomer has it: an empty home, no virtual environment, no make above."""
    ours = ("VIRTUAL_ENV", "PYTHON", "PYTEST", "JAX", "XLA", "MAKE", "MFLAGS", "XDG", "UV_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return kept | {"HOME": str(home)}


@pytest.mark.slow
def test_fresh_clone_runs_the_demonstration(tmp_path: Path) -> None:
    home, clone = tmp_path / "home", tmp_path / "clone"
    home.mkdir()
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    python = Path(sys.base_prefix) / "bin" / "python3"
    demo = ["make", f"PYTHON={python}", "demo"]
    outputs: list[str] = []
    # With the installation in the first run, without it in the second; the limits are seconds.
    for limit in (900, 300):
        done = subprocess.run(
            demo,
            check=False,
            cwd=clone,
            env=clean_environment(home),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=limit,
        )
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout)
    assert "pip install" in outputs[0]
    assert "pip install" not in outputs[1]
    figures = re.findall(r"\S+\.(?:pdf|png)\b", outputs[1])
    assert figures, "the demonstration names no figures"
    assert all((clone / figure).is_file() for figure in figures)
    status = ["git", "status", "--porcelain"]
    assert subprocess.run(status, check=True, cwd=clone, capture_output=True).stdout == b""
