"""`rolloutlab allocation-ablations`: switches of Pilot-Commit, pass@k and learned priors of HORA, forms of the advantage, and effective groups against the size of the update."""

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
from rich.console import Console

from experiments import tables
from experiments.allocation import run_tables, target_tables, yield_and_norm
from experiments.allocation.ablation_regimes import (
    COVERAGE_REGIMES,
    FORM_REGIME,
    HORA_FORMS,
    PILOT_REGIMES,
    PILOT_VARIANTS,
    PRIOR_REGIMES,
    SARA_FORMS,
)
from experiments.allocation.ablation_report import report
from experiments.allocation.methods import METHODS, Method
from experiments.allocation.prior_variants import PRIOR_VARIANTS
from experiments.allocation.regimes import FIXED_UPDATES, NUM_SEEDS
from experiments.allocation.runs import (
    InformedMethod,
    Length,
    Setting,
    run,
    skill_setting,
    uninformed,
)
from experiments.command_line import Ints, Words, program, unknown
from experiments.progress import Progress
from experiments.runner import Checkpoint, Experiment, Run, RunOptions, run_and_report
from theory.errors import InvalidInput

PILOTS = "pilots"
COVERAGE = "coverage"
FORMS = "forms"
PRIORS = "priors"
NORMS = "norms"

PARTS = (PILOTS, COVERAGE, FORMS, PRIORS, NORMS)

RULES: dict[str, InformedMethod] = {
    **{name: uninformed(method) for name, method in METHODS.items()},
    **{
        name: uninformed(Method("stream", build, METHODS["pilot-commit"].shape))
        for name, build in PILOT_VARIANTS.items()
    },
    **PRIOR_VARIANTS,
}


@dataclass(frozen=True)
class Config:
    """What is computed; every value is part of the run's identity."""

    parts: Words = PARTS
    """Which ablations: switches of Pilot-Commit, pass@k of HORA, forms of the advantage, learned priors of HORA, effective groups against the size of the update."""

    variants: Words = tuple(PILOT_VARIANTS)
    """Of Pilot-Commit."""

    pilot_regimes: Words = tuple(regime.name for regime in PILOT_REGIMES)
    """Learning policies that they run in."""

    pilot_updates: int = 200
    """Updates of uniform allocation; the ledger of every variant is what that costs."""

    updates: int = FIXED_UPDATES
    """Updates of HORA, of the forms of the advantage and of the learned priors."""

    cells: Ints = tuple(range(len(COVERAGE_REGIMES)))
    """Which of the twelve regimes of pass@k."""

    prior_regimes: Words = tuple(regime.name for regime in PRIOR_REGIMES)
    """Learning policies in which HORA learns its priors."""

    priors: Words = tuple(PRIOR_VARIANTS)
    """What it learns; the flat prior and uniform allocation run beside."""

    batches: int = 20_000
    """Random batches at each policy, for the size of the update."""

    seeds: int = NUM_SEEDS
    """Independent prompts, orders and rollouts of every run."""


@dataclass(frozen=True)
class Arguments:
    """What the switches of allocation rules are worth, where success rates are known.

    Unit of cost: the rollout. Regimes and variants were fixed before any ran and all are reported. Intervals are 95 %, over seeds.
    """

    config: Config
    run: RunOptions

    json: str | None = None
    """File for the machine-readable result, - for stdout."""


class Job(NamedTuple):
    """One rule in one setting.

    Attributes:
        part: of the ablations.
        setting: where.
        rule: its name.
        length: of a run.
    """

    part: str
    setting: Setting
    rule: str
    length: Length


def jobs(config: Config) -> Iterator[Job]:
    """All runs of a configuration, but for their seeds.

    Args:
        config: of the run.

    Yields:
        In the order of the table.
    """
    if PILOTS in config.parts:
        for regime in PILOT_REGIMES:
            if regime.name not in config.pilot_regimes:
                continue
            ledger = config.pilot_updates * regime.batch_size * regime.group_size
            length = Length(config.pilot_updates, ledger)
            for rule in ("uniform", *config.variants):
                yield Job(PILOTS, skill_setting(regime), rule, length)
    fixed = Length(config.updates)
    if COVERAGE in config.parts:
        for cell in config.cells:
            for rule in ("uniform", "hora"):
                yield Job(COVERAGE, skill_setting(COVERAGE_REGIMES[cell]), rule, fixed)
    if FORMS in config.parts:
        for form in dict.fromkeys((*HORA_FORMS, *SARA_FORMS)):
            setting = skill_setting(FORM_REGIME, form)._replace(name=form)
            rules = ["uniform"]
            rules += ["hora"] if form in HORA_FORMS else []
            rules += ["dynamic-sampling", "sara"] if form in SARA_FORMS else []
            for rule in rules:
                yield Job(FORMS, setting, rule, fixed)
    if PRIORS in config.parts:
        for regime in PRIOR_REGIMES:
            if regime.name in config.prior_regimes:
                for rule in ("uniform", "hora", *config.priors):
                    yield Job(PRIORS, skill_setting(regime), rule, fixed)


def compute(config: Config, progress: Progress, checkpoint: Checkpoint) -> Mapping[str, pa.Table]:
    """All tables.

    Args:
        config: of the run.
        progress: shows how far the work has come.
        checkpoint: a stage for each rule in each setting.

    Returns:
        "table" (runs), "pass_at_k" of them, "targets" of the variants of Pilot-Commit, "norms".
    """
    found = [
        checkpoint.stage(
            "-".join((job.part, job.setting.name, _slug(job.rule))),
            functools.partial(_job_table, job, config.seeds),
        )
        for job in progress(list(jobs(config)), "ablations")
    ]
    updates = pa.concat_tables([tables.from_rows(run_tables.UPDATES, []), *found])
    information = {name: rule.information for name, rule in RULES.items()}
    norms = checkpoint.stage("norms", functools.partial(_norms, config))
    curves = target_tables.curve_table(updates, PILOTS)
    runs = run_tables.run_table(updates, information)
    return {
        "table": runs,
        "pass_at_k": run_tables.pass_at_k_table(runs, PARTS),
        "targets": tables.from_rows(target_tables.TARGETS, target_tables.target_rows(curves)),
        "norms": norms,
    }


EXPERIMENT = Experiment("allocation-ablations", 2, compute)


def _slug(rule: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in rule)


def _norms(config: Config) -> pa.Table:
    seeds = range(config.seeds if NORMS in config.parts else 0)
    rows = yield_and_norm.rows(FORM_REGIME, seeds, config.batches, config.updates)
    return tables.from_rows(yield_and_norm.SCHEMA, rows)


def _job_table(job: Job, seeds: int) -> pa.Table:
    number = list(RULES).index(job.rule)
    curves = run(RULES[job.rule], number, job.setting, job.length, range(seeds))
    return run_tables.update_table(job.part, job.setting, job.rule, curves)


def run_command(arguments: Arguments) -> int:
    """Compute and report.

    Args:
        arguments: of the command.

    Returns:
        0.
    """
    config = arguments.config
    _check(config)
    run_and_report(EXPERIMENT, config, arguments.run, arguments.json, _show)
    return 0


def _show(console: Console, done: Run) -> None:
    for part in report(done.tables):
        console.print(part)


def _check(config: Config) -> None:
    for option in ("seeds", "updates", "pilot_updates", "batches"):
        if getattr(config, option) < 1:
            raise InvalidInput(
                f"--{option.replace('_', '-')} {getattr(config, option)}: must be at least 1"
            )
    for option, known, what in (
        ("parts", PARTS, "part"),
        ("variants", PILOT_VARIANTS, "variant"),
        ("pilot_regimes", [regime.name for regime in PILOT_REGIMES], "regime"),
        ("prior_regimes", [regime.name for regime in PRIOR_REGIMES], "regime"),
        ("priors", PRIOR_VARIANTS, "prior"),
    ):
        for name in getattr(config, option):
            if name not in known:
                raise unknown(what, name, known)
    for cell in config.cells:
        if not 0 <= cell < len(COVERAGE_REGIMES):
            raise InvalidInput(f"--cells {cell}: must be 0 to {len(COVERAGE_REGIMES) - 1}")


PRESETS = {
    "smoke": Arguments(
        Config(
            variants=("as published",),
            pilot_updates=4,
            updates=3,
            cells=(4,),
            prior_regimes=("hard-rate-0.15",),
            priors=("last-visit", "level-2"),
            batches=200,
            seeds=2,
        ),
        RunOptions("smoke"),
    ),
    "default": Arguments(Config(), RunOptions("default")),
    "full": Arguments(Config(batches=100_000), RunOptions("full")),
}

main = program("rolloutlab allocation-ablations", Arguments, run_command, PRESETS)

if __name__ == "__main__":
    raise SystemExit(main())
