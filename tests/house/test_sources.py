"""What no file of the project may hold, and what every module must."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.repository import PACKAGES, ROOT, python_files, text_of, tracked_files

MAX_MODULE_LINES = 400
MAX_SHIM_LINES = 10

# Put together from parts, so that this file does not hold what it forbids.
UNFINISHED = [
    r"\bTO" + r"DO\b",
    r"\bFIX" + r"ME\b",
    r"\bX" + r"XX\b",
    r"NotImplemented" + r"Error",
    r"mark\.sk" + r"ip",
    r"mark\.xf" + r"ail",
]
REGISTRIES = [
    re.escape(name + "." + domain)
    for name, domain in [
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("yarnpkg", "com"),
        ("anaconda", "org"),
        ("conda", "io"),
        ("deb.debian", "org"),
        ("crates", "io"),
        ("golang", "org"),
    ]
]
# An absolute path below a home or a workspace is one person's machine.
MACHINE_PATHS = [
    rf"(?<![\w.]){root}/\w" for root in ("/home", "/ro" + "ot", "/Users", "/wo" + "rk")
]


def occurrences(patterns: list[str]) -> list[str]:
    """`file:line: match` wherever a tracked text file holds one of the patterns."""
    pattern = re.compile("|".join(patterns))
    found: list[str] = []
    for path in tracked_files():
        text = text_of(path)
        if text is None or not pattern.search(text):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if match := pattern.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {match[0]}")
    return found


def test_nothing_is_unfinished_or_switched_off() -> None:
    assert occurrences(UNFINISHED) == []


def test_no_registry_is_named() -> None:
    assert occurrences(REGISTRIES) == []


def test_no_path_of_one_machine() -> None:
    assert occurrences(MACHINE_PATHS) == []


@pytest.mark.parametrize(
    ("patterns", "bad", "good"),
    [
        (UNFINISHED, "# TO" + "DO: later", "# to do so"),
        (UNFINISHED, "@pytest.mark.sk" + "ipif(x)", "pytest.skip(reason)"),
        (REGISTRIES, "https://pypi" + ".org/simple", "see example.org"),
        (MACHINE_PATHS, "open('/ro" + "ot/x')", "theory/root/x"),
        (MACHINE_PATHS, " /wo" + "rk/main", "frame/work/main"),
        (MACHINE_PATHS, "/ho" + "me/me", "https://a.b/home/x"),
    ],
)
def test_the_patterns_find_what_they_should(patterns: list[str], bad: str, good: str) -> None:
    pattern = re.compile("|".join(patterns))
    assert pattern.search(bad)
    assert not pattern.search(good)


def too_long(paths: list[Path], limit: int) -> list[str]:
    """The modules with more lines than that."""
    return [str(path.relative_to(ROOT)) for path in paths if path.read_text().count("\n") > limit]


def test_modules_are_of_readable_length() -> None:
    assert too_long(python_files(*PACKAGES, "tests", "scripts"), MAX_MODULE_LINES) == []


def test_scripts_are_shims() -> None:
    assert too_long(python_files("scripts"), MAX_SHIM_LINES) == []


def public_definitions(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Public classes and functions, and the public methods of public classes."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            yield prefix + node.name, node
            if isinstance(node, ast.ClassDef):
                yield from public_definitions(node.body, f"{prefix}{node.name}.")


def thin_docstrings(source: str) -> list[str]:
    """Public names of a module whose docstring is absent or says next to nothing.

    At module level three words are asked for, or the `name` of what says the rest; a method may be as brief as `V.`.
    """
    tree = ast.parse(source)
    thin = [] if ast.get_docstring(tree) else ["<module>"]
    for name, node in public_definitions(tree.body):
        assert isinstance(node, ast.FunctionDef | ast.ClassDef)
        docstring = ast.get_docstring(node) or ""
        least = 1 if "." in name or "`" in docstring else 3
        if len(docstring.split()) < least:
            thin.append(name)
    return thin


def test_public_docstrings_say_something() -> None:
    thin = {
        str(path.relative_to(ROOT)): names
        for path in python_files("theory", "models")
        if (names := thin_docstrings(path.read_text()))
    }
    assert thin == {}


def test_thin_docstrings_are_seen() -> None:
    source = '"""M."""\nclass A:\n    """An exact law."""\n    def f(self): ...\ndef g():\n    """G."""\n'
    assert thin_docstrings(source) == ["A.f", "g"]
    assert thin_docstrings("") == ["<module>"]
