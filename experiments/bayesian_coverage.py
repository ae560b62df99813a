"""How well the hierarchical model predicts pass@k beyond n: the tables of docs/bayesian_coverage.md.

`python -m experiments.bayesian_coverage game24_cot100.rollouts.jsonl game24_io100.rollouts.jsonl` prints them, the second from logs of 100 samples a
task that are thinned to 10. Without files only populations of known laws are shown.
"""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64
from scipy import integrate, special

from theory.errors import InvalidInput
from theory.estimators.hierarchical.coverage import (
    Posterior,
    population_pass_at_k,
    solved_after,
    tail_exponent,
    these_tasks_pass_at_k,
)
from theory.estimators.hierarchical.posterior import Effort, fit
from theory.estimators.hierarchical.task_counts import compress

NUM_TASKS = 100
NUM_SAMPLES = 10
NUM_DATA_SETS = 40
KS = (10, 100, 1000)

# Short, for many data sets; a stated figure of one data set takes the default.
EFFORT = Effort(num_chains=2, num_warmup=300, num_draws=500)


class Population(NamedTuple):
    """A law of success rates, not necessarily one of the model's.

    Attributes:
        name: as shown.
        draw: rates of tasks.
        pass_at_k: exact mean of 1 - (1 - p)^k.
    """

    name: str
    draw: Callable[[np.random.Generator, int], Float64[np.ndarray, " tasks"]]
    pass_at_k: Callable[[int], float]


def beta(a: float, b: float) -> Population:
    """A law inside the model."""
    return Population(
        f"Beta({a:g}, {b:g})",
        lambda rng, size: rng.beta(a, b, size),
        lambda k: 1 - float(np.exp(special.betaln(a, b + k) - special.betaln(a, b))),
    )


def logit_normal(mean: float, deviation: float) -> Population:
    """Rates 1 / (1 + e^-x), x normal: its density at 0 falls faster than any power."""

    def failure(k: int) -> float:
        value, _ = integrate.quad(
            lambda z: np.exp(-z * z / 2) * (1 + np.exp(mean + deviation * z)) ** -k, -9, 9
        )
        return float(value) / np.sqrt(2 * np.pi)

    return Population(
        f"logit-normal({mean:g}, {deviation:g})",
        lambda rng, size: special.expit(rng.normal(mean, deviation, size)),
        lambda k: 1 - failure(k),
    )


def atomic(rates: Sequence[float]) -> Population:
    """Equal shares of a few rates."""
    found = np.array(rates)
    return Population(
        "atoms at " + ", ".join(f"{rate:g}" for rate in rates),
        lambda rng, size: rng.choice(found, size),
        lambda k: float(np.mean(-np.expm1(k * np.log1p(-found)))),
    )


POPULATIONS = (
    beta(0.3, 3.0),
    logit_normal(-3.0, 1.5),
    logit_normal(-5.0, 3.0),
    atomic((0.001, 0.3)),
    atomic((0.03, 0.3)),
    atomic((0.0, 0.3)),
)


def known_populations(num_data_sets: int = NUM_DATA_SETS) -> Iterator[str]:
    """Coverage and bias of the 95% interval of the population's pass@k, n = 10.

    Args:
        num_data_sets: independent ones of each population.

    Yields:
        Lines of a table.
    """
    yield "| population | k | true pass@k | mean estimate | bias | 95% interval holds it | mean width |"
    yield "|---|---|---|---|---|---|---|"
    num_samples = np.full(NUM_TASKS, NUM_SAMPLES)
    for population in POPULATIONS:
        rng = np.random.default_rng(0)
        found: list[list[Posterior]] = []
        for seed in range(num_data_sets):
            rates = population.draw(rng, NUM_TASKS)
            counts = compress(num_samples, rng.binomial(NUM_SAMPLES, rates))
            draws = fit(seed, counts, effort=EFFORT).hyperparameters
            found.append([population_pass_at_k(draws, k) for k in KS])
        for k, posteriors in zip(KS, zip(*found, strict=True), strict=True):
            truth = population.pass_at_k(k)
            mean = float(np.mean([each.mean for each in posteriors]))
            held = sum(each.low <= truth <= each.high for each in posteriors)
            width = float(np.mean([each.high - each.low for each in posteriors]))
            yield (
                f"| {population.name} | {k} | {truth:.3f} | {mean:.3f} | {mean - truth:+.3f} "
                f"| {held} of {num_data_sets} | {width:.3f} |"
            )


def thinned_logs(paths: Sequence[Path]) -> Iterator[str]:
    """The first 10 samples of each task predict what all of its samples then show.

    Args:
        paths: rollouts with prompt_id and correct, the same number for every task.

    Yields:
        Lines of a table.

    Raises:
        InvalidInput: tasks of unequal numbers of samples, or too few.
    """
    yield (
        "| log | predicted share solved (95%) | seen | these tasks' pass@k (95%) | population (95%) | exponent a (95%) | diagnostics |"
    )
    yield "|---|---|---|---|---|---|---|"
    for path in paths:
        correct = read_correct(path)
        num_tasks, num_samples = correct.shape
        kept = np.full(num_tasks, NUM_SAMPLES)
        counts = compress(kept, correct[:, :NUM_SAMPLES].sum(axis=1))
        fitted = fit(0, counts)
        draws, rng = fitted.hyperparameters, np.random.default_rng(0)
        columns = [
            solved_after(rng, draws, counts, num_samples - NUM_SAMPLES),
            these_tasks_pass_at_k(rng, draws, counts, num_samples),
            population_pass_at_k(draws, num_samples),
            tail_exponent(draws),
        ]
        cells = [f"{each.mean:.3f} ({each.low:.3f} to {each.high:.3f})" for each in columns]
        seen = f"{correct.any(axis=1).mean():.3f} (k = {num_samples})"
        found = fitted.diagnostics
        checks = (
            f"R-hat {max(found.r_hat.values()):.3f}, bulk ESS {min(found.bulk_ess.values()):.0f}, "
            f"{found.num_divergences} divergences"
        )
        name = path.name.removesuffix(".rollouts.jsonl")
        yield f"| {' | '.join([name, cells[0], seen, *cells[1:], checks])} |"


def read_correct(path: Path) -> Bool[np.ndarray, "tasks samples"]:
    """Outcomes of a log, tasks in the order in which they appear.

    Args:
        path: JSON lines.

    Returns:
        Correct or not.

    Raises:
        InvalidInput: no more than 10 samples of some task, or unequal numbers.
    """
    tasks: dict[str, list[bool]] = {}
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            tasks.setdefault(row["prompt_id"], []).append(bool(row["correct"]))
    sizes = {len(found) for found in tasks.values()}
    if len(sizes) != 1 or min(sizes) <= NUM_SAMPLES:
        raise InvalidInput(
            f"{path.name}: tasks have {sorted(sizes)} samples, give a log with one number above {NUM_SAMPLES}"
        )
    return np.array(list(tasks.values()), np.bool_)


def main(paths: Sequence[str]) -> None:
    """Print the tables.

    Args:
        paths: logs to thin.
    """
    print(
        f"{NUM_TASKS} tasks, {NUM_SAMPLES} samples each, {NUM_DATA_SETS} data sets a population\n"
    )
    for line in known_populations():
        print(line, flush=True)
    if paths:
        print(f"\nLogs thinned to their first {NUM_SAMPLES} samples of each task\n")
        for line in thinned_logs([Path(path) for path in paths]):
            print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
