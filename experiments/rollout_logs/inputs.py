"""Which files a command line means: names, patterns and folders."""

import glob
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from experiments.progress import say
from theory.errors import InvalidInput

STDIN = "-"
LINES = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".ndjson", ".ndjson.gz", ".ndjson.zst")
KNOWN = (
    *LINES, ".json", ".json.gz", ".json.zst", ".parquet", ".csv", ".csv.gz", ".csv.zst", ".yaml", ".yml", ".eval",
)  # fmt: skip
"""Endings of the files that are looked at in a folder."""


class InputFile(NamedTuple):
    """One file to read.

    Attributes:
        path: as it is shown, or `-` for stdin.
        named: whether the user named the file itself; one found in a folder may be something else and is left out then.
    """

    path: str
    named: bool


def expand(paths: Sequence[str]) -> list[InputFile]:
    """The files behind the words of a command line, each once.

    Args:
        paths: files, folders (searched recursively for `KNOWN` endings, hidden names left out), patterns such as `logs/*.jsonl`, or
            `-` for stdin.

    Returns:
        Files in the order of the words; those of a folder or a pattern in the order of their names.

    Raises:
        InvalidInput: nothing is there.
    """
    if not paths:
        raise InvalidInput("no log given, name a file, a folder or - for stdin")
    files: dict[str, InputFile] = {}
    for path in paths:
        for file in _expand_one(path):
            key = file.path if file.path == STDIN else os.path.realpath(file.path)
            if key in files:
                say(f"{file.path}: named more than once, read once")
            files.setdefault(key, file)
    return list(files.values())


def _expand_one(path: str) -> list[InputFile]:
    if path == STDIN:
        return [InputFile(path, named=True)]
    if os.path.isdir(path):
        return _in_folder(path)
    if os.path.exists(path):
        return [InputFile(path, named=True)]
    if glob.has_magic(path):
        found = [match for match in sorted(glob.glob(path, recursive=True)) if match != path]
        files = [
            file
            for match in found
            for file in (_in_folder(match) if os.path.isdir(match) else [InputFile(match, True)])
        ]
        if files:
            return files
        raise InvalidInput(f"{path}: no file fits this pattern")
    raise InvalidInput(f"{path}: no such file")


def _in_folder(folder: str) -> list[InputFile]:
    found = [
        path
        for path in sorted(Path(folder).rglob("*"))
        if path.name.endswith(KNOWN)
        and path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    ]
    if not found:
        raise InvalidInput(f"{folder}: holds no file that ends in {', '.join(KNOWN)}")
    return [InputFile(str(path), named=False) for path in found]
