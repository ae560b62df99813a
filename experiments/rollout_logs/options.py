"""What was asked of an analysis."""

import math
from typing import NamedTuple

from theory.errors import InvalidInput
from theory.estimators.bootstrap import NUM_RESAMPLES

DEFAULT_KS = (1, 2, 4, 8)


class AnalysisOptions(NamedTuple):
    """Everything that shapes the numbers.

    Attributes:
        ks: numbers of samples that curves are computed at.
        power_alpha: exponent of the sequence power that rows are reweighted to, or None.
        success_threshold: least reward that is a success, or None.
        clip: largest importance weight before it counts as clipped.
        seed: of resampling.
        num_resamples: of tasks.
        proxy_scores: whether the score of what is selected is asked for, because it may not be called an accuracy.
        ordered: whether the rows of a task have numbers, so that their order can be looked at.
        num_subsets: random subsets of a task that a weighted vote is averaged over.
        level: of intervals.
    """

    ks: tuple[int, ...] = DEFAULT_KS
    power_alpha: float | None = None
    success_threshold: float | None = None
    clip: float = 2.0
    seed: int = 0
    num_resamples: int = NUM_RESAMPLES
    ordered: bool = False
    num_subsets: int = 500
    proxy_scores: bool = False
    level: float = 0.95


def check_options(options: AnalysisOptions) -> None:
    """Refuse what cannot be meant.

    Args:
        options: of the command line.

    Raises:
        InvalidInput: names the option and the mend.
    """
    if not options.ks:
        raise InvalidInput("--k: is empty, give numbers of samples such as 1,2,4,8")
    for k in options.ks:
        if not 1 <= k <= 10**6:
            raise InvalidInput(f"--k {k}: must be in 1..1000000")
    for option, value in (
        ("--power-alpha", options.power_alpha),
        ("--clip", options.clip),
    ):
        if value is not None and not (math.isfinite(value) and value > 0):
            raise InvalidInput(f"{option} {value:g}: must be a finite number above 0")
    if options.success_threshold is not None and not math.isfinite(options.success_threshold):
        raise InvalidInput(f"--success-threshold {options.success_threshold}: must be finite")
    if not 0 <= options.seed < 2**32:
        raise InvalidInput(f"--seed {options.seed}: must be in 0..{2**32 - 1}")
