"""Suffix regeneration: keep a prefix, draw the rest anew, accept by Hastings' ratio.

Invariant law: p(y)^alpha / Z over whole sequences, for any cut law and any temperature of the proposal. A proposal always runs to eos or to
the model's horizon, whatever the length of the current sequence; the ratio holds both whole suffixes and both cut probabilities. Leaving out
any of the three changes the invariant law.

The move is that of Karan and Du, "Reasoning with Sampling" (arXiv 2510.14901), made exact for sequences that end at different lengths.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int, Int32, Key

from theory.generation import Generation, Trajectories, cut, generate, select
from theory.keys import Role
from theory.ledger import charge
from theory.mcmc import density
from theory.mcmc.chains import (
    Chains,
    Design,
    Prompts,
    keys_of,
    make_design,
    observe,
    proposal_rules,
    records_of,
    start_chains,
)
from theory.mcmc.cuts import CutLaw, log_cut_probs
from theory.mcmc.draws import draw_index, log_uniforms
from theory.protocols import Kernel, SequenceModel


class MoveInfo(NamedTuple):
    """What one move of each chain did.

    Attributes:
        accepted: [B] whether the proposal was accepted; a proposal equal to the current sequence always is.
        moved: [B] whether the sequence changed.
        cuts: [B] tokens that were kept.
        log_ratio: [B] log acceptance ratio, natural log.
        num_tokens: [B] tokens that were drawn for the move.
        num_scored_tokens: [B] tokens that were read again for their entropies.
    """

    accepted: Bool[Array, " B"]
    moved: Bool[Array, " B"]
    cuts: Int32[Array, " B"]
    log_ratio: Float32[Array, " B"]
    num_tokens: Int32[Array, " B"]
    num_scored_tokens: Int32[Array, " B"]


def suffix_regeneration(alpha: float, proposal_alpha: float, cut_law: CutLaw) -> Kernel:
    """The kernel: one suffix move a step, every chain started from one draw of the proposal.

    Args:
        alpha: exponent of the target, any real above 0.
        proposal_alpha: exponent of the proposal's next-token laws (temperature 1/proposal_alpha); 1 is the model itself.
        cut_law: where to cut.

    Returns:
        init(key, model, prompts) -> Chains; step(key, model, chains) -> (Chains, MoveInfo).

    Raises:
        InvalidInput: an exponent is not a positive finite number.
    """
    return suffix_kernel(make_design(alpha, proposal_alpha, cut_law))


def suffix_kernel(design: Design) -> Kernel:
    """The kernel of a design.

    Args:
        design: of the moves.

    Returns:
        As `suffix_regeneration`.
    """

    def init(key: Key[Array, ""], model: SequenceModel, prompts: Prompts) -> Chains:
        return start_chains(key, model, prompts, design)

    def step(key: Key[Array, ""], model: SequenceModel, chains: Chains) -> tuple[Chains, MoveInfo]:
        limits = jnp.full(chains.rows.shape, model.horizon, jnp.int32)
        return suffix_move(key, model, chains, design, limits)

    return Kernel(init, step)


def suffix_move(
    key: Key[Array, ""],
    model: SequenceModel,
    chains: Chains,
    design: Design,
    limits: Int[Array, " B"],
) -> tuple[Chains, MoveInfo]:
    """One move of every chain.

    Args:
        key: the run's key.
        model: of the tokens.
        chains: whose sequences have at least one token.
        design: of the move.
        limits: [B] most tokens of a sequence; the same for every move on one target.

    Returns:
        The chains, one iteration on, and what happened.
    """
    cuts = draw_index(keys_of(key, Role.CUT, chains), log_cut_laws(chains, design))
    return regenerate(key, model, chains, design, limits, cuts)


def log_cut_laws(chains: Chains, design: Design) -> Float32[Array, "B T"]:
    """Law of the next cut of each chain.

    Args:
        chains: whose sequences have at least one token.
        design: of the move.

    Returns:
        [B, T] natural log, normalised; -inf past the length.
    """
    records = records_of(chains)
    return jnp.asarray(log_cut_probs(design.cut_law, records.entropies, records.lengths))


def regenerate(
    key: Key[Array, ""],
    model: SequenceModel,
    chains: Chains,
    design: Design,
    limits: Int[Array, " B"],
    cuts: Int32[Array, " B"],
) -> tuple[Chains, MoveInfo]:
    """The rest of a move, once it is known where to cut.

    Args:
        key: the run's key.
        model: of the tokens.
        chains: whose sequences have at least one token.
        design: of the move.
        limits: [B] most tokens of a sequence; the same for every move on one target.
        cuts: [B] tokens to keep, drawn from the cut law; a row cut at its end draws nothing and is not accepted.

    Returns:
        The chains, one iteration on, and what happened.
    """
    before = records_of(chains)
    kept = cut(model, chains.generation, cuts)
    keys = keys_of(key, Role.TOKEN, chains)
    drawn = generate(keys, model, proposal_rules(design), design.proposal_alpha, kept, limits)
    proposal = observe(model, chains, branched(drawn, cuts), design)
    log_ratio = jnp.asarray(
        density.log_ratio(design.alpha, design.cut_law, before, records_of(proposal), cuts)
    )
    accepted = log_uniforms(keys_of(key, Role.ACCEPT, chains)) < log_ratio
    info = MoveInfo(
        accepted,
        accepted & differs(drawn.trajectories, chains.generation.trajectories),
        cuts,
        log_ratio,
        drawn.trajectories.lengths - cuts,
        num_scored(design, drawn.trajectories.lengths),
    )
    return choose(model, accepted, proposal, chains), info


def branched(drawn: Generation, cuts: Int[Array, " B"]) -> Generation:
    """Enter the proposals of a move in the record: each branches off a sequence, and for each that is kept another is dropped.

    Args:
        drawn: the proposals.
        cuts: [B] tokens that they began with; a row without more is no proposal.

    Returns:
        The same rows.
    """
    num = jnp.sum(drawn.trajectories.lengths > cuts, dtype=jnp.int32)
    ledger = charge(drawn.ledger, rollouts_branch=num, rollouts_dropped=num)
    return drawn._replace(ledger=ledger)


def choose(
    model: SequenceModel, accepted: Bool[Array, " B"], proposal: Chains, current: Chains
) -> Chains:
    """Accept or keep.

    Args:
        model: of the tokens.
        accepted: [B].
        proposal: new sequences, with what was spent so far.
        current: the sequences before.

    Returns:
        The chains, one iteration on.
    """
    return Chains(
        select(model, accepted, proposal.generation, current.generation),
        jnp.where(accepted[:, None], proposal.entropies, current.entropies),
        jnp.where(accepted, proposal.log_rewards, current.log_rewards),
        current.rows,
        current.iteration + 1,
    )


def differs(a: Trajectories, b: Trajectories) -> Bool[Array, " B"]:
    """Whether two sequences are not the same.

    Args:
        a: B rows.
        b: B rows.

    Returns:
        [B].
    """
    return (a.lengths != b.lengths) | (a.tokens != b.tokens).any(axis=1)


def num_scored(design: Design, lengths: Int[Array, " B"]) -> Int32[Array, " B"]:
    """Tokens that are read again to observe sequences of these lengths.

    Args:
        design: of the move.
        lengths: [B].

    Returns:
        [B] the lengths if the cut law reads entropies, else 0.
    """
    return lengths if design.cut_law.reads_entropies else jnp.zeros_like(lengths)
