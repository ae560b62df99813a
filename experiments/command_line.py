"""From arguments to an exit status: the one place where the command line meets the work.

A command is a frozen dataclass of arguments, whose docstrings are its help, and a function `run(arguments)` that
returns the exit status: 0 done, 1 the work ran and its verdict is negative. Everything that the user can mend is one line
on stderr and exit status 2. Anything else that goes wrong is a defect of ours and keeps its traceback.
"""

import contextlib
import difflib
import errno
import io
import itertools
import os
import re
import sys
import typing
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import is_dataclass, replace
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Protocol, TypeVar, runtime_checkable

import tyro
from tyro.constructors import (
    ConstructorRegistry,
    PrimitiveConstructorSpec,
    PrimitiveTypeInfo,
    UnsupportedTypeAnnotationError,
)

from experiments.progress import say
from theory.errors import InvalidInput

ArgumentsT = TypeVar("ArgumentsT")

INTERRUPTED = 130  # 128 + the signal's number, as shells report it
READER_GONE = 141
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def _comma_list(convert: Callable[[str], Any], metavar: str) -> PrimitiveConstructorSpec[Any]:
    """A tuple option: `--k 1,2,4`; repeats are joined before parsing (`join_repeats`)."""

    def parse(words: list[str]) -> tuple[Any, ...]:
        entries = [entry.strip() for entry in words[0].split(",")]
        if entries == [""]:
            raise ValueError("is empty, give an entry or leave it out")
        if "" in entries:
            raise ValueError(f"empty entry in the list '{words[0]}'")
        return tuple(convert(entry) for entry in entries)

    return PrimitiveConstructorSpec(
        nargs=1,
        metavar=f"{metavar}[,{metavar}...]",
        instance_from_str=parse,
        is_instance=lambda value: isinstance(value, tuple),
        str_from_instance=lambda value: [",".join(str(entry) for entry in value)],
    )


Floats = Annotated[tuple[float, ...], _comma_list(float, "FLOAT")]
Ints = Annotated[tuple[int, ...], _comma_list(int, "INT")]
Words = Annotated[tuple[str, ...], _comma_list(str, "WORD")]


def default(text: str) -> Any:
    """What the help calls the default of an option whose value stays open until the work is known.

    Args:
        text: in words, or a number; without it the help would call None "none".

    Returns:
        What to annotate the option's type with.
    """
    return tyro.conf.arg(help_behavior_hint=f"(default: {text})")


_registry = ConstructorRegistry()


@_registry.primitive_rule
def _optional(  # pyright: ignore[reportUnusedFunction]
    info: PrimitiveTypeInfo,
) -> PrimitiveConstructorSpec[Any] | UnsupportedTypeAnnotationError | None:
    """Show and parse `X | None` as X: the option is left out for None."""
    members = [member for member in typing.get_args(info.type) if member is not NoneType]
    if info.type_origin not in (typing.Union, UnionType) or len(members) != 1:
        return None
    spec = ConstructorRegistry.get_primitive_spec(PrimitiveTypeInfo.make(members[0], info.markers))
    if isinstance(spec, UnsupportedTypeAnnotationError):
        return spec
    return replace(
        spec,
        is_instance=lambda value: value is None or spec.is_instance(value),
        str_from_instance=lambda value: (
            ["none"] if value is None else spec.str_from_instance(value)
        ),
    )


@_registry.primitive_rule
def _path(  # pyright: ignore[reportUnusedFunction]
    info: PrimitiveTypeInfo,
) -> PrimitiveConstructorSpec[Path] | None:
    """Parse a path; an empty word, which an unset variable of a shell leaves, is not the folder that one stands in."""
    if info.type is not Path:
        return None

    def parse(words: list[str]) -> Path:
        if not words[0]:
            raise ValueError("is empty, give a path or leave it out")
        return Path(words[0])

    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="PATH",
        instance_from_str=parse,
        is_instance=lambda value: isinstance(value, Path),
        str_from_instance=lambda value: [str(value)],
    )


@runtime_checkable
class Main(Protocol):
    """The entry point of a command."""

    def __call__(self, argv: Sequence[str] | None = None) -> int:
        """Run the command.

        Args:
            argv: the words after its name; those of this process by default.

        Returns:
            The exit status.
        """
        ...


def unknown(what: str, name: str, choices: Iterable[str]) -> InvalidInput:
    """The error for a name that does not exist.

    Args:
        what: the kind of thing, such as "figure".
        name: what was asked for.
        choices: what there is.

    Returns:
        One line with the closest match, or with all names where none is close.
    """
    names = list(choices)
    close = difflib.get_close_matches(name, names, n=1)
    mend = f"did you mean '{close[0]}'?" if close else f"there are {', '.join(names) or 'none'}"
    return InvalidInput(f"unknown {what} '{name}': {mend}")


def program(
    name: str,
    arguments_type: type[ArgumentsT],
    run: Callable[[ArgumentsT], int],
    presets: Mapping[str, ArgumentsT] | None = None,
) -> Main:
    """Make the `main` of a command.

    Args:
        name: how the command is called, as its help and its messages show it.
        arguments_type: a frozen dataclass; nested dataclasses are flattened into the same options.
        run: the work.
        presets: starting values that `--preset` selects and single options override; one is named "default".

    Returns:
        Its entry point.
    """

    def main(argv: Sequence[str] | None = None) -> int:
        words = sys.argv[1:] if argv is None else argv
        return guard(name, lambda: run(parse(name, arguments_type, words, presets)))

    return main


def guard(name: str, action: Callable[[], int]) -> int:
    """Run a command and turn what the user can mend into one line.

    Args:
        name: stands before the message.
        action: the command.

    Returns:
        The exit status: the command's own, 2 for `InvalidInput` and a full disk, 130 when interrupted, 141 when the reader of stdout has gone
        (quietly).
    """
    _make_streams_safe()
    try:
        try:
            status = action()
        except SystemExit as stop:  # tyro has shown the help
            if stop.code is not None and not isinstance(stop.code, int):  # words of a library
                raise InvalidInput(str(stop.code)) from stop
            status = int(stop.code or 0)
        sys.stdout.flush()
        return status
    except InvalidInput as error:
        say(f"{name}: {' '.join(str(error).splitlines())}")
        return 2
    except KeyboardInterrupt:
        say(f"{name}: interrupted")
        return INTERRUPTED
    except OSError as error:
        if error.errno not in (*_NO_ROOM, errno.EPIPE):
            raise
        # Python flushes stdout once more at exit and would complain then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno == errno.EPIPE:
            return READER_GONE
        say(f"{name}: nothing more can be written ({error.strerror}), make room or write elsewhere")
        return 2


def _make_streams_safe() -> None:
    """A stream that was closed swallows what is written, and a character that a terminal lacks becomes `?`."""
    for stream in ("stdout", "stderr"):
        if getattr(sys, stream) is None:
            setattr(sys, stream, open(os.devnull, "w"))  # noqa: SIM115, for the life of the process
        if isinstance(found := getattr(sys, stream), io.TextIOWrapper):
            found.reconfigure(errors="replace")


def parse(
    name: str,
    arguments_type: type[ArgumentsT],
    argv: Sequence[str],
    presets: Mapping[str, ArgumentsT] | None = None,
) -> ArgumentsT:
    """Turn the words of a command line into its arguments.

    Args:
        name: how the command is called.
        arguments_type: see `program`.
        argv: the words after the name.
        presets: see `program`.

    Returns:
        The arguments.

    Raises:
        InvalidInput: an unknown option, a missing or a bad value.
        SystemExit: with status 0, after showing the help.
    """
    words = join_repeats(argv, list_options(arguments_type))
    asks_help = not {"-h", "--help"}.isdisjoint(words)
    box = io.StringIO()
    try:
        with contextlib.redirect_stderr(box), contextlib.nullcontext() if asks_help else _wide():
            return tyro.cli(
                arguments_type,
                prog=name,
                args=words,
                default=_preset(words, presets),
                config=(tyro.conf.FlagCreatePairsOff, tyro.conf.OmitArgPrefixes),
                registry=_registry,
            )
    except SystemExit as stop:
        if not stop.code:
            raise
    raise InvalidInput(f"{_sentence(box.getvalue())}; see {name} --help")


def join_repeats(argv: Sequence[str], options: frozenset[str]) -> list[str]:
    """Join repeated list options: `--alpha 2 --alpha 4` becomes `--alpha=2,4`.

    Args:
        argv: the words of a command line.
        options: the options that take a list, as `--name-with-hyphens`.

    Returns:
        The words with each such option once, where it first stood.
    """
    joined: list[str] = []
    place: dict[str, int] = {}
    words = iter(argv)
    for word in words:
        option, equals, value = word.partition("=")
        option = option.replace("_", "-")
        if option not in options:
            joined.append(word)
            continue
        if not equals:
            value = next(words, None)
            if value is None or value.startswith("--"):  # no value: the parser says so
                joined.extend([word] if value is None else [word, value])
                continue
        if option in place:
            joined[place[option]] += f",{value}"
        else:
            place[option] = len(joined)
            joined.append(f"{option}={value}")
    return joined


def list_options(arguments_type: type) -> frozenset[str]:
    """The options of a dataclass that take a comma list.

    Args:
        arguments_type: a dataclass; nested ones are looked into.

    Returns:
        Names as `--name-with-hyphens`.
    """
    options: set[str] = set()
    for field, hint in typing.get_type_hints(arguments_type, include_extras=True).items():
        if _is_comma_list(hint):
            options.add("--" + field.replace("_", "-"))
        elif isinstance(hint, type) and is_dataclass(hint):
            options |= list_options(hint)
    return frozenset(options)


def _is_comma_list(hint: Any) -> bool:
    """Whether a type is one of the comma lists, with or without further annotations."""
    specs = [typing.get_args(listed)[1] for listed in (Floats, Ints, Words)]
    return any(part is spec for part in typing.get_args(hint) for spec in specs)


def _preset(words: Sequence[str], presets: Mapping[str, ArgumentsT] | None) -> Any:
    """The starting values that `--preset` names; a wrong name is left to the parser."""
    if presets is None:
        return tyro.MISSING_NONPROP
    split = [part for word in words for part in re.split("(?<=^--preset)=", word)]
    named = [value for word, value in itertools.pairwise(split) if word == "--preset"]
    return presets.get(named[-1] if named else "default", presets["default"])


@contextlib.contextmanager
def _wide() -> Generator[None, None, None]:
    """A terminal so wide that tyro, which draws its errors in boxes, breaks no sentence."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "100000"
    try:
        yield
    finally:
        del os.environ["COLUMNS"]
        if before is not None:
            os.environ["COLUMNS"] = before


def _sentence(box: str) -> str:
    """The message in a box of tyro's: its first section without indented help, and its best guess.

    A box has `│ ` before its rows where stdout takes UTF-8 and two blanks elsewhere; lines divide its sections.
    """
    lines = re.sub(r"\x1b\[[0-9;]*m", "", box).splitlines()
    rows = [line[2:].rstrip(" │") for line in lines if line[:2] in ("│ ", "  ")]
    ends = [place for place, row in enumerate(rows) if re.fullmatch("─*|-*", row)] + [len(rows)]
    message = " ".join(row.strip() for row in rows[: ends[0]] if not row.startswith(" " * 8))
    guesses = rows[rows.index("Perhaps you meant:") + 1 :] if "Perhaps you meant:" in rows else []
    mend = f", did you mean {guesses[0].split()[0]}?" if guesses else ""
    return (message.removeprefix("Error parsing ").rstrip(".") or "cannot be parsed") + mend
