"""`rolloutlab power-vs-temperature`: p(y)^alpha over sequences is not token temperature 1/alpha, in exact numbers."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pyarrow as pa
import tyro

from experiments import power_summary, power_verdicts, tables
from experiments.command_line import Floats, Ints, default, program
from experiments.json_output import write_json
from experiments.model_argument import BUILTIN, LoadedModel
from experiments.output import STDOUT, check_keeps, check_writable, make_folder
from experiments.power_models import digest, load_named
from experiments.power_report import report_tables, symbols, verdict_notes
from experiments.power_sentences import sentences
from experiments.power_tables import (
    crossover_rows,
    divergence_rows,
    ess_rows,
    first_token_rows,
    two_laws_rows,
)
from experiments.progress import Progress, say
from experiments.runner import Checkpoint, Experiment, RunOptions, run_experiment
from experiments.terminal import print_table, report_console
from models.tabular.catalogue import BUILTINS
from paper_figures.build import FIGURES, LAYOUTS, draw_to_files, write_table
from paper_figures.columns import schema
from theory.errors import InvalidInput
from theory.exact.laws import check_alpha

# Which built-in models a figure shows; a model of the user's own is shown in each.
SHOWN = {
    "two_laws": ("toy-b", "sharp-path", "toy-e", "toy-d"),
    "divergence_against_alpha": (
        "toy-b", "sharp-path", "toy-d", "toy-e", "toy-f", "random-markov",
    ),
    "ess_against_length": ("toy-d", "random-endless", "sharp-path", "toy-e"),
    "first_token_ranking": ("toy-a-normalised", "toy-b", "sharp-path", "toy-d"),
}  # fmt: skip


@dataclass(frozen=True)
class Sweep:
    """What is computed; every value is part of the run's identity."""

    alpha: float = 2.0
    """Power exponent, above 0; the temperature law is token temperature 1/alpha."""

    alphas: Annotated[
        Floats,
        tyro.conf.arg(
            help_behavior_hint="(default: 41 from 1/4 to 8, eight a doubling; "
            "--preset smoke 0.5,1,2; --preset full 161)"
        ),
    ] = tuple(2.0 ** (k / 8) for k in range(-16, 25))
    """Exponents of the sweep over alpha."""

    lengths: Ints = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
    """Horizons of the sweep over length, tokens."""

    draws: int = 20_000
    """Exact draws behind each verdict on sampling."""

    seed: int = 0
    """Of these draws."""


@dataclass(frozen=True)
class Arguments:
    """Sequence power against token temperature: exact tables, figures and verdicts.

    Without MODEL on every built-in toy model. Natural logarithms; lengths in tokens, eos included. Exit status 1 if a verdict fails.
    """

    sweep: Sweep
    run: RunOptions

    model: Annotated[
        tyro.conf.Positional[str | None],
        tyro.conf.arg(metavar="[MODEL]", help_behavior_hint="(default: every built-in toy model)"),
    ] = None
    """A JSON model file or builtin:NAME."""

    prompt: Annotated[str | None, default("the empty prompt")] = None
    """Tokens that stand before the first generated one, such as "0 2"."""

    max_new_tokens: Annotated[int | None, default("that of the model")] = None
    """Horizon in tokens, eos included."""

    json: str | None = None
    """File for the machine-readable result, - for stdout."""

    export: Path | None = None
    """Folder that the tables of the figures are also written to, as CSV (`paper_figures/tables` holds such)."""


@dataclass(frozen=True)
class Config:
    """The identity of a run: the sweep, and the models by name and content, wherever their files are."""

    sweep: Sweep
    models: tuple[str, ...]
    prompt: str | None
    max_new_tokens: int | None
    digest: str

    @property
    def seed(self) -> int:
        """Where the manifest looks for it."""
        return self.sweep.seed


def experiment(models: Sequence[LoadedModel]) -> Experiment[Config]:
    """The demonstration for models that have been loaded.

    Args:
        models: those whose names and digest the configuration holds.

    Returns:
        It makes "table" (every scalar), "verdicts", and one table a figure needs.
    """

    def compute(
        config: Config, progress: Progress, checkpoint: Checkpoint
    ) -> Mapping[str, pa.Table]:
        return {
            part.name: checkpoint.stage(part.name, functools.partial(_table, part, progress))
            for part in _parts(config.sweep, models)
        }

    return Experiment("power-vs-temperature", 2, compute)


class _Part(NamedTuple):
    """One table: its models, and what makes a model's rows."""

    name: str
    schema: pa.Schema
    models: Sequence[LoadedModel]
    rows: Callable[[LoadedModel], list[dict[str, Any]]]


def _parts(sweep: Sweep, models: Sequence[LoadedModel]) -> list[_Part]:
    def summary(model: LoadedModel) -> list[dict[str, Any]]:
        return power_summary.summary_rows(model, sweep.alpha)

    def verdicts(model: LoadedModel) -> list[dict[str, Any]]:
        return power_verdicts.verdict_rows(model, sweep.alpha, sweep.draws, sweep.seed)

    def for_figure(name: str, shown: str, rows: Callable[..., Any], *values: Any) -> _Part:
        chosen = models if len(models) == 1 else _pick(models, SHOWN[shown])
        return _Part(name, schema(LAYOUTS[name]), chosen, lambda model: rows(model, *values))

    alpha, alphas, lengths = sweep.alpha, sweep.alphas, sweep.lengths
    ess = "ess_against_length"
    return [
        _Part("table", power_summary.SCHEMA, models, summary),
        _Part("verdicts", power_verdicts.SCHEMA, models, verdicts),
        for_figure("two_laws", "two_laws", two_laws_rows, alpha),
        for_figure("divergence_against_alpha", "divergence_against_alpha", divergence_rows, alphas),
        for_figure("first_token_ranking", "first_token_ranking", first_token_rows, alphas),
        for_figure(ess, ess, ess_rows, alpha, lengths),
        for_figure("crossover_lengths", ess, crossover_rows, alpha, max(lengths)),
    ]


def _table(part: _Part, progress: Progress) -> pa.Table:
    models = progress(part.models, part.name.replace("_", " "))
    return tables.from_rows(part.schema, [row for model in models for row in part.rows(model)])


def draw_figures(found: Mapping[str, pa.Table], folder: Path) -> list[Path]:
    """Draw every figure of these tables that has rows.

    Args:
        found: tables by name.
        folder: where the figures go.

    Returns:
        The files, PDF and PNG.
    """
    files: list[Path] = []
    for name, spec in FIGURES.items():
        first, *rest = spec.tables
        if first in found and found[first].num_rows:
            figure = spec.draw(found[first], *(found[other] for other in rest))
            files += draw_to_files(figure, make_folder(folder), name)
    return files


def run(arguments: Arguments) -> int:
    """Compute, draw and report.

    Args:
        arguments: of the command.

    Returns:
        0, or 1 if a verdict fails.
    """
    _check(arguments)
    if arguments.json is not None:
        check_writable(arguments.json)
        check_keeps(arguments.json, arguments.model or "")
    if arguments.export is not None:
        make_folder(arguments.export)
    named = [arguments.model] if arguments.model else [BUILTIN + name for name in BUILTINS]
    models = [load_named(name, arguments.prompt, arguments.max_new_tokens) for name in named]
    names = tuple(model.name for model in models)
    config = Config(
        arguments.sweep, names, arguments.prompt, arguments.max_new_tokens, digest(models)
    )
    done = run_experiment(experiment(models), config, arguments.run)
    files = draw_figures(done.tables, done.folder / "figures")
    text = sentences(done.tables, arguments.sweep.alpha)
    _print_report(arguments, done.tables, text, files)
    if arguments.json is not None:
        write_json(_result(arguments, done.tables, text, files), arguments.json)
    if arguments.export is not None:
        for name in LAYOUTS.keys() & done.tables.keys():
            write_table(done.tables[name], arguments.export / f"{name}.csv")
    passed = all(done.tables["verdicts"].column("ok").to_pylist())
    if not passed:
        say("a verdict failed: see the table of verdicts")
    return 0 if passed else 1


def _print_report(
    arguments: Arguments, found: Mapping[str, pa.Table], text: list[str], files: list[Path]
) -> None:
    console = report_console(stderr=arguments.json == STDOUT)
    console.print(symbols(arguments.sweep.alpha))
    for title, table in report_tables(found).items():
        print_table(console, title, table)
    for line in [*verdict_notes(found["verdicts"]), *text]:
        console.print(line)
    for file in files:
        console.print(str(file), soft_wrap=True)


def _check(arguments: Arguments) -> None:
    sweep = arguments.sweep
    for alpha in (sweep.alpha, *sweep.alphas):
        check_alpha(alpha)
    for length in sweep.lengths:
        if length < 1:
            raise InvalidInput(f"--lengths {length}: must be at least 1")
    if not 0 <= sweep.seed < 2**32:
        raise InvalidInput(f"--seed {sweep.seed}: must be in 0..{2**32 - 1}")
    if sweep.draws < 1000:
        raise InvalidInput(
            f"--draws {sweep.draws}: must be at least 1000, or the verdicts test nothing"
        )
    if arguments.prompt is not None and arguments.model is None:
        raise InvalidInput("--prompt: needs a MODEL that it is a prompt of")


def _result(
    arguments: Arguments, found: Mapping[str, pa.Table], text: list[str], files: list[Path]
) -> dict[str, Any]:
    return {
        "alpha": arguments.sweep.alpha,
        "rows": found["table"].to_pylist(),
        "crossover_lengths": found["crossover_lengths"].to_pylist(),
        "verdicts": found["verdicts"].to_pylist(),
        "sentences": text,
        "figures": [str(file) for file in files],
    }


def _pick(models: Sequence[LoadedModel], kept: tuple[str, ...]) -> list[LoadedModel]:
    by_name = {model.name: model for model in models}
    return [by_name[BUILTIN + name] for name in kept]


PRESETS = {
    "smoke": Arguments(
        Sweep(alphas=(0.5, 1.0, 2.0), lengths=(1, 2, 4, 8, 16, 32), draws=2_000),
        RunOptions("smoke"),
    ),
    "default": Arguments(Sweep(), RunOptions("default")),
    "full": Arguments(
        Sweep(alphas=tuple(2.0 ** (k / 32) for k in range(-64, 97)), draws=1_000_000),
        RunOptions("full"),
    ),
}

main = program("rolloutlab power-vs-temperature", Arguments, run, PRESETS)

if __name__ == "__main__":
    raise SystemExit(main())
