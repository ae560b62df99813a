"""`rolloutlab allocation-tables`: what closed programs say of allocation rules, beside what was published."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from rich.console import Console

from experiments import tables
from experiments.allocation.exact_tables import (
    accounting,
    comparison,
    hora_batches,
    hora_priors,
    hora_trade,
    objective_of_rules,
    pilot_commit_costs,
    pilot_commit_filing,
    sara_beliefs,
    sara_dominance,
    sara_sweep,
)
from experiments.allocation.exact_tables.figure_tables import figure_tables
from experiments.allocation.exact_tables.laws import EVEN, LAWS
from experiments.allocation.exact_tables.report import titled
from experiments.allocation.regimes import POPULATIONS
from experiments.command_line import Ints, Words, program, unknown
from experiments.output import make_folder
from experiments.progress import Progress
from experiments.runner import Checkpoint, Experiment, Run, RunOptions, run_and_report
from experiments.terminal import print_table
from paper_figures.build import write_table
from theory.errors import InvalidInput

Found = dict[str, pa.Table]
Rows = list[comparison.Row]


@dataclass(frozen=True)
class Config:
    """What is computed; every value is part of the run's identity."""

    tables: Words = ("pilot-commit", "hora", "sara", "objective")
    """Families of tables."""

    pilots: Ints = pilot_commit_filing.PILOTS
    """Pilots k of the misfile curves and the eviction audit; a group has 4 k."""

    cost_sizes: Ints = pilot_commit_costs.GROUP_SIZES
    """Group sizes n of Pilot-Commit's costs, with n / 4 pilots."""

    group_sizes: Ints = (8, 16)
    """Group sizes n of SARA."""

    populations: Words = (*LAWS, EVEN.name)
    """Laws of success rates of SARA's sweep."""

    region_sizes: Ints = (8, 32)
    """Group sizes n of the region where SARA loses."""

    seeds: int = 3
    """Runs of the accounting."""

    updates: int = 24
    """Updates of each."""


@dataclass(frozen=True)
class Arguments:
    """Exact tables of Pilot-Commit, HORA and SARA on known laws of success rates, each figure beside the published one with its evidence.

    Nothing is simulated but the rollouts of the accounting. Unit of cost: the rollout.
    """

    config: Config
    run: RunOptions

    json: str | None = None
    """File for the machine-readable result, - for stdout."""

    export: Path | None = None
    """Folder for the tables behind the figures, as CSV."""


def _pilot_commit(config: Config) -> tuple[dict[str, Rows], Rows]:
    ledger = accounting.rows(config.seeds, config.updates)
    misfiled = pilot_commit_filing.misfile_rows(config.pilots)
    evicted = pilot_commit_filing.eviction_rows(config.pilots)
    costs = pilot_commit_costs.rows(config.cost_sizes)
    found = {
        "accounting": ledger,
        "misfiled": misfiled,
        "lost": pilot_commit_filing.lost_rows(config.pilots),
        "evicted": evicted,
        "costs": costs,
    }
    compared = accounting.comparisons(ledger)
    compared += pilot_commit_filing.comparisons(evicted, misfiled)
    return found, compared + pilot_commit_costs.comparisons(costs)


def _hora(config: Config) -> tuple[dict[str, Rows], Rows]:
    optimality, capped = hora_batches.optimality_rows(), hora_batches.capped_rows()
    trade, priors = hora_trade.rows(), hora_priors.rows()
    found = {"optimality": optimality, "priors": priors, "capped": capped, "trade": trade}
    compared = hora_batches.comparisons(optimality, capped)
    return found, compared + hora_priors.comparisons(priors) + hora_trade.comparisons(trade)


def _sara(config: Config) -> tuple[dict[str, Rows], Rows]:
    sweeps = [
        sara_sweep.sweep(_LAWS[name], group_size)
        for group_size in config.group_sizes
        for name in config.populations
    ]
    beliefs = [sara_beliefs.rows(group_size) for group_size in config.group_sizes]
    dominance = sara_dominance.dominance_rows(config.group_sizes)
    abandoned = [row for rows, _ in beliefs for row in rows]
    found = {
        "sweep": sara_sweep.sweep_rows(sweeps),
        "times": sara_sweep.time_rows(sweeps),
        "abandoned": abandoned,
        "runs": [row for _, rows in beliefs for row in rows],
        "dominance": dominance,
        "region": sara_dominance.region_rows(config.region_sizes),
    }
    compared = sara_sweep.comparisons(sweeps) + sara_beliefs.comparisons(abandoned)
    return found, compared + sara_dominance.comparisons(dominance)


def _objective(config: Config) -> tuple[dict[str, Rows], Rows]:
    found = objective_of_rules.rows()
    return {"objective": found}, objective_of_rules.comparisons(found)


FAMILIES: dict[str, Callable[[Config], tuple[dict[str, Rows], Rows]]] = {
    "pilot-commit": _pilot_commit,
    "hora": _hora,
    "sara": _sara,
    "objective": _objective,
}

SCHEMAS = {
    "accounting": accounting.SCHEMA,
    "misfiled": pilot_commit_filing.MISFILED,
    "lost": pilot_commit_filing.LOST,
    "evicted": pilot_commit_filing.EVICTED,
    "costs": pilot_commit_costs.SCHEMA,
    "optimality": hora_batches.OPTIMALITY,
    "priors": hora_priors.SCHEMA,
    "capped": hora_batches.CAPPED,
    "trade": hora_trade.SCHEMA,
    "sweep": sara_sweep.SWEEP,
    "times": sara_sweep.TIMES,
    "abandoned": sara_beliefs.ABANDONED,
    "runs": sara_beliefs.RUNS,
    "dominance": sara_dominance.DOMINANCE,
    "region": sara_dominance.REGION,
    "objective": objective_of_rules.SCHEMA,
}

_LAWS = {population.name: population for population in (*POPULATIONS, EVEN)}


def compute(config: Config, progress: Progress, checkpoint: Checkpoint) -> Mapping[str, pa.Table]:
    """All tables.

    Args:
        config: of the run.
        progress: shows how far the work has come.
        checkpoint: unused; the whole takes a minute or two.

    Returns:
        "table" (every number that has a published one beside it) and the tables of `SCHEMAS` that were asked for.
    """
    found: Found = {}
    compared: Rows = []
    for family in progress(list(config.tables), "exact tables"):
        parts, beside = FAMILIES[family](config)
        compared += beside
        for name, rows in parts.items():
            found[name] = tables.from_rows(SCHEMAS[name], rows)
    return {"table": tables.from_rows(comparison.SCHEMA, compared), **found}


EXPERIMENT = Experiment("allocation-tables", 1, compute)


def run(arguments: Arguments) -> int:
    """Compute and report.

    Args:
        arguments: of the command.

    Returns:
        0.
    """
    config = arguments.config
    _check(config)
    done = run_and_report(EXPERIMENT, config, arguments.run, arguments.json, _show)
    if arguments.export is not None:
        for name, table in figure_tables(done.tables).items():
            write_table(table, make_folder(arguments.export) / f"{name}.csv")
    return 0


def _show(console: Console, done: Run) -> None:
    for title, table in titled(done.tables):
        print_table(console, title, table)


def _check(config: Config) -> None:
    for option in ("seeds", "updates"):
        if getattr(config, option) < 1:
            raise InvalidInput(f"--{option} {getattr(config, option)}: must be at least 1")
    for option, least, most, why in (
        ("pilots", 4, 256, "with fewer the band has one side only"),
        ("cost_sizes", 16, 256, "a quarter are pilots, and four are the fewest"),
        ("group_sizes", 3, 64, "laws of logits are exact up to there"),
        ("region_sizes", 3, 256, "SARA looks at two rollouts before it abandons"),
    ):
        values: tuple[int, ...] = getattr(config, option)
        if not values or min(values) < least or max(values) > most:
            given = ",".join(map(str, values))
            raise InvalidInput(
                f"--{option.replace('_', '-')} {given}: give at least one, each in {least}..{most}: {why}"
            )
    if any(size % 4 for size in config.cost_sizes):
        raise InvalidInput("--cost-sizes: each must be a multiple of 4, as a quarter are pilots")
    for option, known, what in (
        ("tables", FAMILIES, "family of tables"),
        ("populations", _LAWS, "population"),
    ):
        for name in getattr(config, option):
            if name not in known:
                raise unknown(what, name, known)


PRESETS = {
    "smoke": Arguments(
        Config(
            tables=("pilot-commit", "sara"),
            pilots=(4,),
            cost_sizes=(16,),
            group_sizes=(8,),
            populations=("published",),
            region_sizes=(8,),
            seeds=1,
            updates=4,
        ),
        RunOptions("smoke"),
    ),
    "default": Arguments(Config(), RunOptions("default")),
    "full": Arguments(
        Config(group_sizes=(8, 16, 32, 64), region_sizes=(8, 16, 32, 64)), RunOptions("full")
    ),
}

main = program("rolloutlab allocation-tables", Arguments, run, PRESETS)

if __name__ == "__main__":
    raise SystemExit(main())
