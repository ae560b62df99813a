"""Blockwise power sampling: grow the sequence block by block, with suffix moves after each block.

Stage k has horizon h_k = min(k S, T). Sequences that have not ended are extended up to it by the proposal, and then every sequence, ended or
not, takes part in suffix moves on p(y)^alpha over the sequences of that horizon: whatever its length, a proposal may run up to h_k. The
output after the last stage is an approximate draw; `theory.exact.transition.blockwise_law` gives its exact law.

Source: Karan and Du, "Reasoning with Sampling" (arXiv 2510.14901), Algorithm 1, with eos absorbing and a fixed horizon a stage.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int32, Key

from theory.errors import InvalidInput
from theory.mcmc.chains import Chains, Design, Prompts, empty_chains, extend_chains, make_design
from theory.mcmc.cuts import CutLaw
from theory.mcmc.suffix import MoveInfo, suffix_move
from theory.protocols import Kernel, SequenceModel


class Stages(NamedTuple):
    """State of B chains between stages.

    Attributes:
        chains: the sequences so far.
        horizon: [] of the last stage; 0 before the first.
    """

    chains: Chains
    horizon: Int32[Array, ""]


def num_stages(horizon: int, block: int) -> int:
    """Steps until the sequences are whole.

    Args:
        horizon: T, of the model.
        block: S.

    Returns:
        ceil(T / S).
    """
    return -(-horizon // block)


def blockwise(
    alpha: float, proposal_alpha: float, cut_law: CutLaw, block: int, moves_per_block: int
) -> Kernel:
    """The iterated sampler; one stage a step, and nothing is left to do after `num_stages` of them but more moves.

    Args:
        alpha: exponent of the target, any real above 0.
        proposal_alpha: exponent of the proposal's next-token laws; 1 is the model itself.
        cut_law: where the moves cut.
        block: S, tokens in a block, at least 1.
        moves_per_block: moves in each stage, at least 0.

    Returns:
        init(key, model, prompts) -> Stages; step(key, model, stages) -> (Stages, MoveInfo with a leading axis of moves).

    Raises:
        InvalidInput: an exponent is not a positive finite number, or a count is too small.
    """
    if block < 1:
        raise InvalidInput(f"block of {block} tokens: must be at least 1")
    if moves_per_block < 0:
        raise InvalidInput(f"{moves_per_block} moves per block: must be at least 0")
    design = make_design(alpha, proposal_alpha, cut_law)

    def init(key: Key[Array, ""], model: SequenceModel, prompts: Prompts) -> Stages:
        return Stages(empty_chains(model, prompts), jnp.zeros((), jnp.int32))

    def step(key: Key[Array, ""], model: SequenceModel, stages: Stages) -> tuple[Stages, MoveInfo]:
        horizon = jnp.minimum(stages.horizon + block, model.horizon)
        chains, info = _stage(key, model, stages.chains, design, horizon, moves_per_block)
        return Stages(chains, horizon), info

    return Kernel(init, step)


def _stage(
    key: Key[Array, ""],
    model: SequenceModel,
    chains: Chains,
    design: Design,
    horizon: Int32[Array, ""],
    num_moves: int,
) -> tuple[Chains, MoveInfo]:
    limits = jnp.broadcast_to(horizon, chains.rows.shape)
    longer = extend_chains(key, model, chains, design, limits)

    def move(now: Chains, _: None) -> tuple[Chains, MoveInfo]:
        return suffix_move(key, model, now, design, limits)

    return jax.lax.scan(move, longer, None, length=num_moves)
