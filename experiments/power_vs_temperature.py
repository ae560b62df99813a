"""`rolloutlab power-vs-temperature`: p(y)^alpha over sequences is not token temperature 1/alpha, in exact numbers."""

import functools
import hashlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pyarrow as pa
import tyro
from rich.console import Console

from experiments import power_verdicts, tables
from experiments.command_line import Floats, Ints, program
from experiments.json_output import write_json
from experiments.model_argument import LoadedModel, load_model
from experiments.output import STDOUT, check_writable, make_folder
from experiments.power_report import laws_table, sentences, totals_table, verdict_table
from experiments.power_tables import (
    SUMMARY,
    crossover_rows,
    divergence_rows,
    ess_rows,
    figure_schema,
    first_token_rows,
    summary_rows,
    two_laws_rows,
)
from experiments.progress import Progress, say
from experiments.runner import Checkpoint, Experiment, RunOptions, run_experiment
from models.tabular.catalogue import BUILTINS
from paper_figures.build import FIGURES, LAYOUTS, draw_to_files, write_table
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

    alphas: Floats = tuple(2.0 ** (k / 8) for k in range(-16, 25))
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

    model: Annotated[tyro.conf.Positional[str | None], tyro.conf.arg(metavar="MODEL")] = None
    """A JSON model file or builtin:NAME; every built-in toy model by default."""

    prompt: str | None = None
    """Tokens that stand before the first generated one, such as "0 2"."""

    max_new_tokens: int | None = None
    """Horizon in tokens, eos included; that of the model by default."""

    json: str | None = None
    """File for the machine-readable result, - for stdout."""

    export: Path | None = None
    """Folder that the tables of the figures are also written to, as CSV (`paper_figures/tables` holds such)."""


@dataclass(frozen=True)
class Config:
    """The identity of a run: the sweep, and the models by name and content."""

    sweep: Sweep
    models: tuple[str, ...]
    prompt: str | None
    max_new_tokens: int | None
    digest: str


def compute(config: Config, progress: Progress, checkpoint: Checkpoint) -> Mapping[str, pa.Table]:
    """All tables of the demonstration.

    Args:
        config: what to compute.
        progress: shows how far the work has come.
        checkpoint: keeps finished tables.

    Returns:
        "table" (every scalar), "verdicts", and one table a figure needs.
    """
    return {
        part.name: checkpoint.stage(part.name, functools.partial(_table, part, progress))
        for part in _parts(config)
    }


class _Part(NamedTuple):
    """One table: its models, and what makes a model's rows."""

    name: str
    schema: pa.Schema
    models: list[LoadedModel]
    rows: Callable[[LoadedModel], list[dict[str, Any]]]


def _parts(config: Config) -> list[_Part]:
    sweep = config.sweep
    models = _load(config.models, config.prompt, config.max_new_tokens)

    def verdicts(model: LoadedModel) -> list[dict[str, Any]]:
        return power_verdicts.verdict_rows(model, sweep.alpha, sweep.draws, sweep.seed)

    def for_figure(name: str, shown: str, rows: Callable[..., Any], *values: Any) -> _Part:
        chosen = models if len(models) == 1 else _pick(models, SHOWN[shown])
        return _Part(name, figure_schema(name), chosen, lambda model: rows(model, *values))

    alpha, alphas, lengths = sweep.alpha, sweep.alphas, sweep.lengths
    ess = "ess_against_length"
    return [
        _Part("table", SUMMARY, models, lambda model: summary_rows(model, alpha)),
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


EXPERIMENT = Experiment("power-vs-temperature", 1, compute)


def draw_figures(found: Mapping[str, pa.Table], folder: Path) -> list[Path]:
    """Draw every figure whose tables have rows.

    Args:
        found: tables by name.
        folder: where the figures go.

    Returns:
        The files, PDF and PNG.
    """
    files: list[Path] = []
    for name, spec in FIGURES.items():
        first, *rest = spec.tables
        if found[first].num_rows:
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
    names = (arguments.model,) if arguments.model else tuple(f"builtin:{n}" for n in BUILTINS)
    models = _load(names, arguments.prompt, arguments.max_new_tokens)
    config = Config(
        arguments.sweep, names, arguments.prompt, arguments.max_new_tokens, _digest(models)
    )
    done = run_experiment(EXPERIMENT, config, arguments.run)
    files = draw_figures(done.tables, done.folder / "figures")
    text = sentences(done.tables, arguments.sweep.alpha)
    console = Console(
        stderr=arguments.json == STDOUT, width=None if sys.stdout.isatty() else 110, soft_wrap=False
    )
    console.print(laws_table(done.tables["table"]))
    console.print(totals_table(done.tables["table"]))
    console.print(verdict_table(done.tables["verdicts"]))
    for sentence in text:
        console.print(sentence, highlight=False)
    for file in files:
        console.print(str(file), soft_wrap=True, highlight=False)
    if arguments.json is not None:
        write_json(_result(arguments, done.tables, text, files), arguments.json)
    if arguments.export is not None:
        for name in LAYOUTS:
            write_table(done.tables[name], make_folder(arguments.export) / f"{name}.csv")
    passed = all(done.tables["verdicts"].column("ok").to_pylist())
    if not passed:
        say("a verdict failed: see the table of verdicts")
    return 0 if passed else 1


def _check(arguments: Arguments) -> None:
    sweep = arguments.sweep
    for alpha in (sweep.alpha, *sweep.alphas):
        check_alpha(alpha)
    for length in sweep.lengths:
        if length < 1:
            raise InvalidInput(f"--lengths {length}: must be at least 1")
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


def _load(
    names: tuple[str, ...], prompt: str | None, max_new_tokens: int | None
) -> list[LoadedModel]:
    return [load_model(name, prompt, max_new_tokens) for name in names]


def _pick(models: list[LoadedModel], kept: tuple[str, ...]) -> list[LoadedModel]:
    by_name = {model.name: model for model in models}
    return [by_name[f"builtin:{name}"] for name in kept]


def _digest(models: list[LoadedModel]) -> str:
    """Of everything that the numbers depend on, so that an edited model file is another run."""
    digest = hashlib.sha256()
    for model in models:
        table = model.table
        digest.update(table.log_probs.tobytes() + table.next_context.tobytes())
        digest.update(repr((table.initial, table.eos, table.horizon, model.token_labels)).encode())
    return digest.hexdigest()[:16]


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
