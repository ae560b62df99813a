"""`rolloutlab analyze`: honest statistics of rollout logs, and a refusal with its reason where a number would be dishonest."""

from dataclasses import dataclass
from typing import Annotated

import tyro

from experiments.command_line import Ints, Words, default, program
from experiments.json_output import write_json
from experiments.output import STDOUT, check_keeps, check_writable, open_output
from experiments.rollout_logs.backend import ENGINES, open_backend
from experiments.rollout_logs.document import to_document
from experiments.rollout_logs.engine import analyze_logs
from experiments.rollout_logs.families import chosen
from experiments.rollout_logs.html_report import render_html
from experiments.rollout_logs.options import (
    DEFAULT_KS,
    AnalysisOptions,
    check_options,
    rates_of,
)
from experiments.rollout_logs.reading import OpenedLogs, open_logs
from experiments.rollout_logs.terminal_report import print_analysis
from experiments.terminal import report_console
from theory.errors import InvalidInput

Files = Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="FILE [FILE ...]")]


@dataclass(frozen=True)
class LogArguments:
    """What logs are read and how."""

    format: str = "auto"
    """auto, native, verl, trl, openrlhf, nemo-rl, nemo-gym, skyrl, verifiers, prime-rl, tunix, inspect, lm-eval, human-eval, evalplus, lighteval, search-and-learn, monkeys or openai."""

    map: Annotated[Words, default("as the format says")] = ()
    """Field of the canonical row = field of the log, such as prompt_id=uid."""

    filter: Annotated[str | None, default("none")] = None
    """lm-eval: the filter; evalplus: base or plus; inspect: the scorer."""

    strict: bool = False
    """Exit 2 at the first record that cannot be read, instead of leaving it out and counting it."""

    k: Ints = DEFAULT_KS
    """Numbers of samples that curves are computed at."""

    only: Annotated[Words, default("all")] = ()
    """Families of statistics (coverage, selection, reward, beyond, diversity, calibration, indicators, length, cost, weights, power, units) or their names, such as majority@K,ess: the others are neither computed nor read for."""

    power_alpha: Annotated[float | None, default("none")] = None
    """Reweight rows to the sequence power p(y)^alpha of the base model: power_ess, power_max_weight, power_accuracy."""

    success_threshold: Annotated[float | None, default("none")] = None
    """Least reward that is a success, where no row says correct."""

    clip: float = 2.0
    """Importance weight above which a row counts in clipped_share."""

    g_pass_threshold: float = 0.5
    """Share of k samples that must be correct for g_pass@K."""

    verifier_tpr: Annotated[float | None, default("none")] = None
    """Share of correct rows that the final verifier passes; with --verifier-fpr it gives noise_corrected_pass@K."""

    verifier_fpr: Annotated[float | None, default("none")] = None
    """Share of wrong rows that the final verifier passes."""

    engine: str = "duckdb"
    """duckdb, which spills to disk what does not fit in memory, or spark, which reads rows and computes tasks on a cluster (the extra `spark` and Java 17)."""

    seed: int = 0
    """Of resampling tasks; the same arguments and seed give the same bytes."""


@dataclass(frozen=True)
class Arguments(LogArguments):
    """Read rollout logs and say what they show: coverage, votes, selection, rewards, lengths, weights, with intervals over tasks. What cannot be said honestly is refused, with a code and the mend."""

    files: Files = ()
    """Logs, folders or patterns; - is stdin."""

    beyond: Annotated[Ints, default("none")] = ()
    """Numbers of samples beyond those drawn, such as 100,1000: pass@K by a model of success rates, beside bounds without one. Takes half a minute."""

    json: Annotated[str | None, default("a table on stdout")] = None
    """File for the machine-readable result, - for stdout."""

    html: Annotated[str | None, default("none")] = None
    """File for the report as one page."""


def run(arguments: Arguments) -> int:
    """Analyze and report.

    Args:
        arguments: of the command.

    Returns:
        Exit status 0.
    """
    options = options_of(arguments)._replace(beyond=tuple(dict.fromkeys(arguments.beyond)))
    check_options(options)
    destinations = [place for place in (arguments.json, arguments.html) if place is not None]
    if len(set(destinations)) < len(destinations):
        raise InvalidInput(f"--json and --html '{arguments.json}': give each a place of its own")
    for place in destinations:
        check_writable(place)
    opened = open_files(arguments, arguments.files)
    for place in destinations:
        for source in opened.inputs:
            check_keeps(place, source)
    with open_backend(arguments.engine) as backend:
        analysis = analyze_logs(opened, options, backend)
    if arguments.json is not None:
        write_json(to_document(analysis), arguments.json)
    if arguments.html is not None:
        with open_output(arguments.html) as stream:
            stream.write(render_html(analysis).encode())
    if STDOUT not in destinations:
        print_analysis(analysis, report_console())
    return 0


def options_of(arguments: LogArguments) -> AnalysisOptions:
    """The options of an analysis, checked.

    Args:
        arguments: of the command line.

    Returns:
        The options.

    Raises:
        InvalidInput: one is out of range.
    """
    if arguments.engine not in ENGINES:
        raise InvalidInput(f"--engine {arguments.engine}: must be {' or '.join(ENGINES)}")
    options = AnalysisOptions(
        ks=tuple(dict.fromkeys(arguments.k)),
        power_alpha=arguments.power_alpha,
        success_threshold=arguments.success_threshold,
        clip=arguments.clip,
        g_pass_threshold=arguments.g_pass_threshold,
        verifier_rates=rates_of(arguments.verifier_tpr, arguments.verifier_fpr),
        seed=arguments.seed,
        only=chosen(arguments.only) if arguments.only else None,
    )
    check_options(options)
    return options


def open_files(arguments: LogArguments, files: tuple[str, ...]) -> OpenedLogs:
    """Find the logs.

    Args:
        arguments: format, map, filter and strictness.
        files: of the command line.

    Returns:
        The logs.

    Raises:
        InvalidInput: as `open_logs`, or an entry of --map without an equals sign or of a field that has one.
    """
    if not files:
        raise InvalidInput("no file given; see rolloutlab analyze --help")
    mapping: dict[str, str] = {}
    for entry in arguments.map:
        name, equals, source = entry.partition("=")
        if not (name and equals and source):
            raise InvalidInput(f"--map '{entry}': give FIELD=NAME, such as prompt_id=uid")
        if name in mapping:
            raise InvalidInput(
                f"--map: '{name}' is given twice, as '{mapping[name]}' and as '{source}', keep one"
            )
        mapping[name] = source
    return open_logs(files, arguments.format, mapping, arguments.filter, arguments.strict)


main = program("rolloutlab analyze", Arguments, run)

if __name__ == "__main__":
    raise SystemExit(main())
