"""What the tables of estimators show, in short lines."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from experiments.equal_cost_problem import APPROXIMATE, EXACT, WEIGHTED
from experiments.equal_cost_ranking import MATCHED
from experiments.estimator_tables import LIMIT, bias_gaps

_COLUMNS = {"generated_tokens": "generated", "all_tokens": "generated or read"}
_METRICS = {"rmse_length": "E[length]", "rmse_first_token": "P(first token)"}


def sentences(found: Mapping[str, pa.Table]) -> list[str]:
    """Agreement with the exact moments, the winners at equal cost, and where the columns disagree.

    Args:
        found: the run's tables.

    Returns:
        Lines.
    """
    ranking = found["ranking"].to_pylist()
    return [
        _agreement(found["table"].to_pylist()),
        *_winners(ranking),
        _reversals(ranking),
        _kinds(found["cost"].to_pylist()),
    ]


def _agreement(rows: list[dict[str, Any]]) -> str:
    gaps = bias_gaps(rows)
    gap, (method, quantity), row = max(gaps, key=lambda found: found[0])
    num_wrong = sum(gap > LIMIT for gap, _, _ in gaps)
    verdict = f"{num_wrong} contradict" if num_wrong else "none contradicts"
    return (
        f"Of {len(rows)} simulated biases {len(gaps)} have an exact value, and {verdict} it by more than {LIMIT:g} standard errors; "
        f"the largest gap is {gap:.2g} ({method} {quantity}, {row['model']}, alpha {row['alpha']:g}, N {row['num_draws']})."
    )


def _winners(ranking: list[dict[str, Any]]) -> list[str]:
    lines: list[str] = []
    firsts = [row for row in ranking if row["matched"] == MATCHED[-1]]
    for model in dict.fromkeys(row["model"] for row in firsts):
        for metric, text in _METRICS.items():
            here = [row for row in firsts if (row["model"], row["metric"]) == (model, metric)]
            if not here:
                continue
            budget = max(row["budget"] for row in here)
            best, *others = sorted(
                (row for row in here if row["budget"] == budget), key=lambda row: row["rank"]
            )
            line = (
                f"{model}, alpha {best['alpha']:g}, {budget:g} tokens {_COLUMNS[MATCHED[-1]]}: {best['method']} "
                f"has the least RMSE of {text}, {best['error']:.3g}"
            )
            if others:
                line += f"; next {others[0]['method']} {others[0]['error']:.3g}"
                line += f", last {others[-1]['method']} {others[-1]['error']:.3g}" * (
                    len(others) > 1
                )
            lines.append(f"{line}.")
    return lines


def _reversals(ranking: list[dict[str, Any]]) -> str:
    pairs = sorted(
        {
            (row["model"], *sorted((row["method"], rival)))
            for row in ranking
            for rival in row["reverses_with"].split()
        }
    )
    start = "Matched were generated tokens, and generated plus prefill tokens"
    if not pairs:
        return f"{start}: no two methods are clearly ordered one way by the one and the other way by the other."
    named = "; ".join(f"{first} and {second} on {model}" for model, first, second in pairs)
    return f"{start}. The order depends on which for {named}."


def _kinds(cost: list[dict[str, Any]]) -> str:
    kinds = {
        kind: ", ".join(dict.fromkeys(row["method"] for row in cost if row["kind"] == kind))
        for kind in (EXACT, WEIGHTED, APPROXIMATE)
    }
    return " ".join(f"{kind.capitalize()}: {names}." for kind, names in kinds.items() if names)
