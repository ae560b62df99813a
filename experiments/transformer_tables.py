"""Tables of power sampling on a transformer: what each method hands out, what the truth is, and both averaged over prompts."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float64, Int

from experiments import tables
from experiments.enumerated_truth import (
    Bounds,
    Enumeration,
    base_bounds,
    mean_under,
    power_bounds,
    power_weights,
    temperature_bounds,
)
from experiments.samplers.verdicts import judge
from experiments.transformer_methods import Handed
from models.tasks.task import Sequences, Task
from theory.estimators.bootstrap import difference_interval, mean_interval, resample_counts

METRICS = ("accuracy", "log_p", "length", "diversity")
LAWS = ("base_law", "temperature_law", "power_law")
TARGET = "power_law"
NUM_RESAMPLES = 10_000

METHOD_SCHEMA: pa.Schema = tables.schema(
    alpha=float, method=str, prompt=int, size=int, accuracy=float, log_p=float, length=float, diversity=float,
    ess_fraction=float, accept_rate=float, generated_tokens=float, model_calls=float,
)  # fmt: skip

TRUTH_SCHEMA: pa.Schema = tables.schema(
    alpha=float, law=str, prompt=int, accuracy=float, accuracy_high=float, log_p=float, length=float, diversity=float,
    missing=float,
)  # fmt: skip

SUMMARY_SCHEMA: pa.Schema = tables.schema(
    alpha=float, method=str, metric=str, value=float, low=float, high=float, gap=float, gap_low=float, gap_high=float,
    prompts=int,
)  # fmt: skip


def method_rows(
    alpha: float, method: str, handed: Handed, task: Task, prompts: Sequences
) -> list[dict[str, Any]]:
    """What a method hands out, a row a prompt.

    Args:
        alpha: exponent.
        method: its name.
        handed: its replicates.
        task: with the verifier.
        prompts: of P rows.

    Returns:
        Rows of `METHOD_SCHEMA`.
    """
    num_prompts, num_replicates, num_rows, width = handed.tokens.shape
    prompt_of = np.repeat(np.arange(num_prompts), num_replicates * num_rows)
    right, _ = judge(
        task, prompts, prompt_of, handed.tokens.reshape(-1, width), handed.lengths.reshape(-1)
    )

    def mean(values: np.ndarray) -> Float64[np.ndarray, " P"]:
        shaped = values.reshape(handed.weights.shape)
        return (handed.weights * shaped).sum(axis=2).mean(axis=1)

    columns = {
        "accuracy": mean(right),
        "log_p": mean(handed.log_p),
        "length": mean(handed.lengths),
        "diversity": np.array(list(map(diversity, handed.tokens, handed.weights))),
        "ess_fraction": handed.ess_fraction.mean(axis=1),
        "accept_rate": handed.accept_rate,
    }
    fixed = {"alpha": alpha, "method": method, "size": handed.size, **handed.cost}
    return [
        {**fixed, "prompt": prompt, **{name: values[prompt] for name, values in columns.items()}}
        for prompt in range(num_prompts)
    ]


def diversity(tokens: Int[np.ndarray, "R N T"], weights: Float64[np.ndarray, "R N"]) -> float:
    """Probability that two replicates hand out different rows.

        1 - sum_y (S(y)^2 - sum_r w_r(y)^2) / (R (R - 1))

    with w_r(y) the weight of y in replicate r and S its sum over replicates. Unbiased, over independent replicates of one prompt, for
    1 - sum_y (E w(y))^2, since only pairs of different replicates count.

    Args:
        tokens: [R, N, T] 0 past a row's length.
        weights: [R, N] sum to 1 over N.

    Returns:
        The estimate.
    """
    num_replicates, num_rows, width = tokens.shape
    _, which = np.unique(tokens.reshape(-1, width), axis=0, return_inverse=True)
    mass = np.zeros((which.max() + 1, num_replicates))
    replicate = np.repeat(np.arange(num_replicates), num_rows)
    np.add.at(mass, (which.reshape(-1), replicate), weights.reshape(-1))
    agree = (mass.sum(axis=1) ** 2).sum() - (mass**2).sum()
    return 1.0 - float(agree) / (num_replicates * (num_replicates - 1))


def truth_rows(found: Enumeration, task: Task, prompts: Sequences) -> list[dict[str, Any]]:
    """The three laws by enumeration, a row a prompt and law.

    Args:
        found: the completions.
        task: with the verifier.
        prompts: of P rows.

    Returns:
        Rows of `TRUTH_SCHEMA`: accuracy between `accuracy` and `accuracy_high`; the others over the completions that were enumerated, of which
        `missing` is the share that was not: of the law itself, and of Z, at most, for the power law.
    """
    correct, _ = judge(task, prompts, found.prompt_of, found.tokens, found.lengths)
    right = correct.astype(float)
    whole = power_bounds(found, np.ones_like(found.log_p))
    laws: tuple[tuple[str, np.ndarray, Bounds, np.ndarray], ...] = (
        (LAWS[0], np.exp(found.log_p), base_bounds(found, right), found.missing_p),
        (LAWS[1], np.exp(found.log_q), temperature_bounds(found, right), found.missing_q),
        (LAWS[2], power_weights(found), power_bounds(found, right), whole.high - whole.low),
    )
    rows: list[dict[str, Any]] = []
    for law, weights, accuracy, missing in laws:
        share = weights / np.bincount(found.prompt_of, weights)[found.prompt_of]
        log_p = mean_under(found, weights, found.log_p)
        length = mean_under(found, weights, found.lengths.astype(float))
        diversity = 1.0 - np.bincount(found.prompt_of, share**2)
        for prompt in range(len(missing)):
            rows.append(
                {
                    "alpha": found.alpha,
                    "law": law,
                    "prompt": prompt,
                    "accuracy": accuracy.low[prompt],
                    "accuracy_high": accuracy.high[prompt],
                    "log_p": log_p[prompt],
                    "length": length[prompt],
                    "diversity": diversity[prompt],
                    "missing": missing[prompt],
                }
            )
    return rows


def summary_rows(
    methods: Sequence[dict[str, Any]], truth: Sequence[dict[str, Any]], seed: int
) -> list[dict[str, Any]]:
    """Means over prompts with intervals, and paired gaps to the power law.

    Args:
        methods: rows of `METHOD_SCHEMA` at one alpha.
        truth: rows of `TRUTH_SCHEMA` at the same.
        seed: of the resamples of prompts, common to all.

    Returns:
        Rows of `SUMMARY_SCHEMA`: 95 % percentile bootstrap over prompts.
    """
    values: dict[tuple[str, str], Float64[np.ndarray, " P"]] = {}
    for rows, name in ((methods, "method"), (truth, "law")):
        for label in dict.fromkeys(row[name] for row in rows):
            own = sorted((row for row in rows if row[name] == label), key=lambda row: row["prompt"])
            for metric in METRICS:
                values[label, metric] = np.array([row[metric] for row in own])
    alpha = truth[0]["alpha"]
    num_prompts = len(values[TARGET, METRICS[0]])
    counts = resample_counts(np.random.default_rng(seed), num_prompts, NUM_RESAMPLES)
    found: list[dict[str, Any]] = []
    for (label, metric), own in values.items():
        target = values[TARGET, metric]
        mean, gap = mean_interval(counts, own), difference_interval(counts, own, target)
        found.append(
            {
                "alpha": alpha,
                "method": label,
                "metric": metric,
                "value": float(own.mean()),
                "low": mean.low,
                "high": mean.high,
                "gap": float((own - target).mean()),
                "gap_low": gap.low,
                "gap_high": gap.high,
                "prompts": num_prompts,
            }
        )
    return found
