"""`rolloutlab power-on-transformers`: temperature against power on a trained model, every method at the same number of tokens, and the truth.

The model is small enough for its completions to be enumerated up to a bounded rest, so that each method is held against the law that it aims at.
Before anything is sampled by power, base samples predict how far power and temperature are apart (`theory.estimators.small_alpha`): inside its
radius the prediction is compared with the exact divergence.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from experiments import tables
from experiments.command_line import Floats, Words, program, unknown
from experiments.enumerated_truth import enumerate_completions, kl_power_temperature
from experiments.exact_from_samples import from_samples
from experiments.json_output import write_json
from experiments.language_model import (
    LanguageModel,
    PromptSource,
    check_has_task,
    load_language_model,
)
from experiments.model_identity import WithModels, model_digests, with_models
from experiments.output import STDOUT, check_writable, make_folder
from experiments.progress import Progress
from experiments.prompts import padded
from experiments.runner import Checkpoint, Experiment, RunOptions, run_experiment
from experiments.terminal import make_table, print_table, report_console
from experiments.transformer_methods import METHODS, Budget
from experiments.transformer_sentences import sentences
from experiments.transformer_tables import (
    METHOD_SCHEMA,
    METRICS,
    SUMMARY_SCHEMA,
    TRUTH_SCHEMA,
    method_rows,
    summary_rows,
    truth_rows,
)
from models.tasks.task import Task
from paper_figures.build import FIGURES, LAYOUTS, draw_to_files, write_table
from paper_figures.columns import schema
from theory.errors import InvalidInput
from theory.exact.laws import MAX_ALPHA

FIGURE = "power_on_transformers"

PREDICTION_SCHEMA: pa.Schema = tables.schema(
    alpha=float, predicted=float, low=float, high=float, exact=float, radius=float, inside_radius=bool,
)  # fmt: skip


@dataclass(frozen=True)
class Config:
    """What is computed; every value is part of the run's identity."""

    model: str = "builtin:countdown-3"
    """A shipped transformer, or the folder of one that was trained on a task."""

    alphas: Floats = (2.0, 4.0)
    """Power exponents, at least 1: below, nothing bounds what enumeration misses."""

    num_prompts: int = 64
    """Test prompts; intervals are over them."""

    tokens: int = 256
    """Generated tokens of one replicate of one method on one prompt."""

    replicates: int = 8
    """Independent runs of each method on each prompt, at least 2."""

    methods: Words = tuple(METHODS)
    """Which methods."""

    threshold: float = 1e-6
    """Prefixes less likely than that are not enumerated."""

    predicted_alphas: Floats = (1.05, 1.1, 1.2, 1.5, 2.0)
    """Exponents of the small-alpha prediction."""

    predicted_from: int = 256
    """Base samples of each prompt behind the prediction."""

    seed: int = 0
    """Of everything that is drawn."""


@dataclass(frozen=True)
class Arguments:
    """Temperature against power on a trained transformer, by every method at equal generated tokens, beside the exact truth.

    Natural logarithms; lengths in tokens, eos included; intervals are 95 % over prompts (task bootstrap).
    """

    config: Config
    run: RunOptions

    json: str | None = None
    """File for the machine-readable result, - for stdout."""

    export: Path | None = None
    """Folder that the table of the figure is also written to, as CSV."""


def experiment(loaded: LanguageModel, task: Task) -> Experiment[Config]:
    """The comparison.

    Args:
        loaded: the model of the configuration, see `load`.
        task: whose verifier judges.

    Returns:
        It makes "table" (methods by prompt), "truth", "summary", "prediction" and the table of the figure.
    """

    def compute(
        config: Config, progress: Progress, checkpoint: Checkpoint
    ) -> Mapping[str, pa.Table]:
        prompts = padded([prompt.read for prompt in loaded.prompts])
        reads = tuple(prompt.read for prompt in loaded.prompts)
        by_alpha: dict[str, list[dict[str, Any]]] = {"table": [], "truth": [], "summary": []}
        for place, alpha in enumerate(config.alphas):

            def truth(alpha: float = alpha) -> pa.Table:
                found = enumerate_completions(
                    loaded.model, prompts, alpha, config.threshold, progress
                )
                return tables.from_rows(TRUTH_SCHEMA, truth_rows(found, task, prompts))

            known = checkpoint.stage(f"truth-{place}", truth).to_pylist()
            lengths = [row["length"] for row in known if row["law"] == "temperature_law"]
            budget = Budget(config.tokens, float(np.mean(lengths)), config.replicates, config.seed)
            rows: list[dict[str, Any]] = []
            for name in progress(config.methods, f"methods at alpha {alpha:g}"):

                def method(
                    name: str = name, alpha: float = alpha, budget: Budget = budget
                ) -> pa.Table:
                    handed = METHODS[name](loaded.model, reads, alpha, budget)
                    return tables.from_rows(
                        METHOD_SCHEMA, method_rows(alpha, name, handed, task, prompts)
                    )

                rows += checkpoint.stage(f"{name}-{place}", method).to_pylist()
            by_alpha["table"] += rows
            by_alpha["truth"] += known
            by_alpha["summary"] += summary_rows(rows, known, config.seed)
        prediction = checkpoint.stage("prediction", partial(_prediction, config, loaded, progress))
        made = {
            name: tables.from_rows(table_schema, by_alpha[name])
            for name, table_schema in (
                ("table", METHOD_SCHEMA),
                ("truth", TRUTH_SCHEMA),
                ("summary", SUMMARY_SCHEMA),
            )
        }
        figure = tables.from_rows(
            schema(LAYOUTS[FIGURE]), _figure_rows(config, by_alpha["summary"])
        )
        return {**made, "prediction": prediction, FIGURE: figure}

    return Experiment("power-on-transformers", 2, compute)


def load(config: Config) -> tuple[LanguageModel, Task]:
    """The model that a configuration names.

    Args:
        config: checked.

    Returns:
        The model with its prompts, and their task.

    Raises:
        InvalidInput: there is no such model, or it belongs to no task.
    """
    source = PromptSource(num=config.num_prompts)
    check_has_task(config.model)
    loaded = load_language_model(config.model, source, None)
    if loaded.task is None or loaded.toy is not None:
        raise InvalidInput(
            f"--model {config.model}: belongs to no task with a verifier, give a shipped or a pretrained transformer"
        )
    return loaded, loaded.task


def _prediction(config: Config, loaded: LanguageModel, progress: Progress) -> pa.Table:
    """KL(power || temperature), predicted from base samples and exact, means over prompts."""
    prompts = padded([prompt.read for prompt in loaded.prompts])
    sampled = from_samples(
        loaded.model,
        np.asarray(prompts.tokens),
        np.asarray(prompts.lengths),
        config.predicted_alphas,
        config.predicted_from,
        config.seed,
    )
    rows: list[dict[str, Any]] = []
    for block in sampled["results"]:
        # A divergence near alpha = 1 is smaller than what the accuracies may miss.
        found = enumerate_completions(
            loaded.model, prompts, block["alpha"], config.threshold / 10, progress
        )
        exact = kl_power_temperature(found)
        predicted = block["kl_power_temperature"]
        rows.append(
            {
                "alpha": block["alpha"],
                "predicted": predicted["estimate"],
                "low": predicted["low"],
                "high": predicted["high"],
                "exact": float(exact.mean()),
                "radius": block["radius"]["estimate"],
                "inside_radius": block["inside_radius"],
            }
        )
    return tables.from_rows(PREDICTION_SCHEMA, rows)


def _figure_rows(config: Config, summary: list[dict[str, Any]]) -> list[dict[str, Any]]:
    label = config.model.rpartition(":")[2].rpartition("/")[2]
    return [
        {
            "model": config.model,
            "label": label,
            **{name: row[name] for name in ("alpha", "metric", "method", "value", "low", "high")},
            "paired_low": row["value"] - row["gap"] + row["gap_low"],
            "paired_high": row["value"] - row["gap"] + row["gap_high"],
        }
        for row in summary
        if row["metric"] in ("accuracy", "log_p", "diversity")
    ]


def run(arguments: Arguments) -> int:
    """Run and report.

    Args:
        arguments: of the command.

    Returns:
        0.
    """
    _check(arguments.config)
    loaded, task = load(arguments.config)
    if arguments.json is not None:
        check_writable(arguments.json)
    config = WithModels(arguments.config, model_digests([arguments.config.model]))
    done = run_experiment(with_models(experiment(loaded, task)), config, arguments.run)
    files = draw_to_files(
        FIGURES[FIGURE].draw(done.tables[FIGURE]), make_folder(done.folder / "figures"), FIGURE
    )
    text = sentences(done.tables, arguments.config.tokens)
    console = report_console(stderr=arguments.json == STDOUT)
    _show(done.tables, console)
    for line in [*text, *map(str, files)]:
        console.print(line, soft_wrap=True)
    if arguments.json is not None:
        names = ("summary", "truth", "prediction")
        tables_of = {name: done.tables[name].to_pylist() for name in names}
        write_json(
            {**tables_of, "sentences": text, "figures": [str(file) for file in files]},
            arguments.json,
        )
    if arguments.export is not None:
        write_table(done.tables[FIGURE], make_folder(arguments.export) / f"{FIGURE}.csv")
    return 0


def _show(found: Mapping[str, pa.Table], console: Any) -> None:
    """One table an exponent: methods down, metrics across."""
    methods = found["table"].to_pylist()
    for alpha in dict.fromkeys(row["alpha"] for row in found["summary"].to_pylist()):
        table = make_table("", *METRICS, "ESS share", "accepted", "tokens")
        own = [row for row in found["summary"].to_pylist() if row["alpha"] == alpha]
        for name in dict.fromkeys(row["method"] for row in own):
            cells = [
                f"{row['value']:.3f} [{row['low']:.3f}, {row['high']:.3f}]"
                for metric in METRICS
                for row in own
                if (row["method"], row["metric"]) == (name, metric)
            ]
            rows = [row for row in methods if (row["method"], row["alpha"]) == (name, alpha)]
            columns = ("ess_fraction", "accept_rate", "generated_tokens")
            table.add_row(name, *cells, *(_mean(rows, column) for column in columns))
        print_table(console, f"alpha {alpha:g}: means over prompts, 95 %", table)


def _mean(rows: list[dict[str, Any]], column: str) -> str:
    values = [row[column] for row in rows if not np.isnan(row[column])]
    return f"{np.mean(values):.3g}" if values else "-"


def _check(config: Config) -> None:
    for option, alphas in (
        ("--alphas", config.alphas),
        ("--predicted-alphas", config.predicted_alphas),
    ):
        for alpha in alphas:
            if not (np.isfinite(alpha) and alpha >= 1):
                raise InvalidInput(
                    f"{option} {alpha:g}: must be at least 1, below it there is no truth"
                )
            if alpha > MAX_ALPHA:
                raise InvalidInput(f"{option} {alpha:g}: must be at most {MAX_ALPHA:g}")
        if list(alphas) != sorted(set(alphas)):
            listed = ",".join(f"{alpha:g}" for alpha in alphas)
            raise InvalidInput(f"{option} {listed}: must ascend, each once")
    for option, least in (
        ("num_prompts", 2),
        ("tokens", 8),
        ("replicates", 2),
        ("predicted_from", 3),
    ):
        value = getattr(config, option)
        if value < least:
            raise InvalidInput(f"--{option.replace('_', '-')} {value}: must be at least {least}")
    if not 0 < config.threshold < 1:
        raise InvalidInput(f"--threshold {config.threshold:g}: must be a probability")
    if not 0 <= config.seed < 2**32:
        raise InvalidInput(f"--seed {config.seed}: must be in 0..{2**32 - 1}")
    for name in config.methods:
        if name not in METHODS:
            raise unknown("method", name, METHODS)
    if len(set(config.methods)) < len(config.methods):
        raise InvalidInput(f"--methods {','.join(config.methods)}: name each once")


PRESETS: Mapping[str, Arguments] = {
    "smoke": Arguments(
        Config(
            alphas=(4.0,),
            num_prompts=32,
            tokens=128,
            replicates=4,
            methods=("temperature", "importance", "smc", "suffix"),
            threshold=1e-5,
            predicted_alphas=(1.1,),
            predicted_from=64,
        ),
        RunOptions("smoke"),
    ),
    "default": Arguments(Config(), RunOptions("default")),
    "full": Arguments(Config(num_prompts=256, replicates=16), RunOptions("full")),
}

main = program("rolloutlab power-on-transformers", Arguments, run, PRESETS)


if __name__ == "__main__":
    raise SystemExit(main())
