"""Tokens that may not be drawn: forced, blocked, and no end before a minimum length."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from theory.decoding.rule import Parameter, check_parameter, cut, per_row
from theory.errors import InvalidInput


class Allowed(NamedTuple):
    """Keep the tokens of a mask. A row whose possible tokens are all outside it has no law left.

    Attributes:
        mask: [V] or [B, V], true for the tokens that may be drawn.
    """

    mask: Bool[Array, "*rows V"]

    name = "allowed"
    reads_counts = False

    def truncates(self) -> bool:
        """Where the mask leaves a token out."""
        return not np.all(np.asarray(self.mask))

    def __call__(
        self, logits: Float[Array, "B V"], counts: Int[Array, "B V"]
    ) -> Float[Array, "B V"]:
        """See `TokenRule`."""
        return cut(logits, jnp.broadcast_to(self.mask, logits.shape))


class MinTokens(NamedTuple):
    """No eos among the first `num_tokens` generated tokens; the prompt is not counted.

    Attributes:
        num_tokens: a number or [B].
        eos: [V], true for the tokens that end a sequence.
    """

    num_tokens: Parameter
    eos: Bool[Array, " V"]

    name = "min_tokens"
    reads_counts = True

    def truncates(self) -> bool:
        """Unless no token is asked for, or there is no eos."""
        asked = np.any(np.asarray(self.num_tokens) > 0)
        return bool(asked and np.any(np.asarray(self.eos)))

    def __call__(
        self, logits: Float[Array, "B V"], counts: Int[Array, "B V"]
    ) -> Float[Array, "B V"]:
        """See `TokenRule`."""
        num_generated = jnp.sum(counts, axis=-1, keepdims=True).astype(logits.dtype)
        may_end = num_generated >= per_row(self.num_tokens, logits)
        return cut(logits, may_end | ~self.eos[None])


def allowed(mask: Bool[Array, "*rows V"]) -> Allowed:
    """Only the tokens of a mask: a grammar, the legal actions of an environment.

    Args:
        mask: [V], or [B, V] for a mask of each row's own.

    Returns:
        The rule.
    """
    return Allowed(mask)


def forced(tokens: tuple[int, ...], vocab_size: int) -> Allowed:
    """Only these tokens; a single one is forced.

    Args:
        tokens: ids, at least one.
        vocab_size: V.

    Returns:
        The rule.

    Raises:
        InvalidInput: no token, or one that does not exist.
    """
    if not tokens:
        raise InvalidInput("forced tokens: none given, name at least one")
    return Allowed(jnp.asarray(token_mask(tokens, vocab_size)))


def blocked(tokens: tuple[int, ...], vocab_size: int) -> Allowed:
    """Every token but these.

    Args:
        tokens: ids.
        vocab_size: V.

    Returns:
        The rule.

    Raises:
        InvalidInput: a token does not exist.
    """
    return Allowed(jnp.asarray(~token_mask(tokens, vocab_size)))


def min_tokens(num_tokens: Parameter, eos: tuple[int, ...], vocab_size: int) -> MinTokens:
    """No end before a minimum length: eos is masked for the first `num_tokens` generated tokens.

    Args:
        num_tokens: a whole number from 0 up, or [B] of them.
        eos: tokens that end a sequence; with none the rule does nothing.
        vocab_size: V.

    Returns:
        The rule.

    Raises:
        InvalidInput: the number is outside its domain, or an eos does not exist.
    """

    def is_allowed(values: np.ndarray) -> np.ndarray:
        return (values >= 0) & (values == np.floor(values))

    check_parameter("min_tokens", num_tokens, is_allowed, "a whole number from 0 up")
    return MinTokens(num_tokens, jnp.asarray(token_mask(eos, vocab_size)))


def token_mask(tokens: tuple[int, ...], vocab_size: int) -> Bool[np.ndarray, " V"]:
    """Token ids as a mask. A negative id is refused; it never counts from the end.

    Args:
        tokens: ids.
        vocab_size: V.

    Returns:
        [V], true for the tokens named.

    Raises:
        InvalidInput: an id outside 0..V-1.
    """
    for token in tokens:
        if not 0 <= token < vocab_size:
            raise InvalidInput(f"token {token}: must be in 0..{vocab_size - 1}, leave it out")
    mask = np.zeros(vocab_size, bool)
    mask[list(tokens)] = True
    return mask
