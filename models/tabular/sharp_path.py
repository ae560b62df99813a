"""One sharp path against many blurred ones: the pivotal window in which temperature and power disagree."""

import numpy as np

from models.tabular.constructors import Row, log_row
from theory.errors import InvalidInput
from theory.exact.context_table import ContextTable, make_context_table


def sharp_against_blurred_table(
    sharp_probability: float, vocab_size: int, length: int
) -> ContextTable:
    """A first token that settles everything against a more likely one that settles nothing.

    Token 0 comes first with probability s and is followed by 0 for certain. Token 1 comes first with probability 1 - s > s
    and is followed by uniform tokens, so that its mass is spread over M = V**(length - 1) sequences. Then

        P(first = 0) / P(first = 1) = (s / (1 - s))**alpha                      at token temperature 1/alpha,
        P(first = 0) / P(first = 1) = (s / (1 - s))**alpha M**(alpha - 1)       under sequence power alpha.

    Temperature prefers token 1 at every alpha > 0. Power prefers token 0, the opposite order, exactly where

        alpha > log M / (log M - log((1 - s) / s)),    given M > (1 - s) / s;

    at alpha = 2 that is M > ((1 - s) / s)**2. As sequences grow the exponent falls to 1: however slightly a long sequence's
    law is sharpened, the two rules disagree about its first token.

    Args:
        sharp_probability: s, greater than 0 and less than 1/2.
        vocab_size: V, at least 2.
        length: of every sequence; there is no eos.

    Returns:
        Three contexts: the start, after the sharp token, after the blurred one.

    Raises:
        InvalidInput: s or V is out of range.

    Source: the argument of Observation 1 and of the pivotal tokens of Karan and Du, "Reasoning with Sampling", arXiv
    2510.14901, put into the smallest model with a length; the threshold is elementary and derived here.
    """
    if not 0 < sharp_probability < 0.5:
        raise InvalidInput(f"sharp_probability {sharp_probability}: must be above 0 and below 1/2")
    if vocab_size < 2:
        raise InvalidInput(f"vocab_size {vocab_size}: must be at least 2")
    laws = np.zeros((3, vocab_size))
    laws[0, :2] = sharp_probability, 1 - sharp_probability
    laws[1, 0] = 1
    laws[2] = 1 / vocab_size
    names = ("start", "sharp", "blurred")
    rows: list[Row] = list(laws)
    log_probs = np.stack([log_row(row, name) for row, name in zip(rows, names, strict=True)])
    next_context = np.repeat([[0], [1], [2]], vocab_size, axis=1)
    next_context[0, :2] = 1, 2
    return make_context_table(log_probs, next_context, 0, (), length)
