"""What a model gives to right completions, by enumeration instead of sampling.

Where the right completions can be listed, pass@1 is the sum of their probabilities: no sampling noise, one teacher-forced pass. What
Countdown's well-formed completions leave over is the mass that any enumeration of them misses.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float32, Int

from models.tasks.countdown import expressions
from models.tasks.task import Sequences
from theory.protocols import SequenceModel
from theory.reductions import at_token


def sequence_log_probs(
    model: SequenceModel,
    prompts: Sequences,
    completions: Sequences,
    prompt_of: Int[Array, " B"],
) -> Float32[Array, " B"]:
    """Log probability of each completion after its prompt; each prompt is read once.

    Args:
        model: of the tokens.
        prompts: of P rows.
        completions: of B rows, at most `model.horizon` tokens wide; eos counts where it stands.
        prompt_of: [B] the row of each completion's prompt.

    Returns:
        [B] log p(completion | prompt) at temperature 1.
    """
    state, _ = model.init(prompts.tokens, prompts.lengths)
    state = model.take(state, prompt_of)
    _, log_p, _ = model.extend(state, completions.tokens, completions.lengths, at_token)
    return log_p.sum(axis=-1)


class CountdownMasses(NamedTuple):
    """Where the probability of a model's completions goes.

    Attributes:
        tokens: [P, K, 2n] every well-formed completion, some of them twice or more where numbers repeat.
        log_p: [P, K] their log probabilities; -inf for all but the first of those that read the same, so that sums over K are sums
            over different completions.
        right: [P] probability of a right completion: exact pass@1.
        well_formed: [P] probability of a well-formed completion; what is missing to 1 went to all else together.
    """

    tokens: Int[Array, "P K T"]
    log_p: Float32[Array, "P K"]
    right: Float32[Array, " P"]
    well_formed: Float32[Array, " P"]


def countdown_masses(model: SequenceModel, num_numbers: int, prompts: Sequences) -> CountdownMasses:
    """Enumerate the well-formed completions of Countdown prompts.

    Args:
        model: of the tokens, at temperature 1; its horizon is at least 2n.
        num_numbers: n.
        prompts: of P rows; P n! 3^(n-1) completions are read.

    Returns:
        Log probabilities and their sums.
    """
    listed = expressions(num_numbers, prompts)
    num_prompts, num_listed, width = listed.tokens.shape
    prompt_of = jnp.repeat(jnp.arange(num_prompts), num_listed)
    rows = Sequences(listed.tokens.reshape(-1, width), jnp.full(len(prompt_of), width, jnp.int32))
    log_p = sequence_log_probs(model, prompts, rows, prompt_of).reshape(listed.values.shape)
    log_p = jnp.where(listed.is_first, log_p, -jnp.inf)
    probabilities = jnp.exp(log_p)
    right = jnp.where(listed.is_right, probabilities, 0.0).sum(axis=-1)
    return CountdownMasses(listed.tokens, log_p, right, probabilities.sum(axis=-1))
