"""pass@k beyond the samples drawn: what a law of success rates says, beside what the counts say whatever the law.

The bounds hold for any law of success rates; the credible interval holds for one form of it, and the data cannot show that this form is right (docs/bayesian_coverage.md).
NumPyro is imported only where K was asked for: it takes seconds.
"""

import numpy as np

from experiments.rollout_logs.analysis import IntervalRecord, Statistic
from experiments.rollout_logs.checks import first_refusal, has_success, independent, one_policy
from experiments.rollout_logs.drafts import Draft, least_and_most, refused
from experiments.rollout_logs.refusals import refuse_for
from experiments.rollout_logs.statistics.coverage import Counts, counts
from experiments.rollout_logs.task_table import Log
from experiments.rollout_logs.wording import number
from theory.estimators.hierarchical.coverage import population_pass_at_k
from theory.estimators.hierarchical.posterior_diagnostics import Fit
from theory.estimators.hierarchical.task_counts import TaskCounts, compress
from theory.estimators.moment_bounds import (
    MomentBounds,
    count_law,
    pass_at_k_bounds,
    sampling_band,
)

# Tasks of more samples are thinned at random for the bounds: the linear program grows with the square of them.
MOST_SAMPLES = 128


def drafts(log: Log) -> list[Draft]:
    """The statistics, where K was asked for.

    Args:
        log: facts and table.

    Returns:
        model_pass@K, least_pass@K and greatest_pass@K for every K of `--beyond`, or none.
    """
    ks = log.options.beyond
    if not ks:
        return []
    made = [statistic for k in ks for statistic in _statistics(log, k)]
    refusal = first_refusal(log, (has_success, independent, one_policy))
    if refusal is not None:
        return [refused(each, refusal) for each in made]
    sizes, correct = counts(log)
    known = sizes > 0
    sizes, correct = sizes[known], correct[known]
    found = fitted(log.options.seed, compress(sizes, correct))
    law, thinned = _law(sizes, correct, log.options.seed)
    band = sampling_band(sizes.size, log.options.level)
    given: list[Draft] = []
    for place, k in enumerate(ks):
        model, least, greatest = (
            each._replace(tasks=sizes.size, samples=least_and_most(sizes))
            for each in made[3 * place : 3 * place + 3]
        )
        bounds = pass_at_k_bounds(law, k, band)
        given += [
            _of_model(model, found, bounds, k, log),
            _bound(least, bounds.low, thinned, sizes.size),
            _bound(greatest, bounds.high, thinned, sizes.size),
        ]
    return given


def fitted(seed: int, data: TaskCounts) -> Fit:
    """The posterior of the law of success rates.

    Args:
        seed: of the chains.
        data: of the tasks.

    Returns:
        Draws and their diagnostics.
    """
    from theory.estimators.hierarchical.posterior import fit  # NumPyro

    return fit(seed, data)


def _statistics(log: Log, k: int) -> tuple[Statistic, Statistic, Statistic]:
    bound = (
        "{} pass@"
        + str(k)
        + " of the population that tasks come from over all laws of success rates that the counts allow "
        f"at {100 * log.options.level:g} %: no model"
    )
    base = Statistic("", None, unit="population of tasks", policy=log.facts.policy)
    return (
        base._replace(
            name=f"model_pass@{k}",
            estimator=f"posterior mean of pass@{k} of the population that tasks come from, if success rates follow a Beta law with atoms at 0 and 1",
        ),
        base._replace(name=f"least_pass@{k}", estimator=bound.format("least")),
        base._replace(name=f"greatest_pass@{k}", estimator=bound.format("greatest")),
    )


def _of_model(statistic: Statistic, found: Fit, bounds: MomentBounds, k: int, log: Log) -> Draft:
    checks = found.diagnostics
    said = f"R-hat {max(checks.r_hat.values()):.3f}, bulk ESS {min(checks.bulk_ess.values()):.0f}, {checks.num_divergences} divergences"
    if not checks.is_converged:
        refusal = refuse_for(
            "R20",
            f"the chains of the fit do not agree ({said})",
            "read least_pass@K and greatest_pass@K, or try another --seed",
        )
        return refused(statistic, refusal)
    posterior = population_pass_at_k(found.hyperparameters, k, log.options.level)
    width, wide = posterior.high - posterior.low, bounds.high - bounds.low
    interval = IntervalRecord(
        posterior.low,
        posterior.high,
        posterior.level,
        "credible interval of the Beta law with atoms, right only as far as that form is",
    )
    apart = (
        f"without the law the counts say {number(bounds.low)} to {number(bounds.high)}, {number(wide)} wide, and the interval is {number(width)} wide: "
        "beyond the samples drawn what it is narrower by is the law's word, not the data's"
    )
    if k <= int(counts(log)[0].max()):
        apart = (
            f"{k} samples were drawn of some task: read pass@{k}, which needs no law; the bounds are wider than need be there, since they hold at every K "
            "at once"
        )
    notes = (
        apart,
        "populations of another form are missed by it without a sign: see docs/bayesian_coverage.md",
        said,
    )
    return Draft(
        statistic._replace(
            value=posterior.mean, interval=interval, notes=notes, seed=log.options.seed
        )
    )


def _bound(statistic: Statistic, value: float, thinned: tuple[str, ...], num_tasks: int) -> Draft:
    notes = (
        f"holds at every K at once, with the band of {num_tasks} tasks about the law of their counts (Massart 1990)",
        *thinned,
    )
    return Draft(statistic._replace(value=value, notes=notes))


def _law(sizes: Counts, correct: Counts, seed: int) -> tuple[np.ndarray, tuple[str, ...]]:
    """Shares of tasks with 0, 1, ... correct samples, all of one number of samples."""
    size = min(int(sizes.min()), MOST_SAMPLES)
    if size == int(sizes.max()):
        return count_law(correct, size), ()
    rng = np.random.default_rng([seed, 3])
    kept = rng.hypergeometric(correct, sizes - correct, size).astype(np.int64)
    note = f"tasks have {int(sizes.min())} to {int(sizes.max())} samples: {size} of each were taken at random"
    return count_law(kept, size), (note,)
