"""Building the figures from their committed tables, to the same bytes every time.

`python -m paper_figures.build` records the digests of all files that are built; run it after a table or a figure changed.
"""

import hashlib
import importlib.metadata
import io
import json
import os
import platform
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pyarrow as pa
from matplotlib import ft2font
from matplotlib.figure import Figure

from paper_figures import (
    allocation_costs,
    allocation_curves,
    divergence_against_alpha,
    equal_cost_curves,
    ess_against_length,
    estimator_against_length,
    estimator_bias_and_variance,
    estimator_panels,
    first_token_ranking,
    objective_of_rules,
    pilot_commit_misfile,
    planted_defect_damage,
    power_on_transformers,
    sara_failure_region,
    sara_saving_and_errors,
    two_laws,
    yield_under_drift,
)
from paper_figures.columns import Layout, read_csv, write_csv
from paper_figures.files import write_whole
from paper_figures.style import paper_style
from theory.errors import InvalidInput

HOME = Path(__file__).parent
"""The folder with `tables/` and `digests.json`."""


class FigureSpec(NamedTuple):
    """One figure.

    Attributes:
        draw: from its tables, in this order, to the figure.
        tables: their names; a table NAME is the file NAME.csv.
        claim: what the figure shows, in one line.
    """

    draw: Callable[..., Figure]
    tables: tuple[str, ...]
    claim: str


class Verdict(NamedTuple):
    """Whether a figure can be rebuilt.

    Attributes:
        problems: one line each; none is a pass.
        compared_with: what the rebuilt files were compared with, one line.
    """

    problems: list[str]
    compared_with: str


FIGURES: dict[str, FigureSpec] = {
    "two_laws": FigureSpec(
        two_laws.draw,
        ("two_laws",),
        "Sequence power and token temperature are two laws: other sequences lead.",
    ),
    "divergence_against_alpha": FigureSpec(
        divergence_against_alpha.draw,
        ("divergence_against_alpha",),
        "The laws part to second order in alpha - 1, as the small-alpha law says within its radius.",
    ),
    "ess_against_length": FigureSpec(
        ess_against_length.draw,
        ("ess_against_length", "crossover_lengths"),
        "Importance sampling uses up any population as sequences grow; the best method changes with length.",
    ),
    "first_token_ranking": FigureSpec(
        first_token_ranking.draw,
        ("first_token_ranking",),
        "Temperature and power can rank first tokens in opposite orders.",
    ),
    "power_on_transformers": FigureSpec(
        power_on_transformers.draw,
        ("power_on_transformers",),
        "On a trained transformer, methods at equal tokens come near the power law where their proposal does.",
    ),
    "planted_defect_damage": FigureSpec(
        planted_defect_damage.draw,
        ("planted_defect_damage",),
        "Each public mistake changes what a sampler computes, by 1 % or by a factor of 70.",
    ),
    "estimator_bias_and_variance": FigureSpec(
        estimator_bias_and_variance.draw,
        ("estimator_bias_and_variance",),
        "Simulated biases and variances lie on the exact curves; the base model can be the better proposal.",
    ),
    "estimator_against_length": FigureSpec(
        estimator_against_length.draw,
        ("estimator_against_length",),
        "From the base model resampling pays on long sequences; from a better proposal it may never.",
    ),
    "equal_cost_curves": FigureSpec(
        equal_cost_curves.draw,
        ("equal_cost_curves",),
        "At equal tokens the proposal matters more than the method: from the base model errors are least.",
    ),
    "allocation_costs": FigureSpec(
        allocation_costs.draw,
        ("allocation_costs",),
        "Rules that remember prompts get effective groups at nearly the cost of uniform allocation.",
    ),
    "allocation_curves": FigureSpec(
        allocation_curves.draw,
        ("allocation_curves",),
        "Giving prompts up early, and remembering them, reaches the same accuracy for fewer rollouts.",
    ),
    "sara_saving_and_errors": FigureSpec(
        sara_saving_and_errors.draw,
        ("sara_saving_and_errors",),
        "What SARA saves has an inner maximum over its threshold, which the population moves.",
    ),
    "sara_failure_region": FigureSpec(
        sara_failure_region.draw,
        ("sara_failure_region",),
        "Where few prompts are hopeless or mastered SARA costs more than dynamic sampling.",
    ),
    "pilot_commit_misfile": FigureSpec(
        pilot_commit_misfile.draw,
        ("pilot_commit_misfile",),
        "A fixed band loses nearly every mixed group of rates outside it once groups are large.",
    ),
    "objective_of_rules": FigureSpec(
        objective_of_rules.draw,
        ("objective_of_rules",),
        "A rule that gives up early climbs another objective than the success rate.",
    ),
    "yield_under_drift": FigureSpec(
        yield_under_drift.draw,
        ("yield_under_drift",),
        "What is remembered of prompts pays while they stand still, and loses to probing from some drift on.",
    ),
}

LAYOUTS: dict[str, Layout] = {
    "two_laws": two_laws.LAYOUT,
    "divergence_against_alpha": divergence_against_alpha.LAYOUT,
    "ess_against_length": ess_against_length.LAYOUT,
    "crossover_lengths": ess_against_length.CROSSOVER_LAYOUT,
    "first_token_ranking": first_token_ranking.LAYOUT,
    "planted_defect_damage": planted_defect_damage.LAYOUT,
    "estimator_bias_and_variance": estimator_panels.LAYOUT,
    "estimator_against_length": estimator_panels.LAYOUT,
    "equal_cost_curves": equal_cost_curves.LAYOUT,
    "power_on_transformers": power_on_transformers.LAYOUT,
    "allocation_costs": allocation_costs.LAYOUT,
    "allocation_curves": allocation_curves.LAYOUT,
    "sara_saving_and_errors": sara_saving_and_errors.LAYOUT,
    "sara_failure_region": sara_failure_region.LAYOUT,
    "pilot_commit_misfile": pilot_commit_misfile.LAYOUT,
    "objective_of_rules": objective_of_rules.LAYOUT,
    "yield_under_drift": yield_under_drift.LAYOUT,
}

PDF_METADATA = {"Creator": "rolloutlab", "Producer": "matplotlib", "CreationDate": None}
PNG_METADATA = {"Software": None}


def read_table(path: Path) -> pa.Table:
    """Read a table by its name.

    Args:
        path: a file NAME.csv with NAME in `LAYOUTS`.

    Returns:
        The table, with the columns of its layout.

    Raises:
        InvalidInput: the name is unknown, or the file is missing or not as its layout says.
    """
    return read_csv(path, _layout(path))


def write_table(table: pa.Table, path: Path) -> None:
    """Write a table by its name, so that `read_table` gives the same numbers back.

    Args:
        table: with at least the columns of its layout.
        path: a file NAME.csv with NAME in `LAYOUTS`.

    Raises:
        InvalidInput: the name is unknown.
    """
    write_csv(table, path, _layout(path))


def draw_to_files(figure: Figure, out_dir: Path, name: str) -> list[Path]:
    """Save a figure as PDF and PNG: the same figure gives the same bytes.

    Args:
        figure: drawn by one of `FIGURES`.
        out_dir: made when missing; older files of this name are replaced.
        name: of the files, without ending.

    Returns:
        Their paths.
    """
    out_dir.mkdir(parents=True, exist_ok=True)
    pdf, png = out_dir / f"{name}.pdf", out_dir / f"{name}.png"
    with paper_style():
        for path, metadata in ((pdf, PDF_METADATA), (png, PNG_METADATA)):
            drawn = io.BytesIO()
            figure.savefig(drawn, format=path.suffix[1:], metadata=metadata)
            write_whole(drawn.getvalue(), path)
    return [pdf, png]


def build(name: str, tables_dir: Path, out_dir: Path) -> list[Path]:
    """Draw one figure from its tables.

    Args:
        name: in `FIGURES`.
        tables_dir: the folder with its tables.
        out_dir: where to.

    Returns:
        The paths of the PDF and the PNG.

    Raises:
        InvalidInput: the name is unknown, or a table is missing or malformed.
    """
    if name not in FIGURES:
        raise InvalidInput(f"figure {name!r}: unknown, must be one of {', '.join(FIGURES)}")
    spec = FIGURES[name]
    tables = [read_table(tables_dir / f"{table}.csv") for table in spec.tables]
    return draw_to_files(spec.draw(*tables), out_dir, name)


def check(name: str, home: Path = HOME) -> Verdict:
    """Rebuild one figure and compare it with what is on record.

    Bytes depend on the versions of what draws. Where they differ from the record and so do the versions installed, two
    builds in two processes with different hash seeds are compared with each other instead, and the verdict says so.

    Args:
        name: in `FIGURES`.
        home: the folder with `tables/` and `digests.json`.

    Returns:
        The verdict.

    Raises:
        InvalidInput: the name is unknown, a table is missing or malformed, or nothing is on record.
    """
    path = home / "digests.json"
    if not path.is_file():
        raise InvalidInput(f"{path}: missing; write it with python -m paper_figures.build")
    recorded = json.loads(path.read_text(encoding="utf-8"))
    changed = [
        f"{part} {recorded['versions'].get(part)} -> {version}"
        for part, version in versions().items()
        if recorded["versions"].get(part) != version
    ]
    compared_with = "the digests on record"
    with TemporaryDirectory() as folder:
        first = digests(build(name, home / "tables", Path(folder) / "here"))
        second = {file: recorded["sha256"].get(file, "") for file in first}
        if changed and first != second:
            compared_with = f"a second build, not the record ({', '.join(changed)})"
            first = _build_elsewhere(name, home, Path(folder) / "first", hash_seed="1")
            second = _build_elsewhere(name, home, Path(folder) / "second", hash_seed="2")
    problems = [
        f"{file}: differs from {compared_with}" for file in first if first[file] != second[file]
    ]
    return Verdict(problems, compared_with)


def record_digests(home: Path = HOME) -> Path:
    """Build every figure and write down the digests of its files, with the versions that they depend on.

    Args:
        home: the folder with `tables/`.

    Returns:
        The file written, `digests.json` in that folder.

    Raises:
        InvalidInput: a table is missing or malformed.
    """
    with TemporaryDirectory() as folder:
        built = [file for name in FIGURES for file in build(name, home / "tables", Path(folder))]
        record = {"versions": versions(), "sha256": digests(built)}
    path = home / "digests.json"
    write_whole((json.dumps(record, indent=2, sort_keys=True) + "\n").encode(), path)
    return path


def digests(files: Iterable[Path]) -> dict[str, str]:
    """SHA-256 of files, in hexadecimal, by file name."""
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def versions() -> dict[str, str]:
    """What the bytes of a figure depend on besides its tables."""
    packages = ("fonttools", "kiwisolver", "matplotlib", "numpy", "pillow")
    return {package: importlib.metadata.version(package) for package in packages} | {
        "freetype": ft2font.__freetype_version__,
        "machine": f"{platform.system()} {platform.machine()}",
        "zlib": zlib.ZLIB_RUNTIME_VERSION,
    }


def _layout(path: Path) -> Layout:
    if path.stem not in LAYOUTS:
        raise InvalidInput(f"{path}: no such table, must be one of {', '.join(LAYOUTS)}")
    return LAYOUTS[path.stem]


def _build_elsewhere(name: str, home: Path, out_dir: Path, hash_seed: str) -> dict[str, str]:
    program = (
        "import pathlib, sys; from paper_figures.build import build; "
        "build(sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]))"
    )
    subprocess.run(
        [sys.executable, "-c", program, name, str(home.resolve() / "tables"), str(out_dir)],
        check=True,
        env=os.environ | {"PYTHONPATH": str(HOME.parent), "PYTHONHASHSEED": hash_seed},
    )
    return digests(sorted(out_dir.iterdir()))


if __name__ == "__main__":
    print(record_digests())
