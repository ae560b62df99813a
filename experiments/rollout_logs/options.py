"""What was asked of an analysis."""

import math
from typing import NamedTuple

from theory.errors import InvalidInput
from theory.estimators.bootstrap import NUM_RESAMPLES

DEFAULT_KS = (1, 2, 4, 8)

_OF_ALPHA = ("power_ess", "power_max_weight", "power_accuracy", "power_pareto_k")


class AnalysisOptions(NamedTuple):
    """Everything that shapes the numbers.

    Attributes:
        ks: numbers of samples that curves are computed at.
        power_alpha: exponent of the sequence power that rows are reweighted to, or None.
        success_threshold: least reward that is a success, or None.
        clip: largest importance weight before it counts as clipped.
        g_pass_threshold: share of the k samples that must be correct for G-Pass@k.
        verifier_rates: true and false positive rate of whatever says correct, or None where verdicts are taken as they are.
        beyond: numbers of samples beyond those drawn that pass@k is extrapolated to.
        seed: of resampling.
        num_resamples: of tasks.
        proxy_scores: whether the score of what is selected is asked for, because it may not be called an accuracy.
        ordered: whether the rows of a task have numbers, so that their order can be looked at.
        num_subsets: random subsets of a task that a weighted vote is averaged over.
        level: of intervals.
        only: names of `experiments.rollout_logs.families.NAMES` that are computed, or None for all.
    """

    ks: tuple[int, ...] = DEFAULT_KS
    power_alpha: float | None = None
    success_threshold: float | None = None
    clip: float = 2.0
    g_pass_threshold: float = 0.5
    verifier_rates: tuple[float, float] | None = None
    beyond: tuple[int, ...] = ()
    seed: int = 0
    num_resamples: int = NUM_RESAMPLES
    ordered: bool = False
    num_subsets: int = 500
    proxy_scores: bool = False
    level: float = 0.95
    only: frozenset[str] | None = None

    def wants(self, *names: str) -> bool:
        """Whether any of some statistics is computed.

        Args:
            *names: with K for any number of samples.

        Returns:
            Whether one is.
        """
        return self.only is None or not self.only.isdisjoint(names)


def rates_of(tpr: float | None, fpr: float | None) -> tuple[float, float] | None:
    """The two rates of a verifier, which are given together.

    Args:
        tpr: of the option, or None.
        fpr: of the option, or None.

    Returns:
        Both, or None.

    Raises:
        InvalidInput: one is missing.
    """
    if tpr is None and fpr is None:
        return None
    if tpr is None or fpr is None:
        raise InvalidInput("--verifier-tpr and --verifier-fpr: give both, or neither")
    return tpr, fpr


def band_of(clip: float) -> tuple[float, float]:
    """The band that masked weights are kept in.

    Args:
        clip: C.

    Returns:
        1/C and C, or 0 and C where that is no band.
    """
    return (1 / clip if clip > 1 else 0.0), clip


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
    for k in options.beyond:
        if not 1 <= k <= 10**4:
            raise InvalidInput(f"--beyond {k}: must be in 1..10000")
    if not 0 < options.g_pass_threshold <= 1:
        raise InvalidInput(
            f"--g-pass-threshold {options.g_pass_threshold:g}: must be in (0, 1], a share of the k samples"
        )
    if options.verifier_rates is not None:
        tpr, fpr = options.verifier_rates
        if not 0 <= fpr < tpr <= 1:
            raise InvalidInput(
                f"--verifier-tpr {tpr:g} --verifier-fpr {fpr:g}: must be 0 <= fpr < tpr <= 1, else verdicts say nothing"
            )
    if options.success_threshold is not None and not math.isfinite(options.success_threshold):
        raise InvalidInput(f"--success-threshold {options.success_threshold}: must be finite")
    _check_only(options)
    if not 0 <= options.seed < 2**32:
        raise InvalidInput(f"--seed {options.seed}: must be in 0..{2**32 - 1}")


def _check_only(options: AnalysisOptions) -> None:
    """Refuse to compute nothing at all."""
    needs = (
        (options.verifier_rates, "--verifier-tpr and --verifier-fpr", ("noise_corrected_pass@K",)),
        (options.beyond or None, "--beyond", ("model_pass@K", "least_pass@K", "greatest_pass@K")),
        (options.power_alpha, "--power-alpha", _OF_ALPHA),
    )
    lacking = {name: option for given, option, names in needs if given is None for name in names}
    if options.only is not None and all(name in lacking for name in options.only):
        name = min(options.only)
        raise InvalidInput(f"--only {name}: needs {lacking[name]} too")
