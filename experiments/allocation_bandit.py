"""`rolloutlab allocation-bandit`: every allocation rule at one ledger, where success rates are known, beside the optimum of its class."""

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from rich.console import Console

from experiments import tables
from experiments.allocation import regret_table, run_tables, stream_table, target_tables
from experiments.allocation.figure_tables import PASS_AT_K_LAYOUT, figure_tables
from experiments.allocation.methods import METHODS
from experiments.allocation.regimes import (
    FIXED_UPDATE_REGIMES,
    FIXED_UPDATES,
    NUM_SEEDS,
    POPULATIONS,
    TARGET_REGIMES,
)
from experiments.allocation.report import report
from experiments.allocation.runs import (
    Length,
    Setting,
    run_method,
    skill_setting,
    static_setting,
)
from experiments.allocation.static_methods import STATIC_METHODS
from experiments.command_line import Ints, Words, program, unknown
from experiments.output import make_folder
from experiments.progress import Progress
from experiments.runner import Checkpoint, Experiment, Run, RunOptions, run_and_report
from paper_figures.build import FIGURES, draw_to_files, write_table
from paper_figures.columns import write_csv
from theory.errors import InvalidInput

FIXED = "fixed-updates"
TARGET = "target"
STATIC = "static"

REGIMES = {regime.name: regime for regime in (*FIXED_UPDATE_REGIMES, *TARGET_REGIMES)}
LAWS = {population.name: population for population in POPULATIONS}


@dataclass(frozen=True)
class Config:
    """What is computed; every value is part of the run's identity."""

    parts: Words = (FIXED, TARGET, STATIC)
    """Which simulations: learning policies at fixed updates and to a target, and prompts that stand still."""

    methods: Words = tuple(METHODS)
    """Allocation rules; `uniform` is needed where targets are."""

    fixed_regimes: Words = (FIXED_UPDATE_REGIMES[0].name,)
    """Learning policies that are read at a fixed number of updates."""

    updates: int = FIXED_UPDATES
    """That number."""

    target_regimes: Words = ("C",)
    """Learning policies of which the rollouts to the peak of uniform allocation are counted."""

    target_methods: Words = (
        "uniform",
        "dapo",
        "dynamic-sampling",
        "pilot-commit",
        "sara",
        "sara-on-dps",
        "optimal-stopping",
        "predictive-stopping",
    )
    """Rules that run there."""

    target_updates: int = 200
    """Updates of uniform allocation; the ledger of every rule there is what that costs."""

    dapo_ledger: float = 2.0
    """The ledger of batched dynamic sampling there, in that of the others: it pays more than uniform allocation for the same accuracy."""

    populations: Words = tuple(LAWS)
    """Laws of success rates that stand still."""

    static_methods: Words = tuple(STATIC_METHODS)
    """Rules that run on them: all methods, `predictive-sizing`, and rules that were given a prior that is wrong."""

    static_updates: int = 24
    """Updates there."""

    static_prompts: int = 512
    """Prompts of the static pools."""

    static_batch: int = 32
    """Groups of an update there."""

    group_sizes: Ints = (8, 16)
    """Of the exact table; the first is that of the static pools."""

    seeds: int = NUM_SEEDS
    """Independent prompts, orders and rollouts of every run."""


@dataclass(frozen=True)
class Arguments:
    """Every allocation rule on prompts of known success rates: rollouts, effective groups, accuracy and pass@k, beside the optimum of its class.

    Unit of cost: the rollout. Regimes were fixed before any rule ran on them and all are reported. Intervals are 95 %, over seeds.
    """

    config: Config
    run: RunOptions

    json: str | None = None
    """File for the machine-readable result, - for stdout."""

    export: Path | None = None
    """Folder for the tables behind the figures and the curves of pass@k, as CSV."""


class Job(NamedTuple):
    """One method in one setting.

    Attributes:
        kind: of experiment.
        setting: where.
        method: its name.
        length: of a run.
    """

    kind: str
    setting: Setting
    method: str
    length: Length


def jobs(config: Config) -> Iterator[Job]:
    """All runs of a configuration, but for their seeds.

    Args:
        config: of the run.

    Yields:
        In the order of the table.
    """
    if FIXED in config.parts:
        for name in config.fixed_regimes:
            setting = skill_setting(REGIMES[name])
            for method in config.methods:
                yield Job(FIXED, setting, method, Length(config.updates))
    if TARGET in config.parts:
        for name in config.target_regimes:
            setting = skill_setting(REGIMES[name])
            ledger = config.target_updates * setting.batch_size * setting.group_size
            for method in config.target_methods:
                longer = config.dapo_ledger if method == "dapo" else 1.0
                # A rule may take several times as many updates for the same ledger, none more than this.
                length = Length(4 * config.target_updates, round(longer * ledger))
                yield Job(TARGET, setting, method, length)
    if STATIC in config.parts:
        for name in config.populations:
            setting = static_setting(
                LAWS[name], config.static_batch, config.group_sizes[0], config.static_prompts
            )
            for method in config.static_methods:
                yield Job(STATIC, setting, method, Length(config.static_updates))


def compute(config: Config, progress: Progress, checkpoint: Checkpoint) -> Mapping[str, pa.Table]:
    """All tables.

    Args:
        config: of the run.
        progress: shows how far the work has come.
        checkpoint: a stage for each method in each setting.

    Returns:
        "table" (runs), "pass_at_k" (at fixed updates), "updates", "ledgers", "curves", "targets", "regret" and "stream" (exact).
    """
    found = [
        checkpoint.stage(
            f"{job.kind}-{job.setting.name}-{job.method}",
            functools.partial(job_table, job, config.seeds),
        )
        for job in progress(list(jobs(config)), "allocation")
    ]
    updates = pa.concat_tables([tables.from_rows(run_tables.UPDATES, []), *found])
    information = {name: method.information for name, method in STATIC_METHODS.items()}
    runs = run_tables.run_table(updates, information)
    curves = target_tables.curve_table(updates, TARGET)
    regrets = regret_table.rows(
        runs, config.group_sizes[0], config.static_prompts, config.static_updates
    )
    return {
        "table": runs,
        "pass_at_k": run_tables.pass_at_k_table(runs, [FIXED]),
        "updates": updates,
        "ledgers": run_tables.ledger_table(updates, FIXED, config.updates),
        "curves": curves,
        "targets": tables.from_rows(target_tables.TARGETS, target_tables.target_rows(curves)),
        "regret": tables.from_rows(regret_table.SCHEMA, regrets),
        "stream": tables.from_rows(stream_table.SCHEMA, stream_table.rows(config.group_sizes)),
    }


EXPERIMENT = Experiment("allocation-bandit", 3, compute)

_IN_JSON = ("table", "pass_at_k", "ledgers", "targets", "regret", "stream")


def job_table(job: Job, seeds: int) -> pa.Table:
    """The runs of a job by their updates.

    Args:
        job: what to run.
        seeds: how often.

    Returns:
        Of the schema `run_tables.UPDATES`.
    """
    curves = run_method(job.method, job.setting, job.length, range(seeds))
    return run_tables.update_table(job.kind, job.setting, job.method, curves)


def run(arguments: Arguments) -> int:
    """Compute and report.

    Args:
        arguments: of the command.

    Returns:
        0.
    """
    config = arguments.config
    _check(config)
    done = run_and_report(EXPERIMENT, config, arguments.run, arguments.json, _show, _IN_JSON)
    if arguments.export is not None:
        folder = make_folder(arguments.export)
        for name, table in figure_tables(done.tables).items():
            write_table(table, folder / f"{name}.csv")
        write_csv(done.tables["pass_at_k"], folder / "pass_at_k.csv", PASS_AT_K_LAYOUT)
    return 0


def _show(console: Console, done: Run) -> None:
    for part in report(done.tables):
        console.print(part)
    for name, table in figure_tables(done.tables).items():
        folder = make_folder(done.folder / "figures")
        for file in draw_to_files(FIGURES[name].draw(table), folder, name):
            console.print(str(file), soft_wrap=True)


def _check(config: Config) -> None:
    for option, least in (
        ("seeds", 1),
        ("updates", 1),
        ("target_updates", 1),
        ("static_updates", 1),
        ("static_batch", 1),
    ):
        if getattr(config, option) < least:
            raise InvalidInput(
                f"--{option.replace('_', '-')} {getattr(config, option)}: must be at least {least}"
            )
    if not 1 <= config.dapo_ledger < float("inf"):
        raise InvalidInput(f"--dapo-ledger {config.dapo_ledger}: must be at least 1")
    if config.static_prompts < config.static_batch:
        raise InvalidInput(
            f"--static-prompts {config.static_prompts}: must be at least the batch, {config.static_batch}"
        )
    if not config.group_sizes or min(config.group_sizes) < 8:
        raise InvalidInput(
            "--group-sizes: give at least one, each at least 8: a pilot is a quarter"
        )
    kinds = (FIXED, TARGET, STATIC)
    for option, known, what in (
        ("parts", kinds, "part"),
        ("methods", METHODS, "method"),
        ("target_methods", METHODS, "method"),
        ("static_methods", STATIC_METHODS, "method"),
        ("fixed_regimes", REGIMES, "regime"),
        ("target_regimes", REGIMES, "regime"),
        ("populations", LAWS, "population"),
    ):
        for name in getattr(config, option):
            if name not in known:
                raise unknown(what, name, known)
    if config.target_regimes and "uniform" not in config.target_methods:
        raise InvalidInput("--target-methods: add uniform, whose peak is the target")


_SMALL = ("uniform", "dynamic-sampling", "sara", "predictive-stopping")

PRESETS = {
    "smoke": Arguments(
        Config(
            methods=_SMALL,
            fixed_regimes=("N1024-n8-sd8",),
            updates=4,
            target_regimes=(),
            populations=("published",),
            static_methods=_SMALL,
            static_updates=3,
            static_prompts=128,
            static_batch=16,
            seeds=2,
        ),
        RunOptions("smoke"),
    ),
    "default": Arguments(Config(), RunOptions("default")),
    "full": Arguments(
        Config(
            fixed_regimes=tuple(regime.name for regime in FIXED_UPDATE_REGIMES),
            target_regimes=tuple(regime.name for regime in TARGET_REGIMES),
        ),
        RunOptions("full"),
    ),
}

main = program("rolloutlab allocation-bandit", Arguments, run, PRESETS)

if __name__ == "__main__":
    raise SystemExit(main())
