"""The statistics of a log as users of pandas write them: once well, once as is customary."""

from collections import defaultdict
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.json

KS = (1, 2, 4, 8)
POWER_ALPHA = 1.5
# Few: ours makes 10,000 of every statistic.
NUM_RESAMPLES = 20


def fair_statistics(log: Path) -> dict[str, float]:
    """Pyarrow's reader and vectorised group-bys.

    Majority is over all samples of a task, which needs no subsets; ours gives it at every k besides.

    Args:
        log: of JSON lines.

    Returns:
        name -> value, as `rolloutlab analyze` names them.
    """
    frame: Any = pyarrow.json.read_json(log).to_pandas()
    task = pd.factorize(frame["prompt_id"])[0]
    frame["task"] = task
    groups = frame.groupby("task", sort=True)
    size = groups.size().to_numpy()
    right = groups["correct"].sum().to_numpy()
    found: dict[str, float] = {}
    by_task: list[np.ndarray] = []
    frame = frame.sort_values(["task", "score"], kind="stable")
    rank = frame.groupby("task").cumcount().to_numpy()
    samples, owner = size[frame["task"]], frame["task"].to_numpy()
    for k in KS:
        missed = np.ones(size.size)
        below = np.ones(len(frame))
        for i in range(k):
            missed *= np.maximum(size - right - i, 0) / (size - i)
        for i in range(k - 1):
            below *= np.maximum(rank - i, 0) / (samples - 1 - i)
        by_task.append(1 - missed)
        found[f"pass@{k}"] = float(by_task[-1].mean())
        weight = below * k / samples
        best = np.bincount(owner, weight * frame["correct"].to_numpy(), minlength=size.size)
        found[f"best_of_n@{k}"] = float(best.mean())
    votes = frame.groupby(["task", "answer"], sort=False)["correct"].agg(["size", "mean"])
    most = votes["size"].groupby(level=0).transform("max")
    won = votes[votes["size"] == most]["mean"].groupby(level=0).mean()
    by_task.append(won.to_numpy())
    found["unique_answer_rate"] = float((groups["answer"].nunique().to_numpy() / size).mean())
    found["tokens_mean"] = float(frame["completion_tokens"].mean())
    found["tokens_median"] = float(frame["completion_tokens"].median())
    found["truncated_rate"] = float((frame["finish_reason"] == "length").mean())
    for name, log_weight in (
        ("ess", frame["target_logp"] - frame["behavior_logp"]),
        ("power_ess", POWER_ALPHA * frame["base_logp"] - frame["behavior_logp"]),
    ):
        weight = np.exp(log_weight - log_weight.groupby(frame["task"]).transform("max"))
        total = weight.groupby(frame["task"]).sum()
        found[name] = float((total**2 / (weight**2).groupby(frame["task"]).sum()).median())
    rng = np.random.default_rng(0)
    values = np.stack(by_task, axis=1)
    drawn = [
        values[rng.integers(0, size.size, size.size)].mean(axis=0) for _ in range(NUM_RESAMPLES)
    ]
    np.quantile(np.array(drawn), [0.025, 0.975], axis=0)
    return found


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
