"""Particle Gibbs: conditional SMC around the current sequence, then a new one drawn in proportion to the weights.

Invariant law: p(y)^alpha / Z over whole sequences, at every number of particles N >= 2, for any proposal of full support and any schedule,
if the resampler is a conditional one (`theory.resampling.conditional`). The kernel is reversible and has no negative eigenvalue.
The reference takes part in every comparison with the weight of its prefix at that step: with that of the whole row, as in a public particle
Gibbs for language models (its_hub, issue 54), the invariant law is another.

Source: Andrieu, Doucet & Holenstein, "Particle Markov chain Monte Carlo methods", JRSS B 72 (2010), section 4.5; without backward
sampling. Reversibility: Chopin & Singh, "On particle Gibbs sampling", Bernoulli 21 (2015).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int, Int32, Key

from theory.errors import InvalidInput
from theory.exact.laws import check_alpha
from theory.generation import Generation, cut, generate, start, take
from theory.keys import Role, fold_rows, role_key, row_keys
from theory.ledger import charge
from theory.mcmc.chains import Prompts
from theory.mcmc.suffix import differs
from theory.protocols import Kernel, Resampler, SequenceModel
from theory.smc.conditional import conditional_smc
from theory.smc.population import Population, draw_one
from theory.smc.proposals import temperature_proposal


class References(NamedTuple):
    """State of M chains.

    Attributes:
        generation: the current sequence of each, with the log p and log q recorded when it was drawn, and the work done so far.
        rows: [M] global ids.
        iteration: [] sequences drawn so far; the first is the start.
    """

    generation: Generation
    rows: Int[Array, " M"]
    iteration: Int32[Array, ""]


class GibbsInfo(NamedTuple):
    """What one sweep of each chain did.

    Attributes:
        moved: [M] whether the sequence changed.
        ess: [K + 1, M] effective sample size of the weights that each of the K resamplings saw and that the final draw saw, the
            reference's included: 1 means that the chain can hardly leave it.
        renewed: [M] share of the N - 1 other final rows that differ from the reference.
    """

    moved: Bool[Array, " M"]
    ess: Float32[Array, "steps M"]
    renewed: Float32[Array, " M"]


def particle_gibbs(
    alpha: float,
    proposal_alpha: float,
    num_particles: int,
    resample_after: tuple[int, ...],
    resampler: Resampler,
) -> Kernel:
    """The kernel: one sweep a step, every chain started from one draw of the proposal.

    Args:
        alpha: exponent of the target, any real above 0.
        proposal_alpha: exponent of the proposal's next-token laws (temperature 1/proposal_alpha); 1 is the model itself.
        num_particles: N, the reference included, at least 2.
        resample_after: numbers of generated tokens, ascending in 1..horizon-1 (`theory.smc.every`); () is conditional importance
            sampling.
        resampler: a conditional one: slot 0 keeps particle 0. With any other the invariant law is wrong.

    Returns:
        init(key, model, prompts) -> References; step(key, model, references) -> (References, GibbsInfo). A step raises InvalidInput
        for a schedule that the model's horizon forbids.

    Raises:
        InvalidInput: an exponent is not a positive finite number, or fewer than 2 particles.
    """
    check_alpha(alpha)
    rules = temperature_proposal(proposal_alpha)
    if num_particles < 2:
        raise InvalidInput(f"{num_particles} particles: must be at least 2, the reference included")

    def init(key: Key[Array, ""], model: SequenceModel, prompts: Prompts) -> References:
        read = start(model, prompts.tokens, prompts.lengths)
        num_chains = prompts.rows.shape[0]
        read = read._replace(ledger=charge(read.ledger, rollouts_commit=num_chains))
        limits = jnp.full(num_chains, model.horizon, jnp.int32)
        keys = fold_rows(row_keys(role_key(key, Role.TOKEN), prompts.rows), 0)
        drawn = generate(keys, model, rules, alpha, read, limits)
        return References(drawn, prompts.rows, jnp.ones((), jnp.int32))

    def step(
        key: Key[Array, ""], model: SequenceModel, references: References
    ) -> tuple[References, GibbsInfo]:
        key = sweep_key(key, references.iteration)
        population = around(model, references, num_particles)
        after, steps = conditional_smc(
            key,
            model,
            rules,
            alpha,
            references.generation,
            population,
            resampler,
            resample_after,
        )
        drawn, _ = draw_one(key, model, after)
        current = references.generation.trajectories
        slots = jnp.repeat(jnp.arange(references.rows.shape[0]), num_particles)
        new = differs(
            after.generation.trajectories, jax.tree.map(lambda leaf: leaf[slots], current)
        )
        new = new.reshape(-1, num_particles).sum(axis=1, dtype=jnp.float32)
        info = GibbsInfo(differs(drawn.trajectories, current), steps.ess, new / (num_particles - 1))
        return References(drawn, references.rows, references.iteration + 1), info

    return Kernel(init, step)


def sweep_key(key: Key[Array, ""], iteration: Int32[Array, ""]) -> Key[Array, ""]:
    """Key of one iteration. A sweep is a whole SMC run with noise of many roles, so it is given a run's key of its own.

    Args:
        key: of the chains' run.
        iteration: sequences drawn so far.

    Returns:
        A scalar key, of which `conditional_smc` takes role keys.
    """
    return jax.random.fold_in(role_key(key, Role.SWEEP), iteration)


def around(model: SequenceModel, references: References, num_particles: int) -> Population:
    """The population of a sweep before its first token, at the prompts of the chains, which are not read again.

    Args:
        model: of the tokens.
        references: the chains.
        num_particles: N.

    Returns:
        M populations of N particles of length 0 and weight 1; the record has N - 1 rows more that are begun and, since one row is kept
        at the end, as many dropped.
    """
    num_chains = references.rows.shape[0]
    at_prompt = cut(model, references.generation, jnp.zeros(num_chains, jnp.int32))
    num_free = num_chains * (num_particles - 1)
    ledger = charge(at_prompt.ledger, rollouts_commit=num_free, rollouts_dropped=num_free)
    shared = jnp.repeat(jnp.arange(num_chains), num_particles)
    generation = take(model, at_prompt._replace(ledger=ledger), shared)
    log_weights = jnp.zeros((num_chains, num_particles), jnp.float32)
    return Population(references.rows, generation, log_weights)
