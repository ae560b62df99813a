"""CurES: prompts are sampled, and rollouts shared out, by the deviation of their rewards.

    p = (1 + S) / (2 + S + F) over all that was seen;    weight of a prompt exp(sqrt(p (1 - p)) / T);    share of rollouts proportional to sqrt(p (1 - p))

Source: github.com/ZexuSun/CurES, read as code. There T = (S + 1) / .01, with which the weights hardly differ, and a share also has the gradient norms of right and wrong
answers; with equal norms it is the share above.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from theory.allocation.assembly import Rule, assemble, filled_groups, once
from theory.allocation.rates import RateState, predicted_rates, remembered_epochs
from theory.allocation.records import Decision, Reason, Requests, filled, rank_by
from theory.allocation.sources import Source
from theory.errors import InvalidInput
from theory.keys import Role, role_key
from theory.protocols import Allocator


class CuresState(NamedTuple):
    """Of the source.

    Attributes:
        rates: verdicts of every prompt, none forgotten.
        unused: [P] prompts that this pass through the pool has not taken.
        key: of the draws.
        calls: picks so far.
    """

    rates: RateState
    unused: Bool[Array, " P"]
    key: Key[Array, ""]
    calls: Int[Array, ""]


def deviation(rates: Float[Array, " P"]) -> Float[Array, " P"]:
    """sqrt(p (1 - p)).

    Args:
        rates: [P] p.

    Returns:
        [P] in [0, 1/2].
    """
    return jnp.sqrt(rates * (1 - rates))


def shares(weights: Float[Array, " P"], budget: Int[Array, ""] | int) -> Int[Array, " P"]:
    """Share a budget out in proportion, by largest remainders, ties by position.

    Args:
        weights: [P] not negative; all zero counts as all equal.
        budget: R.

    Returns:
        [P] with sum R.
    """
    total = jnp.asarray(budget, jnp.zeros((), int).dtype)
    whole = jnp.sum(weights)
    part = jnp.where(whole > 0, weights / jnp.where(whole > 0, whole, 1), 1 / weights.size)
    exact = part * total.astype(weights.dtype)
    floors = jnp.floor(exact).astype(total.dtype)
    left = total - jnp.sum(floors)
    # Remainders that are equal but for rounding go by position.
    rounding = 16 * jnp.finfo(exact.dtype).eps * jnp.maximum(jnp.max(exact), 1)
    remainders = jnp.round((exact - jnp.floor(exact)) / rounding)
    return floors + (rank_by(remainders) < left).astype(total.dtype)


def allocate(
    rates: Float[Array, " P"], successes: Int[Array, " P"], budget: Int[Array, ""] | int
) -> Requests:
    """One step: rollouts in proportion to sqrt(p (1 - p)).

    Args:
        rates: [P] p.
        successes: [P] gives the shape and type.
        budget: R, spent exactly.

    Returns:
        COMMIT where something is drawn, NONE elsewhere; the score is sqrt(p (1 - p)).
    """
    score = deviation(rates)
    additional = shares(score, budget).astype(successes.dtype)
    decision = jnp.where(additional > 0, int(Decision.COMMIT), int(Decision.NONE))
    return Requests(additional, decision, filled(successes, Reason.COMMIT), score)


def source(temperature: float | None = None) -> Source:
    """Prompts drawn without replacement with weights exp(sqrt(p (1 - p)) / T), until the pool is used up.

    Args:
        temperature: T; the program's (S + 1) / .01 by default.

    Returns:
        The source.

    Raises:
        InvalidInput: T is not above 0.
    """
    if temperature is not None and not temperature > 0:
        raise InvalidInput(f"temperature {temperature}: must be above 0")
    memory = remembered_epochs(1.0)

    def init(key: Key[Array, ""], prompts: int) -> CuresState:
        zero = jnp.zeros((), jnp.int32)
        return CuresState(
            memory.init(key, prompts), jnp.ones(prompts, bool), role_key(key, Role.BELIEF), zero
        )

    def log_weight(state: CuresState) -> Float[Array, " P"]:
        scale = 0.01 / (state.rates.successes + 1) if temperature is None else 1 / temperature
        return deviation(predicted_rates(state.rates)) * scale

    def pick(
        state: CuresState,
        count: Int[Array, ""],
        eligible: Bool[Array, " P"],
        visited: Bool[Array, " P"],
    ) -> tuple[CuresState, Int[Array, " P"]]:
        # The largest of log weights with Gumbel noise are a weighted draw without replacement.
        noise = jax.random.gumbel(jax.random.fold_in(state.key, state.calls), eligible.shape)
        enough = jnp.sum(eligible & state.unused) >= count
        may = jnp.where(enough, eligible & state.unused, eligible)
        unused = jnp.where(enough, state.unused, True)
        place = rank_by(jnp.where(may, log_weight(state) + noise, -jnp.inf)).astype(jnp.int32)
        places = jnp.where(may & (place < count), place + 1, 0)
        return state._replace(unused=unused & (places == 0), calls=state.calls + 1), places

    def learn(
        state: CuresState,
        visited: Bool[Array, " P"],
        successes: Int[Array, " P"],
        failures: Int[Array, " P"],
    ) -> CuresState:
        return state._replace(rates=memory.learn(state.rates, visited, successes, failures))

    return Source(init, pick, learn, lambda state: deviation(predicted_rates(state.rates)))


def shared_groups(batch_size: int, group_size: int) -> Rule:
    """Share B n rollouts out over the open prompts in proportion to sqrt(p (1 - p)).

    Args:
        batch_size: B.
        group_size: n, mean size of a group.

    Returns:
        The rule, for `source`.
    """

    def sizes(belief: CuresState, opened: Bool[Array, " P"]) -> Int[Array, " P"]:
        weights = jnp.where(opened, deviation(predicted_rates(belief.rates)), 0)
        return shares(weights, batch_size * group_size)

    return filled_groups(sizes)


def allocator(batch_size: int, group_size: int, temperature: float | None = None) -> Allocator:
    """CurES in a training loop.

    Args:
        batch_size: B.
        group_size: n, mean size of a group.
        temperature: see `source`.

    Returns:
        The allocator.

    Raises:
        InvalidInput: a size below 1, or T not above 0.
    """
    rule = shared_groups(batch_size, group_size)
    return assemble(source(temperature), rule, once(batch_size), batch_size)
