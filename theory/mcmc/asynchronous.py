"""Suffix regeneration without waiting: a chain starts its next move as soon as its proposal has ended.

In lockstep every move of a batch lasts as long as its longest proposal, and rows whose proposal has ended idle. Here each chain counts its
own moves. Every random number is addressed by role, chain, iteration and step, so each chain is, bit for bit, the chain that lockstep moves
give: only the order in which a device does the work is another one. A chain has two slots, its current sequence and its proposal:
after a move one of them is copied over the other, and nothing else is. Reading the last kept token again, which gives the law at a cut, is a
step like any other, taken beside the rows that draw.

Chains end at different times. Whenever half of a batch has made all of its moves, the other half goes on as a batch of half the size.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int, Int32, Key

from theory.errors import InvalidInput
from theory.generation import (
    Generation,
    append,
    cut,
    draw_next,
    first_tokens,
    goes_on,
    select,
    take,
)
from theory.keys import Role, fold_each, role_key, row_keys
from theory.ledger import charge
from theory.mcmc import density
from theory.mcmc.chains import (
    Chains,
    Design,
    Prompts,
    make_design,
    no_reward,
    proposal_rules,
    records_of,
    start_chains,
)
from theory.mcmc.cuts import CutLaw, log_cut_probs
from theory.mcmc.draws import draw_index, log_uniforms
from theory.mcmc.scoring import shannon_entropy
from theory.mcmc.suffix import MoveInfo, differs
from theory.protocols import Kernel, SequenceModel


class Slots(NamedTuple):
    """B chains in the middle of their moves.

    Attributes:
        current: the sequences that the moves start from; `iteration` is that of the first move of the run.
        proposal: how far the proposals have come, and all that was spent.
        entropies: [B, T] Shannon entropy (nats) of the law before each token of the proposal; zeros where the cut law does not read it.
        first_law: [B, V] log law of the first token.
        cuts: [B] tokens that the proposal keeps.
        reading: [B] whether the model has still to read the last of them.
        num_moves: [B] moves made.
        info: of the K moves of each chain, zeros before they are made.
    """

    current: Chains
    proposal: Generation
    entropies: Float32[Array, "B T"]
    first_law: Float32[Array, "B V"]
    cuts: Int32[Array, " B"]
    reading: Bool[Array, " B"]
    num_moves: Int32[Array, " B"]
    info: MoveInfo


def asynchronous_suffix(
    alpha: float, proposal_alpha: float, cut_law: CutLaw, moves: int, fewest_rows: int = 16
) -> Kernel:
    """The kernel: K suffix moves of every chain a step, the same as K steps of `suffix_regeneration`.

    Args:
        alpha: exponent of the target, any real above 0.
        proposal_alpha: exponent of the proposal's next-token laws (temperature 1/proposal_alpha); 1 is the model itself.
        cut_law: where to cut. Entropies are recorded as tokens are drawn, not read again.
        moves: K, at least 1.
        fewest_rows: batches below twice as many rows are not halved, at least 1.

    Returns:
        init(key, model, prompts) -> Chains; step(key, model, chains) -> (Chains, MoveInfo with a leading axis of moves).

    Raises:
        InvalidInput: an exponent is not a positive finite number, or a count is below 1.
    """
    return asynchronous_kernel(make_design(alpha, proposal_alpha, cut_law), moves, fewest_rows)


def asynchronous_kernel(design: Design, moves: int, fewest_rows: int) -> Kernel:
    """The kernel of a design.

    A reward is evaluated on all rows whenever a token is drawn, whether or not one of them has ended.

    Args:
        design: of the moves.
        moves: K.
        fewest_rows: batches below twice as many rows are not halved.

    Returns:
        As `asynchronous_suffix`.

    Raises:
        InvalidInput: a count is below 1.
    """
    if moves < 1:
        raise InvalidInput(f"{moves} moves: must be at least 1")
    if fewest_rows < 1:
        raise InvalidInput(f"batches of {fewest_rows} rows: must be at least 1")

    def init(key: Key[Array, ""], model: SequenceModel, prompts: Prompts) -> Chains:
        return start_chains(key, model, prompts, design)

    def step(key: Key[Array, ""], model: SequenceModel, chains: Chains) -> tuple[Chains, MoveInfo]:
        slots = _all_moves(
            key, model, design, fewest_rows, _open(key, model, chains, design, moves)
        )
        after = slots.current._replace(iteration=chains.iteration + moves)
        return after, slots.info

    return Kernel(init, step)


def _open(
    key: Key[Array, ""], model: SequenceModel, chains: Chains, design: Design, moves: int
) -> Slots:
    """Every chain at the start of its first move."""
    num_rows = chains.rows.shape[0]
    none = jnp.zeros(num_rows, jnp.int32)
    at_prompt = cut(model, chains.generation, none)
    no, zeros = jnp.zeros((moves, num_rows), bool), jnp.zeros((moves, num_rows), jnp.int32)
    info = MoveInfo(no, no, zeros, jnp.zeros((moves, num_rows), jnp.float32), zeros, zeros)
    slots = Slots(
        chains,
        chains.generation._replace(ledger=at_prompt.ledger),
        chains.entropies,
        at_prompt.log_probs,
        none,
        none > 0,
        none,
        info,
    )
    return _begin(key, model, design, slots, none == 0, num_rows)


def _all_moves(
    key: Key[Array, ""], model: SequenceModel, design: Design, fewest_rows: int, slots: Slots
) -> Slots:
    """Run until every chain has made its moves, halving the batch on the way."""
    num_rows, half = slots.num_moves.shape[0], slots.num_moves.shape[0] // 2
    at_most = half if half >= fewest_rows else 0
    slots = jax.lax.while_loop(
        lambda now: _working(now).sum() > at_most,
        functools.partial(_advance, key, model, design),
        slots,
    )
    if at_most == 0:
        return slots
    # Chains that still move come first.
    chosen = jnp.argsort(~_working(slots), stable=True)[:half]
    part = _all_moves(key, model, design, fewest_rows, _take(model, slots, chosen))
    place = jnp.zeros(num_rows, jnp.int32).at[chosen].set(jnp.arange(half, dtype=jnp.int32))
    is_chosen = jnp.zeros(num_rows, bool).at[chosen].set(True)
    back = _take(model, part, place)
    current = _choose(model, is_chosen, back.current, slots.current)
    current = current._replace(rows=slots.current.rows)
    info = jax.tree.map(lambda a, b: jnp.where(is_chosen, a, b), back.info, slots.info)
    return slots._replace(current=current, proposal=back.proposal, info=info)


def _advance(key: Key[Array, ""], model: SequenceModel, design: Design, slots: Slots) -> Slots:
    """One token in every chain that still moves; chains whose proposal ends with it start their next move."""
    now = slots.proposal
    active = _working(slots) & goes_on(now.trajectories, model.horizon)
    drawing = active & ~slots.reading
    keys = _keys(key, Role.TOKEN, slots)
    drawn = draw_next(keys, model, proposal_rules(design), design.proposal_alpha, now)
    tokens = jnp.where(slots.reading, _token_before(now, slots.cuts), drawn.tokens)
    model_state, log_probs = model.step(now.model_state, tokens, active)
    entropies = slots.entropies
    if design.cut_law.reads_entropies:
        here = jnp.arange(entropies.shape[1])[None] == now.trajectories.lengths[:, None]
        here, entropy = here & drawing[:, None], shannon_entropy(now.log_probs)
        entropies = jnp.where(here, entropy[:, None], entropies)
    trajectories = append(model, now.trajectories, drawn, drawing)
    over = _working(slots) & ~goes_on(trajectories, model.horizon)
    # More than usually end in one step wait for the next: a cut needs as many random numbers as the horizon.
    over = over & (jnp.cumsum(over) <= _at_once(slots))
    num_over = over.sum(dtype=jnp.int32)
    ledger = charge(
        now.ledger,
        rollouts_branch=num_over,
        rollouts_dropped=num_over,
        generated_tokens=drawing.sum(dtype=jnp.int32),
        prefill_tokens=(active & slots.reading).sum(dtype=jnp.int32),
        model_calls=1,
        row_steps_executed=active.shape[0],
        row_steps_useful=active.sum(dtype=jnp.int32),
    )
    if design.log_reward is not no_reward:
        ledger = charge(ledger, utility_calls=active.shape[0])
    log_probs = jnp.where(active[:, None], log_probs, now.log_probs)
    proposal = Generation(model_state, log_probs, trajectories, ledger)
    slots = slots._replace(
        proposal=proposal, entropies=entropies, reading=jnp.zeros_like(slots.reading)
    )
    return _settle(key, model, design, slots, over)


def _settle(
    key: Key[Array, ""],
    model: SequenceModel,
    design: Design,
    slots: Slots,
    over: Bool[Array, " B"],
) -> Slots:
    """Accept or refuse the proposals that are over, and start the next moves of their chains."""
    current, cuts = slots.current, slots.cuts
    now = slots.proposal.trajectories
    proposal = current._replace(
        generation=slots.proposal,
        entropies=slots.entropies,
        log_rewards=design.log_reward(now.tokens, now.lengths),
    )
    log_ratio = jnp.asarray(
        density.log_ratio(
            design.alpha, design.cut_law, records_of(current), records_of(proposal), cuts
        )
    )
    accepted = over & (log_uniforms(_keys(key, Role.ACCEPT, slots)) < log_ratio)
    move = MoveInfo(
        accepted,
        accepted & differs(now, current.generation.trajectories),
        cuts,
        log_ratio,
        now.lengths - cuts,
        jnp.zeros_like(cuts),
    )
    rows = jnp.arange(cuts.shape[0])
    place = jnp.where(over, slots.num_moves, slots.info.cuts.shape[0])
    info = jax.tree.map(
        lambda all_moves, one: all_moves.at[place, rows].set(one, mode="drop"), slots.info, move
    )
    slots = slots._replace(
        current=_choose(model, accepted, proposal, current),
        num_moves=slots.num_moves + over.astype(jnp.int32),
        info=info,
    )
    starting = over & _working(slots)
    # What was accepted stands in both slots already.
    slots = _restore(model, starting & ~accepted, slots)
    return _begin(key, model, design, slots, starting, _at_once(slots))


def _restore(model: SequenceModel, mask: Bool[Array, " B"], slots: Slots) -> Slots:
    """Put the model's state after the current sequence in the place of a proposal's."""
    proposal, current = slots.proposal, slots.current.generation
    restored = model.select(mask, current.model_state, proposal.model_state)
    return slots._replace(proposal=proposal._replace(model_state=restored))


def _begin(
    key: Key[Array, ""],
    model: SequenceModel,
    design: Design,
    slots: Slots,
    starting: Bool[Array, " B"],
    at_once: int,
) -> Slots:
    """Cut the sequences of at most so many chains, whose proposal's slot holds the model's state after the current sequence."""
    now = slots.current.generation.trajectories
    num_rows = starting.shape[0]
    (chosen,) = jnp.nonzero(starting, size=at_once, fill_value=num_rows)
    some = jnp.minimum(chosen, num_rows - 1)
    entropies, lengths = (field[some] for field in (slots.current.entropies, now.lengths))
    log_cuts = jnp.asarray(log_cut_probs(design.cut_law, entropies, lengths))
    drawn = draw_index(_keys(key, Role.CUT, slots)[some], log_cuts)
    cuts = slots.cuts.at[chosen].set(drawn, mode="drop")
    kept = first_tokens(now, cuts)
    proposal = slots.proposal

    def restart(new: Array, old: Array) -> Array:
        return jnp.where(starting.reshape(starting.shape + (1,) * (new.ndim - 1)), new, old)

    trajectories = jax.tree.map(restart, kept, proposal.trajectories)
    place = jnp.arange(slots.entropies.shape[1])[None]
    entropies = jnp.where(place < cuts[:, None], slots.current.entropies, 0.0)
    reading = starting & (cuts > 0)
    # The law that `rewind` returns is not used, so that compiled code does not compute it.
    num_read = trajectories.lengths - reading.astype(jnp.int32)
    shorter = proposal._replace(trajectories=trajectories)
    model_state, _ = model.rewind(proposal.model_state, num_read, _token_before(shorter, num_read))
    log_probs = restart(slots.first_law, proposal.log_probs)
    return slots._replace(
        proposal=shorter._replace(model_state=model_state, log_probs=log_probs),
        entropies=restart(entropies, slots.entropies),
        cuts=cuts,
        reading=slots.reading | reading,
    )


def _working(slots: Slots) -> Bool[Array, " B"]:
    """Chains that have moves to make."""
    return slots.num_moves < slots.info.cuts.shape[0]


def _at_once(slots: Slots) -> int:
    """Most proposals that are settled in one step."""
    return max(slots.cuts.shape[0] // 4, 1)


def _keys(key: Key[Array, ""], role: Role, slots: Slots) -> Key[Array, " B"]:
    """Keys of the move that each chain is in: `theory.mcmc.chains.keys_of` at an iteration of its own."""
    iterations = slots.current.iteration + slots.num_moves
    return fold_each(row_keys(role_key(key, role), slots.current.rows), iterations)


def _token_before(generation: Generation, places: Int[Array, " B"]) -> Int32[Array, " B"]:
    """The last of so many first tokens of each row; anything where there is none."""
    last = jnp.maximum(places - 1, 0)[:, None]
    return jnp.take_along_axis(generation.trajectories.tokens, last, axis=1)[:, 0]


def _choose(model: SequenceModel, mask: Bool[Array, " B"], a: Chains, b: Chains) -> Chains:
    """Chains of `a` where the mask is true, of `b` elsewhere; iteration and what was spent are those of `a`."""
    return a._replace(
        generation=select(model, mask, a.generation, b.generation),
        entropies=jnp.where(mask[:, None], a.entropies, b.entropies),
        log_rewards=jnp.where(mask, a.log_rewards, b.log_rewards),
    )


def _take(model: SequenceModel, slots: Slots, rows: Int[Array, " B2"]) -> Slots:
    """Gather chains, with both of their slots."""
    current = slots.current
    return Slots(
        Chains(
            take(model, current.generation, rows),
            current.entropies[rows],
            current.log_rewards[rows],
            current.rows[rows],
            current.iteration,
        ),
        take(model, slots.proposal, rows),
        slots.entropies[rows],
        slots.first_law[rows],
        slots.cuts[rows],
        slots.reading[rows],
        slots.num_moves[rows],
        jax.tree.map(lambda values: values[:, rows], slots.info),
    )
