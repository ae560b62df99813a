"""Chains of sequences, one a row: what the kernels of this room share.

The rows of a batch are independent chains. Every random number is addressed by its role, the chain's global id and the iteration, so a
chain is the same, bit for bit, whichever chains stand beside it.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int, Int32, Key

from theory.decoding.rule import TokenRule
from theory.decoding.temperature import temperature
from theory.errors import InvalidInput
from theory.exact.laws import check_alpha
from theory.generation import Generation, Trajectories, ends_with_eos, generate, start
from theory.keys import Role, fold_rows, role_key, row_keys
from theory.ledger import charge
from theory.mcmc import density
from theory.mcmc.cuts import CutLaw
from theory.mcmc.density import Records
from theory.mcmc.scoring import charge_scoring, score_sequences
from theory.protocols import LogReward, SequenceModel


class Prompts(NamedTuple):
    """What the chains continue.

    Attributes:
        tokens: [B, P] right-padded; P may be 0.
        lengths: [B] tokens of each prompt.
        rows: [B] global ids of the chains, all different.
    """

    tokens: Int[Array, "B P"]
    lengths: Int[Array, " B"]
    rows: Int[Array, " B"]


class Chains(NamedTuple):
    """State of B chains.

    Attributes:
        generation: the current sequences, and the work done so far.
        entropies: [B, T] Shannon entropy (nats) of the model's law before each token; zeros where the cut law does not read it.
        log_rewards: [B] of the current sequences.
        rows: [B] global ids.
        iteration: [] draws made so far; the first is the start.
    """

    generation: Generation
    entropies: Float32[Array, "B T"]
    log_rewards: Float32[Array, " B"]
    rows: Int[Array, " B"]
    iteration: Int32[Array, ""]


class Design(NamedTuple):
    """What a suffix move is made of.

    Attributes:
        alpha: exponent of the target p(y)^alpha reward(y).
        proposal_alpha: exponent of the proposal's next-token laws; 1 is the model itself.
        cut_law: of the cut.
        log_reward: of whole sequences.
    """

    alpha: float
    proposal_alpha: float
    cut_law: CutLaw
    log_reward: LogReward


def no_reward(tokens: Int[Array, "B T"], lengths: Int[Array, " B"]) -> Float32[Array, " B"]:
    """The reward of a plain power target.

    Args:
        tokens: [B, T] not read.
        lengths: [B] not read.

    Returns:
        [B] zeros.
    """
    return jnp.zeros(lengths.shape, jnp.float32)


def make_design(
    alpha: float, proposal_alpha: float, cut_law: CutLaw, log_reward: LogReward = no_reward
) -> Design:
    """Check the parts of a move and put them together.

    Args:
        alpha: exponent of the target.
        proposal_alpha: exponent of the proposal.
        cut_law: of the cut.
        log_reward: of whole sequences.

    Returns:
        The design.

    Raises:
        InvalidInput: an exponent is not a positive finite number.
    """
    check_alpha(alpha)
    check_alpha(proposal_alpha)
    return Design(alpha, proposal_alpha, cut_law, log_reward)


def proposal_rules(design: Design) -> tuple[TokenRule, ...]:
    """The pipeline that proposals are drawn from. It truncates nothing, so the target keeps its support.

    Args:
        design: of the moves.

    Returns:
        No rule at exponent 1, else the temperature.
    """
    return () if design.proposal_alpha == 1 else (temperature(1 / design.proposal_alpha),)


def keys_of(key: Key[Array, ""], role: Role, chains: Chains) -> Key[Array, " B"]:
    """Keys of the next draw of each chain.

    Args:
        key: the run's key.
        role: of the noise.
        chains: for their ids and their iteration.

    Returns:
        [B] keys.
    """
    return fold_rows(row_keys(role_key(key, role), chains.rows), chains.iteration)


def empty_chains(model: SequenceModel, prompts: Prompts) -> Chains:
    """Chains whose sequences have no token yet.

    Args:
        model: of the tokens.
        prompts: what the chains continue.

    Returns:
        The chains at iteration 0.
    """
    read = start(model, prompts.tokens, prompts.lengths)
    ledger = charge(read.ledger, rollouts_commit=prompts.rows.shape[0])
    generation = read._replace(ledger=ledger)
    zeros = jnp.zeros_like(generation.trajectories.log_p)
    return Chains(generation, zeros, zeros[:, 0], prompts.rows, jnp.zeros((), jnp.int32))


def extend_chains(
    key: Key[Array, ""],
    model: SequenceModel,
    chains: Chains,
    design: Design,
    limits: Int[Array, " B"],
    role: Role = Role.TOKEN,
) -> Chains:
    """Let the proposal go on with every sequence that has not ended.

    Args:
        key: the run's key.
        model: of the tokens.
        chains: where they stand.
        design: of the moves.
        limits: [B] most tokens of each sequence.
        role: of the noise of the tokens.

    Returns:
        The chains, one iteration on.
    """
    keys = keys_of(key, role, chains)
    rules = proposal_rules(design)
    longer = generate(keys, model, rules, design.proposal_alpha, chains.generation, limits)
    return observe(model, chains._replace(iteration=chains.iteration + 1), longer, design)


def start_chains(
    key: Key[Array, ""],
    model: SequenceModel,
    prompts: Prompts,
    design: Design,
    role: Role = Role.TOKEN,
) -> Chains:
    """Start every chain from one whole draw of the proposal.

    Args:
        key: the run's key.
        model: of the tokens.
        prompts: what the chains continue.
        design: of the moves.
        role: of the noise of the tokens; a second chain under the same ids needs another.

    Returns:
        The chains at iteration 1. Only a reward can make their target zero: see `check_starts`.
    """
    limits = jnp.full(prompts.rows.shape, model.horizon, jnp.int32)
    return extend_chains(key, model, empty_chains(model, prompts), design, limits, role)


def start_chains_at(
    model: SequenceModel,
    prompts: Prompts,
    tokens: Int[Array, "B T"],
    lengths: Int[Array, " B"],
    design: Design,
) -> Chains:
    """Start every chain from a given whole sequence. Eager: reads the values.

    Args:
        model: of the tokens.
        prompts: what the chains continue.
        tokens: [B, T] right-padded, T the model's horizon.
        lengths: [B] eos included.
        design: of the moves.

    Returns:
        The chains at iteration 1.

    Raises:
        InvalidInput: a row ends neither with its only eos nor at the horizon, or its target is zero.
    """
    inside = np.arange(model.horizon)[None] < np.asarray(lengths)[:, None]
    whole = np.where(inside, tokens, 0).astype(np.int32)
    is_eos = inside & np.isin(whole, model.eos)
    _check_whole(is_eos, np.asarray(lengths))
    chains = place_chains(model, prompts, jnp.asarray(whole), lengths, design)
    check_starts(chains, design)
    return chains


def place_chains(
    model: SequenceModel,
    prompts: Prompts,
    tokens: Int[Array, "B T"],
    lengths: Int[Array, " B"],
    design: Design,
) -> Chains:
    """What `start_chains_at` does, without reading the values: for compiled programs.

    Args:
        model: of the tokens.
        prompts: what the chains continue.
        tokens: [B, T] whole sequences, 0 past their lengths, T the model's horizon.
        lengths: [B] eos included.
        design: of the moves.

    Returns:
        The chains at iteration 1.
    """
    tokens, lengths = tokens.astype(jnp.int32), lengths.astype(jnp.int32)
    chains = empty_chains(model, prompts)
    scored = score_sequences(model, chains.generation, tokens, lengths, design.proposal_alpha)
    log_p, log_z, _ = scored.scores
    log_q = design.proposal_alpha * log_p - log_z
    ended = ends_with_eos(model, tokens, lengths)
    generation = chains.generation._replace(
        model_state=scored.model_state,
        log_probs=scored.log_probs,
        trajectories=Trajectories(tokens, lengths, ended, log_p, log_q, log_z),
        ledger=charge_scoring(chains.generation.ledger, tokens, lengths),
    )
    return observe(model, chains._replace(iteration=chains.iteration + 1), generation, design)


def observe(model: SequenceModel, chains: Chains, generation: Generation, design: Design) -> Chains:
    """Put new sequences in the place of the current ones, with all that the densities read of them.

    Args:
        model: of the tokens.
        chains: for their ids and their iteration.
        generation: the new sequences.
        design: of the moves.

    Returns:
        The chains at the same iteration.
    """
    tokens, lengths = generation.trajectories.tokens, generation.trajectories.lengths
    entropies, ledger = jnp.zeros_like(chains.entropies), generation.ledger
    if design.cut_law.reads_entropies:
        entropies = score_sequences(model, generation, tokens, lengths, 1.0).scores.entropies
        ledger = charge_scoring(ledger, tokens, lengths)
    log_rewards = design.log_reward(tokens, lengths)
    if design.log_reward is not no_reward:
        ledger = charge(ledger, utility_calls=lengths.shape[0])
    generation = generation._replace(ledger=ledger)
    return chains._replace(generation=generation, entropies=entropies, log_rewards=log_rewards)


def records_of(chains: Chains) -> Records:
    """What the densities read of the current sequences.

    Args:
        chains: where they stand.

    Returns:
        The records of B rows.
    """
    now = chains.generation.trajectories
    return Records(now.log_p, now.log_q, chains.entropies, chains.log_rewards, now.lengths)


def check_starts(chains: Chains, design: Design) -> None:
    """Refuse chains that start where the target is zero. Eager: reads the values.

    Args:
        chains: at their start.
        design: of the moves.

    Raises:
        InvalidInput: names the first such chain.
    """
    log_target = np.asarray(density.log_target(design.alpha, records_of(chains)))
    possible = log_target > -np.inf
    if not possible.all():
        row = int(np.argmin(possible))
        raise InvalidInput(
            f"chain {int(chains.rows[row])}: its first sequence has probability 0 under the target, "
            f"start it from a possible one"
        )


def _check_whole(is_eos: Bool[np.ndarray, "B T"], lengths: Int[np.ndarray, " B"]) -> None:
    """Refuse rows that are not whole sequences."""
    horizon = is_eos.shape[1]
    first_eos = np.where(is_eos.any(axis=1), np.argmax(is_eos, axis=1) + 1, horizon)
    whole = (lengths >= 1) & (lengths == first_eos)
    if not whole.all():
        row = int(np.argmin(whole))
        raise InvalidInput(
            f"start row {row}: {lengths[row]} tokens, must end with its first eos or at the horizon "
            f"({horizon})"
        )
