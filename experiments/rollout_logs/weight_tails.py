"""What needs the weights of many tasks at once: the tail of all of them, and the exponent at which too little of the sample is left."""

from collections.abc import Mapping
from typing import NamedTuple

import duckdb
import numpy as np
import pyarrow as pa

from experiments.rollout_logs.analysis import IntervalRecord
from experiments.rollout_logs.database import one_number
from experiments.rollout_logs.drafts import median_ranks
from experiments.rollout_logs.facts import Facts, unusable
from experiments.rollout_logs.options import AnalysisOptions
from experiments.rollout_logs.task_table import Column
from theory.estimators.off_policy import largest_alpha, largest_alpha_of_rank
from theory.estimators.off_policy.power import LARGEST_ALPHA
from theory.log_weights import num_tail_weights, pareto_k_of_largest

# Rows and tasks that the exponent is searched on; the median over so many random tasks is near that over all.
_MOST_ROWS = 200_000
_MOST_TASKS = 2000


class Tail(NamedTuple):
    """The largest weights.

    Attributes:
        shape: k-hat; -inf where the largest are equal, inf where too few differ.
        num_weights: of which they are the largest.
    """

    shape: float
    num_weights: int


class AlphaLimit(NamedTuple):
    """The exponent at which the median effective sample size falls under a limit.

    Attributes:
        alpha: NaN where it is under it at 1 already, inf where nowhere up to the end of the search.
        interval: over tasks, or None.
        tasks: looked at.
        rows: of them.
    """

    alpha: float
    interval: IntervalRecord | None
    tasks: int
    rows: int


def tails_of(
    connection: duckdb.DuckDBPyConnection,
    facts: Facts,
    table: Mapping[str, Column],
    options: AnalysisOptions,
) -> dict[str, Tail]:
    """The tails of the weights that the log has.

    Args:
        connection: with `staged` and `prompts`.
        facts: of the log.
        table: of the tasks.
        options: the exponent.

    Returns:
        "is" and "power", as far as there are such weights. Powers are relative to the mean weight of their task, whose constant is unknown.
    """
    found: dict[str, Tail] = {}
    present = facts.present
    wanted = options.wants("pareto_k")
    if wanted and present["target_logp"] and present["behavior_logp"]:
        found["is"] = _tail(connection, _difference("target_logp", "behavior_logp"))
    elif wanted and present["log_weight"]:
        usable = "CASE WHEN isfinite(log_weight) OR log_weight = '-inf'::DOUBLE THEN log_weight END"
        found["is"] = _tail(connection, f"SELECT {usable} AS w FROM staged")
    wanted = options.power_alpha is not None and options.wants("power_pareto_k")
    if "power_log_total" in table and wanted:
        number = np.maximum(table["power_number"], 1.0)
        means = table["power_log_total"] - np.log(number)
        codes = np.arange(means.size, dtype=np.int64)
        connection.register("power_means", pa.table({"code": codes, "mean": means}))
        power = _difference(f"{options.power_alpha!r}::DOUBLE * base_logp", "behavior_logp")
        joined = (
            f"SELECT w - mean AS w FROM ({power}) JOIN prompts USING (prompt) "
            "JOIN power_means USING (code) WHERE isfinite(mean)"
        )
        found["power"] = _tail(connection, joined)
        connection.unregister("power_means")
    return found


def _difference(above: str, below: str) -> str:
    names = [name for name in ("target_logp", "base_logp") if name in above] + [below]
    usable = " AND ".join(f"{name} IS NOT NULL AND NOT {unusable(name)}" for name in names)
    return f"SELECT prompt, {above} - {below} AS w FROM staged WHERE {usable}"


def _tail(connection: duckdb.DuckDBPyConnection, weights: str) -> Tail:
    size = one_number(connection, f"SELECT count(w) FROM ({weights})")
    if size < 2:
        return Tail(float("inf"), size)
    wanted = num_tail_weights(size) + 1
    query = f"SELECT w FROM ({weights}) WHERE w IS NOT NULL ORDER BY w DESC LIMIT {wanted}"
    largest = connection.sql(query).to_arrow_table().column("w").to_numpy()
    return Tail(pareto_k_of_largest(largest, size), size)


def alpha_limit(
    connection: duckdb.DuckDBPyConnection,
    facts: Facts,
    least_ess: float,
    options: AnalysisOptions,
) -> AlphaLimit | None:
    """The exponent at which the median effective sample size over tasks falls under a limit.

    Args:
        connection: with `staged` and `prompts`.
        facts: of the log.
        least_ess: the limit.
        options: seed and level.

    Returns:
        It, with an interval; None where no task has weights.
    """
    tasks = min(_MOST_TASKS, facts.prompts, max(1, _MOST_ROWS * facts.prompts // facts.rows))
    rng = np.random.default_rng([options.seed, 2])
    codes = np.sort(rng.choice(facts.prompts, tasks, replace=False)).astype(np.int64)
    connection.register("chosen", pa.table({"code": codes}))
    usable = " AND ".join(
        f"{name} IS NOT NULL AND NOT {unusable(name)}" for name in ("base_logp", "behavior_logp")
    )
    found = connection.sql(
        "SELECT code, base_logp, behavior_logp FROM staged JOIN prompts USING (prompt) JOIN chosen USING (code) "
        f"WHERE {usable} ORDER BY ALL"
    ).to_arrow_table()
    connection.unregister("chosen")
    code, base, behavior = (column.to_numpy() for column in found.columns)
    if not code.size:
        return None
    starts = np.flatnonzero(np.append(True, code[1:] != code[:-1]))
    offsets = np.append(starts, code.size).astype(np.int64)
    alpha = largest_alpha(base, behavior, offsets, least_ess)
    ranks = median_ranks(starts.size, options.level)
    interval = None
    if ranks is not None and np.isfinite(alpha):
        low, high = (
            largest_alpha_of_rank(base, behavior, offsets, least_ess, rank) for rank in ranks
        )
        interval = IntervalRecord(
            1.0 if np.isnan(low) else low,
            min(high, LARGEST_ALPHA),
            options.level,
            "where order statistics of ess over tasks cross the limit (binomial)",
        )
    return AlphaLimit(alpha, interval, starts.size, code.size)
