"""All scalars that compare the power law with temperature and base at one alpha, in one place.

Everything here is a dynamic program: nothing enumerates, so a Markov model of any length has a summary. Ratios that leave the
double range (an effective-sample-size fraction of e^-5000) are kept as logarithms.
"""

from typing import NamedTuple

from theory.exact.divergences import (
    Bounds,
    kl_divergence,
    log_ess_fraction,
    log_max_ratio,
    total_variation_bounds,
)
from theory.exact.entropies import renyi_entropy
from theory.exact.functionals import base_log_prob_moments, expected_length
from theory.exact.laws import base_law, power_law, temperature_law
from theory.exact.layers import Layers
from theory.exact.length_scaling import best_proposal


class PowerSummary(NamedTuple):
    """The three laws at one alpha. Nats, tokens; lengths count eos.

    Attributes:
        alpha: power exponent; the temperature law is token temperature 1/alpha.
        log_Z: log sum_y p(y)^alpha.
        renyi_entropy: H_alpha of the sequence law (Shannon's at alpha = 1).
        kl_power_temperature: KL(power || temperature).
        kl_temperature_power: KL(temperature || power).
        kl_power_base: KL(power || base).
        kl_base_power: KL(base || power).
        tv_bounds: bounds on TV(power, temperature) that need no enumeration.
        log_ess_fraction_from_base: importance sampling of the power law from the base law.
        log_ess_fraction_from_temperature: the same from the temperature law.
        log_ess_fraction_from_best: the same from the best token temperature.
        best_proposal_alpha: beta of that temperature 1/beta.
        log_max_weight_from_base: log max power/base.
        log_max_weight_from_temperature: log max power/temperature.
        expected_length_base: tokens.
        expected_length_temperature: tokens.
        expected_length_power: tokens.
        expected_base_logp_base: E log p under the base law.
        expected_base_logp_temperature: E log p under the temperature law.
        expected_base_logp_power: E log p under the power law.
        variance_base_logp_power: Var log p under the power law.
    """

    alpha: float
    log_Z: float
    renyi_entropy: float
    kl_power_temperature: float
    kl_temperature_power: float
    kl_power_base: float
    kl_base_power: float
    tv_bounds: Bounds
    log_ess_fraction_from_base: float
    log_ess_fraction_from_temperature: float
    log_ess_fraction_from_best: float
    best_proposal_alpha: float
    log_max_weight_from_base: float
    log_max_weight_from_temperature: float
    expected_length_base: float
    expected_length_temperature: float
    expected_length_power: float
    expected_base_logp_base: float
    expected_base_logp_temperature: float
    expected_base_logp_power: float
    variance_base_logp_power: float


def summarise(layers: Layers, alpha: float) -> PowerSummary:
    """Compare the three laws at one alpha.

    Args:
        layers: of the model.
        alpha: power exponent, any real above 0.

    Returns:
        The summary.

    Raises:
        InvalidInput: alpha not above 0 or not finite.
    """
    power = power_law(layers, alpha)
    pi, temperature, base = power.law, temperature_law(layers, alpha), base_law(layers)
    best = best_proposal(layers, alpha)
    log_prob = base_log_prob_moments(pi)
    return PowerSummary(
        alpha=alpha,
        log_Z=power.log_Z,
        renyi_entropy=renyi_entropy(layers, alpha),
        kl_power_temperature=kl_divergence(pi, temperature),
        kl_temperature_power=kl_divergence(temperature, pi),
        kl_power_base=kl_divergence(pi, base),
        kl_base_power=kl_divergence(base, pi),
        tv_bounds=total_variation_bounds(pi, temperature),
        log_ess_fraction_from_base=log_ess_fraction(pi, base),
        log_ess_fraction_from_temperature=log_ess_fraction(pi, temperature),
        log_ess_fraction_from_best=-best.value,
        best_proposal_alpha=best.proposal_alpha,
        log_max_weight_from_base=log_max_ratio(pi, base),
        log_max_weight_from_temperature=log_max_ratio(pi, temperature),
        expected_length_base=expected_length(base),
        expected_length_temperature=expected_length(temperature),
        expected_length_power=expected_length(pi),
        expected_base_logp_base=base_log_prob_moments(base).mean,
        expected_base_logp_temperature=base_log_prob_moments(temperature).mean,
        expected_base_logp_power=log_prob.mean,
        variance_base_logp_power=log_prob.variance,
    )
