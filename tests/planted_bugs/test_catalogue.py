"""The register is complete, its numbers are those of the code, and what is written from it is up to date."""

import ast
import importlib
import inspect
import json
import pkgutil
import re
from functools import cache

import pytest

import tests.planted_bugs
from paper_figures.build import HOME, digests, read_table
from tests.conftest import ROOT
from tests.planted_bugs import document
from tests.planted_bugs.catalogue import CATALOGUE, FAMILIES
from tests.planted_bugs.defect import SHARE, TOTAL_VARIATION, UNITS, Defect

# Modules of the package that hold no twins of their own, and names beside twins that are no bugs. The last two put kinds that are listed
# already into the form in which commands meet them.
OTHER_MODULES = {
    *("catalogue", "defect", "document", "damage", "families", "test_catalogue"),
    *("in_place", "sampled_rows"),
}
RIGHT_NAMES = {"smc.Filter", "mcmc.shrinking_horizon_transition"}

# Where records are float32; elsewhere right code is right to the last digits of float64.
ROUNDING = 5e-6


def twin_names() -> set[str]:
    """Public functions and classes of every module with twins."""
    names: set[str] = set()
    for found in pkgutil.iter_modules(tests.planted_bugs.__path__):
        if found.name not in OTHER_MODULES:
            module = importlib.import_module(f"tests.planted_bugs.{found.name}")
            names |= {
                f"{found.name}.{name}"
                for name, value in vars(module).items()
                if (inspect.isfunction(value) or inspect.isclass(value))
                and value.__module__ == module.__name__
                and not name.startswith("_")
            }
    return names


def label(defect: Defect) -> str:
    return f"{defect.name} {defect.unit} {defect.toy}"


def test_every_twin_is_listed() -> None:
    listed = {defect.name for defect in CATALOGUE}
    assert twin_names() - RIGHT_NAMES == listed
    assert len(listed) >= 45


@pytest.mark.parametrize("defect", CATALOGUE, ids=label)
def test_the_damage_is_what_is_said_and_right_code_does_none(defect: Defect) -> None:
    assert defect.measure(defect.right) < min(ROUNDING, defect.damage / 20)
    # Six digits are printed, float32 has seven.
    assert defect.measure(defect.twin) == pytest.approx(defect.damage, rel=1e-5)


@cache
def source(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


@pytest.mark.parametrize("defect", CATALOGUE, ids=label)
def test_the_test_that_catches_it_is_there_and_names_it(defect: Defect) -> None:
    path, _, function = defect.test.partition("::")
    tree = ast.parse(source(path))
    assert function.startswith("test_")
    assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert re.search(rf"\b{defect.twin.__name__}\b", source(path)), "the twin is not named there"


@pytest.mark.parametrize("defect", CATALOGUE, ids=label)
def test_an_entry_says_what_it_should(defect: Defect) -> None:
    assert defect.unit in UNITS and defect.damage > 0
    assert defect.damage <= 1 or defect.unit not in (SHARE, TOTAL_VARIATION)
    assert (defect.twin.__doc__ or "").strip() and defect.kind and defect.toy
    assert all(re.fullmatch(r"[\w./-]+(#\d+)?", report) for report in defect.reports)
    assert "|" not in defect.kind + defect.toy


def test_no_entry_is_there_twice() -> None:
    assert len({label(defect) for defect in CATALOGUE}) == len(CATALOGUE)
    assert sum(map(len, FAMILIES.values())) == len(CATALOGUE)


def test_the_document_is_what_the_catalogue_gives() -> None:
    assert document.DOCUMENT.read_text(encoding="utf-8") == document.document()
    assert document.render().count("\n| ") == len(CATALOGUE) + len(FAMILIES)


def test_the_table_of_the_figure_is_what_the_catalogue_gives() -> None:
    assert read_table(document.TABLE).equals(document.damage_table())


def test_the_figure_in_the_document_is_the_one_that_the_table_gives() -> None:
    recorded = json.loads((HOME / "digests.json").read_text(encoding="utf-8"))["sha256"]
    shown = ROOT / "docs" / f"{document.FIGURE}.png"
    assert digests([shown]) == {shown.name: recorded[shown.name]}
