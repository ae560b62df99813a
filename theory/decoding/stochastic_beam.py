"""Distinct sequences: sampling without replacement by Gumbel top-k over whole sequences.

Adding independent Gumbel noise to the log probability of every sequence and keeping the k largest draws k sequences without
replacement: in descending order, each is drawn from q restricted to those not yet drawn and renormalised. The beam finds
these k without visiting the rest. The largest perturbed value below a prefix is Gumbel around the prefix's log probability, so it
can be drawn for the prefix first, and for its children given that their maximum is the parent's. A prefix whose value is not among the
k largest has no sequence among them.

Source: Kool, van Hoof and Welling 2019, arXiv 1903.06059, Algorithm 1 and appendix B.3 for the conditioning (from memory, not
re-read; certified by enumeration in the tests).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Int32, Key

from theory.decoding.counts import no_counts, token_counts
from theory.decoding.noise import gumbels
from theory.decoding.pipeline import reads_counts, token_law
from theory.decoding.rule import TokenRule
from theory.errors import InvalidInput
from theory.keys import fold_rows
from theory.ledger import Ledger, spent
from theory.protocols import SequenceModel


class DistinctDraws(NamedTuple):
    """N distinct sequences for each prompt, in the order in which they are drawn without replacement.

    Attributes:
        tokens: [B, N, T] generated tokens, 0 past a sequence's length.
        lengths: [B, N] eos included.
        log_p: [B, N] log probability under the model at temperature 1.
        log_q: [B, N] under the law that was sampled, all rules included.
        scores: [B, N] log q plus Gumbel noise, descending.
        ended: [B, N] the sequence ends with eos; false for one truncated at the horizon.
        drawn: [B, N] false where q has fewer than N sequences; such places have length 0 and log probabilities -inf.
        kappa: [B] the largest score that was not drawn; -inf where all sequences were.
        failed: [B] a prefix of this prompt had no law, and the mass behind it is missing.
        ledger: what was spent on all prompts.
    """

    tokens: Int32[Array, "B N T"]
    lengths: Int32[Array, "B N"]
    log_p: Float[Array, "B N"]
    log_q: Float[Array, "B N"]
    scores: Float[Array, "B N"]
    ended: Bool[Array, "B N"]
    drawn: Bool[Array, "B N"]
    kappa: Float[Array, " B"]
    failed: Bool[Array, " B"]
    ledger: Ledger


class _Beams(NamedTuple):
    """Prefixes of every prompt; `alive` are those that go on."""

    step: Int32[Array, ""]
    model_state: Any
    law: Float[Array, "B N V"]
    tokens: Int32[Array, "B N T"]
    lengths: Int32[Array, "B N"]
    log_p: Float[Array, "B N"]
    log_q: Float[Array, "B N"]
    scores: Float[Array, "B N"]
    alive: Bool[Array, "B N"]
    failed: Bool[Array, " B"]
    num_tokens: Int32[Array, ""]


def gumbels_given_max(
    perturbed: Float[Array, "*batch V"], maximum: Float[Array, "*batch"]
) -> Float[Array, "*batch V"]:
    """Turn independent Gumbels into Gumbels whose maximum is given.

        -log(exp(-T) - exp(-Z) + exp(-G)),   Z = max_v G(v),   T the given maximum

    evaluated as T - max(0, r) - log(1 + exp(-|r|)) with r = T - G + log(1 - exp(G - Z)), which cancels nothing.

    Args:
        perturbed: [..., V] independent Gumbels around the children's log probabilities; -inf for an impossible one.
        maximum: [...] the parent's value; -inf for a parent that is none.

    Returns:
        [..., V], the largest equal to `maximum`.
    """
    target = maximum[..., None]
    highest = jnp.max(perturbed, axis=-1, keepdims=True)
    possible = (perturbed > -jnp.inf) & (target > -jnp.inf)
    gap = jnp.where(possible, highest - perturbed, 0.0)
    excess = jnp.where(possible, target - perturbed, 0.0) + jnp.log(-jnp.expm1(-gap))
    moved = target - jnp.maximum(excess, 0.0) - jnp.log1p(jnp.exp(-jnp.abs(excess)))
    return jnp.where(possible, moved, -jnp.inf)


def stochastic_beam(
    keys: Key[Array, " B"],
    model: SequenceModel,
    prompts: Int[Array, "B P"],
    prompt_lengths: Int[Array, " B"],
    rules: tuple[TokenRule, ...],
    num_sequences: int,
) -> DistinctDraws:
    """Draw distinct sequences from the law that the rules make of the model.

    Unit: the set of N sequences of one prompt. They are drawn without replacement, so neither are they independent, nor is their plain
    mean unbiased for anything; `theory.decoding.without_replacement` weights them. The model holds N + 1 rows a prompt.

    Args:
        keys: [B] one for each prompt, by its global id; consumed.
        model: reached through init, take and step.
        prompts: [B, P] right-padded.
        prompt_lengths: [B].
        rules: a pipeline, its parameters the same for all rows; none samples from the model's own law.
        num_sequences: N, at least 1.

    Returns:
        The sequences and the threshold kappa.

    Raises:
        InvalidInput: N is below 1.
    """
    if num_sequences < 1:
        raise InvalidInput(f"distinct sequences {num_sequences}: must be at least 1")
    # One beam more than is asked for: its score is the threshold.
    start = _start(keys, model, prompts, prompt_lengths, num_sequences + 1)

    def goes_on(beams: _Beams) -> Bool[Array, ""]:
        return (beams.step < model.horizon) & jnp.any(beams.alive)

    def advance(beams: _Beams) -> _Beams:
        return _advance(keys, model, rules, beams)

    beams = jax.lax.while_loop(goes_on, advance, start)
    drawn = (beams.scores > -jnp.inf)[:, :-1]
    lengths = jnp.where(drawn, beams.lengths[:, :-1], 0)
    inside = jnp.arange(model.horizon)[None, None] < lengths[..., None]
    return DistinctDraws(
        tokens=jnp.where(inside, beams.tokens[:, :-1], 0),
        lengths=lengths,
        log_p=jnp.where(drawn, beams.log_p[:, :-1], -jnp.inf),
        log_q=jnp.where(drawn, beams.log_q[:, :-1], -jnp.inf),
        scores=beams.scores[:, :-1],
        ended=drawn & ~beams.alive[:, :-1],
        drawn=drawn,
        kappa=beams.scores[:, -1],
        failed=beams.failed,
        ledger=spent(
            rollouts_commit=drawn.sum(dtype=jnp.int32),
            generated_tokens=beams.num_tokens,
            prefill_tokens=prompt_lengths.sum(dtype=jnp.int32),
            model_calls=beams.step + 1,
            row_steps_executed=beams.step * beams.scores.size,
            row_steps_useful=beams.num_tokens,
        ),
    )


def _start(
    keys: Key[Array, " B"],
    model: SequenceModel,
    prompts: Int[Array, "B P"],
    prompt_lengths: Int[Array, " B"],
    num_beams: int,
) -> _Beams:
    """The empty prefix in the first beam of each prompt, nothing in the others."""
    num_prompts = prompts.shape[0]
    rows = jnp.repeat(jnp.arange(num_prompts), num_beams)
    model_state, law = model.init(prompts, prompt_lengths)
    model_state, law = model.take(model_state, rows), law[rows]
    first = jnp.broadcast_to(jnp.arange(num_beams)[None] == 0, (num_prompts, num_beams))
    zeros = jnp.zeros((num_prompts, num_beams), jnp.float32)
    # Step 0 of the noise is the root's, step t + 1 that of token t.
    root = gumbels(fold_rows(keys, 0), 1)
    return _Beams(
        step=jnp.zeros((), jnp.int32),
        model_state=model_state,
        law=law.reshape(num_prompts, num_beams, -1),
        tokens=jnp.zeros((num_prompts, num_beams, model.horizon), jnp.int32),
        lengths=jnp.zeros((num_prompts, num_beams), jnp.int32),
        log_p=zeros,
        log_q=zeros,
        scores=jnp.where(first, root, -jnp.inf),
        alive=first,
        failed=jnp.zeros(num_prompts, bool),
        num_tokens=jnp.zeros((), jnp.int32),
    )


def _expand(
    keys: Key[Array, " B"], rules: tuple[TokenRule, ...], beams: _Beams
) -> tuple[Float[Array, "B N V"], Float[Array, "B N V"], Bool[Array, " B"]]:
    """Log q of each next token, the score of each child, and prompts with a prefix that has no law.

    A prefix that has ended has itself as its only child, in the place of token 0.
    """
    num_beams, vocab_size = beams.law.shape[1:]
    logits = beams.law.reshape(-1, vocab_size)
    counts = no_counts(logits)
    if reads_counts(rules):
        flat_tokens = beams.tokens.reshape(logits.shape[0], -1)
        counts = token_counts(flat_tokens, beams.lengths.reshape(-1), vocab_size)
    law = token_law(rules, logits, counts)
    log_q = law.log_probs.reshape(beams.law.shape)
    noise = gumbels(fold_rows(keys, beams.step + 1), num_beams * vocab_size)
    perturbed = beams.log_q[..., None] + log_q + noise.reshape(log_q.shape)
    itself = jnp.arange(vocab_size)[None, None] == 0
    scores = jnp.where(
        beams.alive[..., None],
        gumbels_given_max(perturbed, beams.scores),
        jnp.where(itself, beams.scores[..., None], -jnp.inf),
    )
    failed = beams.failed | jnp.any(beams.alive & law.failed.reshape(beams.alive.shape), axis=1)
    return log_q, scores, failed


def _advance(
    keys: Key[Array, " B"], model: SequenceModel, rules: tuple[TokenRule, ...], beams: _Beams
) -> _Beams:
    """Keep the beams with the largest scores among all children."""
    num_prompts, num_beams, vocab_size = beams.law.shape
    log_q, children, failed = _expand(keys, rules, beams)
    scores, chosen = jax.lax.top_k(children.reshape(num_prompts, -1), num_beams)
    parents, tokens = chosen // vocab_size, chosen % vocab_size

    def of_parent(values: Array) -> Array:
        return jax.vmap(lambda row, index: row[index])(values, parents)

    def of_child(values: Float[Array, "B N V"]) -> Float[Array, "B N"]:
        return jnp.take_along_axis(of_parent(values), tokens[..., None], axis=-1)[..., 0]

    grown = of_parent(beams.alive) & (scores > -jnp.inf)
    tokens = jnp.where(grown, tokens, 0)
    alive = grown & ~jnp.isin(tokens, jnp.array(model.eos, jnp.int32))
    rows = (parents + num_beams * jnp.arange(num_prompts)[:, None]).reshape(-1)
    model_state = model.take(beams.model_state, rows)
    model_state, law = model.step(model_state, tokens.reshape(-1), alive.reshape(-1))
    return _Beams(
        step=beams.step + 1,
        model_state=model_state,
        law=law.reshape(beams.law.shape),
        tokens=of_parent(beams.tokens).at[:, :, beams.step].set(tokens),
        lengths=of_parent(beams.lengths) + grown.astype(jnp.int32),
        log_p=of_parent(beams.log_p) + jnp.where(grown, of_child(beams.law), 0.0),
        log_q=of_parent(beams.log_q) + jnp.where(grown, of_child(log_q), 0.0),
        scores=scores,
        alive=alive,
        failed=failed,
        num_tokens=beams.num_tokens + grown.sum(dtype=jnp.int32),
    )
