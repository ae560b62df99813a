"""A source that remembers prompts and learns a prior of each, anew at every update: what HORA takes in place of a flat one.

    S <- lam S + s,   F <- lam F + f   at each visit;   priors = learner(S, F)

The learner is one of `theory.allocation.learned_priors`, or any other function of what is remembered; features of prompts are closed over.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from theory.allocation.priors import BetaMixture
from theory.allocation.rates import RateState, remembered_epochs
from theory.allocation.sources import Source
from theory.errors import InvalidInput

# (S [P], F [P]) -> a prior of every prompt, its arrays with a leading axis [P].
PriorLearner = Callable[[Float[Array, " P"], Float[Array, " P"]], BetaMixture]


class PriorState(NamedTuple):
    """Of the source.

    Attributes:
        rates: the order of the epoch, and what is remembered.
        prior: [P, J] and [P, L], learned from it.
    """

    rates: RateState
    prior: BetaMixture


def learned_prior_epochs(learner: PriorLearner, discount: float = 0.5) -> Source:
    """Every prompt once an epoch, with a prior of each.

    Args:
        learner: of the priors.
        discount: lam; 1 forgets nothing.

    Returns:
        The source; it does not rank.

    Raises:
        InvalidInput: the discount is outside [0, 1]; by `init`, if the learner has no prior for each prompt.
    """
    memory = remembered_epochs(discount)

    def believed(rates: RateState) -> PriorState:
        return PriorState(rates, learner(rates.successes, rates.failures))

    def init(key: Key[Array, ""], prompts: int) -> PriorState:
        state = believed(memory.init(key, prompts))
        if any(part.shape[:-1] != (prompts,) for part in state.prior):
            raise InvalidInput(
                f"learned prior: arrays of shape {list(state.prior.a.shape)}, give each of the {prompts} prompts one (`learned_priors.global_prior`)"
            )
        return state

    def pick(
        state: PriorState,
        count: Int[Array, ""],
        eligible: Bool[Array, " P"],
        visited: Bool[Array, " P"],
    ) -> tuple[PriorState, Int[Array, " P"]]:
        rates, places = memory.pick(state.rates, count, eligible, visited)
        return state._replace(rates=rates), places

    def learn(
        state: PriorState,
        visited: Bool[Array, " P"],
        successes: Int[Array, " P"],
        failures: Int[Array, " P"],
    ) -> PriorState:
        return believed(memory.learn(state.rates, visited, successes, failures))

    def score(state: PriorState) -> Float[Array, " P"]:
        return jnp.zeros(state.rates.successes.shape)

    return Source(init, pick, learn, score)


def prior_of_prompts(state: PriorState, places: Int[Array, " B"]) -> BetaMixture:
    """The priors of some prompts.

    Args:
        state: of the source.
        places: [B] of the prompts; beyond the pool, that of the last prompt.

    Returns:
        [B, J] and [B, L].
    """
    return BetaMixture(*(jnp.take(part, places, axis=0, mode="clip") for part in state.prior))
