"""HTML in which text cannot become markup: a `str` is always text and is escaped, only `element` makes `Markup`."""

from html import escape
from typing import NamedTuple

from experiments.rollout_logs.visible_text import on_one_line, shortened

VOID = frozenset({"br", "input", "meta"})


class Markup(NamedTuple):
    """A finished piece of HTML.

    Attributes:
        html: its source.
    """

    html: str


Child = str | Markup | None
"""Text, a finished piece, or nothing."""


def element(tag: str, *children: Child, **attributes: str | bool | None) -> Markup:
    """One element with its children.

    Args:
        tag: of the element.
        *children: text is escaped, markup stands as it is, None is nothing.
        **attributes: values are escaped; True is an attribute without a value, False and None are none; an underscore in a
            name stands for a hyphen and one at its end for nothing, as in `class_`.

    Returns:
        The element.
    """
    written = "".join(
        _attribute(name.rstrip("_").replace("_", "-"), value) for name, value in attributes.items()
    )
    if tag in VOID:
        return Markup(f"<{tag}{written}>")
    return Markup(f"<{tag}{written}>{fragment(*children).html}</{tag}>")


def fragment(*children: Child) -> Markup:
    """Several pieces one after the other.

    Args:
        *children: text is escaped, markup stands as it is, None is nothing.

    Returns:
        The pieces.
    """
    return Markup("".join(map(_source, children)))


def from_log(text: str, limit: int) -> Markup:
    """Text of a log on one line: cut, made visible, and kept from moving what stands beside it.

    Args:
        text: anything.
        limit: characters shown.

    Returns:
        An isolated piece of text.
    """
    return element("bdi", on_one_line(text, limit))


def lines_from_log(text: str, limit: int, length: int | None = None) -> Markup:
    """Text of a log with its lines.

    Args:
        text: anything.
        limit: characters shown.
        length: characters of the whole, where the text is its beginning.

    Returns:
        A block of text in which line feeds and tabs stay.
    """
    # The first line feed after <pre> is dropped by HTML: the isolating element stands before it.
    return element("pre", element("bdi", shortened(text, limit, length)))


def _attribute(name: str, value: str | bool | None) -> str:
    if value is None or value is False:
        return ""
    if value is True:
        return f" {name}"
    return f' {name}="{escape(value)}"'


def _source(child: Child) -> str:
    if child is None:
        return ""
    return child.html if isinstance(child, Markup) else escape(child, quote=False)
