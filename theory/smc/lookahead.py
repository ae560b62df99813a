"""Power sampling that looks ahead by rollouts: token by token, or as the twist of a particle filter.

The power law's next token is p(v | x)^alpha zeta(xv) over its sum (`theory.exact.laws`), and zeta can be estimated from rollouts
(`theory.smc.zeta`). Put in its place, token by token, the estimate gives approximate draws: a ratio of unbiased numbers is
biased, by O(1/M), or O(1/M^2) after the jackknife. Put in as the score by which a particle filter resamples, and taken out of the weights
again, it leaves Z_hat unbiased at every M and N: what is random and what it costs is only the variance.

Rollouts of H tokens used as such a score are the "auxiliary rollouts" of auxiliary particle power sampling (Nguyen et al., arXiv
2605.02427; read in excerpts only): a future value that is used for selection at resampling and removed again in the weight.

Source: Ji et al., "Scalable Power Sampling", arXiv 2601.21590, for the law and the jackknife; Zhao et al., arXiv 2404.17546, for twists.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float32, Int, Int32, Key

from theory.decoding.rule import TokenRule
from theory.errors import InvalidInput
from theory.generation import Generation, generate, start
from theory.keys import Role, fold_each, fold_rows, role_key, row_keys
from theory.ledger import Ledger, charge
from theory.protocols import Resampler, SequenceModel
from theory.smc.population import Population
from theory.smc.step import LogScore, StepInfo, propose_by, run_steps
from theory.smc.zeta import (
    append,
    child_keys,
    goes_on,
    log_terms,
    log_zeta_hat,
    roll_out,
    rollout_ess,
)


def log_plug_in_law(
    log_power: Float[Array, "*batch K"], terms: Float[Array, "*batch K M"]
) -> Float[Array, "*batch K"]:
    """The next-token law with zeta_hat for zeta.

        p_hat(v) = p(v)^alpha zeta_hat(v) / sum_u p(u)^alpha zeta_hat(u)

    Biased for the power law's by O(1/M).

    Args:
        log_power: [..., K] alpha log p(v | x) of the candidates; -inf cannot be drawn.
        terms: [..., K, M] log contributions of their rollouts (`theory.smc.zeta.log_terms`).

    Returns:
        [..., K] natural log, normalised over the candidates.
    """
    return _normalised(log_power, jax.nn.logsumexp(terms, axis=-1))


def jackknife(
    log_power: Float[Array, "*batch K"], terms: Float[Array, "*batch K M"]
) -> Float[Array, "*batch K"]:
    """The same with the first order of its bias removed.

        p_JK = M p_hat - ((M - 1) / M) sum_s p_hat_{-s},

    where p_hat_{-s} leaves rollout s of every candidate out. Biased by O(1/M^2). It sums to 1, and it may be negative.

    Args:
        log_power: [..., K] alpha log p(v | x) of the candidates.
        terms: [..., K, M] log contributions of their rollouts, M at least 2.

    Returns:
        [..., K] in linear space.

    Raises:
        InvalidInput: M < 2.
    """
    num_rollouts = terms.shape[-1]
    if num_rollouts < 2:
        raise InvalidInput(f"jackknife of {num_rollouts} rollout: must be at least 2")
    # Summed anew without each rollout: a difference of sums would lose the digits where one rollout has most of the weight.
    others = ~jnp.eye(num_rollouts, dtype=bool)
    left = jnp.broadcast_to(terms[..., None, :], (*terms.shape, num_rollouts))
    sums = jax.nn.logsumexp(jnp.where(others, left, -jnp.inf), axis=-1)
    without = jax.vmap(_normalised, in_axes=(None, -1), out_axes=-1)(log_power, sums)
    whole = jnp.exp(log_plug_in_law(log_power, terms))
    # M p_hat - (M - 1) mean_s p_hat_{-s}, written so that equal rollouts give p_hat itself.
    return whole + (num_rollouts - 1) * (whole - jnp.exp(without).mean(axis=-1))


def log_jackknife_law(
    log_power: Float[Array, "*batch K"], terms: Float[Array, "*batch K M"]
) -> Float[Array, "*batch K"]:
    """The jackknife made a law: negative numbers are set to 0, and what is left is normalised. Both bring back some bias.

    Args:
        log_power: [..., K] alpha log p(v | x) of the candidates.
        terms: [..., K, M] log contributions of their rollouts, M at least 2.

    Returns:
        [..., K] natural log.

    Raises:
        InvalidInput: M < 2.
    """
    clipped = jnp.maximum(jackknife(log_power, terms), 0.0)
    return jnp.log(clipped) - jnp.log(clipped.sum(axis=-1, keepdims=True))


class LookaheadRule(NamedTuple):
    """Draws from a law that was estimated for these rows.

    Attributes:
        log_law: [B, V] natural log; -inf off the candidates.
    """

    log_law: Float32[Array, "B V"]

    name = "lookahead"
    reads_counts = False

    def truncates(self) -> bool:
        """Where a possible token has no share. Eager."""
        return bool(np.isneginf(np.asarray(self.log_law)).any())

    def __call__(
        self, logits: Float32[Array, "B V"], counts: Int[Array, "B V"]
    ) -> Float32[Array, "B V"]:
        """See `TokenRule`."""
        return self.log_law


class LookaheadInfo(NamedTuple):
    """What the estimates rest on.

    Attributes:
        ess: [B, T] effective number of rollouts behind a token, averaged over the candidates by the law that was drawn from; 0 past a
            row's length. Near 1 the law is that of single lucky rollouts, whatever M.
    """

    ess: Float32[Array, "B T"]


def lookahead_power_sampling(
    key: Key[Array, ""],
    model: SequenceModel,
    alpha: float | Float32[Array, ""],
    prompts: Int[Array, "B P"],
    prompt_lengths: Int[Array, " B"],
    rows: Int[Array, " B"],
    num_rollouts: int,
    num_tokens: int,
    num_candidates: int,
) -> tuple[Generation, LookaheadInfo]:
    """Draw rows token by token from the jackknifed look-ahead law. Approximate draws from p^alpha / Z, and labelled so.

    Where nothing follows (eos, the last token) zeta is 1 and not estimated: the last token of a full row is drawn from temperature
    1/alpha exactly. With fewer candidates than V a row is from a law without the others; with H below the horizon zeta is that of the next H
    tokens. A step costs at most K M H tokens a row.

    Args:
        key: of the run; role keys are taken from it.
        model: of the tokens.
        alpha: target exponent, above 0.
        prompts: [B, P] right-padded.
        prompt_lengths: [B].
        rows: [B] global ids.
        num_rollouts: M for each candidate, at least 2.
        num_tokens: H, most tokens of a rollout; the horizon is "to the end".
        num_candidates: K, the most likely tokens that are considered, in 1..V.

    Returns:
        Finished rows, with log q of the (random) law that drew each token, and the effective numbers of rollouts.

    Raises:
        InvalidInput: M, H or K outside its domain.
    """
    if not 1 <= num_candidates <= model.vocab_size:
        raise InvalidInput(f"candidates {num_candidates}: must be in 1..{model.vocab_size}")
    token_keys = fold_rows(row_keys(role_key(key, Role.TOKEN), rows), 0)
    lookahead_keys = row_keys(role_key(key, Role.LOOKAHEAD), rows)
    begin = start(model, prompts, prompt_lengths)
    begin = begin._replace(ledger=charge(begin.ledger, rollouts_commit=rows.shape[0]))

    def one_token(loop: tuple[Generation, Array]) -> tuple[Generation, Array]:
        now, sizes = loop
        lengths = now.trajectories.lengths
        keys = fold_each(lookahead_keys, lengths)
        log_law, size, ledger = next_token_law(
            keys, model, alpha, now, num_rollouts, num_tokens, num_candidates
        )
        spent = now._replace(ledger=ledger)
        rule = LookaheadRule(log_law)
        after = generate(token_keys, model, (rule,), alpha, spent, lengths + 1)
        here = jnp.arange(sizes.shape[1])[None, :] == lengths[:, None]
        active = goes_on(model, now)
        return after, jnp.where(here & active[:, None], size[:, None], sizes)

    def more(loop: tuple[Generation, Array]) -> Bool[Array, ""]:
        return goes_on(model, loop[0]).any()

    sizes = jnp.zeros((rows.shape[0], model.horizon), jnp.float32)
    done, sizes = jax.lax.while_loop(more, one_token, (begin, sizes))
    return done, LookaheadInfo(sizes)


def next_token_law(
    keys: Key[Array, " B"],
    model: SequenceModel,
    alpha: float | Float32[Array, ""],
    generation: Generation,
    num_rollouts: int,
    num_tokens: int,
    num_candidates: int,
) -> tuple[Float32[Array, "B V"], Float32[Array, " B"], Ledger]:
    """Estimate the power law's next token of every row.

    Args:
        keys: [B] of the role LOOKAHEAD, for this step; consumed.
        model: of the tokens.
        alpha: exponent, above 0.
        generation: where the rows stand; it is not moved.
        num_rollouts: M for each candidate, at least 2.
        num_tokens: H.
        num_candidates: K.

    Returns:
        [B, V] log of the jackknifed law, -inf off the candidates; [B] effective number of rollouts, averaged by that law; and the record of
        what was spent.
    """
    log_probs, candidates = jax.lax.top_k(generation.log_probs, num_candidates)
    candidates = candidates.astype(jnp.int32)
    children = append(model, generation, candidates)
    rolled = roll_out(child_keys(keys, candidates), model, children, num_rollouts, num_tokens)
    log_p = rolled.log_p.reshape(*candidates.shape, num_rollouts)
    # What cannot be drawn has no future either, and no law after it.
    possible = ~jnp.isneginf(log_probs)
    log_power = jnp.where(possible, alpha * jnp.where(possible, log_probs, 0.0), -jnp.inf)
    terms = jnp.where(possible[..., None], log_terms(log_p, alpha), 0.0)
    log_law = log_jackknife_law(log_power, terms)
    sizes = jnp.where(possible, rollout_ess(log_p, alpha), 0.0)
    num_rows, vocab_size = generation.log_probs.shape
    scattered = jnp.full((num_rows, vocab_size), -jnp.inf, jnp.float32)
    at = jnp.arange(num_rows)[:, None], candidates
    return (
        scattered.at[at].set(log_law),
        jnp.sum(jnp.exp(log_law) * sizes, axis=1),
        rolled.ledger,
    )


def lookahead_score(
    model: SequenceModel,
    alpha: float | Float32[Array, ""],
    num_rollouts: int,
    num_tokens: int,
) -> LogScore:
    """Log zeta_hat of each prefix, from fresh rollouts: a random twist.

    Args:
        model: of the tokens.
        alpha: exponent, above 0.
        num_rollouts: M of each row, at least 1.
        num_tokens: H, most tokens of a rollout.

    Returns:
        What `run_steps` asks; 0 for rows that are over.
    """

    def score(
        keys: Key[Array, " B"], generation: Generation, stage: Int32[Array, ""]
    ) -> tuple[Float32[Array, " B"], Ledger]:
        rolled = roll_out(keys, model, generation, num_rollouts, num_tokens)
        return log_zeta_hat(rolled.log_p, alpha), rolled.ledger

    return score


def lookahead_smc(
    key: Key[Array, ""],
    model: SequenceModel,
    rules: tuple[TokenRule, ...],
    alpha: float | Float32[Array, ""],
    population: Population,
    resampler: Resampler,
    resample_after: tuple[int, ...],
    num_rollouts: int,
    num_tokens: int,
) -> tuple[Population, StepInfo]:
    """Twisted targets p^alpha zeta_hat with any proposal; the twist is estimated anew at every resampling.

    The realised estimate is taken out of the children's weights again, so that Z_hat is unbiased at every M, H and N: conditionally on the
    rollouts it is a fixed score. More rollouts lower the variance towards that of the twist zeta.

    Args:
        key: of the run; role keys are taken from it.
        model: of the tokens.
        rules: the proposal; must not truncate.
        alpha: target exponent, above 0.
        population: M populations of N particles, as `start_populations` gives them.
        resampler: called at the steps of the schedule.
        resample_after: numbers of generated tokens, ascending in 1..horizon-1.
        num_rollouts: of each particle and resampling, at least 1.
        num_tokens: H, most tokens of a rollout; the horizon is "to the end".

    Returns:
        The population weighted for p^alpha, with exp(`log_evidence`) unbiased for Z at every N, and what each resampling saw and did (`StepInfo`).

    Raises:
        InvalidInput: a schedule that is none, or rollouts or tokens below 1.
    """
    score = lookahead_score(model, alpha, num_rollouts, num_tokens)
    propose = propose_by(model, rules, alpha)
    return run_steps(key, model, alpha, population, resampler, resample_after, propose, score)


def _normalised(
    log_power: Float[Array, "*batch K"], log_sums: Float[Array, "*batch K"]
) -> Float[Array, "*batch K"]:
    return jax.nn.log_softmax(log_power + log_sums, axis=-1)
