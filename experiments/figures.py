"""`rolloutlab figures`: rebuild the figures from the committed tables."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from experiments.command_line import program, unknown
from experiments.output import make_folder
from experiments.progress import say, track
from paper_figures.build import FIGURES, HOME, build, check


@dataclass(frozen=True)
class Arguments:
    """Rebuild figures from the committed tables; the same bytes every time.

    Prints the paths of the files, one a line.
    """

    names: Annotated[
        tyro.conf.Positional[tuple[str, ...]],
        tyro.conf.arg(metavar="[NAME ...]", help_behavior_hint="(default: all)"),
    ] = ()
    """Which figures."""

    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("figures")
    """Folder of the files, made if it is not there."""

    list: bool = False
    """Name the figures, one a line, and stop."""

    check: bool = False
    """Rebuild, compare with the bytes on record and keep nothing; exit status 1 if a figure differs."""


def run(arguments: Arguments) -> int:
    """Build, check or list the figures.

    Args:
        arguments: of the command line.

    Returns:
        0, or 1 where a check finds a difference.

    Raises:
        InvalidInput: no such figure, or the folder cannot be written.
    """
    for name in arguments.names:
        if name not in FIGURES:
            raise unknown("figure", name, FIGURES)
    names = arguments.names or tuple(FIGURES)
    if arguments.list:
        print("\n".join(names))
        return 0
    if arguments.check:
        return max(_check(name) for name in track(names, "checking"))
    folder = make_folder(arguments.out)
    for name in track(names, "drawing"):
        for path in build(name, HOME / "tables", folder):
            print(path)
    return 0


def _check(name: str) -> int:
    verdict = check(name)
    for line in verdict.problems or [f"{name}: the same as {verdict.compared_with}"]:
        say(line)
    return 1 if verdict.problems else 0


main = program("rolloutlab figures", Arguments, run)

if __name__ == "__main__":
    sys.exit(main())
