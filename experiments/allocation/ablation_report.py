"""The tables of `allocation-ablations` for people: means and 95 % t intervals over seeds; differences are taken seed by seed."""

from collections.abc import Iterator, Mapping
from typing import Literal, get_args

import numpy as np
import pyarrow as pa
from rich.table import Table

from experiments.allocation.ablation_regimes import PUBLISHED
from experiments.allocation.report import Row, over, split, with_interval
from theory.estimators.interval import t_interval

Verdict = Literal["better", "tie", "worse"]


def report(found: Mapping[str, pa.Table]) -> Iterator[Table]:
    """All tables that the run has rows for.

    Args:
        found: the run's tables.

    Yields:
        Tables for a terminal.
    """
    runs = split(found["table"].to_pylist(), "kind")
    targets = split(found["targets"].to_pylist(), "regime")
    for regime, rows in split(runs.get("pilots", []), "regime").items():
        yield _pilots(regime, rows, targets[regime])
    if "coverage" in runs:
        yield _coverage(runs["coverage"])
    if "forms" in runs:
        yield _forms(runs["forms"])
    if "priors" in runs:
        yield _priors(runs["priors"])
    if found["norms"].num_rows:
        yield _norms(found["norms"].to_pylist())


def _pilots(regime: str, rows: list[Row], targets: list[Row]) -> Table:
    table = Table(
        title=f"{regime}: switches of Pilot-Commit; uniform over it: rollouts of uniform allocation to its smoothed peak over those of the variant (geometric mean)"
    )
    for name in ("variant", "cost", "effective share", "pass@1", "reached", "uniform over it"):
        table.add_column(name, justify="left" if name == "variant" else "right")
    table.add_column(f"{PUBLISHED} over it", justify="right")
    by_method = split(targets, "method")
    uniform, published = (
        {row["seed"]: row for row in by_method.get(name, [])} for name in ("uniform", PUBLISHED)
    )
    for name, runs in split(rows, "method").items():
        reached = sum(row["reached"] for row in by_method[name])
        table.add_row(
            name,
            with_interval((row["cost"] for row in runs), 2),
            with_interval((row["effective_share"] for row in runs), 2),
            with_interval(row["accuracy"] for row in runs),
            f"{reached} of {len(runs)}",
            over(by_method[name], uniform),
            over(by_method[name], published) if published else "",
        )
    return table


def differences(rows: list[Row], rule: str, baseline: str, column: str) -> np.ndarray:
    """A rule less a baseline, seed by seed.

    Args:
        rows: runs of one setting.
        rule: its name.
        baseline: its name.
        column: that is compared.

    Returns:
        One number a seed.
    """
    by_rule = {
        name: {row["seed"]: row[column] for row in mine}
        for name, mine in split(rows, "method").items()
    }
    return np.array([by_rule[rule][seed] - value for seed, value in by_rule[baseline].items()])


def verdict(found: np.ndarray) -> Verdict:
    """Whether the 95 % interval of the mean lies on one side of 0.

    Args:
        found: differences, one a seed.

    Returns:
        A word; tie where the interval holds 0 or there is one seed only.
    """
    if found.size < 2:
        return "tie"
    interval = t_interval(found)
    return "better" if interval.low > 0 else "worse" if interval.high < 0 else "tie"


def _coverage(rows: list[Row]) -> Table:
    table = Table(
        title="HORA less uniform allocation at equal rollouts: pass@k of the held-out prompts at the end, in points"
    )
    table.add_column("regime")
    columns = ("accuracy", "coverage_8", "coverage_32")
    for k in (1, 8, 32):
        table.add_column(f"pass@{k}", justify="right")
    found: list[list[np.ndarray]] = []
    for regime, mine in split(rows, "regime").items():
        found.append([100 * differences(mine, "hora", "uniform", column) for column in columns])
        table.add_row(regime, *(with_interval(cell, 2) for cell in found[-1]))
    _count_verdicts(table, found)
    return table


def _count_verdicts(table: Table, found: list[list[np.ndarray]], *before: str) -> None:
    """Three rows at the end: how many of the rows above are better, a tie and worse, column by column."""
    table.add_section()
    verdicts = [[verdict(cell) for cell in row] for row in found]
    for word in get_args(Verdict):
        counts = (str(column.count(word)) for column in zip(*verdicts, strict=True))
        table.add_row(word, *before, *counts)


def _forms(rows: list[Row]) -> Table:
    table = Table(title="Forms of the advantage, every rule for the same updates")
    for name in ("form", "rule", "cost", "against dynamic sampling", "pass@1", "pass@32"):
        table.add_column(name, justify="left" if name in ("form", "rule") else "right")
    for name in ("pass@1 less uniform, points", "pass@32 less uniform, points"):
        table.add_column(name, justify="right")
    for form, mine in split(rows, "regime").items():
        by_rule = split(mine, "method")
        sampled = {row["seed"]: row["cost"] for row in by_rule.get("dynamic-sampling", [])}
        for rule, runs in by_rule.items():
            against = [
                row["cost"] / sampled[row["seed"]] - 1 for row in runs if row["seed"] in sampled
            ]
            table.add_row(
                form,
                rule,
                with_interval((row["cost"] for row in runs), 2),
                with_interval(against, 2) if against else "",
                with_interval(row["accuracy"] for row in runs),
                with_interval(row["coverage_32"] for row in runs),
                *(
                    ""
                    if rule == "uniform"
                    else with_interval(100 * differences(mine, rule, "uniform", column), 2)
                    for column in ("accuracy", "coverage_32")
                ),
            )
        table.add_section()
    return table


def _priors(rows: list[Row]) -> Table:
    table = Table(
        title="HORA with learned priors less HORA with the flat one at equal rollouts, in points: held-out prompts at the end, their mean pass@8 over the updates, and effective groups"
    )
    columns = ("accuracy", "coverage_8", "coverage_32", "mean_coverage_8", "effective_share")
    names = ("regime", "prior", "pass@1", "pass@8", "pass@32", "mean pass@8", "effective share")
    for name in names:
        table.add_column(name, justify="left" if name in ("regime", "prior") else "right")
    learned: list[list[np.ndarray]] = []
    for regime, mine in split(rows, "regime").items():
        for rule in split(mine, "method"):
            if rule != "hora":
                found = [100 * differences(mine, rule, "hora", column) for column in columns]
                table.add_row(regime, rule, *(with_interval(cell, 2) for cell in found))
                if rule != "uniform":
                    learned.append(found)
        table.add_section()
    _count_verdicts(table, learned, "learned")
    return table


def _norms(rows: list[Row]) -> Table:
    table = Table(
        title="Mean squared length of an update by its effective groups: random batches over the exact expectation, and how it grows"
    )
    for name in ("policy", "seed", "effective groups", "simulated / exact", "largest |z|"):
        table.add_column(name, justify="left" if name == "policy" else "right")
    table.add_column("mean part overtakes at", justify="right")
    table.add_column("growth exponent of the length", justify="right")
    for policy, of_policy in split(rows, "policy").items():
        for seed, mine in split(of_policy, "seed").items():
            counts = np.array([row["effective"] for row in mine], np.float64)
            found, exact, error = (
                np.array([row[name] for row in mine])
                for name in ("squared_norm", "exact", "standard_error")
            )
            weights = np.array([row["batches"] for row in mine])
            slope = np.polyfit(np.log(counts), 0.5 * np.log(found), 1, w=np.sqrt(weights))[0]
            table.add_row(
                policy,
                str(seed),
                f"{counts.min():.0f} to {counts.max():.0f}",
                f"{np.average(found / exact, weights=weights):.4f}",
                f"{np.abs((found - exact) / error).max():.1f}",
                f"{mine[0]['turning_point']:.1f}",
                f"{slope:.2f}",
            )
    return table
