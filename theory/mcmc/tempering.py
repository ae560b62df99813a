"""Parallel tempering over the exponent: chains at several exponents, which exchange their sequences.

Invariant law: the product of p(y_k)^alpha_k / Z_k over the rungs; the chain on each rung has its own power law as marginal, so one run serves every
exponent of the ladder. A step moves every rung by suffix regeneration from its own temperature and then sweeps the
neighbouring pairs from the lowest exponent up, so that a sequence found on the first rung can reach the last in one step.

Source: Geyer, "Markov Chain Monte Carlo Maximum Likelihood" (1991) (from memory).
"""

from itertools import pairwise
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, Key

from theory.errors import InvalidInput
from theory.keys import Role
from theory.mcmc import density
from theory.mcmc.chains import (
    Chains,
    Design,
    Prompts,
    keys_of,
    make_design,
    records_of,
    start_chains,
)
from theory.mcmc.cuts import CutLaw
from theory.mcmc.draws import log_uniforms
from theory.mcmc.scoring import charge_scoring, score_sequences
from theory.mcmc.suffix import MoveInfo, choose, suffix_move
from theory.protocols import Kernel, SequenceModel

Rungs = tuple[Chains, ...]


class SweepInfo(NamedTuple):
    """What one step did.

    Attributes:
        moves: of each rung.
        swapped: [B, R-1] whether the rungs k and k + 1 exchanged their sequences.
        log_ratio: [B, R-1] log acceptance ratio of the exchange, natural log.
        num_scored_tokens: [B] tokens that were read again at the exponent of their new rung.
    """

    moves: tuple[MoveInfo, ...]
    swapped: Bool[Array, "B R1"]
    log_ratio: Float32[Array, "B R1"]
    num_scored_tokens: Int32[Array, " B"]


def parallel_tempering(ladder: tuple[float, ...], cut_law: CutLaw) -> Kernel:
    """The kernel.

    Args:
        ladder: R exponents, ascending; the last is the one that is wanted, the first should mix fast.
        cut_law: of the suffix moves.

    Returns:
        init(key, model, prompts) -> R Chains; step(key, model, rungs) -> (R Chains, SweepInfo). Chain b has the global ids
        R b, ..., R b + R - 1 on the rungs.

    Raises:
        InvalidInput: fewer than two exponents, not ascending, or one that is not positive and finite.
    """
    if len(ladder) < 2 or any(low >= high for low, high in pairwise(ladder)):
        raise InvalidInput(f"ladder {ladder}: must be two or more exponents in ascending order")
    designs = tuple(make_design(alpha, alpha, cut_law) for alpha in ladder)

    def init(key: Key[Array, ""], model: SequenceModel, prompts: Prompts) -> Rungs:
        def rung(place: int) -> Prompts:
            return prompts._replace(rows=prompts.rows * len(ladder) + place)

        return tuple(
            start_chains(key, model, rung(place), design) for place, design in enumerate(designs)
        )

    def step(key: Key[Array, ""], model: SequenceModel, rungs: Rungs) -> tuple[Rungs, SweepInfo]:
        return _sweep(key, model, rungs, designs)

    return Kernel(init, step)


def _sweep(
    key: Key[Array, ""], model: SequenceModel, rungs: Rungs, designs: tuple[Design, ...]
) -> tuple[Rungs, SweepInfo]:
    moved: list[Chains] = []
    moves: list[MoveInfo] = []
    for rung, design in zip(rungs, designs, strict=True):
        limits = jnp.full(rung.rows.shape, model.horizon, jnp.int32)
        chains, info = suffix_move(key, model, rung, design, limits)
        moved.append(chains)
        moves.append(info)
    swapped: list[Array] = []
    ratios: list[Array] = []
    for place, (first, second) in enumerate(pairwise(designs)):
        low, high = moved[place], moved[place + 1]
        ratio = jnp.asarray(
            density.swap_log_ratio(first.alpha, second.alpha, records_of(low), records_of(high))
        )
        accepted = log_uniforms(keys_of(key, Role.SWAP, low)) < ratio
        moved[place] = _receive(model, accepted, high, low)
        moved[place + 1] = _receive(model, accepted, low, high)
        swapped.append(accepted)
        ratios.append(ratio)
    scored = tuple(
        _at_own_exponent(model, rung, design) for rung, design in zip(moved, designs, strict=True)
    )
    lengths = jnp.stack([rung.generation.trajectories.lengths for rung in scored])
    info = SweepInfo(
        tuple(moves), jnp.stack(swapped, axis=1), jnp.stack(ratios, axis=1), lengths.sum(axis=0)
    )
    return scored, info


def _receive(
    model: SequenceModel, accepted: Bool[Array, " B"], other: Chains, own: Chains
) -> Chains:
    """A rung with the sequences of another where the exchange was accepted; ids, iteration and what was spent stay."""
    received = choose(model, accepted, other, own)
    generation = received.generation._replace(ledger=own.generation.ledger)
    return received._replace(generation=generation, iteration=own.iteration)


def _at_own_exponent(model: SequenceModel, chains: Chains, design: Design) -> Chains:
    """Log z and log q belong to the rung, not to the sequence: read it again."""
    now = chains.generation.trajectories
    alpha = design.proposal_alpha
    scores = score_sequences(model, chains.generation, now.tokens, now.lengths, alpha).scores
    log_q = alpha * scores.log_p - scores.log_z
    ledger = charge_scoring(chains.generation.ledger, now.tokens, now.lengths)
    now = now._replace(log_p=scores.log_p, log_q=log_q, log_z=scores.log_z)
    return chains._replace(generation=chains.generation._replace(trajectories=now, ledger=ledger))
