"""The tasks, by name."""

import difflib
from collections.abc import Callable
from functools import cache, partial

from models.tasks import noisy_chain
from models.tasks.addition import addition
from models.tasks.countdown import countdown
from models.tasks.graph_path import graph_path
from models.tasks.skill_chain import skill_chain
from models.tasks.skill_facts import SkillChainDesign
from models.tasks.sudoku import sudoku
from models.tasks.task import Task
from theory.errors import InvalidInput

_uniform = partial(noisy_chain.noisy_chain, noise=noisy_chain.UNIFORM_NOISE)
_biased = partial(noisy_chain.noisy_chain, noise=noisy_chain.BIASED_NOISE)

TASKS: dict[str, Callable[[], Task]] = {
    "countdown-3": partial(countdown, 3),
    "countdown-4": partial(countdown, 4),
    "noisy-chain": partial(_uniform, "noisy-chain"),
    "noisy-chain-biased": partial(_biased, "noisy-chain-biased"),
    "skill-chain": partial(skill_chain, SkillChainDesign()),
    "addition": addition,
    "graph-path": graph_path,
    "sudoku-4": sudoku,
}


def task(name: str) -> Task:
    """Look a task up.

    Args:
        name: a key of TASKS.

    Returns:
        The task; always the same object, so that what was compiled for it stays compiled.

    Raises:
        InvalidInput: there is no such task; the message names those that are spelled alike.
    """
    if name not in TASKS:
        close = difflib.get_close_matches(name, TASKS, n=3) or sorted(TASKS)
        raise InvalidInput(f"no task {name!a}, there is {', '.join(close)}")
    return _made(name)


@cache
def _made(name: str) -> Task:
    return TASKS[name]()
