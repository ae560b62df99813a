"""A training run that may be killed at any time and ends with the same parameters."""

import contextlib
import dataclasses
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pyarrow as pa

from experiments import tables
from experiments.output import make_folder
from experiments.pretraining.event_files import EventFile
from experiments.pretraining.settings import Training, num_steps, shape, transformer_config
from experiments.progress import Progress, say
from models.tasks.registry import task
from models.training.checkpoints import TrainingCheckpoints
from models.training.demonstrations import batch_at
from models.training.loop import training_steps
from models.training.optimiser import learning_rate, make_optimiser
from models.training.update import StepInfo, compile_update, initial_state
from models.transformer.model import Transformer, random_transformer
from theory.errors import InvalidInput

SCHEMA = tables.schema(
    step=int, loss=float, num_tokens=int, gradient_norm=float, learning_rate=float
)
_METRICS = "metrics.parquet"
_CHECKPOINTS = "checkpoints"
_EVENTS = "tensorboard"
# Numbers are fetched from the device this often, so that it need not wait for the host after each step.
_FETCH = 20


def train(
    training: Training, checkpoint_every: int, folder: Path, stages: Path, progress: Progress
) -> tuple[Transformer, pa.Table]:
    """Train a model, going on where an earlier attempt has stored a state.

    The examples of a step are addressed by its number, so a state of parameters, optimiser and step is all that there is to store. The
    metrics up to a state are stored before it: whatever kills the process, those of the steps before the newest state are there, and those
    after it are measured again.

    Args:
        training: without open values (`settings.complete`).
        checkpoint_every: steps between stored states; no number depends on it.
        folder: of the run; `tensorboard` in it gets the curves.
        stages: folder for states and metrics.
        progress: shows the steps.

    Returns:
        The model, and a row of metrics for every step.

    Raises:
        InvalidInput: the loss is not finite, or the newest state cannot be read.
    """
    learned, length = task(training.task), num_steps(training)
    model = random_transformer(
        jax.random.key(training.seed), transformer_config(training, learned), learned.horizon
    )
    optimiser = make_optimiser(training.optimiser, length)
    checkpoints = TrainingCheckpoints(make_folder(stages / _CHECKPOINTS))
    state = initial_state(model, optimiser)
    stored = checkpoints.latest(state)
    state = state if stored is None else stored
    rows = _earlier_rows(stages / _METRICS, int(state.step))
    if stored is not None:
        say(f"{folder}: goes on after step {int(state.step)} of {length}")
    batches = partial(batch_at, learned, training.seed, shape(training, learned), learned.eos)
    steps = training_steps(compile_update(optimiser, model), batches, state, length)
    rate = learning_rate(training.optimiser, length)
    fresh: list[StepInfo] = []
    with (
        contextlib.closing(checkpoints),
        contextlib.closing(EventFile(folder / _EVENTS)) as events,
    ):
        for row in rows:
            events.write(row)
        for state, info in progress(steps, f"training on {training.task}", length - len(rows)):
            fresh.append(info)
            done = len(rows) + len(fresh)
            is_stored = done % checkpoint_every == 0 or done == length
            if len(fresh) == _FETCH or is_stored:
                for row in _fetched(fresh, len(rows), rate):
                    events.write(row)
                    rows.append(row)
                fresh = []
            if is_stored:
                tables.write_parquet(tables.from_rows(SCHEMA, rows), stages / _METRICS)
                checkpoints.save(done, state)
    return dataclasses.replace(model, params=state.params), tables.from_rows(SCHEMA, rows)


def _earlier_rows(path: Path, num_steps: int) -> list[dict[str, Any]]:
    """The metrics of the steps that a stored state has behind it."""
    if num_steps == 0:
        return []
    table = tables.read_unfinished(path)
    if table.schema != SCHEMA or table["step"].to_pylist()[:num_steps] != list(range(num_steps)):
        raise InvalidInput(
            f"{path}: has changed since it was stored by an earlier attempt, begin again with --force"
        )
    return table.to_pylist()[:num_steps]


def _fetched(infos: list[StepInfo], first: int, rate: optax.Schedule) -> list[dict[str, Any]]:
    """Rows of metrics; refused where training has diverged."""
    rates = np.asarray(rate(jnp.arange(first, first + len(infos), dtype=jnp.float32)))
    rows: list[dict[str, Any]] = []
    for step, (info, now) in enumerate(zip(jax.device_get(infos), rates, strict=True), first):
        if not info.loss < float("inf"):
            raise InvalidInput(
                f"step {step}: the loss is {float(info.loss)}, give a smaller --learning-rate"
            )
        rows.append(
            {
                "step": step,
                "loss": float(info.loss),
                "num_tokens": int(info.num_tokens),
                "gradient_norm": float(info.gradient_norm),
                "learning_rate": float(now),
            }
        )
    return rows
