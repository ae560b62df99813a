"""Multiple-try suffix regeneration: K candidates share a cut, one is chosen by weight and then accepted or not.

Every candidate y, and the current sequence, has the weight w_m(y) = pi(y) c(m | y) / q(y_>=m | y_<m) of `theory.mcmc.density`. With a uniform cut
the cut term is 1 / len(y): without it the invariant law is wrong wherever sequences end at different lengths.

Source: Liu, Liang & Wong, "The Multiple-Try Method and Local Optimization in Metropolis Sampling", JASA 95 (2000). Tries are
independent, so no reference set is drawn: it is the other K - 1 candidates and the current sequence. The cut term is our own.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from theory.errors import InvalidInput
from theory.generation import cut, generate, take
from theory.keys import Role, fold_rows
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
from theory.mcmc.suffix import MoveInfo, branched, choose, differs, num_scored
from theory.protocols import Kernel, SequenceModel


def multiple_try(alpha: float, proposal_alpha: float, cut_law: CutLaw, tries: int) -> Kernel:
    """The kernel.

    Args:
        alpha: exponent of the target, any real above 0.
        proposal_alpha: exponent of the proposal's next-token laws; 1 is the model itself.
        cut_law: where to cut.
        tries: K, candidates in a move, at least 1; one is plain suffix regeneration.

    Returns:
        init(key, model, prompts) -> Chains; step(key, model, chains) -> (Chains, MoveInfo).

    Raises:
        InvalidInput: an exponent is not a positive finite number, or no candidate.
    """
    if tries < 1:
        raise InvalidInput(f"{tries} tries: must be at least 1")
    design = make_design(alpha, proposal_alpha, cut_law)

    def init(key: Key[Array, ""], model: SequenceModel, prompts: Prompts) -> Chains:
        return start_chains(key, model, prompts, design)

    def step(key: Key[Array, ""], model: SequenceModel, chains: Chains) -> tuple[Chains, MoveInfo]:
        return _multiple_try_move(key, model, chains, design, tries)

    return Kernel(init, step)


def _multiple_try_move(
    key: Key[Array, ""], model: SequenceModel, chains: Chains, design: Design, tries: int
) -> tuple[Chains, MoveInfo]:
    num_rows = chains.rows.shape[0]
    before = records_of(chains)
    log_cuts = log_cut_probs(design.cut_law, before.entropies, before.lengths)
    cuts = draw_index(keys_of(key, Role.CUT, chains), jnp.asarray(log_cuts))
    candidates = _candidates(key, model, chains, design, cuts, tries)
    after = records_of(candidates)
    log_weights = density.log_move_weight(
        design.alpha, design.cut_law, after, jnp.repeat(cuts, tries)
    ).reshape(num_rows, tries)
    log_current = density.log_move_weight(design.alpha, design.cut_law, before, cuts)
    chosen = draw_index(keys_of(key, Role.SELECT, chains), jnp.asarray(log_weights))
    log_ratio = jnp.asarray(density.multiple_try_log_ratio(log_weights, chosen, log_current))
    accepted = log_uniforms(keys_of(key, Role.ACCEPT, chains)) < log_ratio
    winners = jnp.arange(num_rows) * tries + chosen
    proposal = Chains(
        take(model, candidates.generation, winners),
        candidates.entropies[winners],
        candidates.log_rewards[winners],
        chains.rows,
        chains.iteration,
    )
    lengths = after.lengths.reshape(num_rows, tries)
    info = MoveInfo(
        accepted,
        accepted & differs(proposal.generation.trajectories, chains.generation.trajectories),
        cuts,
        log_ratio,
        (lengths - cuts[:, None]).sum(axis=1),
        num_scored(design, lengths.sum(axis=1)),
    )
    return choose(model, accepted, proposal, chains), info


def _candidates(
    key: Key[Array, ""],
    model: SequenceModel,
    chains: Chains,
    design: Design,
    cuts: Array,
    tries: int,
) -> Chains:
    """B K rows: the candidates of each chain side by side, each with noise of its own."""
    repeated = jnp.repeat(jnp.arange(chains.rows.shape[0]), tries)
    kept = take(model, cut(model, chains.generation, cuts), repeated)
    num_kept = kept.trajectories.lengths
    by_chain = keys_of(key, Role.TOKEN, chains)
    keys = jax.vmap(lambda index: fold_rows(by_chain, index))(jnp.arange(tries)).T.reshape(-1)
    limits = jnp.full(repeated.shape, model.horizon, jnp.int32)
    drawn = generate(keys, model, proposal_rules(design), design.proposal_alpha, kept, limits)
    wide = chains._replace(
        entropies=chains.entropies[repeated], log_rewards=chains.log_rewards[repeated]
    )
    return observe(model, wide, branched(drawn, num_kept), design)
