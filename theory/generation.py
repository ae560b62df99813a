"""Generate rows of tokens through a `SequenceModel`: the one loop that every sampler runs.

All rows advance together, one token a step, until each has emitted eos or reached its limit; the loop stops early. What each
token's importance weight needs is recorded when the token is drawn and never recovered afterwards: raw log p at temperature 1, log q of
the whole rule that drew it, and log z, the normaliser of p^alpha.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int, Int32, Key, PyTree

from theory.decoding.counts import no_counts, token_counts
from theory.decoding.pipeline import reads_counts
from theory.decoding.rule import TokenRule
from theory.decoding.sample import log_normaliser, sample_tokens
from theory.keys import fold_each
from theory.ledger import Ledger, charge, spent
from theory.protocols import SequenceModel
from theory.shared_prompts import prompt_tokens_read


class Trajectories(NamedTuple):
    """B rows of at most T generated tokens. Past a row's length: token 0 and zeros, so sums over T are sums over the row.

    Attributes:
        tokens: [B, T] eos included where emitted.
        lengths: [B] generated tokens.
        ended: [B] whether the last token is an eos; a row of full length without it is truncated.
        log_p: [B, T] log p(y_t | y_<t) of the model at temperature 1.
        log_q: [B, T] of the rule that drew the token.
        log_z: [B, T] log sum_v p(v | y_<t)^alpha at the alpha that was asked for.
    """

    tokens: Int32[Array, "B T"]
    lengths: Int32[Array, " B"]
    ended: Bool[Array, " B"]
    log_p: Float32[Array, "B T"]
    log_q: Float32[Array, "B T"]
    log_z: Float32[Array, "B T"]


class NextTokens(NamedTuple):
    """One token after each row, with the numbers of `Trajectories`.

    Attributes:
        tokens: [B].
        log_p: [B] under the model at temperature 1.
        log_q: [B] under the rule that drew it.
        log_z: [B] of the law it was drawn after.
    """

    tokens: Int32[Array, " B"]
    log_p: Float32[Array, " B"]
    log_q: Float32[Array, " B"]
    log_z: Float32[Array, " B"]


class Generation(NamedTuple):
    """Where a batch of rows stands.

    Attributes:
        model_state: of the model, after each row's tokens.
        log_probs: [B, V] log law of each row's next token.
        trajectories: what was generated.
        ledger: what was spent on the whole batch so far.
    """

    model_state: PyTree
    log_probs: Float32[Array, "B V"]
    trajectories: Trajectories
    ledger: Ledger


def start(
    model: SequenceModel, prompts: Int[Array, "B P"], prompt_lengths: Int[Array, " B"]
) -> Generation:
    """Read the prompts; nothing is generated yet.

    Args:
        model: of the tokens.
        prompts: [B, P] right-padded.
        prompt_lengths: [B].

    Returns:
        Rows of length 0.
    """
    state, log_probs = model.init(prompts, prompt_lengths)
    num_rows = prompts.shape[0]
    numbers = jnp.zeros((num_rows, model.horizon), jnp.float32)
    empty = Trajectories(
        tokens=jnp.zeros((num_rows, model.horizon), jnp.int32),
        lengths=jnp.zeros(num_rows, jnp.int32),
        ended=jnp.zeros(num_rows, bool),
        log_p=numbers,
        log_q=numbers,
        log_z=numbers,
    )
    ledger = spent(prefill_tokens=prompt_tokens_read(model, prompt_lengths), model_calls=1)
    return Generation(state, log_probs, empty, ledger)


def generate(
    keys: Key[Array, " B"],
    model: SequenceModel,
    rules: tuple[TokenRule, ...],
    alpha: float | Float32[Array, ""],
    generation: Generation,
    limits: Int[Array, " B"],
) -> Generation:
    """Extend every row that has not ended, until it ends or has as many tokens as its limit.

    A token's random numbers are addressed by its row's key and its position in the row: a row that is generated in several calls
    (blocks) is the row that one call gives, provided the keys are the same.

    Args:
        keys: [B] one for each row, of one role and iteration; not consumed.
        model: of the tokens.
        rules: the pipeline that tokens are drawn from; none is the model's own law.
        alpha: exponent of the recorded log z.
        generation: where the rows stand.
        limits: [B] most tokens of each row, at most the model's horizon.

    Returns:
        Where they stand then.
    """

    def step(loop: tuple[Generation, Array, Array]) -> tuple[Generation, Array, Array]:
        now, num_steps, num_tokens = loop
        active = goes_on(now.trajectories, limits)
        drawn = draw_next(keys, model, rules, alpha, now)
        model_state, log_probs = model.step(now.model_state, drawn.tokens, active)
        # A row that does not move keeps the law at its end: a later call goes on from there.
        log_probs = jnp.where(active[:, None], log_probs, now.log_probs)
        grown = append(model, now.trajectories, drawn, active)
        after = now._replace(model_state=model_state, log_probs=log_probs, trajectories=grown)
        return after, num_steps + 1, num_tokens + active.sum(dtype=jnp.int32)

    zero = jnp.zeros((), jnp.int32)
    done, num_steps, num_tokens = jax.lax.while_loop(
        lambda loop: goes_on(loop[0].trajectories, limits).any(), step, (generation, zero, zero)
    )
    ledger = charge(
        done.ledger,
        generated_tokens=num_tokens,
        model_calls=num_steps,
        row_steps_executed=num_steps * limits.shape[0],
        row_steps_useful=num_tokens,
    )
    return done._replace(ledger=ledger)


def goes_on(rows: Trajectories, limits: int | Int[Array, " B"]) -> Bool[Array, " B"]:
    """Rows that a token can follow.

    Args:
        rows: of any length.
        limits: most tokens of a row; the model's horizon, or [B] less of it.

    Returns:
        [B] false where the row has ended or has as many tokens as its limit.
    """
    return ~rows.ended & (rows.lengths < limits)


def is_eos(model: SequenceModel, tokens: Int[Array, "*batch"]) -> Bool[Array, "*batch"]:
    """Tokens that end a sequence.

    Args:
        model: for its eos.
        tokens: [...].

    Returns:
        [...].
    """
    return jnp.isin(tokens, jnp.asarray(model.eos, jnp.int32))


def ends_with_eos(
    model: SequenceModel, tokens: Int[Array, "B T"], lengths: Int[Array, " B"]
) -> Bool[Array, " B"]:
    """Given sequences that have ended, by their last token.

    Args:
        model: for its eos.
        tokens: [B, T] right-padded.
        lengths: [B].

    Returns:
        [B] false for an empty sequence.
    """
    last = jnp.take_along_axis(tokens, jnp.maximum(lengths - 1, 0)[:, None], axis=1)[:, 0]
    return is_eos(model, last) & (lengths > 0)


def draw_next(
    keys: Key[Array, " B"],
    model: SequenceModel,
    rules: tuple[TokenRule, ...],
    alpha: float | Float32[Array, ""],
    generation: Generation,
) -> NextTokens:
    """Draw a token after each row; nothing moves yet.

    Args:
        keys: [B] one for each row, of one role and iteration; not consumed.
        model: of the tokens.
        rules: the pipeline that tokens are drawn from.
        alpha: exponent of the recorded log z.
        generation: where the rows stand.

    Returns:
        The tokens and their records; those of rows that have ended mean nothing.
    """
    past, log_probs = generation.trajectories, generation.log_probs
    counts = (
        token_counts(past.tokens, past.lengths, model.vocab_size)
        if reads_counts(rules)
        else no_counts(log_probs)
    )
    draw = sample_tokens(fold_each(keys, past.lengths), rules, log_probs, counts)
    return NextTokens(draw.tokens, draw.log_p, draw.log_q, log_normaliser(log_probs, alpha))


def append(
    model: SequenceModel, past: Trajectories, drawn: NextTokens, active: Bool[Array, " B"]
) -> Trajectories:
    """Enter tokens at the ends of the active rows.

    Args:
        model: for its eos.
        past: the rows.
        drawn: a token a row.
        active: [B] rows that take it.

    Returns:
        The rows after it.
    """
    here = active[:, None] & (jnp.arange(past.tokens.shape[1])[None] == past.lengths[:, None])

    def record(before: Array, value: Array) -> Array:
        return jnp.where(here, value[:, None].astype(before.dtype), before)

    return Trajectories(
        tokens=record(past.tokens, drawn.tokens),
        lengths=past.lengths + active.astype(jnp.int32),
        ended=past.ended | (active & is_eos(model, drawn.tokens)),
        log_p=record(past.log_p, drawn.log_p),
        log_q=record(past.log_q, drawn.log_q),
        log_z=record(past.log_z, drawn.log_z),
    )


def cut(model: SequenceModel, generation: Generation, num_kept: Int[Array, " B"]) -> Generation:
    """Drop a suffix of each row.

    Args:
        model: of the tokens.
        generation: where the rows stand.
        num_kept: [B] tokens to keep, at most each row's length.

    Returns:
        The rows with their first tokens only, ready to go on; what was spent is kept. A row that keeps all of its tokens stays
        ended if it was.
    """
    past = generation.trajectories
    last = jnp.take_along_axis(past.tokens, jnp.maximum(num_kept - 1, 0)[:, None], axis=1)[:, 0]
    model_state, log_probs = model.rewind(generation.model_state, num_kept, last)
    # The law at the cut is not kept, that of the prompt is: a model with a cache reads the last token again.
    num_read = jnp.sum((num_kept > 0) & (num_kept < past.lengths), dtype=jnp.int32)
    is_call = (num_read > 0).astype(jnp.int32)
    ledger = charge(
        generation.ledger,
        prefill_tokens=num_read,
        model_calls=is_call,
        row_steps_executed=num_kept.shape[0] * is_call,
        row_steps_useful=num_read,
    )
    return Generation(model_state, log_probs, first_tokens(past, num_kept), ledger)


def first_tokens(past: Trajectories, num_kept: Int[Array, " B"]) -> Trajectories:
    """The rows without what stands after their first tokens.

    Args:
        past: the rows.
        num_kept: [B] tokens to keep, at most each row's length.

    Returns:
        Shorter rows; one that keeps all of its tokens stays ended if it was.
    """
    kept = jnp.arange(past.tokens.shape[1])[None] < num_kept[:, None]
    return Trajectories(
        tokens=jnp.where(kept, past.tokens, 0),
        lengths=num_kept.astype(jnp.int32),
        ended=past.ended & (num_kept == past.lengths),
        log_p=jnp.where(kept, past.log_p, 0.0),
        log_q=jnp.where(kept, past.log_q, 0.0),
        log_z=jnp.where(kept, past.log_z, 0.0),
    )


def take(model: SequenceModel, generation: Generation, rows: Int[Array, " B2"]) -> Generation:
    """Gather rows: ancestors, branches, a prompt shared by a group.

    Args:
        model: of the tokens.
        generation: of B rows.
        rows: [B2] indices into them.

    Returns:
        B2 rows; what was spent is kept.
    """
    return generation._replace(
        model_state=model.take(generation.model_state, rows),
        log_probs=generation.log_probs[rows],
        trajectories=jax.tree.map(lambda leaf: leaf[rows], generation.trajectories),
    )


def select(
    model: SequenceModel, mask: Bool[Array, " B"], a: Generation, b: Generation
) -> Generation:
    """Row-wise choice: accept or keep. What was spent is that of `a`.

    Args:
        model: of the tokens.
        mask: [B] true takes the row of `a`.
        a: B rows.
        b: B rows.

    Returns:
        B rows.
    """

    def choose(x: Array, y: Array) -> Array:
        return jnp.where(mask.reshape(mask.shape + (1,) * (x.ndim - 1)), x, y)

    return a._replace(
        model_state=model.select(mask, a.model_state, b.model_state),
        log_probs=choose(a.log_probs, b.log_probs),
        trajectories=jax.tree.map(choose, a.trajectories, b.trajectories),
    )
