"""The items of a JSON array one at a time: an array of any length takes the memory of its largest item.

Items are decoded as they come. One that is no JSON, or that the window holds in part only, is found by its brackets, quotes, colons and commas alone: it is
left out by its number, and the items behind it are read. A bracket closes the last open one of its kind; an object begins where no value may stand only
behind one that was never closed.
"""

import codecs
import io
import json
import re
from collections.abc import Iterator
from typing import NamedTuple, cast

from experiments.json_lines import unique_fields
from experiments.rollout_logs.parsing import parsed, undecoded
from experiments.rollout_logs.records import (
    ITEM_TOO_LONG,
    NOT_AN_OBJECT,
    UNREADABLE,
    Excluded,
    Raw,
)
from experiments.rollout_logs.streams import BROKEN, MAX_LINE_BYTES
from theory.errors import InvalidInput

_CHUNK = 2**20
_NOT_BLANK = re.compile(r"[^ \t\n\r]")
_MARK = re.compile(r'["\[\]{},:]')
_STRING = re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_DECODER = json.JSONDecoder(object_pairs_hook=unique_fields)


class _Item(NamedTuple):
    """An item, and where in the window the mark after it stands: a comma, a bracket, or the next item."""

    record: Raw | Excluded
    end: int


def array_items(
    stream: io.BufferedReader,
    path: str,
    encoding: str = "utf-8",
    limit: int = MAX_LINE_BYTES,
    chunk: int = _CHUNK,
) -> Iterator[Raw | Excluded]:
    """Read an array.

    Args:
        stream: its bytes; before the bracket there may be blanks.
        path: for messages.
        encoding: of the text.
        limit: longest item, in characters.
        chunk: bytes read at a time, at least.

    Yields:
        One record an item; where the text ends in the array, or goes on behind it, what was left out.
    """
    window = _Window(stream, encoding, chunk)
    window.find()
    window.place += 1
    mark, number = window.find(), 0
    while mark != "]":
        number += 1
        where = f"{path}, item {number}"
        window.find()
        begin = window.passed
        item = _decoded(window, where, path, limit) or _taken_apart(window, where, path, limit)
        if item is None:
            window.place = len(window.data)
            length = window.passed - begin
            yield Excluded(UNREADABLE, where, f"the text ends in it after {length} characters")
            return
        yield item.record
        window.place, mark = item.end, window.data[item.end]
        window.place += mark == ","
    window.place += 1
    if window.find() or window.broken:
        yield Excluded(UNREADABLE, f"{path}, after the array")


def _decoded(window: "_Window", where: str, path: str, limit: int) -> _Item | None:
    """The next item, if it is in order and the window holds it with the mark behind it."""
    try:
        value, end = _DECODER.raw_decode(window.data, window.place)
    except (InvalidInput, ValueError, RecursionError):
        return None
    mark = _NOT_BLANK.search(window.data, end)
    if mark is None or mark[0] not in ",]" or window.is_odd or end - window.place > limit:
        return None
    record = Raw(value, where, path) if isinstance(value, dict) else Excluded(NOT_AN_OBJECT, where)
    return _Item(record, mark.start())


def _taken_apart(window: "_Window", where: str, path: str, limit: int) -> _Item | None:
    """The next item, whatever it is; None where the text ends in it."""
    scan, place, too_long = _Scan(), window.place, False
    while (end := scan.end(window.data, place)) is None:
        place = scan.place - window.place
        if place > limit:
            window.place, place, too_long = scan.place, 0, True
        if not window.more():
            return None
    text = window.data[window.place : end]
    if too_long or len(text) > limit:
        return _Item(Excluded(ITEM_TOO_LONG, where), end)
    record = Excluded(UNREADABLE, where) if undecoded(text) else parsed(text, where, path)
    return _Item(record, end)


class _Scan:
    """Brackets and quotes of one item, in as many windows as it has.

    Attributes:
        place: where to go on.
    """

    def __init__(self) -> None:
        self._open: list[str] = []
        self._number = {"[": 0, "{": 0}
        self._last = ""
        self._in_string = False
        self.place = 0

    def end(self, data: str, place: int) -> int | None:
        """Where the comma or bracket after the item stands; None where the data end before it."""
        while True:
            if self._in_string:
                place = cast(re.Match[str], _STRING.match(data, place)).end()  # matches nothing too
                if data[place : place + 1] != '"':
                    break
                place, self._in_string = place + 1, False
            mark = _MARK.search(data, place)
            between = data[place : mark.start()] if mark is not None else data[place:]
            if self._last == ":" and between.strip():
                self._last = ""  # the value of a field, a number or a word
            if mark is None:
                place = len(data)
                break
            place = mark.end()
            if (not self._open and mark[0] in ",]") or (mark[0] == "{" and self._is_next_item()):
                return mark.start()
            self._in_string = mark[0] == '"'
            if mark[0] in "[{":
                self._open.append(mark[0])
                self._number[mark[0]] += 1
            elif mark[0] in "]}":
                self._close("[" if mark[0] == "]" else "{")
            self._last = mark[0]
        self.place = place
        return None

    def _is_next_item(self) -> bool:
        """Whether an object that begins here is none of this item: a field was to come in one that stands in no list."""
        around = self._open[-1] if self._open else "["
        if around == "[" or self._last == ":":
            return False
        if not self._number["["]:
            return True
        while self._open[-1] != "[":
            self._pop()
        return False

    def _close(self, kind: str) -> None:
        """The last one open of its kind, with all that is open in it; any, where none is of its kind."""
        while self._number[kind] and self._open[-1] != kind:
            self._pop()
        if self._open:
            self._pop()

    def _pop(self) -> None:
        self._number[self._open.pop()] -= 1


class _Window:
    """The part of a text that is at hand.

    Attributes:
        data: the part.
        place: in it; what stands before is dropped when more is read.
        is_odd: whether it has bytes that are none of the encoding.
        broken: whether the stream ended in an error.
    """

    def __init__(self, stream: io.BufferedReader, encoding: str, chunk: int) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder(encoding)("surrogateescape")
        self._chunk = chunk
        self._ended = False
        self._dropped = 0
        self.data = ""
        self.place = 0
        self.is_odd = self.broken = False

    @property
    def passed(self) -> int:
        """Characters of the text before the place."""
        return self._dropped + self.place

    def more(self) -> bool:
        """Read on; the place is 0 then. False at the end."""
        self._dropped += self.place
        rest = self.data[self.place :]
        try:
            data = b"" if self._ended else self._stream.read1(max(self._chunk, len(rest)))
            text = self._decoder.decode(data, final=not data)
        except (UnicodeDecodeError, *BROKEN):
            data, text, self.broken = b"", "", True
        self._ended = not data
        self.data, self.place = rest + text, 0
        self.is_odd = undecoded(self.data)
        return bool(text) or not self._ended

    def find(self) -> str:
        """Go to the next character that is not blank: that, or nothing at the end."""
        while (mark := _NOT_BLANK.search(self.data, self.place)) is None:
            self.place = len(self.data)
            if not self.more():
                return ""
        self.place = mark.start()
        return mark[0]
