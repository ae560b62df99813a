"""Sees in the bytes of JSON lines whether the database may give the fields their types while it reads.

Its typed reader takes `"0.7"` and `true` for numbers, rounds 3.5 to a whole 4, and turns an answer 1.50 into the text 1.5, without a word. It can be trusted with a
log in which no value is spelled in a way that it would change. A regular expression over whole blocks of lines finds such spellings in a fraction of the time
that reading takes. It may find more than there is (a key of the same name inside of another object), never less: what it finds is left to the exact reader.
"""

import enum
import os
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from experiments.rollout_logs.schema import BY_NAME, COUNT, FLAG, IDENTIFIER, NUMBER, TEXT, Kind

# Bytes that are searched at a time. A line that is longer is left to the exact reader.
_BLOCK = 1 << 21

# What may stand after `"name":` for a value that typed reading would change or that a field may not hold. A value ends at a comma, a brace or a space;
# null begins like nan, which is a number to the database.
_UNTRUSTED: tuple[tuple[Kind, str], ...] = (
    (NUMBER, r'["tf\[{]'),
    (COUNT, r"[^0-9n\s]|n[^u]|[0-9]+[^0-9,}\s]|[0-9]{19}"),
    (FLAG, r"[^tfn01\s]|n[^u]|[01][^,}\s]"),
    (IDENTIFIER, r'[^"0-9n\s-]|n[^u]|-[^1-9]|-?[0-9]+[^0-9,}\s]|-?[0-9]{19}'),
    (TEXT, r'[^"n\s]|n[^u]'),
)
_ANY_VALUE = r"[^n\s]|n[^u]"

# A letter, digit or underscore as an escape: a key could be spelled with it.
_ESCAPED = r"\\u00(?:3[0-9]|4[1-9A-Fa-f]|5[0-9AaFf]|6[1-9A-Fa-f]|7[0-9Aa])"


class Spelling(enum.Enum):
    """What was seen in a log."""

    REGULAR = "every value has the spelling of its field"
    OTHER_FIELDS = "some row may have a field that was not read"
    UNTRUSTED = "some value may have another type"


def spelling_of(
    files: Sequence[str], read: Collection[str], others: Collection[str], odd: Collection[str]
) -> Spelling:
    """Search the files.

    Args:
        files: of JSON lines in canonical fields.
        read: fields that were read by their types.
        others: fields that were not read.
        odd: keys that only the exact reader understands.

    Returns:
        The first thing found, by file and block.
    """
    by_kind = [
        _after([name for name in read if BY_NAME[name].kind is kind], spelled)
        for kind, spelled in _UNTRUSTED
    ]
    untrusted = [*by_kind, _after(odd, _ANY_VALUE)]
    other = _after(others, _ANY_VALUE)

    def look(block: bytes) -> Spelling:
        if len(block) == _BLOCK and not block.endswith(b"\n"):
            return Spelling.UNTRUSTED
        if b"\\" in block and _is_in(block, _ESCAPED):
            return Spelling.UNTRUSTED
        if not _is_in(block, _any_of([*untrusted, other])):
            return Spelling.REGULAR
        return Spelling.UNTRUSTED if _is_in(block, _any_of(untrusted)) else Spelling.OTHER_FIELDS

    workers = os.cpu_count() or 1
    with ThreadPoolExecutor(workers) as pool:
        waiting: deque[Future[Spelling]] = deque()
        for block in _blocks(files):
            waiting.append(pool.submit(look, block))
            if len(waiting) > workers:
                first = waiting.popleft().result()
                if first is not Spelling.REGULAR:
                    return first
        found = [future.result() for future in waiting]
    return next((each for each in found if each is not Spelling.REGULAR), Spelling.REGULAR)


def _after(names: Collection[str], spelled: str) -> str:
    """Any of the keys with such a value, from behind the first quote."""
    return rf'(?:{"|".join(names)})"\s*:\s*(?:{spelled})' if names else ""


def _any_of(endings: Sequence[str]) -> str:
    """One quote before all alternatives lets the search leap from quote to quote."""
    return f'"(?:{"|".join(filter(None, endings))})'


def _blocks(files: Sequence[str]) -> Iterator[bytes]:
    """Whole lines; a line that is longer than a block is cut."""
    for name in files:
        with Path(name).open("rb") as file:
            while block := file.read(_BLOCK):
                end = block.rfind(b"\n") + 1
                if end and len(block) == _BLOCK:
                    file.seek(end - _BLOCK, os.SEEK_CUR)
                    block = block[:end]
                yield block


def _is_in(block: bytes, pattern: str) -> bool:
    """Search all lines at once: one by one they take twice as long."""
    offsets = pa.array([0, len(block)], pa.int32()).buffers()[1]
    text = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, pa.py_buffer(block)])
    found = pc.call_function("match_substring_regex", [text], pc.MatchSubstringOptions(pattern))
    return bool(found[0].as_py())
