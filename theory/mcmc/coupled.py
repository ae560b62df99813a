"""Two suffix-regeneration chains, one L iterations ahead, that are drawn so as to meet.

Each of them, alone, is exactly the chain of `theory.mcmc.suffix`; the one ahead is that chain bit for bit. In a common move

- the two cuts come from a maximal coupling of the two cut laws;
- a token of either proposal takes the noise of its position: where the prefixes agree the same token follows, and elsewhere tokens
  agree as often as a common Gumbel race lets them;
- one uniform decides on both proposals.

Once they have met they are one: only the chain ahead is run on, and the other is handed its sequence. From the meeting time

    tau = min{t >= L: X_t = Y_{t-L}},    X_t after t moves, Y_{t-L} after t - L

`theory.mcmc.meeting_times` gets unbiased estimates under the target and upper bounds on the distance from it.

Source: Jacob, O'Leary & Atchadé, "Unbiased Markov chain Monte Carlo methods with couplings", JRSS B 82 (2020), for L = 1; Biswas, Jacob &
Vanetti, "Estimating convergence of Markov chains with L-lag couplings", NeurIPS 2019. They let tau begin at L + 1; from L on
it is the same time unless X_L = Y_0, and every formula holds. The coupling of suffix moves is our own.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, Key

from theory.errors import InvalidInput
from theory.generation import select
from theory.keys import Role, fold_rows
from theory.mcmc.chains import Chains, Design, Prompts, keys_of, make_design, start_chains
from theory.mcmc.cuts import CutLaw
from theory.mcmc.draws import draw_index, log_uniforms
from theory.mcmc.suffix import MoveInfo, differs, log_cut_laws, regenerate
from theory.protocols import Kernel, SequenceModel


class CoupledChains(NamedTuple):
    """State of B pairs of chains. What was spent is in the ledgers of both.

    Attributes:
        ahead: X_t; its iteration is t + 1.
        behind: Y_{t-L}, and Y_0 while t < L.
        meeting_times: [B] tau; 0 where the pair has not met yet.
    """

    ahead: Chains
    behind: Chains
    meeting_times: Int32[Array, " B"]


class CoupledInfo(NamedTuple):
    """What one move of each pair did.

    Attributes:
        ahead: the move of X.
        behind: the move of Y; all zeros where it made none of its own, because it waits or has met X.
        together: [B] whether the pair has met by now.
    """

    ahead: MoveInfo
    behind: MoveInfo
    together: Bool[Array, " B"]


def coupled_suffix_regeneration(
    alpha: float, proposal_alpha: float, cut_law: CutLaw, lag: int
) -> Kernel:
    """The kernel: one move of the chain ahead a step, and of the one behind from step L + 1 on.

    Both start from independent draws of the proposal.

    Args:
        alpha: exponent of the target, any real above 0.
        proposal_alpha: exponent of the proposal's next-token laws (temperature 1/proposal_alpha); 1 is the model itself.
        cut_law: where to cut.
        lag: L, at least 1.

    Returns:
        init(key, model, prompts) -> CoupledChains; step(key, model, pairs) -> (CoupledChains, CoupledInfo).

    Raises:
        InvalidInput: an exponent is not a positive finite number, or the lag is below 1.
    """
    if lag < 1:
        raise InvalidInput(f"lag {lag}: must be at least 1")
    design = make_design(alpha, proposal_alpha, cut_law)

    def init(key: Key[Array, ""], model: SequenceModel, prompts: Prompts) -> CoupledChains:
        ahead = start_chains(key, model, prompts, design)
        behind = start_chains(key, model, prompts, design, Role.COUPLING)
        return CoupledChains(ahead, behind, jnp.zeros(prompts.rows.shape, jnp.int32))

    def step(
        key: Key[Array, ""], model: SequenceModel, pairs: CoupledChains
    ) -> tuple[CoupledChains, CoupledInfo]:
        return coupled_move(key, model, pairs, design, lag)

    return Kernel(init, step)


def coupled_move(
    key: Key[Array, ""], model: SequenceModel, pairs: CoupledChains, design: Design, lag: int
) -> tuple[CoupledChains, CoupledInfo]:
    """One move of every pair.

    Args:
        key: the run's key.
        model: of the tokens.
        pairs: where they stand.
        design: of the moves.
        lag: L; the chain behind waits until the other has made as many moves.

    Returns:
        The pairs, and what happened.
    """
    ahead, behind, times = pairs
    limits = jnp.full(ahead.rows.shape, model.horizon, jnp.int32)
    waits, met = ahead.iteration <= lag, times > 0
    cuts, other_cuts = couple_indices(
        keys_of(key, Role.CUT, ahead),
        keys_of(key, Role.COUPLING, ahead),
        log_cut_laws(ahead, design),
        log_cut_laws(behind, design),
    )
    other_cuts = jnp.where(waits | met, behind.generation.trajectories.lengths, other_cuts)
    # The noise of a common move has the address of the chain ahead.
    at_once = behind._replace(iteration=ahead.iteration)
    first, info = regenerate(key, model, ahead, design, limits, cuts)
    second, other_info = regenerate(key, model, at_once, design, limits, other_cuts)
    second = _follow(model, met, first, second)
    second = second._replace(iteration=behind.iteration + jnp.where(waits, 0, 1))
    equal = ~differs(first.generation.trajectories, second.generation.trajectories)
    meets = equal & ~met & (ahead.iteration >= lag)
    times = jnp.where(meets, ahead.iteration, times)
    moves = ~(waits | met)
    other_info = MoveInfo(*(jnp.where(moves, each, jnp.zeros_like(each)) for each in other_info))
    return CoupledChains(first, second, times), CoupledInfo(info, other_info, times > 0)


def couple_indices(
    keys: Key[Array, " B"],
    other_keys: Key[Array, " B"],
    log_probs: Float32[Array, "B N"],
    other_log_probs: Float32[Array, "B N"],
) -> tuple[Int32[Array, " B"], Int32[Array, " B"]]:
    """One index from each of two laws, equal as often as any coupling allows: with probability sum_i min(p_i, q_i).

    I is drawn from p. With probability min(1, q_I / p_I) it serves q too; else J is drawn in proportion to max(0, q - p).

    Source: Thorisson, "Coupling, Stationarity, and Regeneration" (2000), section 1.4.

    Args:
        keys: [B] of I; consumed.
        other_keys: [B] of the rest; consumed.
        log_probs: [B, N] log p, normalised.
        other_log_probs: [B, N] log q, normalised.

    Returns:
        I and J, [B] each. I is what `draw_index` gives for the same keys.
    """
    index = draw_index(keys, log_probs)
    at = index[:, None]
    log_share = (
        jnp.take_along_axis(other_log_probs, at, axis=1)
        - jnp.take_along_axis(log_probs, at, axis=1)
    )[:, 0]
    common = log_uniforms(fold_rows(other_keys, 0)) < log_share
    excess = jnp.maximum(jnp.exp(other_log_probs) - jnp.exp(log_probs), 0.0)
    # Laws that differ by rounding alone may have no excess: then the two indices are one.
    some = (excess > 0).any(axis=1)
    other = draw_index(fold_rows(other_keys, 1), jnp.log(excess))
    return index, jnp.where(common | ~some, index, other)


def _follow(
    model: SequenceModel, mask: Bool[Array, " B"], leader: Chains, follower: Chains
) -> Chains:
    """Chains with the sequences of others where the mask says so; what was spent stays."""
    chosen = select(model, mask, leader.generation, follower.generation)
    return follower._replace(
        generation=chosen._replace(ledger=follower.generation.ledger),
        entropies=jnp.where(mask[:, None], leader.entropies, follower.entropies),
        log_rewards=jnp.where(mask, leader.log_rewards, follower.log_rewards),
    )
