"""Rows as a command might have written them wrongly, each in the place of right ones."""

import math
from typing import Any

Rows = tuple[dict[str, Any], ...]


def weights_at_another_alpha(rows: Rows, alpha: float) -> Rows:
    """The weights of another target than the one that was asked for."""
    return tuple(
        {**row, "log_weight": alpha * row["base_logp"] - row["behavior_logp"]} for row in rows
    )


def sums_in_place_of_means(rows: Rows, num_particles: int) -> Rows:
    """Populations whose weights add up to the evidence's N-fold."""
    return tuple({**row, "log_weight": row["log_weight"] + math.log(num_particles)} for row in rows)


def proposals_in_place_of_states(rows: Rows, proposals: Rows) -> Rows:
    """Chains that report what they last started from."""
    return tuple(
        {**row, "tokens": proposal["tokens"]} for row, proposal in zip(rows, proposals, strict=True)
    )


def one_row_of_each_population(rows: Rows) -> Rows:
    """The first particle of each population, whatever its weight, called a draw."""
    first = {row["population_id"]: row for row in reversed(rows)}
    return tuple(first.values())
