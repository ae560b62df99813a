"""Moments of Beta laws by other means: rational products, and log-gamma in 40-digit decimals."""

from decimal import Decimal, localcontext
from fractions import Fraction

# B_2k / (2k (2k - 1)), k = 1 .. 8.
STIRLING = [
    Fraction(1, 12),
    Fraction(-1, 360),
    Fraction(1, 1260),
    Fraction(-1, 1680),
    Fraction(1, 1188),
    Fraction(-691, 360360),
    Fraction(1, 156),
    Fraction(-3617, 122400),
]


def rising(x: Fraction, count: int) -> Fraction:
    """x (x + 1) .. (x + count - 1)."""
    product = Fraction(1)
    for step in range(count):
        product *= x + step
    return product


def moment(a: Fraction, b: Fraction, successes: int, failures: int) -> Fraction:
    """E[p^s (1 - p)^f] for p ~ Beta(a, b)."""
    both = rising(a + b, successes + failures)
    return rising(a, successes) * rising(b, failures) / both


def log_gamma(x: Decimal) -> Decimal:
    """Log Gamma(x) without its constant log(2 pi) / 2, which every moment loses."""
    shifted = Decimal(0)
    while x < 100:
        shifted += x.ln()
        x += 1
    series = Decimal(0)
    for k, coefficient in enumerate(STIRLING):
        term = Decimal(coefficient.numerator) / Decimal(coefficient.denominator)
        series += term / x ** (2 * k + 1)
    return (x - Decimal("0.5")) * x.ln() - x + series - shifted


def log_moment(a: float, b: float, successes: float, failures: float) -> tuple[Decimal, Decimal]:
    """Log E[p^s (1 - p)^f], and the same relative to the peak of p^s (1 - p)^f."""
    with localcontext() as context:
        context.prec = 40
        x, y, s, f = (Decimal(float(value)) for value in (a, b, successes, failures))
        after = log_gamma(x + s) + log_gamma(y + f) - log_gamma(x + y + s + f)
        log = after - (log_gamma(x) + log_gamma(y) - log_gamma(x + y))
        peak = sum((count * (count / (s + f)).ln() for count in (s, f) if count), Decimal(0))
        return log, log - peak
