"""Text of a log made fit for a reader: nothing in it is invisible, moves other text, or is cut without saying so.

Text from a log is hostile: it holds terminal codes, characters that reverse what stands around them, halves of characters and
a million letters. What cannot be seen is shown by its code point.
"""

import re
import unicodedata

NAME_LIMIT = 120
"""Characters shown of a name: a prompt, a sample, a file, a policy."""

ANSWER_LIMIT = 300
"""Characters shown of an answer."""

LINE_LIMIT = 1_000
"""Characters shown of a reason or a message."""

TEXT_LIMIT = 2_000
"""Characters kept and shown of a completion."""

# Controls, formats (directions, zero widths), halves of surrogate pairs, unassigned, private; separators of lines.
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"})
_NOT_PLAIN = re.compile(r"[^ -~\n\t]")


def visible(text: str) -> str:
    """Show what cannot be seen by its code point, such as [U+202E].

    Args:
        text: anything; line feeds and tabs stay.

    Returns:
        Text without control, format, surrogate, private and unassigned characters.
    """
    return _NOT_PLAIN.sub(_shown, text)


def shortened(text: str, limit: int, length: int | None = None) -> str:
    """The beginning of a text, made visible, and how long all of it is where it was cut.

    Args:
        text: anything.
        limit: characters of the text that are shown.
        length: characters of the whole, where the text is its beginning.

    Returns:
        The visible text; "(empty)" for an empty one, which would look like an absent one.
    """
    if not text:
        return "(empty)"
    length = len(text) if length is None else length
    if length <= limit:
        return visible(text)
    shown = text[:limit]
    return f"{visible(shown)} ... (the first {len(shown):,} of {length:,} characters)"


def on_one_line(text: str, limit: int) -> str:
    """`shortened`, with line feeds and tabs shown by their code points too.

    Args:
        text: anything.
        limit: characters of the text that are shown.

    Returns:
        One line.
    """
    return shortened(text, limit).replace("\n", "[U+000A]").replace("\t", "[U+0009]")


def _shown(found: re.Match[str]) -> str:
    letter = found[0]
    return f"[U+{ord(letter):04X}]" if unicodedata.category(letter) in _INVISIBLE else letter
