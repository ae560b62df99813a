"""What a run of `rolloutlab validate` found in one family: z-scores of all rows, and what each row could have seen.

The table is that of a run and not a committed one: this figure is drawn where the command is run.
"""

from typing import Any

import numpy as np
import pyarrow as pa
from matplotlib.figure import Figure
from scipy import stats

from paper_figures.style import DOUBLE_COLUMN, paper_style

SCHEMA = pa.schema(
    [
        pa.field("kernel", pa.string(), nullable=False),
        pa.field("z", pa.float64(), nullable=False),
        pa.field("share_of_limit", pa.float64(), nullable=False),
        pa.field("verdict", pa.string(), nullable=False),
    ]
)

_COLORS = {"ok": "#0072B2", "biased": "#D55E00", "underpowered": "#999999"}
_SHOWN = 12.0  # z-scores beyond are drawn at the edge


def as_row(row: Any) -> dict[str, Any]:
    """What the figure needs of a row.

    Args:
        row: of the validation, with kernel, z, minimum_detectable, limit and verdict.

    Returns:
        A row of SCHEMA.
    """
    share = row.minimum_detectable / row.limit if row.limit > 0 else 1.0
    return {"kernel": row.kernel, "z": row.z, "share_of_limit": share, "verdict": row.verdict}


def draw(table: pa.Table, level: float) -> Figure:
    """Z-scores by kernel, and the smallest bias that each row could have seen as a share of its limit.

    Claim: no estimate is further from its truth than chance explains, and every row could have seen its limit.

    Args:
        table: columns of SCHEMA, of one family.
        level: false-alarm probability of a row; its two-sided quantile is marked.

    Returns:
        The figure.
    """
    kernels = list(dict.fromkeys(table["kernel"].to_pylist()))
    places = np.array([kernels.index(name) for name in table["kernel"].to_pylist()], float)
    spread = places + _offsets(places)
    z = np.clip(np.nan_to_num(table["z"].to_numpy(), nan=_SHOWN), -_SHOWN, _SHOWN)
    share = np.clip(table["share_of_limit"].to_numpy(), 1e-4, 10.0)
    colors = [_COLORS[verdict] for verdict in table["verdict"].to_pylist()]
    quantile = float(stats.norm.isf(level / 2))
    with paper_style():
        figure = Figure(figsize=(DOUBLE_COLUMN, 1.0 + 0.22 * len(kernels)), layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True)
        left.scatter(z, spread, s=8, c=colors, linewidths=0)
        for edge in (-quantile, quantile):
            left.axvline(edge, color="0.5", linewidth=0.6, linestyle="--")
        left.set_xlim(-_SHOWN - 0.5, _SHOWN + 0.5)
        left.set_xlabel("z (normal score)")
        left.set_yticks(range(len(kernels)), kernels)
        left.invert_yaxis()
        right.scatter(share, spread, s=8, c=colors, linewidths=0)
        right.axvline(1.0, color="0.5", linewidth=0.6, linestyle="--")
        right.set_xscale("log")
        right.set_xlabel("smallest bias seen / limit")
    return figure


def _offsets(places: np.ndarray) -> np.ndarray:
    """Rows of one kernel side by side, so that none hides another."""
    offsets = np.zeros(places.size)
    for place in np.unique(places):
        members = np.flatnonzero(places == place)
        offsets[members] = np.linspace(-0.3, 0.3, members.size) if members.size > 1 else 0.0
    return offsets
