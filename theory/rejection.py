"""Exact draws from p(y)^alpha / Z by rejection, for a proposal with a proven bound.

A proposal y from q is accepted with probability w(y) / M, w = p^alpha / q, for a bound M >= max w. What is accepted is an exact draw
from the target, one proposal is accepted with probability Z / M, and nothing of this holds if M is not a bound.
From token temperature 1/beta, w = p(y)^(alpha - beta) prod_t z_t with z_t = sum_v p(v | y_<t)^beta, whence the bounds that need no
knowledge of the model (`proven_log_bound`).

Source: von Neumann, "Various Techniques Used in Connection with Random Digits" (1951); Devroye, "Non-Uniform Random Variate Generation"
(1986), section II.3 (section number from memory). The bound for temperature proposals is derived here.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int, Int32, Key

from theory.decoding.noise import gumbels
from theory.decoding.rule import TokenRule
from theory.errors import InvalidInput
from theory.exact.laws import check_alpha
from theory.generation import Generation, generate, select, start
from theory.importance import trajectory_log_weights
from theory.keys import Role, fold_rows, role_key, row_keys
from theory.ledger import charge
from theory.protocols import SequenceModel

# Log weights are float32 sums: by this share of |alpha log p(y)| + 1 they may exceed a bound that holds.
_ROUNDING = 1e-5


class RejectionState(NamedTuple):
    """B rows, each with its draw once it has one.

    Attributes:
        generation: the accepted proposals; rows not yet accepted have length 0. Its record is that of all rounds.
        accepted: [B].
        num_proposals: [B] proposals that each row has made.
        num_above_bound: [B] proposals whose weight lay above the bound; anything but 0 says that it is none.
        num_rounds: rounds that were run.
    """

    generation: Generation
    accepted: Bool[Array, " B"]
    num_proposals: Int32[Array, " B"]
    num_above_bound: Int32[Array, " B"]
    num_rounds: Int32[Array, ""]


def proven_log_bound(alpha: float, proposal_alpha: float, vocab_size: int, horizon: int) -> float:
    """A bound on the log weight from token temperature 1/beta that holds for every model.

        log w = (alpha - beta) log p(y) + sum_t log z_t  <=  T max(0, 1 - beta) log V      for alpha >= beta

    since log p <= 0, z_t <= 1 for beta >= 1, and z_t <= V^(1 - beta) below. Valid and wasteful: the
    smallest bound is `theory.exact.log_max_ratio` + log Z.

    Args:
        alpha: target exponent, above 0.
        proposal_alpha: beta, above 0; 1 is the base model.
        vocab_size: V.
        horizon: T.

    Returns:
        Natural log; 0 for every beta in 1..alpha.

    Raises:
        InvalidInput: alpha < beta, where the weight of unlikely rows has no bound that is known without the model.
    """
    check_alpha(alpha)
    check_alpha(proposal_alpha)
    if alpha < proposal_alpha:
        raise InvalidInput(
            f"rejection at alpha {alpha} from a proposal at alpha {proposal_alpha}: no bound is known, "
            f"give one by --log-bound or lower the proposal's alpha to {alpha}"
        )
    return horizon * max(0.0, 1.0 - proposal_alpha) * math.log(vocab_size)


def log_acceptance_rate(log_Z: float, log_bound: float) -> float:
    """Log of the probability that one proposal is accepted.

        log Z - log M

    Args:
        log_Z: exact log normaliser of the target.
        log_bound: log M.

    Returns:
        Natural log, at most 0 if M is a bound; a row needs exp(-that) proposals on average.
    """
    return log_Z - log_bound


def rejection_sample(
    key: Key[Array, ""],
    model: SequenceModel,
    rules: tuple[TokenRule, ...],
    alpha: float | Float32[Array, ""],
    log_bound: float | Float32[Array, ""],
    prompts: Int[Array, "B P"],
    prompt_lengths: Int[Array, " B"],
    rows: Int[Array, " B"],
    max_rounds: int | Int32[Array, ""],
) -> RejectionState:
    """Propose in rounds, all rows side by side, until every row has accepted.

    A row's numbers are addressed by its id and the round, so its draw is the same in any batch. Ask `check_complete` before use.

    Args:
        key: of the run; role keys are taken from it.
        model: of the tokens.
        rules: the proposal.
        alpha: target exponent, above 0.
        log_bound: log M, natural; proven for these rules and this alpha.
        prompts: [B, P] right-padded.
        prompt_lengths: [B].
        rows: [B] global ids.
        max_rounds: proposals of one row at most.

    Returns:
        The draws: independent and exact, where `check_complete` passes.
    """
    token_keys = row_keys(role_key(key, Role.TOKEN), rows)
    accept_keys = row_keys(role_key(key, Role.ACCEPT), rows)
    fresh = start(model, prompts, prompt_lengths)

    def is_open(state: RejectionState) -> Bool[Array, ""]:
        return ~state.accepted.all() & (state.num_rounds < max_rounds)

    def propose(state: RejectionState) -> RejectionState:
        waits = ~state.accepted
        limits = jnp.where(waits, model.horizon, 0)
        round_keys = fold_rows(token_keys, state.num_rounds)
        again = fresh._replace(ledger=state.generation.ledger)
        proposal = generate(round_keys, model, rules, alpha, again, limits)
        log_ratio = trajectory_log_weights(proposal.trajectories, alpha) - log_bound
        # -log of a uniform from 64 bits: 23 would accept one in 8 million whatever the weight.
        exponential = jnp.exp(-gumbels(fold_rows(accept_keys, state.num_rounds), 1)[:, 0])
        accepted = waits & (exponential > -log_ratio)
        size = jnp.abs(alpha * proposal.trajectories.log_p.sum(axis=1))
        above = waits & (log_ratio > _ROUNDING * (1 + size))
        held = select(model, accepted, proposal, state.generation)
        num_proposed = waits.sum(dtype=jnp.int32)
        ledger = charge(
            proposal.ledger,
            rollouts_commit=num_proposed,
            rollouts_dropped=num_proposed - accepted.sum(dtype=jnp.int32),
        )
        return RejectionState(
            held._replace(ledger=ledger),
            state.accepted | accepted,
            state.num_proposals + waits.astype(jnp.int32),
            state.num_above_bound + above.astype(jnp.int32),
            state.num_rounds + 1,
        )

    zeros = jnp.zeros(rows.shape, jnp.int32)
    begin = RejectionState(fresh, zeros > 0, zeros, zeros, jnp.zeros((), jnp.int32))
    return jax.lax.while_loop(is_open, propose, begin)


def check_complete(state: RejectionState) -> None:
    """Refuse draws that are not there, or that no bound stands behind. Eager: reads the values.

    Args:
        state: of a run.

    Raises:
        InvalidInput: a proposal's weight lay above the bound, or a row has not accepted; names the row.
    """
    above = np.asarray(state.num_above_bound)
    if above.any():
        raise InvalidInput(
            f"row {int(np.argmax(above > 0))}: {above.sum()} proposals have a weight above the log bound, "
            f"which is therefore none; give a larger --log-bound"
        )
    accepted = np.asarray(state.accepted)
    if not accepted.all():
        row = int(np.argmin(accepted))
        raise InvalidInput(
            f"row {row}: none of {int(state.num_proposals[row])} proposals was accepted, "
            f"allow more rounds or give a proposal or a bound nearer to the target"
        )
