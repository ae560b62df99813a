"""What the verifier of a task says of drawn rows."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Int

from experiments.prompts import Prompt, padded
from experiments.samplers.rows import Rows
from models.tasks.task import ABSTAIN, Sequences, Task


def verdicts_of(task: Task | None, prompts: Sequence[Prompt], rows: Rows) -> list[dict[str, Any]]:
    """What the verifier of a task says of each row.

    Args:
        task: None where there is no verifier.
        prompts: of the rows.
        rows: on the host.

    Returns:
        For each row `correct`, `answer` (null where it gives none), `dataset` and `verifier_id_final`; empty without a task.
    """
    if task is None:
        return [{} for _ in prompts]
    questions = padded([prompt.read for prompt in prompts])
    correct, answers = judge(task, questions, np.arange(len(prompts)), rows.tokens, rows.lengths)
    fixed = {"dataset": f"{task.name}:test", "verifier_id_final": f"task:{task.name}"}
    return [
        {**fixed, "answer": None if answer == ABSTAIN else str(answer), "correct": verdict}
        for answer, verdict in zip(answers.tolist(), correct.tolist(), strict=True)
    ]


def judge(
    task: Task,
    prompts: Sequences,
    prompt_of: Int[np.ndarray, " B"],
    tokens: Int[np.ndarray, "B T"],
    lengths: Int[np.ndarray, " B"],
) -> tuple[Bool[np.ndarray, " B"], Int[np.ndarray, " B"]]:
    """Which completions are right, and what they answer.

    Args:
        task: with the verifier.
        prompts: of P rows.
        prompt_of: [B] the prompt of each completion.
        tokens: [B, T].
        lengths: [B].

    Returns:
        [B] verdicts and [B] answers.
    """
    num_rows = len(lengths)
    # Filled up with copies: few shapes, few compilations.
    rows = np.resize(np.arange(num_rows), 1 << max(6, (num_rows - 1).bit_length()))
    which = prompt_of[rows]
    questions = Sequences(prompts.tokens[which], prompts.lengths[which])
    completions = Sequences(
        jnp.asarray(tokens[rows], jnp.int32), jnp.asarray(lengths[rows], jnp.int32)
    )
    correct = np.asarray(task.verify(questions, completions))[:num_rows]
    return correct, np.asarray(task.answers(questions, completions))[:num_rows]
