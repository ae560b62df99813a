"""The folder that a trained model is released in: configuration, weights and a card that says how they were made."""

import dataclasses
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import pyarrow as pa

from experiments.json_output import to_plain
from experiments.output import make_folder
from experiments.pretraining.settings import Training
from models.pretrained.own_format import save_folder
from models.tasks.registry import task
from models.transformer.model import Transformer

CARD = "README.md"


def write_model(folder: Path, model: Transformer, training: Training, evaluation: pa.Table) -> None:
    """Write a model with its card; nobody sees half of it.

    Equal models, settings and evaluations give equal bytes.

    Args:
        folder: replaced if it exists.
        model: the transformer.
        training: how it was trained, without open values.
        evaluation: what it is worth.
    """
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    about = {
        "task": training.task,
        "training": to_plain(training),
        "evaluation": evaluation.to_pylist(),
    }
    save_folder(make_folder(partial), model, about)
    (partial / CARD).write_text(card(model, training, evaluation), encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)


def card(model: Transformer, training: Training, evaluation: pa.Table) -> str:
    """Say what a model is, how it was made and what it is worth.

    Args:
        model: the transformer.
        training: how it was trained, without open values.
        evaluation: what it is worth.

    Returns:
        Markdown.
    """
    learned, config = task(training.task), model.config
    num_parameters = sum(leaf.size for leaf in jax.tree.leaves(model.params))
    tokens = " ".join(learned.labels)
    measured = [
        f"| {row['quantity']} | {_short(row['value'])} | {_interval(row)} | {row['means']} |"
        for row in evaluation.to_pylist()
    ]
    return f"""# {training.task}

A decoder-only transformer that was trained from scratch on the task `{training.task}` of `models/tasks`: {config.num_layers} layers of width
{config.width}, {config.num_heads} heads, {num_parameters:,} parameters in float32, {config.vocab_size} tokens (`{tokens}`).

A prompt is {learned.prompt_form}; a completion ends with `{learned.labels[learned.eos]}` after at most {learned.horizon} tokens.

## How it was made

```text
{command(training)}
```

Training examples are drawn while training runs, from the training side of the task, by seed and step; the loss is the mean negative log
likelihood of the completions' tokens. On one platform and one version of JAX the same command gives the same parameters, bit for bit.

## What it is worth

On the first {training.test_prompts} test prompts of seed {training.seed}, at temperature 1, {training.samples} samples a prompt; intervals are 95 % over prompts.

| quantity | value | interval | what it is |
|---|---|---|---|
{chr(10).join(measured)}

## What it is for

Comparing samplers and estimators. It knows nothing but this task.
"""


def command(training: Training) -> str:
    """The words that train the same model, whatever the presets are by then.

    Args:
        training: without open values.

    Returns:
        A command of several lines.
    """
    options = {field.name: getattr(training, field.name) for field in dataclasses.fields(training)}
    options |= dataclasses.asdict(options.pop("optimiser"))
    words = [f"--{name.replace('_', '-')} {option}" for name, option in options.items()]
    lines = [" ".join(words[begin : begin + 5]) for begin in range(0, len(words), 5)]
    return " \\\n    ".join(["rolloutlab pretrain", *lines])


def _interval(row: Mapping[str, Any]) -> str:
    if row["low"] == row["high"]:
        return ""
    return f"{_short(row['low'])} to {_short(row['high'])}"


def _short(number: float) -> str:
    return f"{number:.3f}"
