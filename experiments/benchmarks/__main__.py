"""`python -m experiments.benchmarks NAME`: run one benchmark."""

import sys
from dataclasses import dataclass
from typing import Annotated

import tyro

from experiments.benchmarks.pairing import BenchmarkReport
from experiments.benchmarks.registry import BENCHMARKS, Benchmark
from experiments.command_line import program, unknown
from experiments.json_output import write_json
from experiments.output import STDOUT, check_writable
from experiments.progress import say
from experiments.terminal import make_table, print_table, report_console
from theory.errors import InvalidInput


@dataclass(frozen=True)
class Arguments:
    """Time ours against a plain reference: pairs in the order AB BA, median of the ratios, 95 % interval.

    A ratio below 1 is faster than the reference.
    """

    name: Annotated[tyro.conf.Positional[str | None], tyro.conf.arg(metavar="[NAME]")] = None
    """The benchmark; --list names them."""

    list: bool = False
    """Name the benchmarks with their goals."""

    quick: bool = False
    """Sizes that keep the whole run under a minute."""

    json: Annotated[str, tyro.conf.arg(metavar="FILE")] = STDOUT
    """Where the result goes as JSON; - for stdout."""


def run(arguments: Arguments) -> int:
    """Run a benchmark, or list them.

    Args:
        arguments: of the command line.

    Returns:
        0.

    Raises:
        InvalidInput: no such benchmark, or the output cannot be written.
    """
    if arguments.list:
        for name, benchmark in BENCHMARKS.items():
            print(f"{name}  [{benchmark.goal}]  {benchmark.description}")
        return 0
    if arguments.name is None:
        raise InvalidInput("no benchmark named, give one of " + ", ".join(BENCHMARKS))
    if arguments.name not in BENCHMARKS:
        raise unknown("benchmark", arguments.name, BENCHMARKS)
    check_writable(arguments.json)
    benchmark = BENCHMARKS[arguments.name]
    report = benchmark.run(arguments.quick)
    _show(benchmark, report)
    write_json(report.result, arguments.json)
    return 0


def _show(benchmark: Benchmark, report: BenchmarkReport) -> None:
    result = report.result
    console = report_console(stderr=True)
    for title, table in report.tables.items():
        drawn = make_table(*table.column_names)
        for row in table.to_pylist():
            drawn.add_row(*[f"{v:.4g}" if isinstance(v, float) else str(v) for v in row.values()])
        print_table(console, title, drawn)
    for note in report.notes:
        say(note)
    verdict = "met" if result.ratio <= benchmark.largest_ratio else "missed"
    say(
        f"{result.name}: ratio {result.ratio:.3f} (95 % {result.low:.3f} to {result.high:.3f}, {result.runs} pairs); "
        f"goal {verdict}: {benchmark.goal}"
    )


main = program("python -m experiments.benchmarks", Arguments, run)

if __name__ == "__main__":
    sys.exit(main())
