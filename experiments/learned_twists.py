"""Learned twists: how much less Z_hat varies when log zeta is learned, by soft-Bellman regression or the contrastive loss.

On toy models one number a context is learned too, and its Var(Z_hat / Z) at N particles is exact (`theory.exact.smc_finite_variance`).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np
import pyarrow as pa

from experiments import tables
from experiments.command_line import Words, program
from experiments.json_output import write_json
from experiments.language_model import check_has_task, is_transformer, load_transformer
from experiments.model_argument import load_model
from experiments.model_identity import WithModels, model_digests, with_models
from experiments.output import STDOUT, check_writable
from experiments.progress import Progress
from experiments.runner import Checkpoint, Experiment, RunOptions, run_experiment
from experiments.terminal import make_table, print_table, report_console
from experiments.twist_exact import EXACT, exact_table
from experiments.twist_fits import (
    NO_PROMPT,
    Prompts,
    fit_heads,
    plain_log_evidences,
    rows_to_learn_from,
    twisted_log_evidences,
)
from experiments.twist_summary import MEASURED, NO_TWIST, PLAIN, summary_of
from models.tabular.context_model import ContextModel
from models.tasks.registry import task as find_task
from models.twists.fit import Schedule
from models.twists.law_head import init_law_head
from theory.errors import InvalidInput
from theory.exact.laws import check_alpha
from theory.protocols import SequenceModel


@dataclass(frozen=True)
class Config:
    """What is computed; every value is part of the run's identity."""

    models: Words = (
        "builtin:toy-d",
        "builtin:toy-e",
        "builtin:toy-f",
        "builtin:hidden-markov",
    )
    """Toy models, or transformers that were trained on a task, as on the command line."""

    train_prompts: int = 2048
    """Of the task of a transformer, to learn from."""

    test_prompts: int = 24
    """Of that task, to estimate Z on."""

    alpha: float = 4.0
    """Power exponent."""

    num_rows: int = 4096
    """Rows to learn from, drawn at token temperature 1/alpha."""

    width: int = 64
    """Hidden units of the head that reads next-token laws."""

    window: int = 8
    """Last tokens that it sees besides."""

    num_steps: int = 1500
    """Of Adam."""

    batch_size: int = 512
    """Rows a step."""

    learning_rate: float = 0.02
    """Of the heads, at the start; it falls to 0. One number a context learns at 0.1."""

    num_particles: int = 16
    """N of each population."""

    num_populations: int = 2048
    """Independent populations of each prompt."""

    seed: int = 0
    """Of all random numbers."""


@dataclass(frozen=True)
class Arguments:
    """Var(log Z_hat) with learned twists against without, at equal particles and tokens; natural logarithms."""

    config: Config
    run: RunOptions

    json: str | None = None
    """File for the machine-readable result, - for stdout."""


def compute(config: Config, progress: Progress, checkpoint: Checkpoint) -> Mapping[str, pa.Table]:
    """All tables.

    Args:
        config: of the run.
        progress: shows how far the work has come.
        checkpoint: a stage for each model, and one more for each toy.

    Returns:
        "table" (log Z_hat of every population), "exact" (toy models) and "summary".
    """
    measured: list[pa.Table] = []
    exact = [tables.from_rows(EXACT, ())]
    for place, name in enumerate(progress(config.models, "models")):
        subject = _subject(config, name)
        measured.append(
            checkpoint.stage(f"measured-{place}", partial(measure, config, name, *subject))
        )
        if not is_transformer(name):
            compute_exact = partial(
                exact_table,
                load_model(name),
                config.alpha,
                config.num_particles,
                config.num_rows,
                _schedule(config)._replace(learning_rate=0.1),
                config.seed,
            )
            exact.append(checkpoint.stage(f"exact-{place}", compute_exact))
    table = pa.concat_tables(measured)
    found = {"table": table, "exact": pa.concat_tables(exact)}
    return found | {"summary": summary_of(table, config.seed)}


EXPERIMENT = Experiment("learned-twists", 1, compute)


def measure(
    config: Config,
    name: str,
    model: SequenceModel,
    train_prompts: Prompts,
    test_prompts: Prompts,
) -> pa.Table:
    """Learn heads on one model and estimate Z with and without them.

    Args:
        config: of the run; its models are not read.
        name: of the model.
        model: any.
        train_prompts: whose rows are learned from.
        test_prompts: whose Z is estimated.

    Returns:
        Log Z_hat of every population of every test prompt.
    """
    key, alpha = jax.random.key(config.seed), config.alpha
    rows = rows_to_learn_from(key, model, train_prompts, config.num_rows, alpha)
    window = min(config.window, model.horizon)
    silent = init_law_head(key, model.vocab_size, model.horizon, config.width, window)
    heads = {NO_TWIST: silent} | fit_heads(key, model, rows, alpha, silent, _schedule(config))
    sizes = (config.num_populations, config.num_particles)
    found = {
        twist: twisted_log_evidences(key, model, head, alpha, test_prompts, *sizes)
        for twist, head in heads.items()
    }
    found[PLAIN] = plain_log_evidences(key, model, alpha, test_prompts, *sizes)
    return tables.from_rows(
        MEASURED,
        (
            {
                "model": name,
                "twist": twist,
                "prompt": prompt,
                "num_particles": config.num_particles,
                "population": population,
                "log_Z_hat": value,
            }
            for twist, log_Z_hats in found.items()
            for (prompt, population), value in np.ndenumerate(log_Z_hats)
        ),
    )


def _subject(config: Config, name: str) -> tuple[SequenceModel, Prompts, Prompts]:
    """A model, prompts to learn from and prompts to measure on; a toy model has one prompt, the empty one."""
    if not is_transformer(name):
        return ContextModel.from_table(load_model(name).table), NO_PROMPT, NO_PROMPT
    loaded = load_transformer(name)
    task = find_task(loaded.about["task"])
    train = task.prompts("train", config.train_prompts, seed=config.seed)
    test = task.prompts("test", config.test_prompts, seed=config.seed)
    found = [Prompts(np.asarray(each.tokens), np.asarray(each.lengths)) for each in (train, test)]
    return loaded.model, found[0], found[1]


def _schedule(config: Config) -> Schedule:
    return Schedule(config.num_steps, config.batch_size, config.learning_rate)


def run(arguments: Arguments) -> int:
    """Compute and report.

    Args:
        arguments: of the command.

    Returns:
        Exit status 0.
    """
    config = arguments.config
    _check(config)
    if arguments.json is not None:
        check_writable(arguments.json)
    identity = WithModels(config, model_digests(config.models))
    done = run_experiment(with_models(EXPERIMENT), identity, arguments.run)
    summary, exact = done.tables["summary"].to_pylist(), done.tables["exact"].to_pylist()
    if arguments.json != STDOUT:
        _show(config, summary, exact)
    if arguments.json is not None:
        write_json({"summary": summary, "exact": exact, "folder": str(done.folder)}, arguments.json)
    return 0


def _show(config: Config, summary: list[dict[str, Any]], exact: list[dict[str, Any]]) -> None:
    console = report_console()
    table = make_table("model", "twist", "Var(log Z_hat)", "ratio to none", "95 % interval")
    for row in summary:
        ends = f"{row['low']:.3g} .. {row['high']:.3g} ({row['unit']})"
        numbers = f"{row['variance_log_Z_hat']:.4g}", f"{row['ratio']:.3g}"
        table.add_row(row["model"], row["twist"], *numbers, ends)
    sizes = f"alpha {config.alpha:g}, {config.num_particles} particles"
    print_table(console, f"Heads on next-token laws, {sizes}", table)
    if not exact:
        return
    table = make_table("model", "twist", "Var(Z_hat / Z), exact")
    for row in exact:
        table.add_row(row["model"], row["twist"], f"{row['relative_variance']:.4g}")
    print_table(console, f"One number a context, {sizes}", table)


def _check(config: Config) -> None:
    check_alpha(config.alpha)
    for option, least in (
        ("num_rows", 1),
        ("train_prompts", 1),
        ("test_prompts", 1),
        ("width", 1),
        ("window", 0),
        ("num_steps", 1),
        ("batch_size", 1),
        ("num_particles", 1),
        ("num_populations", 2),
    ):
        value = getattr(config, option)
        if value < least:
            raise InvalidInput(f"--{option.replace('_', '-')} {value}: must be at least {least}")
    if not (math.isfinite(config.learning_rate) and config.learning_rate > 0):
        raise InvalidInput(f"--learning-rate {config.learning_rate}: must be above 0")
    if not 0 <= config.seed < 2**32:
        raise InvalidInput(f"--seed {config.seed}: must be in 0..{2**32 - 1}")
    for name in config.models:
        check_has_task(name)
        if not is_transformer(name):
            load_model(name)


PRESETS = {
    "smoke": Arguments(
        Config(
            models=("builtin:toy-e",),
            num_rows=512,
            width=16,
            num_steps=150,
            batch_size=128,
            num_particles=4,
            num_populations=200,
        ),
        RunOptions("smoke"),
    ),
    "default": Arguments(Config(), RunOptions("default")),
    "full": Arguments(Config(num_populations=16_384, num_steps=5000), RunOptions("full")),
}

main = program("rolloutlab learned-twists", Arguments, run, PRESETS)

if __name__ == "__main__":
    raise SystemExit(main())
