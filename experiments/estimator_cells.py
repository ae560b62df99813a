"""The settings at which estimators are validated, and what is known exactly there.

A cell is a toy model, a target exponent, a proposal and a population size. An estimator is named by its method (what gives
the weights) and its quantity (what they are used for):

    evidence       Z_hat / Z
    log_evidence   log Z_hat - log Z, nats
    known_Z        (1/N) sum w f / Z, plain importance sampling
    mean           sum w f / sum w
    draw           f of one row drawn in proportion to the weights

f is the length in tokens, or, for a model whose sequences all have one length, whether the first token is token 0.
"""

import functools
import math
from typing import NamedTuple

import numpy as np

from theory.exact.context_table import ContextTable
from theory.exact.functionals import expected_length
from theory.exact.importance_laws import log_evidence_moments, resampled_law
from theory.exact.importance_moments import (
    MeanVariance,
    WeightedDraw,
    evidence_moments,
    self_normalised_moments,
    unnormalised_moments,
    weighted_draw,
)
from theory.exact.laws import Law, PowerLaw, power_law, temperature_law
from theory.exact.layers import num_sequences, unroll
from theory.exact.offspring import systematic_offspring, when_ess_below
from theory.exact.smc_finite_variance import adapted_relative_variance, every_step_relative_variance
from theory.exact.smc_population import FiniteRun, adapted_filter, plain_filter

Estimator = tuple[str, str]
"""Method and quantity."""

METHODS = ("importance", "smc", "smc_adapted", "smc_ess")
"""What gives weighted populations: no resampling; multinomial after every step; fully adapted; systematic where ESS < N/2."""

ESS_THRESHOLD = 0.5
MAX_ENUMERATED = 20_000  # sequences behind the moments that need a list of them
MAX_PAIRED = 100  # sequences behind the law of a run of two particles


class Cell(NamedTuple):
    """One setting.

    Attributes:
        sweep: which axis it belongs to.
        model: name.
        table: the model.
        alpha: target exponent.
        proposal: "base", "temperature", "best" or "between".
        proposal_alpha: beta of the proposal, token temperature 1/beta.
        num_draws: N, rows of one population.
    """

    sweep: str
    model: str
    table: ContextTable
    alpha: float
    proposal: str
    proposal_alpha: float
    num_draws: int


class Exact(NamedTuple):
    """What is known of one estimator; NaN where it is not.

    Attributes:
        truth: what it aims at.
        bias: its expectation less the truth.
        variance: of one estimate.
    """

    truth: float
    bias: float
    variance: float


def value_of(table: ContextTable, tokens: tuple[int, ...]) -> float:
    """The function f of a whole sequence whose mean is estimated.

    Args:
        table: the model, which decides what f is.
        tokens: eos included.

    Returns:
        The length, or whether the first token is token 0 where all lengths are one.
    """
    return float(len(tokens)) if table.eos else float(tokens[0] == 0)


def value_name(table: ContextTable) -> str:
    """What f is called."""
    return "length" if table.eos else "first_token"


def exact_moments(cell: Cell) -> dict[Estimator, Exact]:
    """Truth, bias and variance of every estimator of a cell.

    Args:
        cell: a setting.

    Returns:
        By method and quantity, in the order of the tables; NaN where nothing exact is known.
    """
    layers = unroll(cell.table)
    power = power_law(layers, cell.alpha)
    proposal = temperature_law(layers, cell.proposal_alpha)
    truth = _truth(cell, power.law)
    found = _importance(cell, power, proposal, truth)
    for method in methods_of(cell)[1:]:
        found |= _smc(cell, method, power, proposal, truth)
    return found


def methods_of(cell: Cell) -> tuple[str, ...]:
    """The methods of a cell: the fully adapted filter has one proposal, temperature 1/alpha, and no other."""
    adapted = cell.proposal_alpha == cell.alpha
    return tuple(name for name in METHODS if adapted or name != "smc_adapted")


def _truth(cell: Cell, target: Law) -> float:
    if cell.table.eos:
        return expected_length(target)
    return math.exp(target.log_conditional(0)[0, 0])


def _importance(cell: Cell, power: PowerLaw, proposal: Law, truth: float) -> dict[Estimator, Exact]:
    n = cell.num_draws
    evidence = Exact(1.0, 0.0, evidence_moments(power, proposal, n).relative_variance)
    unknown = Exact(truth, math.nan, math.nan)
    log_evidence, plain, mean, draw = Exact(0.0, math.nan, math.nan), unknown, unknown, unknown
    if num_sequences(unroll(cell.table)) <= MAX_ENUMERATED:
        one = weighted_draw(power.law, proposal, functools.partial(value_of, cell.table))
        log_evidence = _about(0.0, log_evidence_moments(one, n))
        plain = _about(truth, unnormalised_moments(one, n))
        mean = _about(truth, self_normalised_moments(one, n))
        draw = _about(truth, _drawn(one, n))
    return {
        ("importance", "evidence"): evidence,
        ("importance", "log_evidence"): log_evidence,
        ("importance", "known_Z"): plain,
        ("importance", "mean"): mean,
        ("importance", "draw"): draw,
        ("truncated", "evidence"): Exact(1.0, math.nan, math.nan),
        ("truncated", "mean"): unknown,
        ("pareto", "mean"): unknown,
    }


def _smc(
    cell: Cell, method: str, power: PowerLaw, proposal: Law, truth: float
) -> dict[Estimator, Exact]:
    run = _two_particles(cell, method, proposal)
    mean, draw = Exact(truth, math.nan, math.nan), Exact(truth, math.nan, math.nan)
    if run is not None:
        values = np.array([value_of(cell.table, tokens) for tokens in run.sequences])
        expected = float(run.final_draw @ values)
        spread = float(run.final_draw @ (values - expected) ** 2)
        # The weighted mean is the conditional expectation of the draw.
        mean = mean._replace(bias=expected - truth)
        draw = _about(truth, MeanVariance(expected, spread))
    variance = _relative_variance(cell, method, power, proposal, run)
    return {
        (method, "evidence"): Exact(1.0, 0.0, variance),
        (method, "log_evidence"): Exact(0.0, math.nan, math.nan),
        (method, "mean"): mean,
        (method, "draw"): draw,
    }


def _relative_variance(
    cell: Cell, method: str, power: PowerLaw, proposal: Law, run: FiniteRun | None
) -> float:
    if method == "smc":
        return every_step_relative_variance(power, proposal, cell.num_draws)
    if method == "smc_adapted":
        return adapted_relative_variance(power.law.layers, cell.alpha, cell.num_draws)
    return math.nan if run is None else run.evidence.relative_variance


def _two_particles(cell: Cell, method: str, proposal: Law) -> FiniteRun | None:
    """The exact run of at most two particles of a small model."""
    layers = proposal.layers
    if cell.num_draws > 2 or num_sequences(layers) > MAX_PAIRED:
        return None
    if method == "smc_adapted":
        return adapted_filter(layers, cell.alpha, cell.num_draws)
    after = range(1, len(layers))
    if method == "smc":
        return plain_filter(cell.alpha, proposal, cell.num_draws, after)
    rarely = when_ess_below(ESS_THRESHOLD, systematic_offspring)
    return plain_filter(cell.alpha, proposal, cell.num_draws, after, rarely)


def _drawn(one: WeightedDraw, num_draws: int) -> MeanVariance:
    law = resampled_law(one, num_draws)
    mean = float(law @ one.values)
    return MeanVariance(mean, float(law @ (one.values - mean) ** 2))


def _about(truth: float, moments: MeanVariance) -> Exact:
    return Exact(truth, moments.mean - truth, moments.variance)
