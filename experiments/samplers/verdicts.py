"""What the verifier of a task says of drawn rows."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

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
    # One more than there are is a power of two: few shapes, few compilations.
    missing = (1 << (len(prompts) - 1).bit_length()) - len(prompts)
    questions = padded([prompt.read for prompt in prompts] + [prompts[-1].read] * missing)
    completions = Sequences(
        jnp.asarray(np.pad(rows.tokens, ((0, missing), (0, 0)))),
        jnp.asarray(np.pad(rows.lengths, (0, missing))),
    )
    correct = np.asarray(task.verify(questions, completions)).tolist()
    answers = np.asarray(task.answers(questions, completions)).tolist()
    fixed = {"dataset": f"{task.name}:test", "verifier_id_final": f"task:{task.name}"}
    return [
        {**fixed, "answer": None if answer == ABSTAIN else str(answer), "correct": verdict}
        for answer, verdict in zip(answers, correct, strict=True)
    ][: len(prompts)]
