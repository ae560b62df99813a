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
from jaxtyping import Array, Bool, Float32, Int, Int32, Key

from theory.decoding.rule import TokenRule
from theory.errors import InvalidInput
from theory.generation import Generation, generate, goes_on, start
from theory.keys import Role, fold_each, fold_rows, role_key, row_keys
from theory.ledger import Ledger, charge
from theory.protocols import Resampler, SequenceModel
from theory.smc.lookahead_law import LookaheadRule, next_token_law
from theory.smc.population import Population
from theory.smc.step import LogScore, StepInfo, propose_by, run_steps
from theory.smc.zeta import log_zeta_hat, roll_out


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
        active = goes_on(now.trajectories, model.horizon)
        return after, jnp.where(here & active[:, None], size[:, None], sizes)

    def more(loop: tuple[Generation, Array]) -> Bool[Array, ""]:
        return goes_on(loop[0].trajectories, model.horizon).any()

    sizes = jnp.zeros((rows.shape[0], model.horizon), jnp.float32)
    done, sizes = jax.lax.while_loop(more, one_token, (begin, sizes))
    return done, LookaheadInfo(sizes)


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
