"""The Feynman-Kac step that every sampler here is made of: propose, weigh, resample.

Populations are rows side by side: particle i of population m is row m N + i. The weights are those of whole prefixes for p^alpha
against the proposal, all tokens since the prompt, and they are never reset: what a resampler hands on carries the mean weight, so that

    log Z_hat = log (1/N) sum_i w_i

holds at any time, is the product over resampling epochs of their mean weights, and loses no evidence in an epoch without
resampling. E[Z_hat] = Z at every N, for every unbiased resampler, whether or not it looks at the weights to decide when.

A sampler may let the resampler see other weights than these: w exp(log_score). The score of a prefix is a guess of what is still to
come (a twist), the normaliser of the next token (the adapted filter) or the step back to a milder exponent (bridging). It is taken out
again of what the children carry, so whatever it was, the weights stay those of p^alpha, and no last correction can be forgotten.
Twisted SMC with targets gamma_t psi_t is the same algorithm in another notation: its weights are w psi_t.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, Int32, Key

from theory.decoding.rule import TokenRule
from theory.generation import Generation, generate, take
from theory.importance import token_log_weights
from theory.keys import Role, fold_rows, role_key, row_keys
from theory.ledger import Ledger, charge
from theory.log_weights import clean, ess, log_mean_weight
from theory.protocols import Resampler, SequenceModel
from theory.resampling.ancestors import num_offspring
from theory.smc.population import Population, particle_keys
from theory.smc.schedule import check_schedule


class StepInfo(NamedTuple):
    """What one resampling saw and did; from a run, one more leading axis [K + 1], for K resamplings and the end.

    Attributes:
        ancestors: [M, N] slot in the population before the step that each particle comes from.
        ess: [M] effective sample size of the weights that the resampler saw; 0 where all are dead.
        log_Z: [M] log of their mean: the estimate of the normaliser of the target at that step.
    """

    ancestors: Int32[Array, "*steps M N"]
    ess: Float32[Array, "*steps M"]
    log_Z: Float32[Array, "*steps M"]


# (keys of the rows, rows, most tokens of each row, stage) -> rows with as many tokens as they may have.
Propose = Callable[[Key[Array, " B"], Generation, Int32[Array, " B"], Int32[Array, ""]], Generation]

# (keys of the rows, rows, stage) -> log score of each row, 0 for rows that are over, and the record of what that spent.
LogScore = Callable[
    [Key[Array, " B"], Generation, Int32[Array, ""]], tuple[Float32[Array, " B"], Ledger]
]


def propose_by(
    model: SequenceModel, rules: tuple[TokenRule, ...], alpha: float | Float32[Array, ""]
) -> Propose:
    """The proposal of a fixed pipeline.

    Args:
        model: of the tokens.
        rules: what tokens are drawn from; must not truncate.
        alpha: exponent of the recorded log z.

    Returns:
        What `run_steps` asks.
    """

    def propose(
        keys: Key[Array, " B"],
        generation: Generation,
        limits: Int32[Array, " B"],
        stage: Int32[Array, ""],
    ) -> Generation:
        return generate(keys, model, rules, alpha, generation, limits)

    return propose


def no_score(
    keys: Key[Array, " B"], generation: Generation, stage: Int32[Array, ""]
) -> tuple[Float32[Array, " B"], Ledger]:
    """The resampler sees the weights as they are.

    Args:
        keys: not read.
        generation: the rows.
        stage: not read.

    Returns:
        [B] zeros, and the record as it was.
    """
    return jnp.zeros(generation.trajectories.lengths.shape, jnp.float32), generation.ledger


def weigh(
    population: Population, after: Generation, alpha: float | Float32[Array, ""]
) -> Population:
    """Multiply each weight by what the new tokens contribute. Rows that were over gain nothing.

        log w += sum over new tokens of (alpha log p - log q)

    Args:
        population: before the proposal.
        after: the same rows with their new tokens.
        alpha: target exponent.

    Returns:
        The population after the proposal.
    """
    gains = token_log_weights(after.trajectories, alpha)
    places = jnp.arange(gains.shape[1])[None, :]
    is_new = places >= population.generation.trajectories.lengths[:, None]
    gain = jnp.sum(jnp.where(is_new, gains, 0.0), axis=1)
    log_weights = population.log_weights + gain.reshape(population.log_weights.shape)
    return population._replace(generation=after, log_weights=clean(log_weights)[0])


def resample(
    keys: Key[Array, " M"],
    model: SequenceModel,
    resampler: Resampler,
    population: Population,
    log_score: Float32[Array, "M N"],
) -> tuple[Population, StepInfo]:
    """Let the resampler see w exp(log_score), and take the score out of what the children carry.

    Args:
        keys: [M] one for each population; consumed.
        model: of the tokens.
        resampler: may leave populations as they are.
        population: to resample.
        log_score: [M, N] natural log; -inf kills a particle.

    Returns:
        The children and what was seen.
    """
    seen = population.log_weights + log_score
    ancestors, carried = resampler(keys, seen)
    parent_score = jnp.take_along_axis(log_score, ancestors, axis=1)
    alive = ~jnp.isneginf(carried)
    log_weights = jnp.where(alive, carried - jnp.where(alive, parent_score, 0.0), -jnp.inf)
    num_populations, num_particles = seen.shape
    offsets = num_particles * jnp.arange(num_populations, dtype=jnp.int32)
    rows = (ancestors + offsets[:, None]).reshape(-1)
    children = take(model, population.generation, rows)
    num_copies = jnp.sum(
        jnp.maximum(num_offspring(ancestors, num_particles) - 1, 0), dtype=jnp.int32
    )
    ledger = charge(children.ledger, rollouts_branch=num_copies, rollouts_dropped=num_copies)
    children = children._replace(ledger=ledger)
    population = population._replace(generation=children, log_weights=log_weights)
    return population, StepInfo(ancestors, ess(seen), log_mean_weight(seen))


def final_info(population: Population) -> StepInfo:
    """What is to be seen at the end, where nothing is resampled.

    Args:
        population: at the end of a run.

    Returns:
        Ancestors are the particles' own slots.
    """
    log_weights = population.log_weights
    slots = jnp.arange(log_weights.shape[1], dtype=jnp.int32)
    ancestors = jnp.broadcast_to(slots, log_weights.shape)
    return StepInfo(ancestors, ess(log_weights), log_mean_weight(log_weights))


def run_steps(
    key: Key[Array, ""],
    model: SequenceModel,
    alpha: float | Float32[Array, ""],
    population: Population,
    resampler: Resampler,
    resample_after: tuple[int, ...],
    propose: Propose,
    log_score: LogScore,
) -> tuple[Population, StepInfo]:
    """Stages of propose, weigh and resample, and a last one that ends at the horizon without resampling.

    Populations that have ended early are still resampled at the steps that are left; their weights do not change.

    Args:
        key: of the run; role keys are taken from it.
        model: of the tokens.
        alpha: target exponent, above 0.
        population: as `start_populations` gives it.
        resampler: called after each stage but the last.
        resample_after: numbers of generated tokens at which stages end.
        propose: extends the rows.
        log_score: how the resampler sees them; may draw random numbers, which the weights forget again.

    Returns:
        The weighted population for p^alpha, and what each of the K resamplings saw and did and what is seen at the end.

    Raises:
        InvalidInput: the schedule does not ascend within 1..horizon-1.
    """
    check_schedule(resample_after, model.horizon)
    shape = population.log_weights.shape
    token_keys = particle_keys(role_key(key, Role.TOKEN), population)
    score_keys = particle_keys(role_key(key, Role.LOOKAHEAD), population)
    resample_keys = row_keys(role_key(key, Role.RESAMPLE), population.ids)

    def extend(now: Population, limit: Int32[Array, ""], stage: Int32[Array, ""]) -> Population:
        limits = jnp.full(shape[0] * shape[1], limit, jnp.int32)
        return weigh(now, propose(token_keys, now.generation, limits, stage), alpha)

    def step(now: Population, at: tuple[Array, Array]) -> tuple[Population, StepInfo]:
        limit, stage = at
        grown = extend(now, limit, stage)

        def go_on() -> tuple[Population, StepInfo]:
            score, ledger = log_score(fold_rows(score_keys, stage), grown.generation, stage)
            scored = grown._replace(generation=grown.generation._replace(ledger=ledger))
            keys = fold_rows(resample_keys, stage)
            return resample(keys, model, resampler, scored, score.reshape(shape))

        # One body for all stages: a model is compiled once, not once more for the last.
        return jax.lax.cond(stage < num_steps, go_on, lambda: (grown, final_info(grown)))

    num_steps = len(resample_after)
    limits = jnp.asarray((*resample_after, model.horizon), jnp.int32)
    return jax.lax.scan(step, population, (limits, jnp.arange(num_steps + 1, dtype=jnp.int32)))
