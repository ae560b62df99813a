"""What measured twists come to: variances of log Z_hat and their ratios, with intervals."""

from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float64

from experiments import tables
from theory.estimators import ratio_interval, resample_counts

MEASURED = tables.schema(
    model=str, twist=str, prompt=int, num_particles=int, population=int, log_Z_hat=float
)
SUMMARY = tables.schema(
    model=str, twist=str, variance_log_Z_hat=float, ratio=float, low=float, high=float, unit=str
)
NO_TWIST = "none"
PLAIN = "plain filter"


def summary_of(table: pa.Table, seed: int) -> pa.Table:
    """Var(log Z_hat) within prompts, averaged over them, and its ratio to that without a twist with a 95 % interval.

    Args:
        table: of `measure`, of one or several models.
        seed: of the resamples: of prompts, or of populations where there is one prompt.

    Returns:
        A row a model and twist.
    """
    rows: list[dict[str, Any]] = []
    for model in dict.fromkeys(table["model"].to_pylist()):
        twists = dict.fromkeys(tables.column(table, "twist", model=model).tolist())
        squares = {twist: _squares(table, model, twist) for twist in twists}
        below = squares[NO_TWIST]
        one = len(below) == 1
        unit = "populations" if one else "prompts"
        counts = resample_counts(np.random.default_rng(seed), below.shape[1 if one else 0])
        for twist, above in squares.items():
            a, b = (found[0] if one else found.mean(axis=1) for found in (above, below))
            interval = ratio_interval(counts, a, b)
            rows.append(
                {
                    "model": model,
                    "twist": twist,
                    "variance_log_Z_hat": above.mean(),
                    "ratio": a.mean() / b.mean(),
                    "low": interval.low,
                    "high": interval.high,
                    "unit": unit,
                }
            )
    return tables.from_rows(SUMMARY, rows)


def _squares(table: pa.Table, model: str, twist: str) -> Float64[np.ndarray, "B M"]:
    """[prompts, populations] squared deviations whose mean is the unbiased variance."""
    num_prompts = len(set(tables.column(table, "prompt", model=model, twist=twist).tolist()))
    values = tables.column(table, "log_Z_hat", model=model, twist=twist).reshape(num_prompts, -1)
    num = values.shape[1]
    return (values - values.mean(axis=1, keepdims=True)) ** 2 * (num / (num - 1))
