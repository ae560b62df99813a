"""`rolloutlab allocate` asked again after every update, killed or not, against the allocator whose state was kept."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.allocation_methods import METHODS
from tests.experiments.test_allocate import additional, allocate
from tests.theory.allocation.loops import play, updates
from theory.allocation.learned_priors import last_visit_prior, population_prior
from theory.allocation.policies import hora

P, N, PROBE, CAP, DISCOUNT = 6, 8, 4, 14, 0.75
RATES = np.array([0.0, 0.1, 0.3, 0.6, 0.9, 1.0])

LEARNERS: dict[str, Callable[..., Any]] = {
    "hora-last-visit": partial(last_visit_prior, discount=DISCOUNT),
    "hora-population": population_prior,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNERS)
def test_a_state_file_is_all_that_the_rule_remembers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """Each update begins from nothing but STATE, and asks for what the allocator asks for, which has kept its own state all along."""
    allocator = hora.learned_prior_allocator(P, N, LEARNERS[name], DISCOUNT, PROBE, CAP)
    complete = updates(play(allocator, RATES, 8))
    assert len(complete) == 4
    flat_differs = False
    words = ("--budget", str(P * (N - PROBE)), "--cap", str(CAP))
    histories: list[list[list[int]]] = [[] for _ in range(P)]
    for probes, rest in complete:
        state = {
            "prompts": [
                {"prompt_id": i, "successes": int(s), "failures": int(f), "history": histories[i]}
                for i, (s, f) in enumerate(zip(*probes.results, strict=True))
            ]
        }
        found = allocate(
            tmp_path, capsys, "--method", name, "--discount", str(DISCOUNT), *words, state=state
        )
        assert additional(found) == rest.requests.additional.tolist()
        flat = allocate(tmp_path, capsys, "--method", "hora", *words, state=state)
        flat_differs |= additional(flat) != additional(found)
        for i, (s, f) in enumerate(zip(rest.groups.successes, rest.groups.failures, strict=True)):
            histories[i].append([int(s), int(f)])
    assert flat_differs


def test_every_learned_prior_of_the_command_is_tested_here() -> None:
    assert LEARNERS.keys() == {name for name in METHODS if name.startswith("hora-")}
