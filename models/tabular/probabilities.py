"""Probabilities in model files: read, and written so that reading gives the same log probability bit for bit.

Numbers are doubles, as everywhere in JSON. Decimals and fractions in quotes are the rational numbers that they denote: their
logarithm is the double nearest to the true one, also next to 1 where a probability in double precision would have lost it.
"""

import decimal
import functools
import math
import re
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from jaxtyping import Float64

from models.tabular.constructors import SUM_TOLERANCE
from theory.errors import InvalidInput

# A row nearer to 1 than this is as normalised as rows in double precision are, and is taken as it stands.
ROUNDING = Fraction(1, 10**12)

# Exact arithmetic on 1e999999999 would not end.
MAX_EXPONENT = 999
MAX_CHARACTERS = 1000

NUMBER = re.compile(
    r"[+-]?(?:\d+/\d+|(?:\d+(?:\.\d*)?|\.\d+)(?:[eE](?P<exponent>[+-]?\d+))?)", re.ASCII
)


def parse_probability(value: object) -> Fraction:
    """The number that a value of a model file denotes.

    Args:
        value: a finite number, or text that holds a fraction "2/3" or a decimal "0.25", "1e-3".

    Returns:
        The exact rational number, at least 0.

    Raises:
        InvalidInput: it denotes no such number; the message leaves out where it stands.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise InvalidInput(f'{shown(value)} is no probability, give a number or text such as "2/3"')
    if isinstance(value, float) and value >= 0:
        return Fraction(value)
    text = str(value)
    if text.lower().lstrip("+-") in ("nan", "inf", "infinity"):
        raise InvalidInput(f"{text} is not finite, give a number in 0..1")
    match = NUMBER.fullmatch(text) if len(text) <= MAX_CHARACTERS else None
    if match is None:
        raise InvalidInput(f'{shown(value)} is no number, give one such as "2/3" or 0.25')
    if abs(int(match["exponent"] or 0)) > MAX_EXPONENT:
        raise InvalidInput(f"{shown(value)} has an exponent beyond {MAX_EXPONENT}, give 0 instead")
    try:
        probability = Fraction(text)
    except ZeroDivisionError:
        raise InvalidInput(f"{shown(value)} has denominator 0, give a number in 0..1") from None
    if probability < 0:
        raise InvalidInput(f"{shown(value)} is negative, give a number in 0..1")
    return probability


def double_log_row(probabilities: Sequence[float]) -> Float64[np.ndarray, " V"]:
    """Check one law, normalise it and take natural logarithms, all in double precision: for tables of any size.

    Args:
        probabilities: V finite numbers, each at least 0.

    Returns:
        [V] log probabilities; -inf where 0.

    Raises:
        InvalidInput: the sum is further from 1 than SUM_TOLERANCE.
    """
    total = math.fsum(probabilities)
    if abs(total - 1) > SUM_TOLERANCE:
        raise InvalidInput(f"probabilities sum to {total:.9g}, must sum to 1")
    scale = total if abs(total - 1) > ROUNDING else 1.0
    return np.array([math.log(p / scale) if p > 0 else -math.inf for p in probabilities])


def exact_log_row(probabilities: Sequence[Fraction]) -> Float64[np.ndarray, " V"]:
    """Check one law, normalise it exactly and take natural logarithms.

    Args:
        probabilities: V numbers, each at least 0.

    Returns:
        [V] log probabilities, each the double nearest to the true value; -inf where 0.

    Raises:
        InvalidInput: the sum is further from 1 than SUM_TOLERANCE.
    """
    total = sum(probabilities, Fraction(0))
    if abs(total - 1) > SUM_TOLERANCE:
        value = decimal.Decimal(total.numerator) / decimal.Decimal(total.denominator)
        raise InvalidInput(f"probabilities sum to {value:.9g}, must sum to 1")
    scale = total if abs(total - 1) > ROUNDING else 1
    return np.array([_nearest_log(probability / scale) for probability in probabilities])


@functools.lru_cache(maxsize=100_000)
def _nearest_log(probability: Fraction) -> float:
    if probability == 0:
        return -math.inf
    numerator, denominator = probability.as_integer_ratio()
    # Digits that the logarithm loses because the number is close to 1: log(1 - x) is about -x.
    lost = denominator.bit_length() - abs(denominator - numerator).bit_length()
    with decimal.localcontext(prec=30 + max(0, lost) * 302 // 1000):
        return float((decimal.Decimal(numerator) / decimal.Decimal(denominator)).ln())


def probability_value(log_prob: float) -> float | str:
    """What to write into a model file for a log probability.

    Args:
        log_prob: natural log, possibly -inf.

    Returns:
        A number if one in double precision has exactly this logarithm, else text with more digits.

    Raises:
        InvalidInput: the probability is positive but below 10**-999.
    """
    if math.isinf(log_prob) or log_prob == 0:
        return float(log_prob == 0)
    number = math.exp(log_prob)
    # A row of numbers is read in double precision, a row with text in it exactly: the number must do for both.
    if number > 0 and math.log(number) == _nearest_log(Fraction(number)) == log_prob:
        return number
    digits = 25 + max(0, math.ceil(-math.log10(abs(log_prob))))
    with decimal.localcontext(prec=digits):
        exact = decimal.Decimal(log_prob).exp()
    if exact.adjusted() < -MAX_EXPONENT:
        raise InvalidInput(f"log probability {log_prob} is too low for a model file, use -inf")
    return str(exact)


def shown(value: object) -> str:
    """A value of a file for a one-line message: ASCII, and not longer than it helps."""
    text = ascii(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
