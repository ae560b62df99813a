"""Figure: what length does to the estimators at a fixed number of draws.

Claim: on a sticky chain the variance of Z_hat from the base model grows exponentially in the length without resampling and about linearly
with it, so that resampling pays from some length on; from token temperature 1/alpha it grows slowly, and up to 64 tokens
resampling only adds to it.

Table `estimator_against_length`: see `paper_figures.estimator_panels`.
"""

import pyarrow as pa
from matplotlib.figure import Figure

from paper_figures.estimator_panels import draw_panels


def draw(table: pa.Table) -> Figure:
    """Exact curves as lines, simulated values as points with one standard error; one panel a quantity.

    Args:
        table: columns as in `paper_figures.estimator_panels.LAYOUT`.

    Returns:
        The figure.

    Raises:
        InvalidInput: the table has no rows.
    """
    return draw_panels(table)
