"""Where the next rollouts of group-based reinforcement learning are spent: what is known of each prompt, and the rules that use it.

prior = beta(1.0, 1.0)
probability_effective(prior, successes, failures, group_size=8)
hit_utility(prior, successes, failures, extra=16)

Operating characteristics of these rules are in `theory.exact.allocation`. Nothing here depends on a trainer.
"""

from theory.allocation.beta_binomial import discounted_count as discounted_count
from theory.allocation.beta_binomial import (
    expected_bernoulli_deviation as expected_bernoulli_deviation,
)
from theory.allocation.beta_binomial import (
    expected_bernoulli_variance as expected_bernoulli_variance,
)
from theory.allocation.beta_binomial import expected_final_variance as expected_final_variance
from theory.allocation.beta_binomial import expected_group_deviation as expected_group_deviation
from theory.allocation.beta_binomial import hit_marginal as hit_marginal
from theory.allocation.beta_binomial import hit_utility as hit_utility
from theory.allocation.beta_binomial import log_predictive as log_predictive
from theory.allocation.beta_binomial import next_hit_marginal as next_hit_marginal
from theory.allocation.beta_binomial import posterior_mean as posterior_mean
from theory.allocation.beta_binomial import probability_effective as probability_effective
from theory.allocation.empirical_bayes import fit_parameters as fit_parameters
from theory.allocation.empirical_bayes import fit_weights as fit_weights
from theory.allocation.priors import BetaMixture as BetaMixture
from theory.allocation.priors import beta as beta
from theory.allocation.priors import log_moment as log_moment
from theory.allocation.priors import log_moment_ratio as log_moment_ratio
from theory.allocation.priors import log_relative_likelihood as log_relative_likelihood
from theory.allocation.priors import mixture as mixture
from theory.allocation.priors import one_minus_moment as one_minus_moment
from theory.allocation.priors import posterior as posterior
