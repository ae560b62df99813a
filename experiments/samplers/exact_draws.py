"""Exact draws from the power law by backward-forward, where the model is a table."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key

from experiments.samplers.rows import PromptBatch, Rows, drawn_rows
from experiments.samplers.settings import Settings
from theory.exact.sampling import draw_sequences
from theory.generation import Generation, Trajectories, ends_with_eos, start
from theory.ledger import charge, spent
from theory.mcmc.scoring import score_sequences
from theory.protocols import SequenceModel


def power_exact(
    key: Key[Array, ""],
    model: SequenceModel,
    prompts: PromptBatch,
    ids: Int[Array, " B"],
    settings: Settings,
) -> Rows:
    """Exact independent draws from p(y)^alpha / Z; see `Sampler`. The behaviour is alpha log p - log Z, in float64 from the table.

    The prompt is part of the table (`settings.power`); `prompts` are what the model reads for the base log p of the record.
    """
    assert settings.power is not None
    draws = draw_sequences(key, settings.power.law, ids.shape[0], int(ids[0]))
    tokens = np.zeros((ids.shape[0], model.horizon), np.int32)
    tokens[:, : draws.tokens.shape[1]] = (
        draws.tokens
    )  # the layers stop where all sequences have ended
    lengths = jnp.asarray(draws.lengths)
    scored = _score(model, prompts, jnp.asarray(tokens), lengths, settings.alpha)
    return drawn_rows(scored, settings.alpha)._replace(behavior_logp=draws.log_probs)


@functools.partial(jax.jit, static_argnames="alpha")
def _score(
    model: SequenceModel,
    prompts: PromptBatch,
    tokens: Int[Array, "B T"],
    lengths: Int[Array, " B"],
    alpha: float,
) -> Generation:
    """The rows as a generation; log q is left at 0, the table knows it better."""
    read = start(model, prompts.tokens, prompts.lengths)
    scores = score_sequences(model, read, tokens, lengths, alpha).scores
    ended = ends_with_eos(model, tokens, lengths)
    zeros = jnp.zeros_like(scores.log_p)
    rows = Trajectories(tokens, lengths, ended, scores.log_p, zeros, scores.log_z)
    ledger = charge(
        spent(), rollouts_commit=lengths.shape[0], generated_tokens=lengths.sum(dtype=jnp.int32)
    )
    return read._replace(trajectories=rows, ledger=ledger)
