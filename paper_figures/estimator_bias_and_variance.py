"""Figure: bias and variance of estimators under sequence power, against the number of draws and against alpha.

Claim: simulated biases and variances lie on the exact curves. Where eos comes early, importance sampling from the base model has less of
both than from token temperature 1/alpha at every N and every alpha above 1 shown (at alpha 1/2 more), resampling adds to both, and truncating or
smoothing the weights trades variance for bias.

Table `estimator_bias_and_variance`: see `paper_figures.estimator_panels`.
"""

import pyarrow as pa
from matplotlib.figure import Figure

from paper_figures.estimator_panels import draw_panels


def draw(table: pa.Table) -> Figure:
    """Exact curves as lines, simulated values as points with one standard error; one panel a quantity and axis.

    Args:
        table: columns as in `paper_figures.estimator_panels.LAYOUT`.

    Returns:
        The figure.

    Raises:
        InvalidInput: the table has no rows.
    """
    return draw_panels(table)
