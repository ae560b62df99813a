"""`rolloutlab compare`: paired differences of two rollout logs on the prompts they have in common."""

import contextlib
from dataclasses import dataclass
from typing import Annotated, Any

import tyro

from experiments.analyze import LogArguments, open_files, options_of
from experiments.command_line import default, program
from experiments.json_output import write_json
from experiments.output import STDOUT, check_keeps, check_writable
from experiments.rollout_logs.backend import open_backend
from experiments.rollout_logs.compare import Analyzed, Comparison, compare, comparison_counts
from experiments.rollout_logs.document import statistic_document, to_document
from experiments.rollout_logs.engine import ReadLog, read_log
from experiments.rollout_logs.refusals import REFUSALS
from experiments.terminal import make_table, print_table, report_console
from theory.errors import InvalidInput


@dataclass(frozen=True)
class Arguments(LogArguments):
    """Compare two rollout logs prompt by prompt: first minus second, on the prompts that both have, with intervals from common resamples of tasks."""

    first: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="A")] = ""
    """The first log: a file, a folder or a pattern."""

    second: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="B")] = ""
    """The second log."""

    json: Annotated[str | None, default("a table on stdout")] = None
    """File for the machine-readable result, - for stdout."""


def run(arguments: Arguments) -> int:
    """Compare and report.

    Args:
        arguments: of the command.

    Returns:
        Exit status 0.
    """
    options = options_of(arguments)
    if arguments.json is not None:
        check_writable(arguments.json)
    for name, which in ((arguments.first, "first"), (arguments.second, "second")):
        if not name:
            raise InvalidInput(f"the {which} log is missing: rolloutlab compare A B")
    with contextlib.ExitStack() as stack:
        backend = stack.enter_context(open_backend(arguments.engine))
        logs: list[ReadLog] = []
        for name in (arguments.first, arguments.second):
            opened = open_files(arguments, (name,))
            for source in opened.inputs:
                check_keeps(arguments.json or STDOUT, source)
            logs.append(stack.enter_context(read_log(opened, options, backend)))
        sides = [log.whole() for log in logs]
        # What one log lacks in prompts that are not compared refuses no difference.
        common = set(sides[0].prompts) & set(sides[1].prompts)
        parts = [
            log.part(common) if common and len(side.prompts) > len(common) else side
            for log, side in zip(logs, sides, strict=True)
        ]
        found = compare(parts[0], parts[1], options)._replace(
            only_first=len(sides[0].prompts) - len(common),
            only_second=len(sides[1].prompts) - len(common),
        )
    if arguments.json is not None:
        write_json(_document(found, sides), arguments.json)
    if arguments.json != STDOUT:
        _print(found)
    return 0


def _document(found: Comparison, sides: list[Analyzed]) -> dict[str, Any]:
    warnings: list[dict[str, Any]] = []
    apart = found.only_first + found.only_second
    if apart:
        refusal = REFUSALS["R17"]
        message = f"{apart} prompts are in one log alone and left out: {refusal.words}"
        warnings.append({"code": "R17", "message": message, "count": apart})
    first, second = (to_document(side.analysis) for side in sides)
    return {
        "inputs": [first["inputs"], second["inputs"]],
        "formats": [first["format"], second["format"]],
        "prompts": comparison_counts(found),
        "counts": [first["counts"], second["counts"]],
        "statistics": [statistic_document(statistic) for statistic in found.statistics],
        "warnings": [*warnings, *first["warnings"], *second["warnings"]],
    }


def _print(found: Comparison) -> None:
    console = report_console()
    table = make_table("first minus second", "value", "low", "high", "tasks", "refusal")
    for statistic in found.statistics:
        interval = statistic.interval
        table.add_row(
            statistic.name,
            "" if statistic.value is None else f"{statistic.value:.6g}",
            "" if interval is None else f"{interval.low:.6g}",
            "" if interval is None else f"{interval.high:.6g}",
            str(statistic.tasks),
            statistic.refusal or "",
        )
    title = (
        f"Paired differences on {found.common} common prompts "
        f"({found.only_first} and {found.only_second} are in one log alone)"
    )
    print_table(console, title, table)


main = program("rolloutlab compare", Arguments, run)

if __name__ == "__main__":
    raise SystemExit(main())
