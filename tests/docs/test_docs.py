"""The code in README.md, its neighbours and docs/ runs as it stands there.

A fence names its language, and the language says what happens to it:

- `python`: run; the blocks of one file share one namespace, in order.
- `console`: every line that begins with `$ ` is a command and must succeed; lines without it are output.
- `json`: parsed.
- `text`: nothing, the one way to opt out.
"""

import json
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
LANGUAGES = {"python", "console", "json", "text"}

FENCE = re.compile(r"^```(?P<language>[^\n]*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A fenced block and the line of the document on which its code begins."""

    language: str
    code: str
    line: int


def read_blocks(text: str) -> list[Block]:
    """All fenced blocks of a document, in order."""
    return [
        Block(
            match["language"].strip(), match["code"], text.count("\n", 0, match.start("code")) + 1
        )
        for match in FENCE.finditer(text)
    ]


def documents_with(language: str) -> list[Path]:
    """The documents that have a block in this language."""
    return [
        path
        for path in DOCUMENTS
        if any(block.language == language for block in read_blocks(path.read_text()))
    ]


def document_name(path: Path) -> str:
    """The document's path, as the name of a test."""
    return str(path.relative_to(ROOT))


def make_targets() -> set[str]:
    """The targets that `make help` lists."""
    return set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))


def command_argv(command: str) -> list[str] | None:
    """What to execute for a line of a console block; None for a make target, which need only exist."""
    words = shlex.split(command)
    if words[0] == "make":
        targets = {word for word in words[1:] if "=" not in word}
        assert targets <= make_targets(), f"`{command}` is no target of the Makefile"
        return None
    if words[0] == "rolloutlab":
        return [str(Path(sys.executable).parent / "rolloutlab"), *words[1:]]
    if words[:2] == ["python", "-m"]:
        return [sys.executable, *words[1:]]
    if words[0] == "python":
        return [sys.executable, str(ROOT / words[1]), *words[2:]]
    raise AssertionError(
        f"`{command}`: a console block runs make, rolloutlab or python; else use text"
    )


@pytest.mark.parametrize("path", DOCUMENTS, ids=document_name)
def test_every_fence_says_what_it_is(path: Path) -> None:
    text = path.read_text()
    blocks = read_blocks(text)
    assert len(re.findall(r"^\s*```", text, re.MULTILINE)) == 2 * len(blocks), (
        "a fence is indented or not closed"
    )
    for block in blocks:
        assert block.language in LANGUAGES, f"line {block.line}: language {block.language!r}"
        if block.language == "json":
            json.loads(block.code)


@pytest.mark.parametrize("path", DOCUMENTS, ids=document_name)
def test_named_files_exist(path: Path) -> None:
    text = path.read_text()
    links = [path.parent / link for link in re.findall(r"\]\((?!https?:)([^)#]+)", text)]
    names = [ROOT / name for name in re.findall(r"`([\w.-]+/[\w./-]+\.(?:py|md|json|txt))`", text)]
    assert [str(file) for file in links + names if not file.exists()] == []


@pytest.mark.slow
@pytest.mark.parametrize("path", documents_with("python"), ids=document_name)
def test_python_blocks_run(path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # One script per document, in which each block keeps its lines, so that a traceback points into the document.
    script = ""
    for block in read_blocks(path.read_text()):
        if block.language == "python":
            script += "\n" * (block.line - 1 - script.count("\n")) + block.code
    script_path = tmp_path / f"{path.stem}.py"
    script_path.write_text(script)
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script_path), run_name="documented")


@pytest.mark.slow
@pytest.mark.parametrize("path", documents_with("console"), ids=document_name)
def test_console_commands_succeed(path: Path, tmp_path: Path) -> None:
    for block in read_blocks(path.read_text()):
        if block.language != "console":
            continue
        for line in block.code.splitlines():
            argv = command_argv(line.removeprefix("$ ")) if line.startswith("$ ") else None
            if argv is not None:
                done = subprocess.run(
                    argv, check=False, cwd=tmp_path, capture_output=True, text=True
                )
                assert done.returncode == 0, f"`{line}` exited {done.returncode}: {done.stderr}"


def test_blocks_are_found_with_their_lines() -> None:
    text = "# Title\n\n```python\nx = 1\n```\n\nwords\n\n```console\n$ make test\n```\n"
    assert read_blocks(text) == [
        Block("python", "x = 1\n", 4),
        Block("console", "$ make test\n", 10),
    ]


def test_console_commands_are_checked() -> None:
    assert command_argv("make test ARGS=-x") is None
    with pytest.raises(AssertionError, match="no target"):
        command_argv("make tset")
    with pytest.raises(AssertionError, match="use text"):
        command_argv("rm -r results")
