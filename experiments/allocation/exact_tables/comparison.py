"""A computed number beside the one that was published, and whether it was reached."""

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

from experiments.tables import schema

SCHEMA = schema(
    table=str,
    setting=str,
    quantity=str,
    ours=float,
    published=str,
    low=float,
    high=float,
    evidence=str,
    verdict=str,
)
"""low, high: what counts as the published number, from how it is printed; verdict: `reached` or `not reached`."""

Evidence = Literal["readme", "abstract", "second-hand", "reconstruction"]
"""Of the published number: the README or the abstract of the paper's authors, notes of others, or a recalculation, with no paper behind it, that the
programs of this project did not take part in."""

Row = dict[str, Any]

_ROUNDING = 1e-12
"""A number that lies halfway but for rounding, such as .775, may be printed either way."""


class Compared(NamedTuple):
    """One number.

    Attributes:
        setting: where.
        quantity: what.
        ours: computed here.
        published: as printed: `0.219`, `21.9 %`, `about 57`, `1.5 to 1.9` or `0.716 +- 0.007`.
        evidence: of the published number.
    """

    setting: str
    quantity: str
    ours: float
    published: str
    evidence: Evidence


def rows(table: str, found: Iterable[Compared]) -> list[Row]:
    """Rows with verdicts.

    Args:
        table: name of the table in the list of what readers want to reproduce, such as `SARA-2`.
        found: numbers.

    Returns:
        One row a number.
    """
    out: list[Row] = []
    for each in found:
        low, high = printed_range(each.published)
        reached = low - _ROUNDING <= each.ours <= high + _ROUNDING
        out.append(
            {
                "table": table,
                **each._asdict(),
                "low": low,
                "high": high,
                "verdict": "reached" if reached else "not reached",
            }
        )
    return out


def printed_range(text: str) -> tuple[float, float]:
    """The numbers that a printed one may stand for.

    Args:
        text: a decimal, which stands for all that round to it; `about VALUE`, which stands for 5 % around it; `LOW to HIGH`; or `VALUE +- ERROR`; each also as a
            percentage.

    Returns:
        The smallest and the largest.
    """
    scale = 0.01 if text.endswith("%") else 1.0
    words = text.removesuffix("%").split()
    if "about" in words:
        low, high = float(words[1]) * 0.95, float(words[1]) * 1.05
    elif "to" in words:
        first, last = words[0], words[2]
        low, high = float(first) - _half_unit(first), float(last) + _half_unit(last)
    elif "+-" in words:
        low, high = float(words[0]) - float(words[2]), float(words[0]) + float(words[2])
    else:
        low, high = float(words[0]) - _half_unit(words[0]), float(words[0]) + _half_unit(words[0])
    return scale * low, scale * high


def _half_unit(decimal: str) -> float:
    """Half a unit of the last digit printed."""
    _, _, digits = decimal.partition(".")
    return 0.5 * 10.0 ** -len(digits)
