"""A child twist that reads the model's next-token law, the last token and the position: two layers, V outputs."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, Key

from theory.smc.child_twist import Prefixes


class LawHead(NamedTuple):
    """log psi(xv) = out tanh(hidden features(x)). A `ChildTwist` and a pytree of its parameters.

    It sees the prompt and the tokens before the last one through the law alone, so that it costs no model call and does not touch the model.
    With V outputs it is meant for vocabularies of up to some thousands.

    Attributes:
        hidden: [F, H] weights, F = 2 V + T + 3 features.
        hidden_bias: [H].
        out: [H, V] weights.
        out_bias: [V].
    """

    hidden: Float32[Array, "F H"]
    hidden_bias: Float32[Array, " H"]
    out: Float32[Array, "H V"]
    out_bias: Float32[Array, " V"]

    def __call__(self, prefixes: Prefixes) -> Float32[Array, "B V"]:
        """Log psi of every child.

        Args:
            prefixes: B of them, T and V those that the head was made for.

        Returns:
            [B, V] natural log.
        """
        inner = jnp.tanh(law_features(prefixes) @ self.hidden + self.hidden_bias[None, :])
        return inner @ self.out + self.out_bias[None, :]


def init_law_head(key: Key[Array, ""], vocab_size: int, horizon: int, width: int) -> LawHead:
    """A head that says psi = 1 until it is trained.

    Args:
        key: consumed.
        vocab_size: V.
        horizon: T.
        width: H, hidden units.

    Returns:
        The parameters.
    """
    num_features = 2 * vocab_size + horizon + 3
    hidden = jax.random.normal(key, (num_features, width)) / jnp.sqrt(float(num_features))
    return LawHead(hidden, jnp.zeros(width), jnp.zeros((width, vocab_size)), jnp.zeros(vocab_size))


def law_features(prefixes: Prefixes) -> Float32[Array, "B F"]:
    """What the head sees.

        p(v) of every token; entropy, log sum_v p(v)^2 and log max_v p(v) of the law; the last token and the number of tokens, one-hot

    Args:
        prefixes: B of them.

    Returns:
        [B, 2 V + T + 3]; no last token in an empty prefix.
    """
    probs = jnp.exp(prefixes.log_probs)
    logs = jnp.where(probs > 0, prefixes.log_probs, 0.0)
    of_law = [-jnp.sum(probs * logs, axis=-1), jnp.log(jnp.sum(probs**2, axis=-1))]
    summary = jnp.stack([*of_law, jnp.max(prefixes.log_probs, axis=-1)], axis=-1)
    places = jnp.maximum(prefixes.lengths - 1, 0)[:, None]
    last = jnp.take_along_axis(prefixes.tokens, places, axis=1)[:, 0]
    is_there = (prefixes.lengths > 0)[:, None]
    last_token = jnp.where(is_there, jax.nn.one_hot(last, probs.shape[1]), 0.0)
    position = jax.nn.one_hot(prefixes.lengths, prefixes.tokens.shape[1])
    return jnp.concatenate([probs, summary, last_token, position], axis=-1)
