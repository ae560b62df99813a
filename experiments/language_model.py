"""What MODEL means to commands that sample: a toy model after its prompt, or a transformer with prompts of a task or a file."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from experiments.model_argument import BUILTIN, LoadedModel, load_model
from experiments.pretraining import MODEL_FOLDER
from experiments.prompts import Prompt, PromptSource, padded, read_prompts, task_prompts
from models import shipped
from models.pretrained.json_fields import Fields, read_json
from models.pretrained.load import Loaded, load_folder
from models.pretrained.own_format import CONFIG_FILE
from models.tabular.context_model import ContextModel
from models.tasks.registry import task as find_task
from models.tasks.task import Task
from models.transformer import Transformer
from theory.errors import InvalidInput
from theory.protocols import SequenceModel

MAX_HORIZON = 1_000_000


class LanguageModel(NamedTuple):
    """A model with the prompts it is sampled on.

    Attributes:
        name: as it was given on the command line.
        model: what samplers run.
        prompts: at least one.
        toy: its exact conditionals, if it is a toy.
        task: whose prompts these are, if any: it has a verifier.
        row_numbers: numbers that one row holds on the device.
    """

    name: str
    model: SequenceModel[Any]
    prompts: tuple[Prompt, ...]
    toy: LoadedModel | None
    task: Task | None
    row_numbers: int


def load_language_model(
    argument: str, source: PromptSource, max_new_tokens: int | None
) -> LanguageModel:
    """Load what MODEL names, with its prompts.

    Args:
        argument: a JSON model file, `builtin:NAME`, or the folder of a transformer.
        source: of the prompts.
        max_new_tokens: horizon in generated tokens, eos included; None for the model's own.

    Returns:
        The model and its prompts.

    Raises:
        InvalidInput: there is no such model, or a prompt or the horizon does not suit it.
    """
    given = [name for name in ("prompt", "task", "file") if getattr(source, name) is not None]
    if len(given) > 1:
        words = " and ".join(f"--{'prompts' if name == 'file' else name}" for name in given)
        raise InvalidInput(f"{words}: both name prompts, give one of them")
    if source.file == "":
        raise InvalidInput("--prompts '': is empty, give a file of JSON lines or leave it out")
    if source.num is not None and source.num < 1:
        raise InvalidInput(f"--num-prompts {source.num}: must be at least 1")
    if is_transformer(argument):
        return _transformer(argument, source, max_new_tokens)
    for option, value in (("--task", source.task), ("--prompts", source.file)):
        if value is not None:
            raise InvalidInput(
                f"{option} {value}: '{argument}' is a toy model, whose prompts are token ids: give --prompt"
            )
    toy = load_model(argument, source.prompt, max_new_tokens)
    shown = tuple(int(word) for word in (source.prompt or "").split())
    model = ContextModel.from_table(toy.table)  # starts after the prompt
    prompts = tuple(Prompt(number, shown, ()) for number in range(source.num or 1))
    return LanguageModel(argument, model, prompts, toy, None, model.horizon + model.vocab_size)


def is_transformer(argument: str) -> bool:
    """Whether MODEL names a transformer: a shipped one, or a folder.

    Args:
        argument: MODEL of the command line.

    Returns:
        False for toy models and for what does not exist.
    """
    if argument.startswith(BUILTIN):
        return argument.removeprefix(BUILTIN) in shipped.MODELS
    return bool(argument) and os.path.isdir(argument)


def load_transformer(argument: str, max_new_tokens: int | None = None) -> Loaded:
    """Load a transformer.

    Args:
        argument: `builtin:NAME` of a shipped one, or a folder.
        max_new_tokens: horizon; None for the model's own, or for what a task asks for.

    Returns:
        The model, and what is known of it.

    Raises:
        InvalidInput: the folder cannot be read, or the horizon does not suit it.
    """
    if max_new_tokens is not None and not 1 <= max_new_tokens <= MAX_HORIZON:
        raise InvalidInput(f"--max-new-tokens {max_new_tokens}: must be in 1..{MAX_HORIZON}")
    return load_folder(weights_folder(argument), max_new_tokens)


def check_has_task(argument: str) -> None:
    """Refuse a transformer that was trained on no task, by its configuration alone.

    Args:
        argument: MODEL of the command line; of others than transformers nothing is said.

    Raises:
        InvalidInput: its configuration names no task.
    """
    if not is_transformer(argument):
        return
    path = weights_folder(argument) / CONFIG_FILE
    if not Fields(str(path), read_json(path)).inner("about").has("task"):
        raise InvalidInput(
            f"model '{argument}': belongs to no task, give a shipped transformer or one that `pretrain` made"
        )


def weights_folder(argument: str) -> Path:
    """Where the configuration and the weights of a transformer lie.

    Args:
        argument: MODEL of the command line, a transformer.

    Returns:
        The folder of a shipped model, the one inside a run folder of `pretrain`, or the folder itself.
    """
    if argument.startswith(BUILTIN):
        return shipped.folder(argument.removeprefix(BUILTIN))
    inside = Path(argument) / MODEL_FOLDER
    return inside if inside.is_dir() else Path(argument)


def _transformer(argument: str, source: PromptSource, max_new_tokens: int | None) -> LanguageModel:
    trained_on = None
    if max_new_tokens is None and source.task is not None:
        # A task knows how long its completions are; a folder of weights may not.
        max_new_tokens = find_task(source.task).horizon
    loaded = load_transformer(argument, max_new_tokens)
    trained_on = loaded.about.get("task")
    if not isinstance(trained_on, str | None):
        raise InvalidInput(
            f"model '{argument}': config.json, about: task {trained_on!r} is no name, give a text or --task"
        )
    name = source.task if source.task is not None else trained_on
    wants_task = source.prompt is None and source.file is None
    if wants_task and name is None:
        raise InvalidInput(
            f"model '{argument}': belongs to no task, give --prompts FILE, --task NAME or --prompt"
        )
    task = None if name is None else find_task(name)
    if task is not None and len(task.labels) != loaded.model.vocab_size:
        raise InvalidInput(
            f"--task {name}: has {len(task.labels)} tokens, '{argument}' has {loaded.model.vocab_size}; "
            "give a model that was trained on it"
        )
    if source.prompt is not None:
        words = source.prompt.split()
        if not all(word.isascii() and word.isdigit() and len(word) < 10 for word in words):
            raise InvalidInput(f"--prompt '{source.prompt}': give token ids such as '0 2'")
        ids = tuple(int(word) for word in words)
        rows = [Prompt(number, ids, ids) for number in range(source.num or 1)]
    elif source.file is not None:
        rows = read_prompts(Path(source.file), source.num, loaded.tokenizer, task)
    else:
        assert task is not None
        rows = task_prompts(task, source.num or 1)
    # Prompts of another kind than the task's have no verdict.
    verified = task if task is not None and _all_prompts_of(task, rows) else None
    for row in rows:
        _check_prompt(row, loaded.model, argument, source.file)
    width = padded([row.read for row in rows]).tokens.shape[1]
    return LanguageModel(
        argument, loaded.model, tuple(rows), None, verified, _row_numbers(loaded.model, width)
    )


def _row_numbers(model: Transformer, prompt_width: int) -> int:
    config = model.config
    places = max(1, prompt_width) + model.horizon
    cache = 2 * config.num_layers * config.num_key_value_heads * config.head_dim * places
    return cache + config.vocab_size + config.num_heads * places


def _all_prompts_of(task: Task, rows: Sequence[Prompt]) -> bool:
    if max(len(row.read) for row in rows) > task.max_prompt_length:
        return False
    return bool(np.asarray(task.is_prompt(padded([row.read for row in rows]))).all())


def _check_prompt(row: Prompt, model: Transformer, argument: str, file: str | None) -> None:
    config, where = model.config, f"prompt {row.prompt_id!a}"
    if file is not None:
        where = f"{file}, {where}"
    if max(row.read, default=0) >= config.vocab_size:
        place = next(i for i, token in enumerate(row.read) if token >= config.vocab_size)
        raise InvalidInput(
            f"{where}: token {row.read[place]} at position {place}, '{argument}' has 0..{config.vocab_size - 1}; give ids of its tokens"
        )
    places = max(1, len(row.read)) + model.horizon
    if places > config.context:
        mend = "smaller --max-new-tokens" if len(row.read) < config.context else "shorter prompt"
        raise InvalidInput(
            f"{where}: {len(row.read)} tokens and {model.horizon} new ones, '{argument}' reads at most "
            f"{config.context}; give a {mend}"
        )
