"""A child twist that reads the model's next-token law, the last tokens and the position: two layers, V outputs."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, Key

from theory.smc.child_twist import Prefixes


class LawHead(NamedTuple):
    """log psi(xv) = out tanh(hidden features(x)). A `ChildTwist` and a pytree of its parameters.

    It sees the prompt, and tokens before the last W, through the law alone, so that it costs no model call and does not touch the model. With V
    outputs it is meant for vocabularies of up to some thousands.

    Attributes:
        hidden: [F, H] weights, F = (1 + W) V + T + 3 features.
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
        vocab_size, horizon = prefixes.log_probs.shape[1], prefixes.tokens.shape[1]
        window = (self.hidden.shape[0] - horizon - 3) // vocab_size - 1
        inner = jnp.tanh(law_features(prefixes, window) @ self.hidden + self.hidden_bias[None, :])
        return inner @ self.out + self.out_bias[None, :]


def init_law_head(
    key: Key[Array, ""], vocab_size: int, horizon: int, width: int, window: int
) -> LawHead:
    """A head that says psi = 1 until it is trained.

    Args:
        key: consumed.
        vocab_size: V.
        horizon: T.
        width: H, hidden units.
        window: W, last tokens that it sees.

    Returns:
        The parameters.
    """
    num_features = (1 + window) * vocab_size + horizon + 3
    hidden = jax.random.normal(key, (num_features, width)) / jnp.sqrt(float(num_features))
    return LawHead(hidden, jnp.zeros(width), jnp.zeros((width, vocab_size)), jnp.zeros(vocab_size))


def law_features(prefixes: Prefixes, window: int) -> Float32[Array, "B F"]:
    """What the head sees.

        p(v) of every token; entropy, log sum_v p(v)^2 and log max_v p(v) of the law; the last W tokens and the number of tokens, one-hot

    Args:
        prefixes: B of them.
        window: W; the last token comes first.

    Returns:
        [B, (1 + W) V + T + 3]; zeros where a prefix has fewer tokens.
    """
    probs = jnp.exp(prefixes.log_probs)
    logs = jnp.where(probs > 0, prefixes.log_probs, 0.0)
    of_law = [-jnp.sum(probs * logs, axis=-1), jnp.log(jnp.sum(probs**2, axis=-1))]
    summary = jnp.stack([*of_law, jnp.max(prefixes.log_probs, axis=-1)], axis=-1)
    places = prefixes.lengths[:, None] - 1 - jnp.arange(window)[None, :]
    last = jnp.take_along_axis(prefixes.tokens, jnp.maximum(places, 0), axis=1)
    # One-hot of -1 is nothing.
    last_tokens = jax.nn.one_hot(jnp.where(places >= 0, last, -1), probs.shape[1])
    position = jax.nn.one_hot(prefixes.lengths, prefixes.tokens.shape[1])
    history = last_tokens.reshape(probs.shape[0], window * probs.shape[1])
    return jnp.concatenate([probs, summary, history, position], axis=-1)
