"""The statistics of a log as users of pandas write them: once well, once as is customary."""

from collections import defaultdict
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.json

from theory.estimators.votes import majority_at_ks

KS = (1, 2, 4, 8)
NUM_RESAMPLES, NUM_GROUPS = 10_000, 500


def fair_statistics(log: Path) -> dict[str, float]:
    """Pyarrow's reader and vectorised group-bys.

    Two things that pandas has no word for are taken from ours: the mean of a vote over all subsets, and resampling random groups of tasks instead of tasks,
    without which 10,000 resamples would take longer than everything else.

    Args:
        log: of JSON lines.

    Returns:
        name -> value, as `rolloutlab analyze` names them, and the ends of the intervals over tasks as "NAME low" and "NAME high".
    """
    frame: Any = pyarrow.json.read_json(log).to_pandas()
    frame["task"], frame["answer"] = (
        pd.factorize(frame[name])[0] for name in ("prompt_id", "answer")
    )
    groups = frame.groupby("task", sort=True)
    size = groups.size().to_numpy()
    right = groups["correct"].sum().to_numpy()
    by_task: dict[str, np.ndarray] = {}
    for k in KS:
        missed = np.ones(size.size)
        for i in range(k):
            missed *= np.maximum(size - right - i, 0) / (size - i)
        by_task[f"pass@{k}"] = 1 - missed
    votes = frame.groupby(["task", "answer"], sort=True)["correct"].agg(["size", "mean"])
    answers = votes.groupby(level=0, sort=True).size().to_numpy()
    offsets = np.append(0, answers.cumsum())
    majority = majority_at_ks(votes["size"].to_numpy(), votes["mean"].to_numpy(), offsets, size, KS)
    by_task |= {f"majority@{k}": majority[:, place] for place, k in enumerate(KS)}
    by_task["unique_answer_rate"] = answers / size
    ordered = frame.sort_values(["task", "score"], kind="stable")
    owner, best = ordered["task"].to_numpy(), ordered["correct"].to_numpy()
    rank, samples = ordered.groupby("task").cumcount().to_numpy(), size[owner]
    for k in KS:
        weight = np.full(len(frame), k / samples)
        for i in range(k - 1):
            weight *= np.maximum(rank - i, 0) / (samples - 1 - i)
        by_task[f"best_of_n@{k}"] = np.bincount(owner, weight * best, minlength=size.size)
    tokens = groups["completion_tokens"].sum().to_numpy()
    log_weight = frame["target_logp"] - frame["behavior_logp"]
    weight = np.exp(log_weight - log_weight.groupby(frame["task"]).transform("max"))
    total = weight.groupby(frame["task"]).sum()
    found = {name: float(values.mean()) for name, values in by_task.items()} | {
        "tokens_mean": float(frame["completion_tokens"].mean()),
        "tokens_median": float(frame["completion_tokens"].median()),
        "ess": float((total**2 / (weight**2).groupby(frame["task"]).sum()).median()),
    }
    return found | _intervals(by_task | {"tokens_mean": tokens / size.mean()})


def _intervals(by_task: dict[str, np.ndarray]) -> dict[str, float]:
    """Of tasks of equal size: means over tasks."""
    rng = np.random.default_rng(0)
    values = np.stack(list(by_task.values()), axis=1)
    number = min(NUM_GROUPS, len(values))
    group = rng.permutation(len(values)) % number
    sums = np.stack([np.bincount(group, column) for column in values.T], axis=1)
    sizes = np.bincount(group)
    counts = rng.multinomial(number, np.full(number, 1 / number), NUM_RESAMPLES)
    means = (counts @ sums) / (counts @ sizes)[:, None]
    low, high = np.quantile(means, [0.025, 0.975], axis=0)
    ends = zip(by_task, low, high, strict=True)
    return {
        f"{name} {word}": float(end)
        for name, *both in ends
        for word, end in zip(("low", "high"), both, strict=True)
    }


def customary_statistics(log: Path) -> dict[str, float]:
    """The default reader and a loop over groups.

    Args:
        log: of JSON lines.

    Returns:
        name -> value.
    """
    frame: Any = pd.read_json(log, lines=True)
    sums: defaultdict[str, float] = defaultdict(float)
    for _, group in frame.groupby("prompt_id"):
        n, c = len(group), int(group["correct"].sum())
        for k in KS:
            sums[f"pass@{k}"] += 1 - comb(n - c, k) / comb(n, k)
        top = group["answer"].value_counts().index[0]
        sums["majority"] += float(group[group["answer"] == top]["correct"].mean())
        sums["best_of_n"] += float(group["correct"].to_numpy()[group["score"].argmax()])
        sums["unique_answer_rate"] += float(group["answer"].nunique()) / n
        weight = np.exp((group["target_logp"] - group["behavior_logp"]).to_numpy())
        sums["ess"] += float(weight.sum() ** 2 / (weight**2).sum())
        sums["tokens_mean"] += float(group["completion_tokens"].mean())
    tasks = frame["prompt_id"].nunique()
    return {name: total / tasks for name, total in sums.items()}
