"""Wrong acceptance ratios and wrong kernels, each with a public relative, in the place of `theory.mcmc.density.log_ratio` and `suffix_move`.

The exact damage of each (total variation between the law it leaves invariant and the power law) is asserted in
tests/theory/mcmc/test_planted_bugs.py.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from theory.exact.context_table import ContextTable, with_horizon
from theory.exact.sequence_space import SequenceSpace, sequence_space
from theory.exact.transition import Transition, suffix_transition
from theory.keys import Role, fold_rows
from theory.mcmc import chains as mcmc_chains
from theory.mcmc.chains import Chains
from theory.mcmc.cuts import CutLaw
from theory.mcmc.density import Records, log_cut, log_target, suffix_log_q


def length_ratio_missing(
    alpha: Any, cut_law: CutLaw, current: Records, proposal: Records, cuts: Any
) -> Any:
    """The cut probabilities are left out, as if every sequence had the same length."""
    target = log_target(alpha, proposal) - log_target(alpha, current)
    return target + suffix_log_q(current, cuts) - suffix_log_q(proposal, cuts)


def clipped_tail(
    alpha: Any, cut_law: CutLaw, current: Records, proposal: Records, cuts: Any
) -> Any:
    """The current suffix is sliced to the proposal's length: what is beyond it counts neither in the target nor in the proposal."""
    return _ratio(alpha, cut_law, _clip(current, proposal), proposal, cuts)


def clipped_tail_and_no_length_ratio(
    alpha: Any, cut_law: CutLaw, current: Records, proposal: Records, cuts: Any
) -> Any:
    """Both of the above."""
    return length_ratio_missing(alpha, cut_law, _clip(current, proposal), proposal, cuts)


def wrong_hastings_sign(
    alpha: Any, cut_law: CutLaw, current: Records, proposal: Records, cuts: Any
) -> Any:
    """The proposal's probabilities with the sign turned round."""
    turned = suffix_log_q(proposal, cuts) - suffix_log_q(current, cuts)
    return _ratio(alpha, cut_law, current, proposal, cuts) + 2 * turned


def proposal_term_missing(
    alpha: Any, cut_law: CutLaw, current: Records, proposal: Records, cuts: Any
) -> Any:
    """No q at all: with a base proposal the exponent of the suffixes is alpha where alpha - 1 is right."""
    target = log_target(alpha, proposal) - log_target(alpha, current)
    return target + log_cut(cut_law, proposal, cuts) - log_cut(cut_law, current, cuts)


def log_z_dropped(
    alpha: Any, cut_law: CutLaw, current: Records, proposal: Records, cuts: Any
) -> Any:
    """At a temperature proposal with the target's exponent, alpha log p taken for log q: the normalisers are forgotten."""

    def unnormalised(records: Records) -> Records:
        return records._replace(log_q=alpha * records.log_p)

    return _ratio(alpha, cut_law, unnormalised(current), unnormalised(proposal), cuts)


def mean_instead_of_sum(
    alpha: Any, cut_law: CutLaw, current: Records, proposal: Records, cuts: Any
) -> Any:
    """The target takes the mean log probability of a token for the log probability of the sequence."""

    def mean(records: Records) -> Records:
        return records._replace(log_p=records.log_p / records.lengths[:, None])

    return _ratio(alpha, cut_law, mean(current), mean(proposal), cuts)


def eos_probability_omitted(
    alpha: Any, cut_law: CutLaw, current: Records, proposal: Records, cuts: Any
) -> Any:
    """The target does not count the eos of sequences that end before the horizon."""

    def without_eos(records: Records) -> Records:
        horizon = records.log_p.shape[1]
        last = np.arange(horizon)[None, :] == records.lengths[:, None] - 1
        omitted = last & (records.lengths < horizon)[:, None]
        return records._replace(log_p=np.where(omitted, 0.0, records.log_p))

    return _ratio(alpha, cut_law, without_eos(current), without_eos(proposal), cuts)


def move_weight_without_cut(alpha: Any, cut_law: CutLaw, records: Records, cuts: Any) -> Any:
    """In the place of `log_move_weight`: multiple-try weights pi / q, which a published rule for fixed lengths prints."""
    return log_target(alpha, records) - suffix_log_q(records, cuts)


def _ratio(alpha: Any, cut_law: CutLaw, current: Records, proposal: Records, cuts: Any) -> Any:
    return length_ratio_missing(alpha, cut_law, current, proposal, cuts) + (
        log_cut(cut_law, proposal, cuts) - log_cut(cut_law, current, cuts)
    )


def _clip(current: Records, proposal: Records) -> Records:
    """Numbers of the current sequence up to the proposal's length; its own length still counts for the cut."""
    inside = np.arange(current.log_p.shape[1])[None, :] < proposal.lengths[:, None]
    return current._replace(
        log_p=np.where(inside, current.log_p, 0.0), log_q=np.where(inside, current.log_q, 0.0)
    )


def shrinking_limits(chains: Chains) -> jax.Array:
    """A proposal may be no longer than the current sequence; the right limit is the model's horizon."""
    return chains.generation.trajectories.lengths


def shrinking_horizon_transition(
    table: ContextTable, alpha: float, cut_law: CutLaw
) -> tuple[list[tuple[int, ...]], Transition]:
    """Its exact matrix. The states are all prefixes: a cut-off proposal leaves an unfinished one behind."""
    spaces: list[SequenceSpace] = [
        sequence_space(with_horizon(table, horizon), alpha)
        for horizon in range(1, table.horizon + 1)
    ]
    states = sorted({sequence for space in spaces for sequence in space.sequences})
    index = {sequence: place for place, sequence in enumerate(states)}
    matrix, acceptance = np.zeros((len(states), len(states))), np.zeros(len(states))
    for horizon, space in enumerate(spaces, start=1):
        step = suffix_transition(space, alpha, cut_law)
        places = [index[sequence] for sequence in space.sequences]
        for row in np.flatnonzero(space.records.lengths == horizon):
            matrix[places[row], places] = step.matrix[row]
            acceptance[places[row]] = step.acceptance[row]
    return states, Transition(matrix, acceptance)


def accept_reuses_cut_key(key: jax.Array, role: Role, chains: Chains) -> jax.Array:
    """In the place of `keys_of`: the numbers that chose the cut decide on the proposal too."""
    return mcmc_chains.keys_of(key, Role.CUT if role == Role.ACCEPT else role, chains)


def swaps_share_noise(key: jax.Array, role: Role, chains: Chains) -> jax.Array:
    """In the place of `keys_of`, for three rungs: all exchanges of a sweep draw the numbers of the first rung's chain."""
    first = chains.rows // 3 * 3
    swaps = chains._replace(rows=first)
    return mcmc_chains.keys_of(key, role, swaps if role == Role.SWAP else chains)


def third_try_is_the_first(keys: jax.Array, index: jax.Array) -> jax.Array:
    """In the place of `fold_rows`: only two tries have noise of their own, a third is a copy of the first."""
    return fold_rows(keys, index % 2)


def unseeded_rows(chains: Chains) -> Chains:
    """Every chain under one id: they all draw the same numbers."""
    return chains._replace(rows=jnp.zeros_like(chains.rows))


def frozen_iteration(chains: Chains) -> Chains:
    """A chain that does not count its moves: each move draws the numbers of the one before."""
    return chains._replace(iteration=jnp.ones_like(chains.iteration))


def swap_with_the_wrong_sign(
    low_alpha: float, high_alpha: float, low: Records, high: Records
) -> Any:
    """In the place of `swap_log_ratio`: the more likely sequence goes to the lower exponent."""
    return (high_alpha - low_alpha) * (high.log_p.sum(axis=1) - low.log_p.sum(axis=1))


def never_rejects(
    alpha: Any, cut_law: CutLaw, current: Records, proposal: Records, cuts: Any
) -> Any:
    """The new log target is taken from itself: every ratio is 1."""
    return 0.0 * length_ratio_missing(alpha, cut_law, current, proposal, cuts)


def single_try_ratio(log_weights: Any, chosen: Any, log_current: Any) -> Any:
    """In the place of `multiple_try_log_ratio`: the chosen candidate against the current sequence, as if it had been the only one."""
    return np.asarray(log_weights)[np.arange(len(chosen)), chosen] - log_current


def averages_accepted_states(law: np.ndarray, transition: Transition) -> np.ndarray:
    """An average over accepted proposals only, which forgets how long the chain stood where it was.

    Under a reversible kernel a state counts in proportion to its probability times how often its own proposals are accepted.
    """
    accepted = law * transition.acceptance
    return accepted / accepted.sum()


def three_defects_of_a_public_sampler() -> tuple[Any, Any]:
    """Limits and ratio of a move with a shrinking horizon, a clipped tail and no length ratio."""
    return shrinking_limits, clipped_tail_and_no_length_ratio
