"""Twisted SMC for p(y)^alpha: intermediate targets p(x_<=t)^alpha psi(x_<=t) that look ahead.

A twist is any guess, up to a factor, of the look-ahead normaliser zeta(x_<=t) = sum over futures of p(future | x_<=t)^alpha. Z_hat is
unbiased whatever the twist is, so long as it is positive wherever zeta is; the better the guess, the smaller the variance.
With psi = zeta and the proposal that the twist induces, q(v) proportional to p(v)^alpha psi(x_<t v), the variance is zero; with
psi = zeta and another proposal it is not.

On rows that are over a twist is not asked: nothing is left to look ahead to, psi = 1.

Source: Zhao et al., "Probabilistic inference in language models via twisted sequential Monte Carlo", arXiv 2404.17546.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, Int, Int32, Key

from theory.decoding.rule import TokenRule
from theory.generation import Generation, generate, goes_on, is_eos
from theory.ledger import Ledger, charge
from theory.protocols import Resampler, SequenceModel
from theory.smc.population import Population
from theory.smc.step import (
    LogScore,
    Propose,
    StepInfo,
    propose_by,
    run_steps,
)

# (tokens [B, T] right-padded, lengths [B] eos included) -> log psi [B], natural log, finite on prefixes that can go on.
LogTwist = Callable[[Int32[Array, "B T"], Int32[Array, " B"]], Float32[Array, " B"]]


class TwistRule(NamedTuple):
    """The twist-induced proposal of one token.

        q(v) proportional to p(v)^alpha psi(v)

    Attributes:
        alpha: target exponent.
        log_twist: [B, V] log psi of each row with token v appended.
    """

    alpha: float | Float32[Array, ""]
    log_twist: Float32[Array, "B V"]

    name = "twist"
    reads_counts = False

    def truncates(self) -> bool:
        """Where the twist forbids a token."""
        return bool(np.isneginf(np.asarray(self.log_twist)).any())

    def __call__(
        self, logits: Float32[Array, "B V"], counts: Int[Array, "B V"]
    ) -> Float32[Array, "B V"]:
        """See `TokenRule`."""
        return jnp.where(jnp.isneginf(logits), -jnp.inf, self.alpha * logits + self.log_twist)


def twisted_smc(
    key: Key[Array, ""],
    model: SequenceModel,
    log_twist: LogTwist,
    alpha: float | Float32[Array, ""],
    population: Population,
    resampler: Resampler,
    resample_after: tuple[int, ...],
) -> tuple[Population, StepInfo]:
    """Twisted targets with the proposal that the twist induces; the twist is asked for all V children of every prefix.

    Args:
        key: of the run; role keys are taken from it.
        model: of the tokens.
        log_twist: log psi of prefixes.
        alpha: target exponent, above 0.
        population: M populations of N particles, as `start_populations` gives them.
        resampler: called at the steps of the schedule.
        resample_after: numbers of generated tokens, ascending in 1..horizon-1.

    Returns:
        The population weighted for p^alpha, with exp(`log_evidence`) unbiased for Z at every N (and equal to Z for psi = zeta), and
        what each resampling saw and did.

    Raises:
        InvalidInput: a schedule that is none.
    """

    def children(now: Generation) -> Float32[Array, "B V"]:
        rows = now.trajectories
        return children_log_twist(log_twist, model, rows.tokens, rows.lengths)

    return run_steps(
        key,
        model,
        alpha,
        population,
        resampler,
        resample_after,
        propose_by_children(model, alpha, children, model.vocab_size),
        twist_score(log_twist, model),
    )


def twisted_targets_smc(
    key: Key[Array, ""],
    model: SequenceModel,
    rules: tuple[TokenRule, ...],
    log_twist: LogTwist,
    alpha: float | Float32[Array, ""],
    population: Population,
    resampler: Resampler,
    resample_after: tuple[int, ...],
) -> tuple[Population, StepInfo]:
    """Twisted targets with any proposal; the twist is asked once a particle and resampling.

    Args:
        key: of the run; role keys are taken from it.
        model: of the tokens.
        rules: the proposal; must not truncate.
        log_twist: log psi of prefixes.
        alpha: target exponent, above 0.
        population: M populations of N particles, as `start_populations` gives them.
        resampler: called at the steps of the schedule.
        resample_after: numbers of generated tokens, ascending in 1..horizon-1.

    Returns:
        The population weighted for p^alpha, with exp(`log_evidence`) unbiased for Z at every N, and what each resampling saw and did (`StepInfo`).

    Raises:
        InvalidInput: a schedule that is none.
    """
    return run_steps(
        key,
        model,
        alpha,
        population,
        resampler,
        resample_after,
        propose_by(model, rules, alpha),
        twist_score(log_twist, model),
    )


def propose_by_children(
    model: SequenceModel,
    alpha: float | Float32[Array, ""],
    children: Callable[[Generation], Float32[Array, "B V"]],
    calls_per_row: int,
) -> Propose:
    """The proposal that a twist induces, token by token.

    Args:
        model: of the tokens.
        alpha: target exponent, above 0.
        children: log psi of every row with every token appended, 0 for those that are over.
        calls_per_row: questions that it takes, for the record.

    Returns:
        What `run_steps` asks.
    """

    def propose(
        keys: Key[Array, " B"],
        generation: Generation,
        limits: Int32[Array, " B"],
        stage: Int32[Array, ""],
    ) -> Generation:
        def one_token(now: Generation) -> Generation:
            next_limits = jnp.minimum(now.trajectories.lengths + 1, limits)
            num_rows = goes_on(now.trajectories, limits).sum(dtype=jnp.int32)
            ledger = charge(now.ledger, utility_calls=calls_per_row * num_rows)
            rule, asked = TwistRule(alpha, children(now)), now._replace(ledger=ledger)
            return generate(keys, model, (rule,), alpha, asked, next_limits)

        return jax.lax.while_loop(
            lambda now: goes_on(now.trajectories, limits).any(), one_token, generation
        )

    return propose


def twist_score(log_twist: LogTwist, model: SequenceModel) -> LogScore:
    """A twist as a score of rows: log psi where a row goes on, 0 where it is over.

    Args:
        log_twist: log psi of prefixes.
        model: of the tokens.

    Returns:
        What `run_steps` asks.
    """

    def score(
        keys: Key[Array, " B"], generation: Generation, stage: Int32[Array, ""]
    ) -> tuple[Float32[Array, " B"], Ledger]:
        rows = generation.trajectories
        asked = goes_on(rows, model.horizon)
        ledger = charge(generation.ledger, utility_calls=asked.sum(dtype=jnp.int32))
        return jnp.where(asked, log_twist(rows.tokens, rows.lengths), 0.0), ledger

    return score


def children_log_twist(
    log_twist: LogTwist,
    model: SequenceModel,
    tokens: Int32[Array, "B T"],
    lengths: Int32[Array, " B"],
) -> Float32[Array, "B V"]:
    """Log psi of every row with every token appended.

    Args:
        log_twist: log psi of prefixes.
        model: of the tokens.
        tokens: [B, T] prefixes, right-padded; what is returned for those that are over is unused.
        lengths: [B].

    Returns:
        [B, V]; 0 where the token ends the row.
    """
    num_rows, width = tokens.shape
    vocab = jnp.arange(model.vocab_size, dtype=jnp.int32)
    here = jnp.arange(width)[None, :] == lengths[:, None]
    longer = jnp.where(here[:, None, :], vocab[None, :, None], tokens[:, None, :])
    child_lengths = jnp.repeat(lengths + 1, model.vocab_size)
    values = log_twist(longer.reshape(-1, width), child_lengths).reshape(num_rows, -1)
    is_last = lengths + 1 >= model.horizon
    return jnp.where(is_eos(model, vocab)[None, :] | is_last[:, None], 0.0, values)
