"""Top-k: the k most likely tokens."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Bool, Float, Int

from theory.decoding.prefix import stable_order
from theory.decoding.rule import Parameter, check_parameter, cut, per_row


class TopK(NamedTuple):
    """Keep exactly min(k, V) tokens: the most likely ones, ties by token id.

    Source: Fan, Lewis and Dauphin 2018, arXiv 1805.04833.

    Attributes:
        num_tokens: k >= 1, a number or [B].
    """

    num_tokens: Parameter

    name = "top_k"
    reads_counts = False
    keeps_mode = True

    def truncates(self) -> bool:
        """Always, since the vocabulary is not known here: leave the rule out where all tokens are meant."""
        return True

    def keep(self, logits: Float[Array, "B V"]) -> Bool[Array, "B V"]:
        """See `Filter.keep`."""
        _, ranks = stable_order(-logits)
        return ranks.astype(logits.dtype) < per_row(self.num_tokens, logits)

    def __call__(
        self, logits: Float[Array, "B V"], counts: Int[Array, "B V"]
    ) -> Float[Array, "B V"]:
        """See `TokenRule`."""
        return cut(logits, self.keep(logits))


def top_k(num_tokens: Parameter) -> TopK:
    """Top-k.

    Args:
        num_tokens: k, a whole number from 1 up, or [B] of them.

    Returns:
        The rule.

    Raises:
        InvalidInput: k is outside this domain.
    """

    def is_allowed(values: np.ndarray) -> np.ndarray:
        return (values >= 1) & (values == np.floor(values))

    check_parameter("top_k", num_tokens, is_allowed, "a whole number from 1 up")
    return TopK(num_tokens)
