r"""One text for all the ways to write the same final answer.

Two answers are equal when their canonical texts are: an equivalence relation, so votes can be counted by it. Equality up to
a tolerance is none (0, 0.6 eps, 1.2 eps), and a symbolic check under a time limit depends on the machine.

Rules, in their order, until nothing changes: spaces at the ends go and those inside become one; unicode minus signs become `-`;
one pair of `\boxed{}`, `$ $`, `\( \)`, `\[ \]`, `\text{}`, `\mathrm{}` around or in the answer goes, and so do
`\left`, `\right`, `\!`, `\,`, `\;`; `(B)`, `B)`, `B.` become `B`; whole numbers, `a/b`, `\frac{a}{b}` and finite
decimals become the exact fraction, thousands commas only as in 1,234,567. Percent signs, units, sets, tuples and letter case
stay: 28% is neither 28 nor 0.28, 0.333 is not 1/3, (1, 2) is not (2, 1). Nothing left is no answer.
"""

import re
from fractions import Fraction

RULES_VERSION = "1"
MAX_EXAMINED = 1000
"""Longer answers, in characters, are text: only their spaces are put in order."""

_PLAIN = re.compile(r"-?[1-9][0-9]*|0|[A-Za-z]+")
_SPACES = re.compile(r"\s+")
_MINUS = str.maketrans({"\u2212": "-", "\u2013": "-", "\ufe63": "-", "\uff0d": "-"})
_UNIT_OF_TEXT = re.compile(
    r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mbox|operatorname) ?\{([^{}]*)\}"
)
_DECORATION = re.compile(r"\\(?:left|right)(?![A-Za-z])|\\[!,;]")
_OPTION = re.compile(r"[(\[]([A-Za-z])[)\]]|([A-Z])[.):]")
_FRACTION = re.compile(r"([+-]?)\s*\\[dt]?frac\s*\{\s*([+-]?[0-9]+)\s*\}\s*\{\s*([+-]?[0-9]+)\s*\}")
_SHORT_FRACTION = re.compile(r"([+-]?)\s*\\[dt]?frac\s*([0-9])\s*([0-9])")
_RATIO = re.compile(r"([+-]?)([0-9]+)\s*/\s*([+-]?[0-9]+)")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)")
_THOUSANDS = re.compile(r"[+-]?[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]*)?")
_WRAPPERS = (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"))


def canonical_answer(text: str | None) -> str | None:
    """The canonical text of a final answer.

    Args:
        text: as written, or None.

    Returns:
        The canonical text, a fixed point of this function; None where there is no answer.
    """
    if text is None:
        return None
    if len(text) <= MAX_EXAMINED and _PLAIN.fullmatch(text):
        return text
    while (cleaned := _cleaned(text)) != text:
        text = cleaned
    return text or None


def _cleaned(text: str) -> str:
    """All rules once."""
    text = _SPACES.sub(" ", text).strip()
    if len(text) > MAX_EXAMINED:
        return text
    text = _unwrapped(text.translate(_MINUS))
    text = _UNIT_OF_TEXT.sub(r"\1", text)
    text = _DECORATION.sub("", text).replace("{,}", ",").replace(r"\%", "%").strip()
    if option := _OPTION.fullmatch(text):
        return option[1] or option[2]
    number = _number(text)
    return text if number is None else str(number)


def _unwrapped(text: str) -> str:
    r"""Without the one `\boxed{}` or pair of math delimiters that holds all of it."""
    for command in (r"\boxed", r"\fbox"):
        if text.startswith(command):
            inner = text[len(command) :].lstrip()
            if inner.startswith("{") and _closes_at_end(inner):
                return inner[1:-1].strip()
    for opening, closing in _WRAPPERS:
        inner = text[len(opening) : -len(closing)]
        if (
            len(text) >= len(opening) + len(closing)
            and text.startswith(opening)
            and text.endswith(closing)
            and opening not in inner
            and closing not in inner
        ):
            return inner.strip()
    return text


def _closes_at_end(text: str) -> bool:
    """Whether the brace that opens a text is closed by its last character."""
    depth = 0
    for position, character in enumerate(text):
        depth += (character == "{") - (character == "}")
        if depth == 0:
            return position == len(text) - 1
    return False


def _number(text: str) -> Fraction | None:
    if _THOUSANDS.fullmatch(text):
        text = text.replace(",", "")
    if _DECIMAL.fullmatch(text):
        return Fraction(text)
    for pattern in (_FRACTION, _SHORT_FRACTION, _RATIO):
        if (found := pattern.fullmatch(text)) and int(found[3]) != 0:
            value = Fraction(int(found[2]), int(found[3]))
            return -value if found[1] == "-" else value
    return None
