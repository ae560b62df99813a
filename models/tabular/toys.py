"""The toy models that the literature on power sampling argues with, each small enough to check by hand.

Tokens are numbered from 0 in the order in which a docstring names them. Lengths count eos.
"""

from models.tabular.constructors import geometric_table, markov_table, tree_table
from theory.exact.context_table import ContextTable


def toy_a() -> ContextTable:
    """Two tokens a, b; the four sequences have masses aa 0, ab .40, ba .25, bb .25 divided by their sum, .90.

    At alpha = 2 power starts with a (.561404), temperature 1/2 with b (.390244 for a).

    Source: Karan and Du, "Reasoning with Sampling", arXiv 2510.14901, Example 1, which prints masses that sum to .90;
    their ratios, and with them both laws, are kept.
    """
    return tree_table(
        {(): (4 / 9, 5 / 9), (0,): (0.0, 1.0), (1,): (0.5, 0.5)},
        vocab_size=2,
        eos=(),
        max_length=2,
    )


def toy_a_normalised() -> ContextTable:
    """Two tokens a, b; aa 0, ab .45, ba .275, bb .275: the masses of `toy_a` moved so that they sum to 1.

    P(first = a) is .572, .782, .963 under power and .401, .309, .167 under temperature at alpha 2, 4, 8.

    Source: a variant of our own.
    """
    return tree_table(
        {(): (0.45, 0.55), (0,): (0.0, 1.0), (1,): (0.5, 0.5)},
        vocab_size=2,
        eos=(),
        max_length=2,
    )


def toy_b() -> ContextTable:
    """PLAN (.4) is then right with .95, GUESS (.6) with .55: leaves .38, .02, .33, .27.

    Tokens PLAN, GUESS, right, wrong. At alpha = 4 power prefers PLAN (.548), temperature GUESS (.835).

    Source: Ji, Tutunov, Zimmer and Bou Ammar, "Scalable Power Sampling", arXiv 2601.21590.
    """
    return tree_table(
        {
            (): (0.4, 0.6, 0.0, 0.0),
            (0,): (0.0, 0.0, 0.95, 0.05),
            (1,): (0.0, 0.0, 0.55, 0.45),
        },
        vocab_size=4,
        eos=(),
        max_length=2,
    )


def toy_c(tokens: tuple[float, ...], stop: float, horizon: int) -> ContextTable:
    """Independent tokens and a constant stop probability e: the length is geometric.

    With s = sum of the tokens' probabilities**alpha and no horizon, sequences stop with probability e at base,
    e**alpha / (e**alpha + s) under temperature and 1 - s under power, and Z = e**alpha / (1 - s). For small e temperature
    lengthens sequences while power shortens them.

    Args:
        tokens: probabilities of the tokens that are not eos, which comes last.
        stop: e.
        horizon: most tokens, eos included.

    Source: elementary.
    """
    return geometric_table((*tokens, stop), eos=(len(tokens),), horizon=horizon)


# Far beyond the tails at alpha = 2: under temperature 1/2 a sequence of `toy_c_long` reaches it with probability 1.4e-11.
# At alpha = 4 that law's mean is 820 tokens and wants a longer one.
TOY_C_HORIZON = 1024


def toy_c_long() -> ContextTable:
    """`toy_c` with two tokens of .45 and e = .1: nine tokens on average before eos."""
    return toy_c((0.45, 0.45), 0.1, TOY_C_HORIZON)


def toy_c_skewed() -> ContextTable:
    """`toy_c` with tokens of .7 and .1 and e = .2: four tokens on average before eos."""
    return toy_c((0.7, 0.1), 0.2, TOY_C_HORIZON)


def toy_c_short() -> ContextTable:
    """`toy_c` with two tokens of .25 and e = .5: one token on average before eos."""
    return toy_c((0.25, 0.25), 0.5, TOY_C_HORIZON)


def toy_d() -> ContextTable:
    """A two-state Markov chain [[.9, .1], [.4, .6]] from an even start, six tokens, no eos.

    At alpha = 2 power starts in the sticky state with .733621, temperature with .5; the power law's growth rate is the
    largest eigenvalue of the squared entries, .8135278976.

    Source: a test case of our own.
    """
    return markov_table((0.5, 0.5), ((0.9, 0.1), (0.4, 0.6)), eos=(), horizon=6)


def toy_e() -> ContextTable:
    """Tokens a, b, eos: start (.5, .3, .2), after a (.6, .1, .3), after b (.2, .2, .6), at most four tokens.

    31 sequences. Eos comes early, so that temperature lengthens and power shortens: expected length 2.566 at base,
    2.904947 and 2.023700 at alpha = 2.

    Source: a test case of our own.
    """
    return markov_table(
        (0.5, 0.3, 0.2), ((0.6, 0.1, 0.3), (0.2, 0.2, 0.6), (0.0, 0.0, 1.0)), eos=(2,), horizon=4
    )


def toy_f() -> ContextTable:
    """Tokens a, b, eos: start (.5, .3, .2), after a (.3, .6, .1), after b (.45, .15, .4), at most four tokens.

    Source: a test case of our own.
    """
    return markov_table(
        (0.5, 0.3, 0.2), ((0.3, 0.6, 0.1), (0.45, 0.15, 0.4), (0.0, 0.0, 1.0)), eos=(2,), horizon=4
    )
