"""What a run of `rolloutlab validate` found in one family: z-scores of all rows, and what each row could have seen.

The table is that of a run and not a committed one: this figure is drawn where the command is run.
"""

from typing import Any

import numpy as np
import pyarrow as pa
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

from paper_figures.style import ADAPTED, DOUBLE_COLUMN, FAINT, POWER, Look, mark, paper_style

SCHEMA = pa.schema(
    [
        pa.field("kernel", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("z", pa.float64(), nullable=False),
        pa.field("share_of_limit", pa.float64(), nullable=False),
        pa.field("verdict", pa.string(), nullable=False),
    ]
)

_LOOKS = {
    "ok": POWER._replace(marker="o"),
    "biased": ADAPTED._replace(marker="X"),
    "underpowered": Look(FAINT, "s", "solid"),
}
_FURTHEST = 12.0  # z-scores beyond are drawn at the edge
_SHARES = (0.01, 10.0)  # shares beyond are drawn at the edge


def as_row(row: Any) -> dict[str, Any]:
    """What the figure needs of a row.

    Args:
        row: of the validation, with kernel, kind, z, minimum_detectable, limit and verdict.

    Returns:
        A row of SCHEMA.
    """
    share = row.minimum_detectable / row.limit if row.limit > 0 else 1.0
    return {
        "kernel": row.kernel,
        "kind": row.kind,
        "z": row.z,
        "share_of_limit": share,
        "verdict": row.verdict,
    }


def draw(table: pa.Table, level: float) -> Figure:
    """Z-scores by kernel, and the smallest bias that each row could have seen as a share of its limit.

    Claim: no estimate is further from its truth than chance explains, and every row could have seen its limit.

    Laws have a panel of their own, whose limit is on the right alone: a law is missed where its score is large, and a low one says that
    frequencies are closer to it than usual. Numbers without randomness see their limit by construction and are not in the last panel.

    Args:
        table: columns of SCHEMA, of one family.
        level: false-alarm probability of a row; its quantiles are marked.

    Returns:
        The figure.
    """
    names = np.array(table["kernel"].to_pylist())
    kernels = list(dict.fromkeys(names.tolist()))
    places = np.array([kernels.index(name) for name in names.tolist()], float)
    kinds = np.array(table["kind"].to_pylist())
    verdicts = np.array(table["verdict"].to_pylist())
    z = np.nan_to_num(table["z"].to_numpy(), nan=_FURTHEST).clip(-_FURTHEST, _FURTHEST)
    share = table["share_of_limit"].to_numpy().clip(*_SHARES)
    two_sided, one_sided = float(stats.norm.isf(level / 2)), float(stats.norm.isf(level))
    with paper_style():
        figure = Figure(figsize=(DOUBLE_COLUMN, 1.25 + 0.22 * len(kernels)), layout="constrained")
        means, laws, seen = figure.subplots(1, 3, sharey=True)
        for panel, values, shown, edges in (
            (means, z, kinds != "law", (-two_sided, two_sided)),
            (laws, z, kinds == "law", (one_sided,)),
            (seen, share, kinds != "exact", (1.0,)),
        ):
            _scatter(panel, values[shown], places[shown], verdicts[shown])
            for edge in edges:
                panel.axvline(edge, color=FAINT, linewidth=0.6, linestyle="--")
        for panel in (means, laws):
            panel.set_xlim(-_FURTHEST - 0.5, _FURTHEST + 0.5)
            panel.set_xticks([-10, -5, 0, 5, 10])
        means.set_xlabel("z of means and exact numbers")
        laws.set_xlabel("normal score of laws")
        seen.set_xlabel("smallest bias seen / limit")
        seen.set_xscale("log")
        seen.set_xlim(_SHARES[0] / 1.3, _SHARES[1] * 1.3)
        ticks = [0.01, 0.1, 1.0, 10.0]
        seen.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        seen.set_xticks([], minor=True)
        means.set_yticks(range(len(kernels)), kernels)
        means.set_ylim(len(kernels) - 0.5, -0.5)
        handles = [mark(look, verdict, linestyle="") for verdict, look in _LOOKS.items()]
        figure.legend(handles=handles, loc="outside upper center", ncols=len(handles))
    return figure


def _scatter(panel: Axes, values: np.ndarray, places: np.ndarray, verdicts: np.ndarray) -> None:
    """One dot a row, those that are not ok in front."""
    spread = places + _offsets(places)
    for front, (verdict, look) in enumerate(_LOOKS.items()):
        some = verdicts == verdict
        panel.scatter(
            values[some],
            spread[some],
            s=8,
            c=look.color,
            marker=look.marker,
            linewidths=0,
            zorder=2 + front,
        )


def _offsets(places: np.ndarray) -> np.ndarray:
    """Rows of one kernel side by side, so that none hides another."""
    offsets = np.zeros(places.size)
    for place in np.unique(places):
        members = np.flatnonzero(places == place)
        offsets[members] = np.linspace(-0.3, 0.3, members.size) if members.size > 1 else 0.0
    return offsets
