"""The tables of `allocation-bandit` for people: means and 95 % t intervals over seeds, and what is not reached."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from rich.table import Table

from experiments.allocation.regret_report import regret_tables
from theory.estimators.interval import t_interval

Row = Mapping[str, Any]


def report(found: Mapping[str, pa.Table]) -> Iterator[Table]:
    """All tables that the run has rows for.

    Args:
        found: the run's tables.

    Yields:
        Tables for a terminal.
    """
    yield _stream(found["stream"].to_pylist())
    fixed = [row for row in found["table"].to_pylist() if row["kind"] == "fixed-updates"]
    for regime, rows in split(fixed, "regime").items():
        yield _fixed(regime, rows)
    for regime, rows in split(found["ledgers"].to_pylist(), "regime").items():
        yield _ledger(regime, rows)
    for regime, rows in split(found["targets"].to_pylist(), "regime").items():
        yield _targets(regime, rows)
    if found["regret"].num_rows:
        yield from regret_tables(found["regret"].to_pylist())


def with_interval(values: Iterable[float], digits: int = 3) -> str:
    """Mean and 95 % t interval over seeds.

    Args:
        values: one a seed.
        digits: after the point.

    Returns:
        `1.234 [1.100, 1.368]`; without an interval for a single seed or where a value is not finite.
    """
    array = np.array(list(values), np.float64)
    mean = f"{array.mean():.{digits}f}"
    if array.size < 2 or not np.isfinite(array).all():
        return mean
    interval = t_interval(array)
    return f"{mean} [{interval.low:.{digits}f}, {interval.high:.{digits}f}]"


def _stream(rows: list[Row]) -> Table:
    table = Table(
        title="Fresh streams: rollouts per effective group, exact (saving against dynamic sampling)"
    )
    table.add_column("population")
    table.add_column("n", justify="right")
    rules = list(split(rows, "rule"))
    for rule in rules:
        table.add_column(rule, justify="right")
    for population, mine in split(rows, "population").items():
        for size, cells in split(mine, "group_size").items():
            by_rule = {row["rule"]: row for row in cells}
            name = f"{population} (held out)" if cells[0]["held_out"] else population
            costs = (
                f"{by_rule[rule]['rollouts_per_group']:.1f} ({by_rule[rule]['saving']:+.0%})"
                for rule in rules
            )
            table.add_row(name, str(size), *costs)
    return table


def _fixed(regime: str, rows: list[Row]) -> Table:
    first = rows[0]
    table = Table(
        title=f"{regime}: {max(row['updates'] for row in rows)} updates of {first['batch_size']} groups, n = {first['group_size']}; cost in units of uniform"
    )
    for name in (
        "method",
        "information",
        "cost",
        "against dynamic sampling",
        "effective share",
        "pass@1",
        "pass@32",
        "calls per update",
    ):
        table.add_column(name, justify="left" if name in ("method", "information") else "right")
    by_method = split(rows, "method")
    sampled = {row["seed"]: row["cost"] for row in by_method.get("dynamic-sampling", [])}
    for method, runs in by_method.items():
        against = [row["cost"] / sampled[row["seed"]] - 1 for row in runs if row["seed"] in sampled]
        stopped = sum(row["stopped"] for row in runs)
        table.add_row(
            f"{method} ({stopped} of {len(runs)} stopped)" if stopped else method,
            runs[0]["information"],
            with_interval((row["cost"] for row in runs), 2),
            with_interval(against, 2) if against else "",
            with_interval((row["effective_share"] for row in runs), 2),
            with_interval(row["accuracy"] for row in runs),
            with_interval(row["coverage_32"] for row in runs),
            f"{np.mean([row['rounds'] for row in runs]):.1f}",
        )
    return table


def _ledger(regime: str, rows: list[Row]) -> Table:
    table = Table(
        title=f"{regime}: at one ledger, the {rows[0]['ledger']} rollouts of uniform allocation; effective rate: share of all rollouts that lie in effective groups"
    )
    for name in ("method", "effective rate", "updates", "pass@1", "pass@32"):
        table.add_column(name, justify="left" if name == "method" else "right")
    for method, runs in split(rows, "method").items():
        unfilled = sum(not row["filled"] for row in runs)
        table.add_row(
            f"{method} ({unfilled} of {len(runs)} ended before)" if unfilled else method,
            with_interval((row["effective_rate"] for row in runs), 2),
            f"{np.mean([row['updates'] for row in runs]):.0f}",
            with_interval(row["accuracy"] for row in runs),
            with_interval(row["coverage_32"] for row in runs),
        )
    return table


def _targets(regime: str, rows: list[Row]) -> Table:
    table = Table(
        title=f"{regime}: rollouts of uniform allocation to its smoothed peak, over those of each rule to the same accuracy (geometric mean over seeds)"
    )
    for name in ("method", "reached", "uniform over it", "dapo over it", "by seed"):
        table.add_column(name, justify="left" if name == "method" else "right")
    by_method = split(rows, "method")
    batched = {row["seed"]: row for row in by_method.get("dapo", [])}
    for method, runs in by_method.items():
        reached = sum(row["reached"] for row in runs)
        table.add_row(
            method,
            f"{reached} of {len(runs)}",
            over(runs, {row["seed"]: row for row in by_method["uniform"]}),
            over(runs, batched) if batched else "",
            " ".join(f"{'' if row['reached'] else '<'}{row['ratio']:.2f}" for row in runs),
        )
    return table


def over(runs: list[Row], others: Mapping[int, Row]) -> str:
    """Rollouts of another rule to the target over those of a rule, with the side on which a run that never arrived makes it a bound.

    Args:
        runs: rows of `target_tables.TARGETS`, of the rule.
        others: of the other rule, by seed.

    Returns:
        Geometric mean and 95 % interval; `at most` where the rule did not always arrive, `at least` where the other did not, `?` where neither did.
    """
    pairs = [(row, others[row["seed"]]) for row in runs if row["seed"] in others]
    missed = any(not row["reached"] for row, _ in pairs)
    other_missed = any(not other["reached"] for _, other in pairs)
    bound = {(False, False): "", (True, False): "at most ", (False, True): "at least "}
    ratios = [other["rollouts"] / row["rollouts"] for row, other in pairs]
    return f"{bound.get((missed, other_missed), '? ')}{geometric(ratios)}"


def geometric(ratios: list[float]) -> str:
    """Geometric mean and 95 % t interval of the logs, over seeds.

    Args:
        ratios: one a seed, above 0.

    Returns:
        `1.51 [1.07, 2.10]`; without an interval for a single seed.
    """
    logs = np.log(ratios)
    mean = f"{np.exp(logs.mean()):.2f}"
    if len(ratios) < 2:
        return mean
    interval = t_interval(logs)
    return f"{mean} [{np.exp(interval.low):.2f}, {np.exp(interval.high):.2f}]"


def split(rows: Iterable[Row], column: str) -> dict[Any, list[Row]]:
    """Rows by the value of a column, in the order of their first.

    Args:
        rows: of a table.
        column: its name.

    Returns:
        Value -> rows.
    """
    found: dict[Any, list[Row]] = {}
    for row in rows:
        found.setdefault(row[column], []).append(row)
    return found
