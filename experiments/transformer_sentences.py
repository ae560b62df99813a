"""What the comparison on a transformer shows, in a few lines."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

_METRICS = {
    "accuracy": "accuracy",
    "log_p": "mean log p",
    "diversity": "diversity",
}


def sentences(found: Mapping[str, pa.Table], tokens: int) -> list[str]:
    """The truth, who comes nearest to it, and what base samples had foretold.

    Args:
        found: the run's tables.
        tokens: generated tokens of a replicate.

    Returns:
        Lines.
    """
    summary = found["summary"].to_pylist()
    lines: list[str] = []
    for alpha in dict.fromkeys(row["alpha"] for row in summary):
        own = {(row["method"], row["metric"]): row for row in summary if row["alpha"] == alpha}
        truth = [row for row in found["truth"].to_pylist() if row["alpha"] == alpha]
        lines += [_truth(alpha, own, truth), *_nearest(alpha, own, tokens)]
    return [*lines, *_foretold(found["prediction"].to_pylist())]


def _truth(alpha: float, own: dict[Any, Any], truth: list[dict[str, Any]]) -> str:
    base, heat, power = (
        own[law, "accuracy"] for law in ("base_law", "temperature_law", "power_law")
    )
    width = max(
        float(
            np.mean([row["accuracy_high"] - row["accuracy"] for row in truth if row["law"] == law])
        )
        for law in ("base_law", "temperature_law", "power_law")
    )
    return (
        f"alpha {alpha:g}, exact to {width:.1e} over {power['prompts']} prompts: one answer is right with probability "
        f"{base['value']:.3f} under the base law, {heat['value']:.3f} under temperature 1/{alpha:g}, {power['value']:.3f} under power; "
        f"temperature minus power {_interval(heat, 'gap')}."
    )


def _nearest(alpha: float, own: dict[Any, Any], tokens: int) -> list[str]:
    methods = [
        name
        for name in dict.fromkeys(name for name, _ in own)
        if not name.endswith("_law") and name != "temperature"
    ]
    lines: list[str] = []
    if not methods:
        return lines
    for metric, text in _METRICS.items():
        order = sorted(methods, key=lambda name: abs(own[name, metric]["gap"]))
        best, last = own[order[0], metric], own[order[-1], metric]
        ties = [name for name in order[1:] if _overlap(own[name, metric], best)]
        line = f"alpha {alpha:g}, {tokens} tokens: {order[0]} comes nearest to the power law in {text}, off by {_interval(best, 'gap')}"
        if ties:
            line += f" (not told apart from it: {', '.join(ties)})"
        if last is not best:
            line += f"; farthest is {order[-1]}, off by {_interval(last, 'gap')}"
        lines.append(f"{line}.")
    return lines


def _overlap(row: dict[str, Any], other: dict[str, Any]) -> bool:
    return row["gap_low"] <= other["gap_high"] and other["gap_low"] <= row["gap_high"]


def _foretold(rows: list[dict[str, Any]]) -> list[str]:
    inside = [row for row in rows if row["inside_radius"]]
    if not rows:
        return []
    if not inside:
        return [
            f"Base samples foretell KL(power || temperature) within {rows[0]['radius']:.3g} of alpha = 1 only; no exponent asked for is."
        ]
    row = max(inside, key=lambda row: row["alpha"])
    held = "holds it" if row["low"] <= row["exact"] <= row["high"] else "does not hold it"
    line = (
        f"KL(power || temperature) at alpha {row['alpha']:g}, foretold from base samples: {row['predicted']:.4f} nats "
        f"[{row['low']:.4f}, {row['high']:.4f}]; exact {row['exact']:.4f}, the interval {held} (radius {row['radius']:.3g})."
    )
    return [line]


def _interval(row: dict[str, Any], name: str) -> str:
    return f"{row[name]:+.3f} [{row[f'{name}_low']:+.3f}, {row[f'{name}_high']:+.3f}]"
