"""The picture of pass@k beyond the samples drawn: what the counts say by themselves, and what a law of success rates adds."""

from collections.abc import Sequence

from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator

from experiments.rollout_logs.analysis import Statistic
from experiments.rollout_logs.page.charts import LOOKS, figure_of, legend_of
from experiments.rollout_logs.page.markup import Markup
from experiments.rollout_logs.page.svg import inline_svg
from experiments.rollout_logs.page.tables import figure, table
from experiments.rollout_logs.wording import number
from paper_figures.style import FAINT, paper_style


def beyond_figure(statistics: Sequence[Statistic]) -> Markup | None:
    """Bounds as bars, the model's interval inside them.

    Args:
        statistics: of an analysis.

    Returns:
        The figure, or None where nothing was asked beyond the samples drawn or all of it is refused.
    """
    by_name = {one.name: one for one in statistics}
    ks = sorted(
        int(name.removeprefix("least_pass@"))
        for name, one in by_name.items()
        if name.startswith("least_pass@") and one.value is not None
    )
    if not ks:
        return None
    rows: list[tuple[float, float, float | None, float | None, float | None]] = []
    for k in ks:
        model = by_name.get(f"model_pass@{k}")
        interval = None if model is None else model.interval
        rows.append(
            (
                by_name[f"least_pass@{k}"].value or 0.0,
                by_name[f"greatest_pass@{k}"].value or 0.0,
                None if model is None else model.value,
                None if interval is None else interval.low,
                None if interval is None else interval.high,
            )
        )
    with paper_style():
        drawn, panel = figure_of("samples k", "pass@k of the population")
        low, high = [row[0] for row in rows], [row[1] for row in rows]
        panel.vlines(ks, low, high, color=FAINT, linewidth=7.0, alpha=0.6, label="bounds, no model")
        fitted = [
            (k, value, value - below, above - value)
            for k, (_, _, value, below, above) in zip(ks, rows, strict=True)
            if value is not None and below is not None and above is not None
        ]
        if fitted:
            where, value, below, above = (list(column) for column in zip(*fitted, strict=True))
            look = LOOKS["pass"]
            panel.errorbar(
                where,
                value,
                yerr=[below, above],
                color=look.color,
                marker=look.marker,
                linestyle="none",
                label="model and its interval",
            )
        panel.set_xscale("log")
        panel.xaxis.set_major_locator(FixedLocator(ks))
        panel.xaxis.set_minor_locator(NullLocator())
        panel.xaxis.set_minor_formatter(NullFormatter())
        panel.set_xticklabels([number(k) for k in ks])
        panel.set_ylim(-0.02, 1.02)
        legend_of(drawn, panel)
    ends = "; ".join(
        f"at k = {k} bounds {number(row[0])} to {number(row[1])}, model {number(row[2])}"
        for k, row in zip(ks, rows, strict=True)
    )
    picture = inline_svg(
        drawn,
        "beyond",
        "Pass@k beyond the samples drawn: bounds without a model and the interval of one",
        f"Bars for bounds, points with intervals for the model. {ends}.",
    )
    behind = table(
        "beyond-numbers",
        "Pass@k beyond the samples drawn",
        ("k", "least", "greatest", "model", "low", "high"),
        [(number(k), *(number(value) for value in row)) for k, row in zip(ks, rows, strict=True)],
        numeric=frozenset(range(6)),
    )
    caption = "Where the bars are long and the intervals short, the model speaks and not the data."
    return figure(picture, caption, behind)
