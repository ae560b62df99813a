"""Bounds on log Z from both sides, and on the divergences between a target and what a sampler gives.

    E[log Z_hat] of SMC  <=  log Z  <=  E[log Z_hat] of conditional SMC around an exact draw of the target

The gap of the two expectations is the sum of both divergences between the laws of all random numbers of a run, ordinary and conditional, and so
at least KL(q_smc || pi) + KL(pi || q_smc), where q_smc is the law of one row drawn from a population by its weights. The upper bound
stands on the exactness of the reference: one from the proposal, or from a Markov chain, can leave it below log Z. So it is asked for by a
type that only exact sources make.

Source: Grosse, Ghahramani & Adams, arXiv 1511.02543 and Grosse, Ancha & Roy, arXiv 1606.02275 (bidirectional Monte Carlo and
the divergences; cited from memory); Zhao et al., arXiv 2404.17546, section 5, for language models.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32, Int32, Key

from theory.decoding.counts import no_counts
from theory.decoding.pipeline import reads_counts, token_law
from theory.decoding.rule import TokenRule
from theory.decoding.sample import log_normaliser
from theory.errors import InvalidInput
from theory.exact.laws import power_law
from theory.exact.layers import Layers
from theory.exact.sampling import draw_sequences
from theory.generation import Generation, Trajectories, ends_with_eos, take
from theory.ledger import charge
from theory.protocols import Resampler, SequenceModel
from theory.rejection import RejectionState, check_complete
from theory.smc.conditional import conditional_smc
from theory.smc.population import Population, log_evidence


class ExactDraw(NamedTuple):
    """M independent draws from p^alpha / Z. Made by `exact_draw_from_layers` and `exact_draw_from_rejection`, and by nothing else.

    Attributes:
        tokens: [M, T] right-padded.
        lengths: [M] eos included.
        alpha: of the target.
    """

    tokens: Int32[Array, "M T"]
    lengths: Int32[Array, " M"]
    alpha: float


class EvidenceBounds(NamedTuple):
    """Independent replicates of the two bounds; their means are what bounds log Z, up to the error of the means.

    Attributes:
        lower: [M] log Z_hat of ordinary SMC; its expectation is at most log Z.
        upper: [M] log Z_hat of conditional SMC around exact draws; its expectation is at least log Z.
    """

    lower: Float[Array, " M"]
    upper: Float[Array, " M"]


class DivergenceBounds(NamedTuple):
    """Bounds on two divergences, in nats, each up to the error of the means it is made of.

    Attributes:
        to_target: low and high end for KL(q || pi).
        from_target: low and high end for KL(pi || q).
    """

    to_target: tuple[float, float]
    from_target: tuple[float, float]


def exact_draw_from_layers(
    key: Key[Array, ""], layers: Layers, alpha: float, num_rows: int, first_row: int = 0
) -> ExactDraw:
    """Draw from the power law of a tabular model, backward and forward.

    Args:
        key: of the run; not consumed.
        layers: of the model.
        alpha: exponent, above 0.
        num_rows: M.
        first_row: global id of the first row.

    Returns:
        The draws.
    """
    drawn = draw_sequences(key, power_law(layers, alpha).law, num_rows, first_row)
    return ExactDraw(jnp.asarray(drawn.tokens), jnp.asarray(drawn.lengths), alpha)


def exact_draw_from_rejection(state: RejectionState, alpha: float) -> ExactDraw:
    """Take what rejection has accepted. Eager: reads the values.

    Args:
        state: of a run for p^alpha.
        alpha: of that run.

    Returns:
        The draws.

    Raises:
        InvalidInput: a row has not accepted, or no bound stands behind it.
    """
    check_complete(state)
    rows = state.generation.trajectories
    return ExactDraw(rows.tokens, rows.lengths, alpha)


def conditional_evidence(
    key: Key[Array, ""],
    model: SequenceModel,
    rules: tuple[TokenRule, ...],
    reference: ExactDraw,
    population: Population,
    resampler: Resampler,
    resample_after: tuple[int, ...],
) -> tuple[Population, Float32[Array, " M"]]:
    """Log Z_hat of conditional SMC around exact draws; its expectation is at least log Z at every N.

    The lower bound is the `log_evidence` of `theory.smc.smc` with the same rules, schedule and particles, from another key.

    Args:
        key: of the run; role keys are taken from it.
        model: of the tokens.
        rules: the proposal; must not truncate, and may not read what was generated.
        reference: M draws from p^alpha after the same prompts; its alpha is the target's.
        population: M populations of N particles, as `start_populations` gives them.
        resampler: a conditional one: slot 0 keeps particle 0.
        resample_after: numbers of generated tokens, ascending in 1..horizon-1.

    Returns:
        The population around the references, and [M] log Z_hat.

    Raises:
        InvalidInput: the reference is not an `ExactDraw` or not one a population, or a schedule that is none.
    """
    check_reference(reference, population)
    begun, rows = read_reference(model, rules, reference, population)
    after, _ = conditional_smc(
        key, model, rules, reference.alpha, rows, begun, resampler, resample_after
    )
    return after, log_evidence(after)


def check_reference(reference: object, population: Population) -> None:
    """Refuse anything but exact draws, one a population.

    Args:
        reference: what is offered.
        population: that it is offered to.

    Raises:
        InvalidInput: otherwise.
    """
    if not isinstance(reference, ExactDraw):
        raise InvalidInput(
            f"reference of type {type(reference).__name__}: an upper bound on log Z needs exact draws of the target, "
            "give those of exact_draw_from_layers or exact_draw_from_rejection"
        )
    num_populations = population.log_weights.shape[0]
    if reference.lengths.shape[0] != num_populations:
        raise InvalidInput(
            f"{reference.lengths.shape[0]} references for {num_populations} populations: give one each"
        )


def read_reference(
    model: SequenceModel,
    rules: tuple[TokenRule, ...],
    reference: ExactDraw,
    population: Population,
) -> tuple[Population, Generation]:
    """Rows that these rules would have recorded had they drawn the reference.

    Args:
        model: of the tokens.
        rules: the proposal.
        reference: M draws.
        population: of length 0; its record takes what the reading spends.

    Returns:
        The population with its record, and the M finished rows.

    Raises:
        InvalidInput: a rule reads what was generated.
    """
    if reads_counts(rules):
        raise InvalidInput(
            "conditional proposal: a rule reads the tokens generated so far, take it out of the proposal"
        )

    def reduce(
        log_probs: Float[Array, "*batch V"], tokens: Int32[Array, "*batch"]
    ) -> tuple[Array, Array, Array]:
        law = log_probs.reshape(-1, log_probs.shape[-1])
        column = tokens.reshape(-1, 1)
        log_p = jnp.take_along_axis(law, column, axis=1)
        drawn_from = token_law(rules, law, no_counts(law)).log_probs
        # Without rules q is p to the last bit.
        log_q = jnp.take_along_axis(drawn_from, column, axis=1) if rules else log_p
        log_z = log_normaliser(law, reference.alpha).reshape(tokens.shape)
        return log_p.reshape(tokens.shape), log_q.reshape(tokens.shape), log_z

    tokens, lengths = reference.tokens, reference.lengths
    num_populations, num_particles = population.log_weights.shape
    begun = take(model, population.generation, num_particles * jnp.arange(num_populations))
    state, records, log_probs = model.extend(begun.model_state, tokens, lengths, reduce)
    log_p, log_q, log_z = records
    ended = ends_with_eos(model, tokens, lengths)
    rows = Trajectories(tokens, lengths, ended, log_p, log_q, log_z)
    num_read = lengths.sum(dtype=jnp.int32)
    ledger = charge(
        begun.ledger,
        prefill_tokens=num_read,
        model_calls=1,
        row_steps_executed=tokens.size,
        row_steps_useful=num_read,
    )
    paid = population.generation._replace(ledger=ledger)
    return population._replace(generation=paid), Generation(state, log_probs, rows, ledger)


def log_evidence_interval(bounds: EvidenceBounds) -> tuple[float, float]:
    """What the two means say of log Z.

    Args:
        bounds: replicates.

    Returns:
        Low and high end, each up to its standard error; it narrows as the number of particles grows.
    """
    return _mean(bounds.lower), _mean(bounds.upper)


def smc_divergence_bounds(
    bounds: EvidenceBounds, around_own: Float[Array, " M"], log_Z: tuple[float, float]
) -> DivergenceBounds:
    """How far one row drawn from a population is from the target, both ways.

        log Z - E[around_own]  <=  KL(q_smc || pi)  <=  log Z - E[lower]
                            0  <=  KL(pi || q_smc)  <=  E[upper] - log Z

    The first is Jensen's inequality in q_smc(y) = p(y)^alpha E[1 / Z_hat], an expectation over conditional SMC around y (derived here);
    with one particle it is an equality. The interval of the same runs for log Z makes both upper bounds their gap, and the lower one 0:
    a known log Z, or the interval of runs with more particles, says more.

    Args:
        bounds: of runs with the same particles, rules and schedule; the conditional resampler is that of the ordinary run, conditioned.
        around_own: [M] log Z_hat of `conditional_smc` around rows that `draw_one` took from ordinary runs, no exact draws.
        log_Z: interval that holds it: `log_evidence_interval`, or the exact value twice.

    Returns:
        The intervals, never below 0.
    """
    known, most = log_Z[0] - _mean(around_own), log_Z[1] - _mean(bounds.lower)
    back = _mean(bounds.upper) - log_Z[0]
    most = max(most, 0.0)
    return DivergenceBounds((min(max(known, 0.0), most), most), (0.0, max(back, 0.0)))


def proposal_divergence_bounds(
    log_Z: tuple[float, float],
    log_weights: Float[Array, " n"],
    target_log_weights: Float[Array, " m"],
) -> DivergenceBounds:
    """How far a proposal with a known density is from the target, both ways and from both sides.

        KL(q || pi) = log Z - E_q[log w],      KL(pi || q) = E_pi[log w] - log Z,      w = p^alpha / q

    Args:
        log_Z: interval that holds it.
        log_weights: [n] log w of independent rows from q.
        target_log_weights: [m] log w of exact draws of the target.

    Returns:
        The intervals that those of log Z give.
    """
    low, high = log_Z
    of_proposal, of_target = _mean(log_weights), _mean(target_log_weights)
    return DivergenceBounds(
        (low - of_proposal, high - of_proposal), (of_target - high, of_target - low)
    )


def _mean(replicates: Float[Array, " n"]) -> float:
    return float(np.asarray(replicates, np.float64).mean())
