"""Laws of success rates that the notes and papers speak of, all of one shape so that they share compiled programs."""

from theory.allocation.priors import BetaMixture, mixture


def law(
    weight: float,
    a: float = 1.0,
    b: float = 1.0,
    at_zero: float = 0.0,
    at_one: float = 0.0,
    at_rate: float = 0.0,
    rate: float = 0.5,
) -> BetaMixture:
    """One Beta, atoms at 0 and 1 and one more, any of them without weight."""
    return mixture([(weight, a, b)], [(at_zero, 0.0), (at_one, 1.0), (at_rate, rate)])


def u_shaped() -> BetaMixture:
    """Section 4.6 of the notes: 36 % Beta(2.5, 2.5), the rest never or always solved."""
    return law(0.36, 2.5, 2.5, at_zero=0.32, at_one=0.32)


def flat_with_atoms() -> BetaMixture:
    return law(0.6, at_zero=0.2, at_one=0.2)


def flat() -> BetaMixture:
    return law(1.0)


def known(rate: float) -> BetaMixture:
    """All prompts alike."""
    return law(0.0, at_rate=1.0, rate=rate)
