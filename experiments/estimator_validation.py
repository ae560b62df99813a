"""`rolloutlab estimator-validation`: bias and variance of every estimator beside the exact ones, and all methods at equal cost."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from experiments import (
    equal_cost_problem,
    equal_cost_ranking,
    estimator_tables,
    tables,
)
from experiments.command_line import Floats, Ints, Words, program, unknown
from experiments.equal_cost_methods import METHODS
from experiments.equal_cost_problem import Problem, Sizes, make_problem, row_of
from experiments.equal_cost_ranking import ranking_rows
from experiments.estimator_cells import Cell
from experiments.estimator_figures import figure_tables
from experiments.estimator_sentences import sentences
from experiments.estimator_tables import cell_rows, disagreements, make_cell
from experiments.json_output import write_json
from experiments.output import STDOUT, check_writable, make_folder
from experiments.progress import Progress, say
from experiments.runner import Checkpoint, Experiment, RunOptions, run_experiment
from experiments.terminal import report_console
from models.tabular.catalogue import builtin
from paper_figures.build import FIGURES, draw_to_files, write_table
from theory.errors import InvalidInput
from theory.exact.context_table import with_horizon
from theory.exact.laws import check_alpha

MODEL = "toy-e"
"""Of the sweeps over draws, exponents and proposals: eos comes early, so that temperature is a poor proposal."""

LENGTH_MODEL = "toy-d"
"""Of the sweep over lengths: a sticky chain without eos."""

COST_LENGTH = 4
"""Horizon of the models that methods are compared on, tokens: their sequences, and pairs of them, can be listed."""


@dataclass(frozen=True)
class Config:
    """What is computed; every value is part of the run's identity."""

    alpha: float = 4.0
    """Power exponent where it is not swept."""

    num_draws: Ints = (1, 2, 4, 16, 64, 256)
    """Sizes of a weighted population, of the sweep over them and at equal cost."""

    alphas: Floats = (0.5, 1.5, 2.0, 4.0, 8.0)
    """Exponents of the sweep over alpha."""

    proposal_alphas: Floats = (1.0, 1.5, 2.0, 3.0, 4.0)
    """Exponents of the proposal, in the sweep over proposals, beside the best one."""

    lengths: Ints = (4, 8, 16, 32, 64)
    """Horizons of the sweep over length, tokens."""

    length_alpha: float = 2.0
    """Power exponent of that sweep."""

    swept_draws: int = 16
    """Population size where it is not swept."""

    replicates: int = 4096
    """Independent populations or chains of each setting."""

    methods: Words = tuple(METHODS)
    """Compared at equal cost."""

    cost_models: Words = ("toy-e",)
    """Built-in models that they are compared on, with a horizon of 4 tokens."""

    accepted: Ints = (1, 4, 16, 64)
    """Rows accepted by rejection."""

    moves: Ints = (1, 4, 16, 64, 256)
    """Moves of a chain."""

    budgets: Floats = (32.0, 64.0, 128.0, 256.0, 512.0)
    """Tokens at which methods are ranked."""

    seed: int = 0
    """Of all random numbers."""


@dataclass(frozen=True)
class Arguments:
    """Every estimator against its exact bias and variance, and every method at equal generated and equal total tokens.

    On toy models, where the truth is known. Lengths in tokens, eos included; natural logarithms. Exit status 1 if a simulated
    bias is more than six standard errors from the exact one.
    """

    config: Config
    run: RunOptions

    json: str | None = None
    """File for the machine-readable result, - for stdout."""

    export: Path | None = None
    """Folder that the tables of the figures are also written to, as CSV (`paper_figures/tables` holds such)."""


def cells(config: Config) -> list[Cell]:
    """All settings of the sweeps.

    Args:
        config: of the run.

    Returns:
        In the order of the table.
    """
    alpha, num_draws = config.alpha, config.swept_draws
    both = ("base", "temperature")
    found = [make_cell("num_draws", MODEL, alpha, q, n) for n in config.num_draws for q in both]
    found += [make_cell("alpha", MODEL, a, q, num_draws) for a in config.alphas for q in both]
    proposals = (*config.proposal_alphas, "best")
    found += [make_cell("proposal", MODEL, alpha, q, num_draws) for q in proposals]
    found += [
        make_cell("length", LENGTH_MODEL, config.length_alpha, q, num_draws, length)
        for length in config.lengths
        for q in both
    ]
    return found


def compute(config: Config, progress: Progress, checkpoint: Checkpoint) -> Mapping[str, pa.Table]:
    """All tables.

    Args:
        config: of the run.
        progress: shows how far the work has come.
        checkpoint: a stage for each cell, and for each method on each model.

    Returns:
        "table" (estimators), "cost" and "ranking".
    """
    estimators = [
        checkpoint.stage(f"cell-{place}", functools.partial(_cell_table, cell, config))
        for place, cell in enumerate(progress(cells(config), "estimators"))
    ]
    sizes = Sizes(config.num_draws, config.accepted, config.moves, config.replicates, config.seed)
    problems = [_problem(name, config.alpha) for name in config.cost_models]
    pairs = [(problem, name) for problem in problems for name in config.methods]
    costs = [
        checkpoint.stage(
            f"cost-{problem.name}-{name}", functools.partial(_cost_table, problem, name, sizes)
        )
        for problem, name in progress(pairs, "equal cost")
    ]
    table, cost = pa.concat_tables(estimators), pa.concat_tables(costs)
    ranking = tables.from_rows(equal_cost_ranking.SCHEMA, ranking_rows(cost, config.budgets))
    return {"table": table, "cost": cost, "ranking": ranking}


EXPERIMENT = Experiment("estimator-validation", 1, compute)


def _cell_table(cell: Cell, config: Config) -> pa.Table:
    return tables.from_rows(
        estimator_tables.SCHEMA, cell_rows(cell, config.replicates, config.seed)
    )


def _problem(name: str, alpha: float) -> Problem:
    return make_problem(name, with_horizon(builtin(name).make(), COST_LENGTH), alpha)


def _cost_table(problem: Problem, name: str, sizes: Sizes) -> pa.Table:
    method = METHODS[name]
    outcomes = method.run(problem, sizes)
    rows = [row_of(problem, name, method.kind, outcome) for outcome in outcomes]
    return tables.from_rows(equal_cost_problem.SCHEMA, rows)


def run(arguments: Arguments) -> int:
    """Compute, draw and report.

    Args:
        arguments: of the command.

    Returns:
        0, or 1 if a simulated bias contradicts the exact one.
    """
    config = arguments.config
    _check(config)
    if arguments.json is not None:
        check_writable(arguments.json)
    done = run_experiment(EXPERIMENT, config, arguments.run)
    drawn = figure_tables(done.tables["table"], done.tables["cost"])
    files = [
        file
        for name, table in drawn.items()
        for file in draw_to_files(
            FIGURES[name].draw(table), make_folder(done.folder / "figures"), name
        )
    ]
    text = sentences(done.tables)
    console = report_console(stderr=arguments.json == STDOUT)
    for line in [*text, *map(str, files)]:
        console.print(line, soft_wrap=True)
    if arguments.json is not None:
        write_json(_result(done.tables, text, files), arguments.json)
    if arguments.export is not None:
        for name, table in drawn.items():
            write_table(table, make_folder(arguments.export) / f"{name}.csv")
    wrong = disagreements(done.tables["table"].to_pylist())
    for row in wrong:
        say(
            f"{row['method']} {row['quantity']}, {row['model']}, alpha {row['alpha']:g}, N {row['num_draws']}: bias "
            f"{row['bias']:.4g} simulated, {row['exact_bias']:.4g} exact"
        )
    return 1 if wrong else 0


def _result(found: Mapping[str, pa.Table], text: list[str], files: list[Path]) -> dict[str, Any]:
    return {
        "estimators": found["table"].to_pylist(),
        "cost": found["cost"].to_pylist(),
        "ranking": found["ranking"].to_pylist(),
        "sentences": text,
        "figures": [str(file) for file in files],
    }


def _check(config: Config) -> None:
    for alpha in (config.alpha, config.length_alpha, *config.alphas, *config.proposal_alphas):
        check_alpha(alpha)
    for option in ("num_draws", "lengths", "accepted", "moves"):
        values: tuple[int, ...] = getattr(config, option)
        if not values or min(values) < 1 or list(values) != sorted(set(values)):
            raise InvalidInput(
                f"--{option.replace('_', '-')} {','.join(map(str, values))}: must ascend from at least 1"
            )
    if config.swept_draws < 1:
        raise InvalidInput(f"--swept-draws {config.swept_draws}: must be at least 1")
    if config.replicates < 100:
        raise InvalidInput(
            f"--replicates {config.replicates}: must be at least 100, or no bias can be told from noise"
        )
    if not 0 <= config.seed < 2**32:
        raise InvalidInput(f"--seed {config.seed}: must be in 0..{2**32 - 1}")
    if not config.budgets or min(config.budgets) <= 0:
        raise InvalidInput("--budgets: must be above 0 tokens, give at least one")
    for name in config.methods:
        if name not in METHODS:
            raise unknown("method", name, METHODS)
    for name in config.cost_models:
        builtin(name)


PRESETS = {
    "smoke": Arguments(
        Config(
            num_draws=(2, 32),
            alphas=(2.0,),
            proposal_alphas=(2.0,),
            lengths=(8,),
            swept_draws=2,
            replicates=2048,
            methods=(
                "importance_base",
                "importance_temperature",
                "rejection",
                "smc",
                "suffix_base",
            ),
            cost_models=("toy-e",),
            accepted=(1, 4, 16),
            moves=(1, 4, 16, 64),
            budgets=(16.0, 64.0),
        ),
        RunOptions("smoke"),
    ),
    "default": Arguments(Config(), RunOptions("default")),
    "full": Arguments(
        Config(
            num_draws=(1, 2, 4, 8, 16, 32, 64, 128, 256),
            replicates=65_536,
            moves=(1, 2, 4, 8, 16, 32, 64, 128, 256),
            accepted=(1, 2, 4, 8, 16, 32, 64),
            cost_models=("toy-e", "toy-c-short"),
        ),
        RunOptions("full"),
    ),
}

main = program("rolloutlab estimator-validation", Arguments, run, PRESETS)

if __name__ == "__main__":
    raise SystemExit(main())
