"""Draws of a posterior and whether they can be used; without NumPyro, which takes seconds to import."""

from typing import NamedTuple

from theory.estimators.hierarchical.closed_forms import Hyperparameters

# Limits of Vehtari et al. 2021 (arXiv 1903.08008), section 4 (cited from memory).
MAX_R_HAT = 1.01
MIN_BULK_ESS = 400.0


class Diagnostics(NamedTuple):
    """Whether the chains agree, and what they are worth.

    Attributes:
        r_hat: split R-hat of each hyperparameter, rank-normalised.
        bulk_ess: effective draws of each, rank-normalised and split.
        num_divergences: transitions whose energy error ran away.
        num_draws: of all chains together.
    """

    r_hat: dict[str, float]
    bulk_ess: dict[str, float]
    num_divergences: int
    num_draws: int

    @property
    def is_converged(self) -> bool:
        """R-hat at most 1.01, bulk ESS at least 400 of every hyperparameter, and no divergence."""
        return (
            max(self.r_hat.values()) <= MAX_R_HAT
            and min(self.bulk_ess.values()) >= MIN_BULK_ESS
            and self.num_divergences == 0
        )


class Fit(NamedTuple):
    """Draws of the posterior.

    Attributes:
        hyperparameters: [draws] each, chain after chain.
        diagnostics: look at them before using the draws.
    """

    hyperparameters: Hyperparameters
    diagnostics: Diagnostics
