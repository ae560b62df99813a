"""A source that remembers how often each prompt was solved, and forgets: what sizing rules take for predicted success rates.

S <- lam S + s,   F <- lam F + f   at each visit;   p = (1 + S) / (2 + S + F)
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from theory.allocation.records import check_share
from theory.allocation.sources import Source
from theory.allocation.stream import Stream, start_stream, take


class RateState(NamedTuple):
    """Of the source.

    Attributes:
        stream: the order of the epoch.
        successes: [P] S, discounted.
        failures: [P] F, discounted.
    """

    stream: Stream
    successes: Float[Array, " P"]
    failures: Float[Array, " P"]


def predicted_rates(state: RateState) -> Float[Array, " P"]:
    """Posterior means under a flat prior.

    Args:
        state: of the source.

    Returns:
        [P] in (0, 1).
    """
    return (1 + state.successes) / (2 + state.successes + state.failures)


def remembered(
    before: Float[Array, " P"], drawn: Bool[Array, " P"], new: Int[Array, " P"], discount: float
) -> Float[Array, " P"]:
    """What is remembered after an update: lam before + new where the prompt was drawn.

    Args:
        before: [P] successes, or failures, discounted.
        drawn: [P] prompts with rollouts in the update.
        new: [P] successes, or failures, of them.
        discount: lam.

    Returns:
        [P].
    """
    return jnp.where(drawn, discount * before + new.astype(before.dtype), before)


def remembered_epochs(discount: float = 0.5) -> Source:
    """Every prompt once an epoch, with a memory of its verdicts.

    Args:
        discount: lam; 1 forgets nothing.

    Returns:
        The source; `predicted_rates` reads its belief.

    Raises:
        InvalidInput: the discount is outside [0, 1].
    """
    check_share("discount", discount)

    def init(key: Key[Array, ""], prompts: int) -> RateState:
        return RateState(start_stream(key, prompts), jnp.zeros(prompts), jnp.zeros(prompts))

    def pick(
        state: RateState,
        count: Int[Array, ""],
        eligible: Bool[Array, " P"],
        visited: Bool[Array, " P"],
    ) -> tuple[RateState, Int[Array, " P"]]:
        stream, places = take(state.stream, count, eligible)
        return state._replace(stream=stream), places

    def learn(
        state: RateState,
        visited: Bool[Array, " P"],
        successes: Int[Array, " P"],
        failures: Int[Array, " P"],
    ) -> RateState:
        drawn = visited & (successes + failures > 0)

        def after(before: Float[Array, " P"], new: Int[Array, " P"]) -> Float[Array, " P"]:
            return remembered(before, drawn, new, discount)

        return RateState(
            state.stream, after(state.successes, successes), after(state.failures, failures)
        )

    return Source(init, pick, learn, predicted_rates)
