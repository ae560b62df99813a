"""`rolloutlab pretrain`: a small transformer from scratch, on a task with computed verdicts."""

import dataclasses
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import pyarrow as pa

from experiments.command_line import default, program
from experiments.output import make_folder
from experiments.pretraining import MODEL_FOLDER
from experiments.pretraining.evaluation import evaluate
from experiments.pretraining.model_folder import write_model
from experiments.pretraining.settings import Training, complete
from experiments.pretraining.training_run import train
from experiments.progress import Progress
from experiments.runner import Checkpoint, Experiment, RunOptions, run_experiment
from experiments.terminal import make_table, print_table, report_console
from models.training.optimiser import OptimiserSettings
from theory.errors import InvalidInput


@dataclass(frozen=True)
class Arguments:
    """Train a small transformer on a task, judge it by test prompts, and keep it as a MODEL.

    The run folder, whose path is the last line of stdout and which commands take as MODEL, holds the model (folder `model`), a table of every step, the
    evaluation, and curves for TensorBoard. A run that was killed goes on where it was when the same command is given again, to the same parameters.
    Losses in nats a token.
    """

    training: Training
    run: RunOptions

    checkpoint_every: int = 100
    """Steps after which the state is stored, so that no more than that is lost; changes no number."""

    out: Annotated[Path | None, default("the run folder alone")] = None
    """Folder that the model is copied to."""


def experiment(checkpoint_every: int) -> Experiment[Training]:
    """Training as an experiment.

    Args:
        checkpoint_every: steps between stored states.

    Returns:
        It makes "table" (every step), "evaluation", and the model's folder.
    """

    def compute(
        config: Training, progress: Progress, checkpoint: Checkpoint
    ) -> Mapping[str, pa.Table]:
        model, metrics = train(
            config, checkpoint_every, checkpoint.folder, checkpoint.stages, progress
        )
        evaluation = checkpoint.stage("evaluation", partial(evaluate, model, config))
        write_model(checkpoint.folder / MODEL_FOLDER, model, config, evaluation)
        return {"table": metrics, "evaluation": evaluation}

    return Experiment("pretrain", 2, compute)


def run(arguments: Arguments) -> int:
    """Train and report.

    Args:
        arguments: of the command.

    Returns:
        0.
    """
    if arguments.checkpoint_every < 1:
        raise InvalidInput(f"--checkpoint-every {arguments.checkpoint_every}: must be at least 1")
    training = complete(arguments.training)
    if arguments.out is not None:
        make_folder(arguments.out)
    done = run_experiment(experiment(arguments.checkpoint_every), training, arguments.run)
    if arguments.out is not None:
        if not (done.folder / MODEL_FOLDER).is_dir():
            raise InvalidInput(
                f"{done.folder / MODEL_FOLDER}: is missing, train it again with --force"
            )
        shutil.copytree(done.folder / MODEL_FOLDER, arguments.out, dirs_exist_ok=True)
    _report(training, done.tables["evaluation"])
    print(done.folder)
    return 0


def _report(training: Training, evaluation: pa.Table) -> None:
    console = report_console()
    table = make_table("quantity", "value", "95 % over prompts", "what it is")
    for row in evaluation.to_pylist():
        ends = "" if row["low"] == row["high"] else f"{row['low']:.3f} to {row['high']:.3f}"
        table.add_row(row["quantity"], f"{row['value']:.3f}", ends, row["means"])
    title = f"{training.task}, {training.test_prompts} test prompts, seed {training.seed}"
    print_table(console, title, table)


_SMOKE = Training(
    steps=20,
    batch=16,
    width=16,
    heads=2,
    hidden=32,
    optimiser=OptimiserSettings(warmup_steps=5),
    test_prompts=16,
    samples=8,
)

PRESETS = {
    "smoke": Arguments(_SMOKE, RunOptions("smoke")),
    "default": Arguments(Training(), RunOptions("default")),
    "full": Arguments(
        dataclasses.replace(Training(), steps=20_000, batch=512, width=256, layers=4, hidden=704),
        RunOptions("full"),
    ),
}

main = program("rolloutlab pretrain", Arguments, run, PRESETS)

if __name__ == "__main__":
    raise SystemExit(main())
