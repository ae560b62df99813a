"""Prompts of transformers: of a task, or of a file."""

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, cast

import jax.numpy as jnp
import numpy as np
from tokenizers import Tokenizer

from experiments.json_lines import parse_record
from models.tasks.task import Sequences, Task
from models.tasks.text import parse_prompts
from theory.errors import InvalidInput


class Prompt(NamedTuple):
    """What rows continue.

    Attributes:
        prompt_id: in the log.
        tokens: as the log shows them.
        read: as the model reads them; empty for a table that starts after its prompt.
    """

    prompt_id: int | str
    tokens: tuple[int, ...]
    read: tuple[int, ...]


class PromptSource(NamedTuple):
    """Where prompts come from; at most one of the first three.

    Attributes:
        prompt: token ids with blanks between them.
        task: name of a task; its test prompts.
        file: JSON lines with a field `prompt`: token ids, or text.
        num: how many of them; None is 1, or all rows of a file.
    """

    prompt: str | None = None
    task: str | None = None
    file: str | None = None
    num: int | None = None


def padded(prompts: Sequence[tuple[int, ...]]) -> Sequences:
    """Prompts side by side, in one of few widths, so that few programs are compiled.

    Args:
        prompts: of B rows.

    Returns:
        [B, P]; P is a power of two, or 0 where all are empty.
    """
    lengths = np.fromiter(map(len, prompts), np.int32, len(prompts))
    longest = int(lengths.max())
    width = 1 << (longest - 1).bit_length() if longest else 0
    tokens = np.zeros((len(prompts), width), np.int32)
    tokens[np.arange(width) < lengths[:, None]] = np.fromiter(chain(*prompts), np.int32)
    return Sequences(jnp.asarray(tokens), jnp.asarray(lengths))


def task_prompts(task: Task, num: int) -> list[Prompt]:
    """The first test prompts of a task, the same in every run.

    Args:
        task: whose.
        num: how many.

    Returns:
        The prompts, numbered from 0.
    """
    prompts = task.prompts("test", num, seed=0)
    tokens, lengths = np.asarray(prompts.tokens), np.asarray(prompts.lengths)
    rows = [
        tuple(row[:length]) for row, length in zip(tokens.tolist(), lengths.tolist(), strict=True)
    ]
    return [Prompt(number, row, row) for number, row in enumerate(rows)]


def read_prompts(
    path: Path, num: int | None, tokenizer: Tokenizer | None, task: Task | None
) -> list[Prompt]:
    """Read prompts from JSON lines.

    Args:
        path: of the file.
        num: how many of them, from the first; None for all.
        tokenizer: of the model, for prompts that are text.
        task: whose labels spell a text where there is no tokenizer.

    Returns:
        The prompts; without a prompt_id they are numbered from 0.

    Raises:
        InvalidInput: the file or a row cannot be read; names the row, the field and the mend.
    """
    rows = [
        _read_prompt(where, number, record, tokenizer, task)
        for number, (where, record) in enumerate(_records(path))
    ]
    if not rows:
        raise InvalidInput(f"{path}: holds no prompts, give one a line: {{'prompt': [1, 2]}}")
    if num is not None and num > len(rows):
        raise InvalidInput(f"--num-prompts {num}: {path} has {len(rows)}, give at most that")
    rows = rows[:num]
    seen: set[int | str] = set()
    for row in rows:
        if row.prompt_id in seen:
            raise InvalidInput(f"{path}: prompt_id {row.prompt_id!r} twice, name each prompt once")
        seen.add(row.prompt_id)
    return rows


def _records(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be read ({error.strerror}), give a file") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{path}, row {number}"
        record = parse_record(line, where)
        if "prompt" not in record:
            raise InvalidInput(f"{where}: has no field 'prompt', give token ids or text")
        yield where, record


def _read_prompt(
    where: str,
    number: int,
    record: dict[str, Any],
    tokenizer: Tokenizer | None,
    task: Task | None,
) -> Prompt:
    prompt_id, value = record.get("prompt_id", number), record["prompt"]
    if isinstance(prompt_id, bool) or not isinstance(prompt_id, int | str):
        raise InvalidInput(f"{where}, field 'prompt_id': must be a text or a whole number")
    if isinstance(prompt_id, int) and not -(2**63) <= prompt_id < 2**63:
        raise InvalidInput(f"{where}, field 'prompt_id': takes more than 64 bits, give a text")
    if isinstance(value, str):
        ids = _token_ids(where, value, tokenizer, task)
    else:
        items = cast(list[Any], value) if isinstance(value, list) else None
        if items is None or not all(type(item) is int and 0 <= item < 2**31 for item in items):
            raise InvalidInput(f"{where}, field 'prompt': must be token ids or a text")
        ids = tuple(items)
    return Prompt(prompt_id, ids, ids)


def _token_ids(
    where: str, text: str, tokenizer: Tokenizer | None, task: Task | None
) -> tuple[int, ...]:
    if tokenizer is not None:
        if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
            raise InvalidInput(
                f"{where}, field 'prompt': has half of a surrogate pair, write whole characters"
            )
        return tuple(tokenizer.encode(text).ids)
    if task is None:
        raise InvalidInput(
            f"{where}, field 'prompt': is text, but the model has no tokenizer.json; give token ids"
        )
    try:
        prompts = parse_prompts(task, [text])
    except InvalidInput as error:
        raise InvalidInput(f"{where}, {error}") from error
    return tuple(np.asarray(prompts.tokens)[0, : int(prompts.lengths[0])].tolist())
