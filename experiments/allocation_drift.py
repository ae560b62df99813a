"""`rolloutlab allocation-drift`: rules that remember prompts against rules that probe them, where success rates move."""

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
from jaxtyping import Array, Float, Key
from rich.console import Console

from experiments import tables
from experiments.allocation import drift_frozen, drift_sizing, drift_table
from experiments.allocation.drift import Movement, drifting_world, movement
from experiments.allocation.drift_figure import FIGURE, figure_table
from experiments.allocation.drift_report import report
from experiments.allocation.drift_table import Case
from experiments.allocation.methods import METHODS, Method, Shape
from experiments.allocation.regimes import (
    DRIFT_RATES,
    EXCHANGE,
    NUM_SEEDS,
    POPULATIONS,
    TREND,
    WALK,
    Drift,
)
from experiments.allocation.runs import MOST_ROUNDS
from experiments.allocation.simulator import Curve, Limits, simulate
from experiments.allocation.worlds import draw_rates
from experiments.command_line import Floats, Words, program, unknown
from experiments.output import make_folder
from experiments.progress import Progress
from experiments.runner import Checkpoint, Experiment, Run, RunOptions, run_and_report
from paper_figures.build import write_table
from theory.allocation.policies import predictive_sizing
from theory.allocation.priors import mixture
from theory.errors import InvalidInput
from theory.protocols import Allocator

LAWS = {population.name: population for population in POPULATIONS}


def _whole(batch: int, size: int, pool: int) -> Shape:
    return Shape(size, batch)


def _for_the_published(batch: int, size: int) -> Allocator:
    """The composed rule with a prior that is never changed, and wrong on every population but one."""
    law = LAWS["published"]
    prior = mixture(law.betas, law.points)
    return predictive_sizing.allocator(batch, size, prior=prior)


COMPOSED = "predictive-sizing"

DRIFT_METHODS: dict[str, Method] = {
    **{
        name: METHODS[name]
        for name in (
            "uniform",
            "dynamic-sampling",
            "sara",
            "optimal-stopping",
            "dps",
            "mopps",
            "sara-on-dps",
            "predictive-stopping",
        )
    },
    COMPOSED: Method("memory", predictive_sizing.allocator, _whole),
    f"{COMPOSED}-wrong-prior": Method("memory", _for_the_published, _whole),
    f"{COMPOSED}-whole": Method(
        "memory", lambda b, n: predictive_sizing.allocator(b, n, least=n), _whole
    ),
    "frozen": Method("memory", drift_frozen.allocator, _whole),
}
"""Rules that forget, rules that remember, and estimates that are made once."""


@dataclass(frozen=True)
class Config:
    """What is computed; every value is part of the run's identity."""

    methods: Words = tuple(name for name in DRIFT_METHODS if not name.startswith(COMPOSED))
    """Allocation rules. There are also `predictive-sizing`, the composed rule; `predictive-sizing-whole`, with groups of n only; and `predictive-sizing-wrong-prior`."""

    populations: Words = tuple(LAWS)
    """Laws of success rates at the start."""

    exchange: Floats = DRIFT_RATES[EXCHANGE]
    """Rates at which prompts exchange the success rates of the pool, 0 (never) to 1 (all anew at every update)."""

    walk: Floats = DRIFT_RATES[WALK]
    """Standard deviations of independent steps of the logits, an update."""

    trend: Floats = DRIFT_RATES[TREND]
    """Common upward steps of the logits, an update."""

    group_size: int = 8
    """Rollouts of a full group."""

    batch_size: int = 16
    """Groups of an update."""

    num_prompts: int = 256
    """Prompts of the pool."""

    updates: int = 48
    """Updates of a run; those of the first epoch, num-prompts / batch-size of them, do not count."""

    seeds: int = NUM_SEEDS
    """Independent prompts, movements and rollouts of every run."""


@dataclass(frozen=True)
class Arguments:
    """Rules that remember prompts against rules that probe them, where success rates move without regard to the rule: effective groups per 1000 rollouts.

    Unit of cost: the rollout. Regimes were fixed before any rule ran on them and all are reported. Intervals are 95 %, over seeds.
    """

    config: Config
    run: RunOptions

    json: str | None = None
    """File for the machine-readable result, - for stdout."""

    export: Path | None = None
    """Folder for the table behind the figure, as CSV."""


def cases(config: Config) -> Iterator[tuple[Case, Movement]]:
    """Every population under every drift.

    Args:
        config: of the run.

    Yields:
        In the order of the table.
    """
    for name in config.populations:
        for kind, rates in (
            (EXCHANGE, config.exchange),
            (WALK, config.walk),
            (TREND, config.trend),
        ):
            for rate in rates:
                yield Case(name, LAWS[name].held_out, kind, rate), movement(Drift(kind, rate))


def program_of(name: str, config: Config) -> Callable[..., Curve]:
    """A rule in a drifting world as one compiled function of prompts, movement and key.

    Args:
        name: of `DRIFT_METHODS`.
        config: sizes.

    Returns:
        (key of the run, key of the world, rates [P], movement) -> the curve.
    """
    method = DRIFT_METHODS[name]
    allocator = method.build(config.batch_size, config.group_size)
    shape = method.shape(config.batch_size, config.group_size, config.num_prompts)
    limits = Limits(config.updates, 1 << 28, MOST_ROUNDS, shape.most, shape.prompts)

    @jax.jit
    def one(
        key: Key[Array, ""], of_world: Key[Array, ""], rates: Float[Array, " P"], moves: Movement
    ) -> Curve:
        return simulate(key, allocator, drifting_world(of_world, rates, moves), limits)

    return one


def method_rows(name: str, config: Config) -> Iterator[dict[str, Any]]:
    """All runs of a rule.

    Args:
        name: of the rule.
        config: of the run.

    Yields:
        Rows of `drift_table.RUNS`. All rules meet the same prompts on the same way at the same seed; their rollouts are independent.

    Raises:
        ValueError: the rule asks for more than its shape allows.
    """
    one = program_of(name, config)
    number = list(DRIFT_METHODS).index(name)
    start = -(-config.num_prompts // config.batch_size)
    for case, moves in cases(config):
        for seed in range(config.seeds):
            of_rates, of_world, of_runs = jax.random.split(jax.random.key(seed), 3)
            rates = draw_rates(of_rates, LAWS[case.population], config.num_prompts)
            # One type, so that all populations share the program.
            rates = rates.astype(jnp.float32)
            found = one(jax.random.fold_in(of_runs, number), of_world, rates, moves)
            curve = jax.tree.map(np.asarray, found)
            if curve.spent >= 1 << 29:
                raise ValueError(f"{name}: asked for more than its shape allows")
            yield drift_table.run_row(case, name, seed, curve, start)


def compute(config: Config, progress: Progress, checkpoint: Checkpoint) -> Mapping[str, pa.Table]:
    """All tables.

    Args:
        config: of the run.
        progress: shows how far the work has come.
        checkpoint: a stage for each method.

    Returns:
        "table" (runs), "crossings", and "sizing" (exact).
    """

    def stage(name: str) -> pa.Table:
        return tables.from_rows(drift_table.RUNS, method_rows(name, config))

    runs = pa.concat_tables(
        checkpoint.stage(name, functools.partial(stage, name))
        for name in progress(list(config.methods), "drift")
    )
    crossings = tables.from_rows(drift_table.CROSSINGS, drift_table.crossing_rows(runs))
    laws = [LAWS[name] for name in config.populations]
    sizes = (config.group_size, 2 * config.group_size)
    sizing = tables.from_rows(drift_sizing.SCHEMA, drift_sizing.rows(laws, sizes))
    return {"table": runs, "crossings": crossings, "sizing": sizing}


EXPERIMENT = Experiment("allocation-drift", 1, compute)


def run(arguments: Arguments) -> int:
    """Compute and report.

    Args:
        arguments: of the command.

    Returns:
        0.
    """
    _check(arguments)
    done = run_and_report(EXPERIMENT, arguments.config, arguments.run, arguments.json, _show)
    if arguments.export is not None:
        table = figure_table(done.tables["table"], done.tables["crossings"])
        write_table(table, make_folder(arguments.export) / f"{FIGURE}.csv")
    return 0


def _show(console: Console, done: Run) -> None:
    for part in report(done.tables):
        console.print(part)


def _check(arguments: Arguments) -> None:
    config = arguments.config
    for option, least in (("seeds", 1), ("batch_size", 1), ("group_size", 2)):
        if getattr(config, option) < least:
            raise InvalidInput(
                f"--{option.replace('_', '-')} {getattr(config, option)}: must be at least {least}"
            )
    if config.num_prompts < config.batch_size:
        raise InvalidInput(
            f"--num-prompts {config.num_prompts}: must be at least the batch, {config.batch_size}"
        )
    first = -(-config.num_prompts // config.batch_size)
    if config.updates <= first:
        raise InvalidInput(
            f"--updates {config.updates}: the first epoch of {first} does not count, give more"
        )
    if arguments.export is not None and config.seeds < 2:
        raise InvalidInput("--export: the figure has intervals, give at least 2 --seeds")
    for option, known, what in (
        ("methods", DRIFT_METHODS, "method"),
        ("populations", LAWS, "population"),
    ):
        for name in getattr(config, option):
            if name not in known:
                raise unknown(what, name, known)
    list(cases(config))  # a movement refuses a rate outside of its range


PRESETS = {
    "smoke": Arguments(
        Config(
            methods=("uniform", "sara", "dps", "frozen"),
            populations=("published",),
            exchange=(0.0, 1.0),
            walk=(0.5,),
            trend=(0.1,),
            batch_size=8,
            num_prompts=64,
            updates=16,
            seeds=2,
        ),
        RunOptions("smoke"),
    ),
    "default": Arguments(Config(), RunOptions("default")),
    "full": Arguments(Config(group_size=16, updates=80), RunOptions("full")),
}

main = program("rolloutlab allocation-drift", Arguments, run, PRESETS)

if __name__ == "__main__":
    raise SystemExit(main())
