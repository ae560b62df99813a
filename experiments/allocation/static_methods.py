"""Rules that run on prompts that stand still: all of `methods`, the composed rule that sizes groups, and rules that were given a prior that is wrong.

The wrong prior is that of one population, on all of them. What takes a prior of success rates: SARA, HORA, optimal stopping (in `methods`) and predictive sizing.
"""

import jax.numpy as jnp

from experiments.allocation.methods import HORA_CAP, METHODS, WRONG_PRIOR, Method, Shape
from experiments.allocation.regimes import POPULATIONS
from theory.allocation.beta_binomial import probability_effective
from theory.allocation.policies import hora, predictive_sizing, sara
from theory.allocation.priors import BetaMixture, mixture
from theory.protocols import Allocator

SIZING = "predictive-sizing"


def wrong_name(method: str) -> str:
    """The name of a rule that was given the wrong prior.

    Args:
        method: its name otherwise.

    Returns:
        That name.
    """
    return f"{method}-for-{WRONG_PRIOR}"


WITH_PRIORS = ("sara", "optimal-stopping", "hora", SIZING)
"""Rules that take a prior; each also runs with the wrong one."""


def _prior() -> BetaMixture:
    law = next(each for each in POPULATIONS if each.name == WRONG_PRIOR)
    return mixture(law.betas, law.points)


def tau_with_prior(start: float, group_size: int) -> float:
    """The lower threshold of SARA where its prior is not flat: as much evidence as tau_low asks for under the flat one.

        odds(tau) / odds(P_eff at the start) = odds(tau_low) / odds((n - 1) / (n + 1))

    At tau_low itself every prompt would be given up before its first rollout under a prior by which fewer than 45 % of the groups end mixed. Ours.

    Args:
        start: P_eff before the first rollout, by the prior.
        group_size: n.

    Returns:
        The threshold on P_eff.
    """
    evidence = sara.TAU_LOW / (1 - sara.TAU_LOW) * 2 / (group_size - 1)
    odds = evidence * start / (1 - start)
    return odds / (1 + odds)


def _sara(batch: int, size: int) -> Allocator:
    prior, zero = _prior(), jnp.zeros((), jnp.int32)
    tau_low = tau_with_prior(float(probability_effective(prior, zero, zero, size)), size)
    return sara.allocator(batch, size, tau_low, prior=prior)


def _hora(batch: int, size: int) -> Allocator:
    return hora.allocator(batch, size, cap=HORA_CAP * size, prior=_prior())


def _sizing(batch: int, size: int) -> Allocator:
    return predictive_sizing.allocator(batch, size, prior=_prior())


def _whole(batch: int, size: int, pool: int) -> Shape:
    return Shape(size, batch)


STATIC_METHODS: dict[str, Method] = {
    **METHODS,
    SIZING: Method("memory", predictive_sizing.allocator, _whole),
    wrong_name("sara"): Method("stream", _sara, _whole),
    wrong_name("hora"): Method("stream", _hora, METHODS["hora"].shape),
    wrong_name(SIZING): Method("memory", _sizing, _whole),
}
"""By name; the order numbers their rollouts."""
