"""The tables of `allocation-tables` for people."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from rich.table import Table

from experiments.terminal import make_table

Row = Mapping[str, Any]


def titled(found: Mapping[str, pa.Table]) -> Iterator[tuple[str, Table]]:
    """The tables that fit a screen; the others are in the run folder.

    Args:
        found: the run's tables.

    Yields:
        Titles and tables.
    """
    for name, (title, columns, chosen) in _SHOWN.items():
        if name in found:
            rows = [row for row in found[name].to_pylist() if chosen(row)]
            table = make_table(*columns)
            for row in rows:
                table.add_row(*(_text(row[column]) for column in columns))
            yield title, table


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _every(row: Row) -> bool:
    return True


_SHOWN: dict[str, tuple[str, tuple[str, ...], Callable[[Row], bool]]] = {
    "accounting": (
        "PC-2: rollouts of Pilot-Commit's loop",
        ("seed", "update", "rounds", "explore", "commit", "sampled", "trained", "dropped", "held"),
        lambda row: row["seed"] == 0,
    ),
    "costs": (
        "PC-6: rollouts per trained group, and dynamic sampling over Pilot-Commit (below 1: it loses)",
        (
            "population",
            "group_size",
            "effective",
            "kappa",
            "dynamic_sampling",
            "dapo",
            "idealised",
            "coded",
            "idealised_ratio",
            "coded_ratio",
            "push_coded",
        ),
        _every,
    ),
    "lost": (
        "PC-5: mixed groups that the screen loses",
        ("population", "pilots", "group_size", "screened_out", "mixed", "mixed_lost_share"),
        _every,
    ),
    "evicted": (
        "PC-4: evicted prompts, rates standing still",
        (
            "population",
            "pilots",
            "evicted",
            "mean_rate",
            "solved_again",
            "group_mixed",
            "mastered_for_published",
        ),
        _every,
    ),
    "optimality": (
        "HORA-2: greedy against every allocation",
        ("successes", "extra", "greedy", "greedy_value", "best_value"),
        _every,
    ),
    "priors": (
        "HORA-3: priors, infinitely many prompts",
        ("world", "prior", "hit", "mixed", "hit_gain"),
        _every,
    ),
    "capped": (
        "HORA-5: batches of 8 prompts, mean 16, every batch weighed (cap 0: none)",
        ("population", "rule", "cap", "hit", "mixed", "mean_largest", "largest"),
        _every,
    ),
    "trade": (
        "HORA-6: hits against mixed groups, infinitely many prompts",
        ("population", "rule", "hit", "mixed", "largest"),
        _every,
    ),
    "sweep": (
        "SARA-2: n = 8, by the stop",
        ("population", "stop", "threshold", "cost", "saving", "false_abandonment", "missed_share"),
        lambda row: row["group_size"] == 8,
    ),
    "times": (
        "SARA-3: when SARA decides, tau .45",
        ("population", "group_size", "step", "committed", "abandoned", "committed_of_effective"),
        lambda row: row["group_size"] == 8,
    ),
    "abandoned": (
        "SARA-4: of abandoned prompts, P(a full group would have been mixed)",
        ("believed", "population", "threshold", "abandoned", "predicted", "actual", "kept"),
        lambda row: row["threshold"] == 0.45,
    ),
    "dominance": (
        "SARA-5: odds(q_m) / odds(P) - m / n at the best stop of each population",
        ("population", "group_size", "stop", "margin", "saving", "holds"),
        lambda row: row["best"],
    ),
    "table": (
        "Beside what was published",
        ("table", "setting", "quantity", "ours", "published", "evidence", "verdict"),
        _every,
    ),
}
