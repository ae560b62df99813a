"""Random models: every conditional law is an independent draw from a symmetric Dirichlet distribution.

The concentration sets how sharp the laws are: well below 1 nearly all mass falls on one token, well above 1
the laws are nearly uniform.
"""

import numpy as np

from models.tabular.constructors import (
    Prefix,
    Row,
    followed_tokens,
    log_row,
    markov_table,
    named,
    tree_from_log_rows,
)
from theory.exact.context_table import ContextTable


def random_tree_table(
    generator: np.random.Generator,
    vocab_size: int,
    eos: tuple[int, ...],
    max_length: int,
    concentration: float,
) -> ContextTable:
    """A tree with a random law at every prefix.

    Args:
        generator: advanced by one draw per prefix, by length and then by tokens.
        vocab_size: V.
        eos: tokens that end a sequence.
        max_length: most tokens in a sequence; there are about (V - number of eos)**(max_length - 1) prefixes.
        concentration: of the symmetric Dirichlet distribution, greater than 0.

    Returns:
        The table, in the order of `tree_table`.
    """
    alphas = np.full(vocab_size, concentration)
    rows = {}
    level: list[Prefix] = [()]
    for _ in range(max_length):
        children: list[Prefix] = []
        for prefix in level:
            rows[prefix] = log_row(generator.dirichlet(alphas), named(prefix))
            children += [(*prefix, token) for token in followed_tokens(rows[prefix], eos)]
        level = children
    return tree_from_log_rows(rows, vocab_size, eos, max_length)


def random_markov_table(
    generator: np.random.Generator,
    vocab_size: int,
    eos: tuple[int, ...],
    horizon: int,
    concentration: float,
) -> ContextTable:
    """A Markov chain of order 1 with a random start and random transitions.

    Args:
        generator: advanced by V + 1 draws.
        vocab_size: V.
        eos: tokens that end a sequence.
        horizon: most tokens in a sequence.
        concentration: of the symmetric Dirichlet distribution, greater than 0.

    Returns:
        The table, in the order of `markov_table`.
    """
    alphas = np.full(vocab_size, concentration)
    initial: Row = generator.dirichlet(alphas)
    return markov_table(initial, generator.dirichlet(alphas, size=vocab_size), eos, horizon)
