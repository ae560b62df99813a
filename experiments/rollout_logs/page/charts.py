"""The pictures of the page. Each has its numbers in a table behind it."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator, NullFormatter, NullLocator

from experiments.rollout_logs.analysis import (
    Curve,
    CurvePoint,
    HistogramBin,
    ReliabilityBin,
    Statistic,
    TaskSummary,
)
from experiments.rollout_logs.page.markup import Markup
from experiments.rollout_logs.page.svg import inline_svg
from experiments.rollout_logs.visible_text import on_one_line
from experiments.rollout_logs.wording import number, plural
from paper_figures.style import FAINT, INK, SINGLE_COLUMN, Look, paper_style

WIDTH = 1.45 * SINGLE_COLUMN
"""Inches. On a phone letters are then as large as in print."""

HEIGHT = 2.7
"""Inches."""

LOOKS = {
    "pass": Look("#0072B2", "o", "solid"),
    "majority": Look("#E69F00", "^", (0.0, (4.0, 1.4))),
    "weighted_majority": Look("#D55E00", "P", (0.0, (2.0, 0.8))),
    "best_of_n": Look("#009E73", "D", (0.0, (5.0, 1.0, 1.2, 1.0))),
    "pass_hat": Look("#595959", "s", (0.0, (1.0, 1.2))),
}
LABELS = {
    "pass": "pass@k",
    "majority": "majority@k",
    "weighted_majority": "weighted majority@k",
    "best_of_n": "best-of-n@k",
    "pass_hat": "pass^k",
    "selected_proxy_score": "selected proxy score@k",
}
OTHER_LOOK = Look("#CC79A7", "v", (0.0, (5.0, 1.0, 1.2, 1.0)))
MOST_TICKS = 10


def curve_label(name: str) -> str:
    """What a curve is called.

    Args:
        name: of the curve.

    Returns:
        Its label, or the name itself on one line.
    """
    return LABELS.get(name) or on_one_line(name, 40)


def drawable(point: CurvePoint) -> bool:
    """Whether a point of a curve has a value.

    Args:
        point: of a curve.

    Returns:
        False where it is refused.
    """
    return point.value is not None


def coverage_chart(curves: Sequence[Curve], oracle: Statistic | None) -> Markup | None:
    """What k samples of a task reach, by each rule that chooses among them.

    Args:
        curves: of an analysis.
        oracle: the statistic oracle@N, or None.

    Returns:
        The picture, or None where no point has a value.
    """
    shown = [curve for curve in curves if any(map(drawable, curve.points))]
    if not shown:
        return None
    with paper_style():
        figure, panel = figure_of("samples k", "mean over tasks")
        alone = len({point.k for curve in shown for point in filter(drawable, curve.points)}) == 1
        for place, curve in enumerate(shown):
            # Points at one k would hide each other.
            shift = 2 ** (0.08 * (place - (len(shown) - 1) / 2)) if alone else 1.0
            _draw_curve(panel, curve, shift)
        if oracle is not None and oracle.value is not None:
            label = "oracle: any of all drawn"
            panel.axhline(oracle.value, color=FAINT, linewidth=1.0, linestyle=":", label=label)
        ks = sorted({point.k for curve in shown for point in curve.points})
        panel.set_xscale("log", base=2)
        if alone:
            middle = next(point.k for point in shown[0].points if drawable(point))
            panel.set_xlim(middle / 2, 2 * middle)
            ks = [middle]
        step = -(-len(ks) // MOST_TICKS)
        panel.xaxis.set_major_locator(FixedLocator(ks[::step]))
        panel.xaxis.set_minor_locator(NullLocator())
        panel.xaxis.set_minor_formatter(NullFormatter())
        panel.set_xticklabels([number(k) for k in ks[::step]])
        _bound_below(panel, shown)
        legend_of(figure, panel)
    ends = "; ".join(_ends(curve) for curve in shown)
    return inline_svg(
        figure,
        "coverage",
        "Coverage curve: share of tasks solved against the number of samples",
        f"Lines with bands for intervals over tasks. {ends}.",
    )


def reliability_chart(bins: Sequence[ReliabilityBin]) -> Markup | None:
    """Accuracy against mean score, bin by bin.

    Args:
        bins: of equal mass.

    Returns:
        The picture, or None without bins.
    """
    if not bins:
        return None
    scores = [bin_.mean_score for bin_ in bins]
    accuracies = [bin_.accuracy for bin_ in bins]
    with paper_style():
        figure, panel = figure_of("mean score of a bin", "share correct")
        panel.plot([0, 1], [0, 1], color=FAINT, linestyle=":", label="calibrated")
        panel.plot(scores, accuracies, label="bins of equal mass", **LOOKS["pass"]._asdict())
        panel.set_xlim(-0.02, 1.02)
        panel.set_ylim(-0.02, 1.02)
        legend_of(figure, panel)
    worst = max(bins, key=lambda bin_: abs(bin_.accuracy - bin_.mean_score))
    return inline_svg(
        figure,
        "reliability",
        "Reliability: share correct against the mean score",
        f"{plural(len(bins), 'bin')}; on the diagonal scores are calibrated. The farthest from it has mean score "
        f"{number(worst.mean_score)} and {number(worst.accuracy)} correct.",
    )


def length_chart(bins: Sequence[HistogramBin]) -> Markup | None:
    """Rows by completion length, those cut at the horizon apart.

    Args:
        bins: of lengths.

    Returns:
        The picture, or None without bins.
    """
    if not bins:
        return None
    left = [bin_.low for bin_ in bins]
    widths = [bin_.high - bin_.low for bin_ in bins]
    cut = [bin_.truncated for bin_ in bins]
    whole = [bin_.num_rows - bin_.truncated for bin_ in bins]
    with paper_style():
        figure, panel = figure_of("completion length, tokens", "rows")
        edge: dict[str, Any] = {"align": "edge", "edgecolor": INK, "linewidth": 0.4}
        panel.bar(left, whole, widths, color="#56B4E9", label="ended by themselves", **edge)
        panel.bar(
            left, cut, widths, bottom=whole, color="#D55E00", label="cut at the horizon", **edge
        )
        panel.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
        legend_of(figure, panel)
    fullest = max(bins, key=lambda bin_: bin_.num_rows)
    return inline_svg(
        figure,
        "lengths",
        "Histogram of completion lengths",
        f"Bars from {number(left[0])} to {number(bins[-1].high)} tokens; most rows, {number(fullest.num_rows)}, lie between "
        f"{number(fullest.low)} and {number(fullest.high)}. {plural(sum(cut), 'row')} cut at the horizon.",
    )


def ess_chart(tasks: Sequence[TaskSummary]) -> Markup | None:
    """Effective share of the samples of each task, tasks in order of it.

    Args:
        tasks: of an analysis.

    Returns:
        The picture, or None where fewer than two tasks have an effective sample size.
    """
    shares = sorted(
        task.ess / task.samples for task in tasks if task.ess is not None and task.samples
    )
    if len(shares) < 2:
        return None
    with paper_style():
        figure, panel = figure_of("tasks, from the least share to the greatest", "ESS / samples")
        look = LOOKS["pass"]
        panel.plot(range(1, len(shares) + 1), shares, color=look.color, drawstyle="steps-mid")
        panel.set_ylim(0, 1.04 * max(1.0, shares[-1]))
        panel.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    return inline_svg(
        figure,
        "ess",
        "Effective sample size of each task as a share of its samples",
        f"{plural(len(shares), 'task')} in order: the least share is {number(shares[0])}, the median "
        f"{number(shares[len(shares) // 2])}, the greatest {number(shares[-1])}.",
    )


def figure_of(x: str, y: str) -> tuple[Figure, Axes]:
    """An empty picture of the page.

    Args:
        x: label of the axis.
        y: label of the axis.

    Returns:
        The figure and its panel.
    """
    figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
    panel = figure.subplots()
    panel.set_xlabel(x)
    panel.set_ylabel(y)
    return figure, panel


def _draw_curve(panel: Axes, curve: Curve, shift: float) -> None:
    look = LOOKS.get(curve.name, OTHER_LOOK)
    points = [point for point in curve.points if point.value is not None]
    ks = [point.k * shift for point in points]
    panel.plot(ks, [point.value or 0.0 for point in points], label=_label(curve), **look._asdict())
    band = [
        (point.k, point.low, point.high)
        for point in points
        if point.low is not None and point.high is not None
    ]
    if len(band) == 1:  # a band of one point would be invisible
        ((k, least, greatest),) = band
        panel.vlines(k * shift, least, greatest, color=look.color, alpha=0.5)
    elif band:
        where, low, high = zip(*band, strict=True)
        panel.fill_between(where, low, high, color=look.color, alpha=0.15, linewidth=0)


def _bound_below(panel: Axes, curves: Sequence[Curve]) -> None:
    """From 0 up where all is above it, and up to 1 where all is 0."""
    values = {point.value for curve in curves for point in curve.points} - {None}
    if values == {0.0}:
        panel.set_ylim(-0.02, 1.0)
    elif panel.get_ylim()[0] > 0:
        panel.set_ylim(bottom=0)


def _label(curve: Curve) -> str:
    return f"{curve_label(curve.name)}, {plural(curve.tasks, 'task')}"


def _ends(curve: Curve) -> str:
    points = list(filter(drawable, curve.points))
    first, last = points[0], points[-1]
    return (
        f"{_label(curve)}: {number(first.value)} at k = {first.k}, "
        f"{number(last.value)} at k = {last.k}"
    )


def legend_of(figure: Figure, panel: Axes) -> None:
    """The legend above the panel; its texts may be a log's.

    Args:
        figure: of the panel.
        panel: with labelled artists.
    """
    legend = figure.legend(*panel.get_legend_handles_labels(), loc="outside upper left", ncols=2)
    for text in legend.get_texts():
        text.set_parse_math(False)
