import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import pytest
import tyro
from hypothesis import given
from hypothesis import strategies as st

from experiments.command_line import (
    Floats,
    Ints,
    Words,
    default,
    guard,
    join_repeats,
    list_options,
    parse,
    program,
    unknown,
)
from theory.errors import InvalidInput

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Sizes:
    """Sizes of the problem."""

    length: int = 8
    """Tokens in a sequence."""

    alpha: Floats = (2.0,)
    """Power exponents, any real > 0."""


@dataclass(frozen=True)
class Arguments:
    """Do something.

    At length.
    """

    model: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="MODEL")]
    """A model."""

    k: Ints = (1, 2, 4)
    """Group sizes."""

    names: Words = ()
    """Names."""

    horizon: int | None = None
    """Most tokens."""

    quick: bool = False
    """Less."""

    kind: Literal["slow", "fast"] = "slow"
    """How."""

    sizes: Sizes = field(default_factory=Sizes)


@dataclass(frozen=True)
class Preset:
    """With presets."""

    preset: Literal["smoke", "default"] = "default"
    """Where to start."""

    sizes: Sizes = field(default_factory=Sizes)


PRESETS = {"default": Preset(), "smoke": Preset(sizes=Sizes(length=2))}


def parsed(*words: str) -> Arguments:
    return parse("rolloutlab x", Arguments, words)


def test_every_kind_of_argument() -> None:
    assert parsed("m") == Arguments("m")
    arguments = parsed("m", "--horizon", "3", "--quick", "--kind=fast", "--length", "5")
    assert arguments == Arguments("m", horizon=3, quick=True, kind="fast", sizes=Sizes(length=5))


@pytest.mark.parametrize(
    "words",
    [
        ["--alpha", "2,4"],
        ["--alpha=2,4"],
        ["--alpha", "2", "--alpha", "4"],
        ["--alpha=2", "--alpha", "4"],
        ["--alpha", "2", "--quick", "--alpha=4"],
        ["--alpha", "2, 4"],
    ],
)
def test_comma_lists_and_repeats_are_the_same(words: Sequence[str]) -> None:
    for place in (["m", *words], [*words, "m"]):
        assert parsed(*place).sizes.alpha == (2.0, 4.0)


def test_lists_of_each_type() -> None:
    arguments = parsed("m", "--k", "8", "--names", "a,b", "--names=c", "--alpha", "-0.5,1e3")
    assert (arguments.k, arguments.names) == ((8,), ("a", "b", "c"))
    assert arguments.sizes.alpha == (-0.5, 1000.0)


def test_list_options_are_found_in_nested_arguments() -> None:
    assert list_options(Arguments) == {"--alpha", "--k", "--names"}


@given(st.lists(st.sampled_from(["--a", "--b=c", "d", "-1", "--", "x_y=1"])))
def test_words_that_are_no_list_option_pass_unchanged(words: list[str]) -> None:
    assert join_repeats(words, frozenset({"--list-option"})) == words


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9)), min_size=1))
def test_repeats_keep_their_order(choices: list[tuple[bool, int]]) -> None:
    words = [
        word
        for equals, value in choices
        for word in ([f"--some_list={value}"] if equals else ["--some-list", str(value)])
    ]
    joined = ",".join(str(value) for _, value in choices)
    assert join_repeats(words, frozenset({"--some-list"})) == [f"--some-list={joined}"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "MODEL"),
        (["m", "n"], "n"),
        (["m", "--lenght", "3"], "--lenght, 3, did you mean --length?"),
        (["m", "--length"], "--length"),
        (["m", "--length", "x"], "--length: invalid literal for int() with base 10: 'x'"),
        (["m", "--horizon", "x"], "--horizon: invalid literal for int() with base 10: 'x'"),
        (["m", "--alpha", "2,x"], "--alpha: could not convert string to float: 'x'"),
        (["m", "--alpha", "2,,4"], "--alpha: empty entry in the list '2,,4'"),
        (["m", "--alpha", ""], "--alpha: is empty, give an entry or leave it out"),
        (["m", "--alpha"], "--alpha"),
        (["m", "--alpha", "--quick"], "--alpha"),
        (["m", "--kind", "middling"], "'middling' for argument '--kind'"),
        (["m", "--length", "a " * 60 + "end"], "a a end'"),
    ],
)
def test_what_the_parser_refuses_is_one_line_with_the_mend(
    capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    main = program("rolloutlab x", Arguments, lambda arguments: 0)
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("rolloutlab x: ")
    assert err.endswith("; see rolloutlab x --help\n")
    assert err.count("\n") == 1
    assert says in err


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_the_line_is_the_same_whatever_stdout_takes(encoding: str) -> None:
    code = (
        "import sys; from tests.experiments.test_command_line import Arguments\n"
        "from experiments.command_line import program\n"
        "sys.exit(program('x', Arguments, lambda arguments: 0)(['m', '--lenght', '3']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=os.environ | {"PYTHONIOENCODING": encoding},
        capture_output=True,
        text=True,
        check=False,
    )
    line = "x: Unrecognized options: --lenght, 3, did you mean --length?; see x --help\n"
    assert (done.stderr, done.stdout, done.returncode) == (line, "", 2)


def test_parsing_leaves_the_environment_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for columns in ("77", None):
        if columns is None:
            monkeypatch.delenv("COLUMNS", raising=False)
        else:
            monkeypatch.setenv("COLUMNS", columns)
        with pytest.raises(InvalidInput):
            parsed("m", "--nope")
        assert os.environ.get("COLUMNS") == columns


def test_help_shows_meanings_and_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    main = program("rolloutlab x", Arguments, lambda arguments: 1)
    assert main(["--help"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    for text in ("rolloutlab x", "At length.", "MODEL", "any real > 0. (default: 2.0)", "1,2,4"):
        assert text in out
    assert "None" not in out


@dataclass(frozen=True)
class OpenArguments:
    """Open."""

    size: Annotated[int | None, default("half of it")] = None
    """Of it."""


def test_an_open_default_is_told_in_words_and_stays_open(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main = program(
        "rolloutlab x", OpenArguments, lambda arguments: 0 if arguments.size is None else 1
    )
    assert main(["--help"]) == 0
    assert "Of it. (default: half of it)" in capsys.readouterr().out
    assert [main([]), main(["--size", "3"])] == [0, 1]


@pytest.mark.parametrize(
    ("words", "length"),
    [
        ([], 8),
        (["--preset", "smoke"], 2),
        (["--preset=smoke"], 2),
        (["--preset=default", "--preset", "smoke"], 2),
        (["--length", "3", "--preset", "smoke"], 3),
        (["--preset", "smoke", "--length", "3"], 3),
    ],
)
def test_single_options_override_the_preset(words: list[str], length: int) -> None:
    arguments = parse("x", Preset, words, PRESETS)
    assert arguments.sizes.length == length
    assert arguments.preset == ("smoke" if "smoke" in "".join(words) else "default")


def test_an_unknown_preset_is_refused() -> None:
    with pytest.raises(InvalidInput, match="'smok' for argument '--preset'"):
        parse("x", Preset, ["--preset", "smok"], PRESETS)


def test_the_status_is_the_commands_own() -> None:
    main = program("x", Arguments, lambda arguments: arguments.sizes.length)
    assert main(["m", "--length", "1"]) == 1


def test_invalid_input_is_one_line_and_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    def action() -> int:
        raise InvalidInput("row 3:\nno such token")

    assert guard("rolloutlab x", action) == 2
    assert capsys.readouterr().err == "rolloutlab x: row 3: no such token\n"


@pytest.mark.parametrize(
    ("code", "status", "told"),
    [(None, 0, ""), (0, 0, ""), (3, 3, ""), ("no\nroom", 2, "x: no room\n"), (1.5, 2, "x: 1.5\n")],
)
def test_an_exit_from_within_keeps_its_status_or_its_words(
    code: object, status: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def action() -> int:
        raise SystemExit(code)

    assert guard("x", action) == status
    assert capsys.readouterr().err == told


def test_an_interrupt_is_one_line_and_status_130(capsys: pytest.CaptureFixture[str]) -> None:
    def action() -> int:
        raise KeyboardInterrupt

    assert guard("rolloutlab x", action) == 130
    assert capsys.readouterr().err == "rolloutlab x: interrupted\n"


@pytest.mark.parametrize("defect", [ValueError, OSError, KeyError, AssertionError])
def test_a_defect_of_ours_keeps_its_traceback(defect: type[Exception]) -> None:
    def action() -> int:
        raise defect

    with pytest.raises(defect):
        guard("x", action)


def test_a_reader_that_leaves_is_no_error() -> None:
    code = (
        "import sys; from experiments.command_line import guard\n"
        "sys.exit(guard('x', lambda: print('line\\n' * 100_000) or 0))"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, cwd=ROOT, stdout=-1, stderr=-1) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_unknown_names_the_close_match_or_all() -> None:
    assert str(unknown("toy", "tree-a", ["tree-b", "x"])).endswith("did you mean 'tree-b'?")
    assert str(unknown("toy", "q", ["tree-b", "x"])) == "unknown toy 'q': there are tree-b, x"


PROGRAM = (
    "import sys; from experiments.command_line import guard; "
    "sys.exit(guard('demo', lambda: print('\\u03c0 = p^alpha / Z') or 0))"
)


def test_a_terminal_without_the_characters_gets_question_marks() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        env=os.environ | {"PYTHONIOENCODING": "latin-1"},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"? = p^alpha / Z\n", b"")


def test_a_closed_stdout_swallows_the_result() -> None:
    done = subprocess.run(
        f'exec "{sys.executable}" -c "$PROGRAM" >&-',
        cwd=ROOT,
        shell=True,
        env=os.environ | {"PROGRAM": PROGRAM},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
