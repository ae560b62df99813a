"""Which picture stands over the numbers of a section, with its caption and the table behind it."""

from collections.abc import Callable, Mapping, Sequence

from experiments.rollout_logs.analysis import Analysis, CurvePoint, HistogramBin, ReliabilityBin
from experiments.rollout_logs.page import charts
from experiments.rollout_logs.page.beyond import beyond_figure
from experiments.rollout_logs.page.markup import Markup
from experiments.rollout_logs.page.tables import figure, table
from experiments.rollout_logs.wording import number


def picture_of(title: str, analysis: Analysis) -> Markup | None:
    """The picture of a section.

    Args:
        title: of the section, see `wording.SECTIONS`.
        analysis: of some logs.

    Returns:
        A figure, or None where the section has none or the log has nothing to draw.
    """
    draw = _PICTURES.get(title)
    return None if draw is None else draw(analysis)


def _coverage(analysis: Analysis) -> Markup | None:
    oracle = next((one for one in analysis.statistics if one.name.startswith("oracle@")), None)
    picture = charts.coverage_chart(analysis.curves, oracle)
    if picture is None:
        return None
    rows = [
        (charts.curve_label(curve.name), number(point.k), *_point(point), number(curve.tasks))
        for curve in analysis.curves
        for point in curve.points
    ]
    behind = table(
        "coverage-numbers",
        "Points of the coverage curve",
        ("rule", "k", "value", "low", "high", "tasks"),
        rows,
        numeric=frozenset({1, 2, 3, 4, 5}),
    )
    caption = "What k samples of a task reach under each rule; bands are intervals over tasks."
    return figure(picture, caption, behind)


def _point(point: CurvePoint) -> tuple[str, str, str]:
    if point.value is None:
        return "refused", "-", "-"
    return number(point.value), number(point.low), number(point.high)


def _reliability(analysis: Analysis) -> Markup | None:
    return _binned(
        charts.reliability_chart(analysis.reliability),
        "Share correct against mean score. A calibrated score lies on the diagonal.",
        "reliability-numbers",
        "Bins of equal mass, by score",
        ("least score", "greatest score", "rows", "mean score", "share correct"),
        analysis.reliability,
    )


def _lengths(analysis: Analysis) -> Markup | None:
    return _binned(
        charts.length_chart(analysis.lengths),
        "Rows by completion length; those cut at the horizon on top.",
        "lengths-numbers",
        "Rows by completion length",
        ("from, tokens", "below, tokens", "rows", "cut at the horizon", "share correct"),
        analysis.lengths,
    )


def _binned(
    picture: Markup | None,
    caption: str,
    identifier: str,
    title: str,
    heads: tuple[str, ...],
    bins: Sequence[ReliabilityBin] | Sequence[HistogramBin],
) -> Markup | None:
    """A picture of bins, with their numbers behind it."""
    if picture is None:
        return None
    rows = [tuple(number(value) for value in bin_) for bin_ in bins]
    behind = table(identifier, title, heads, rows, numeric=frozenset(range(len(heads))))
    return figure(picture, caption, behind)


def _ess(analysis: Analysis) -> Markup | None:
    picture = charts.ess_chart(analysis.tasks)
    if picture is None:
        return None
    shares = sorted(
        task.ess / task.samples for task in analysis.tasks if task.ess is not None and task.samples
    )
    last = len(shares) - 1
    rows = [(f"{q} %", number(shares[round(last * q / 100)])) for q in (0, 10, 25, 50, 75, 90, 100)]
    behind = table(
        "ess-numbers",
        "ESS / samples of the tasks in the table of tasks: the task nearest to each share of the order",
        ("tasks below", "ESS / samples"),
        rows,
        numeric=frozenset({0, 1}),
    )
    caption = "Each task's effective sample size as a share of its samples; near 0 a few rows carry all the weight."
    return figure(picture, caption, behind)


def _beyond(analysis: Analysis) -> Markup | None:
    return beyond_figure(analysis.statistics)


_PICTURES: Mapping[str, Callable[[Analysis], Markup | None]] = {
    "Coverage and selection": _coverage,
    "Beyond the samples drawn": _beyond,
    "Calibration": _reliability,
    "Length and truncation": _lengths,
    "Weights and effective sample size": _ess,
}
