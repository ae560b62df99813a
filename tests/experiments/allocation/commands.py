"""What the commands of allocation experiments have in common, for their tests."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

Main = Callable[[Sequence[str]], int]


def assert_refused(
    main: Main, words: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 2 and one line that says what is wrong."""
    assert main(words) == 2
    error = capsys.readouterr().err
    assert line in error and error.count("\n") == 1


def smoke_report(main: Main, folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What the smoke preset prints, the same when it is asked for again; its JSON is `folder`/out.json."""
    words = ["--preset", "smoke", "--results-dir", str(folder), "--json", f"{folder}/out.json"]
    assert main(words) == 0
    first = capsys.readouterr().out
    assert main(words) == 0
    assert capsys.readouterr().out == first
    return first
