"""Figures as SVG inside a page: no style attributes (the page forbids them), colours that follow its theme, text that can be read aloud."""

import io
import re
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import matplotlib
from matplotlib.figure import Figure

from experiments.rollout_logs.page.markup import Markup
from paper_figures.style import FAINT, INK, paper_style

SVG = "{http://www.w3.org/2000/svg}"
LINK = "{http://www.w3.org/1999/xlink}href"

THEMED = {
    INK.lower(): "currentColor",
    FAINT.lower(): "var(--faint)",
    "#0072b2": "var(--blue)",
    "#e69f00": "var(--orange)",
    "#009e73": "var(--green)",
    "#d55e00": "var(--red)",
    "#cc79a7": "var(--pink)",
    "#595959": "var(--grey)",
    "#56b4e9": "var(--sky)",
}
"""Colours of `paper_figures.style` -> what the style sheet of the page calls them."""

DROPPED = {"metadata", "style"}
UNWANTED = {"font-family", "version"}


def inline_svg(figure: Figure, name: str, title: str, description: str) -> Markup:
    """Write a figure as one element of a page.

    Args:
        figure: drawn inside `paper_style()`, in its colours.
        name: of the figure, unique in the page; its ids begin with it.
        title: what is shown.
        description: what is to be seen, for who cannot see it.

    Returns:
        An `svg` element with a title and a description; the same bytes for the same figure.
    """
    written = io.BytesIO()
    # Text stays text; ids come from the name and not from chance.
    settings: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": name}
    with paper_style(), matplotlib.rc_context(settings):
        figure.savefig(written, format="svg", transparent=True, metadata={"Date": None})
    root = ElementTree.fromstring(written.getvalue())
    _prune(root)
    used = set(re.findall(r"url\(#([^)]+)\)", written.getvalue().decode()))
    used |= {node.get(LINK, "")[1:] for node in root.iter() if LINK in node.attrib}
    for node in root.iter():
        _plain_attributes(node, name, used)
    for size in ("width", "height"):  # the style sheet says
        del root.attrib[size]
    root.set("role", "img")
    root.set("aria-labelledby", f"{name}-title {name}-description")
    # What matplotlib asks for in a style sheet of its own.
    root.set("stroke-linejoin", "round")
    for place, (tag, text) in enumerate((("title", title), ("desc", description))):
        node = ElementTree.Element(f"{SVG}{tag}")
        node.set("id", f"{name}-{'title' if tag == 'title' else 'description'}")
        node.text = text
        root.insert(place, node)
    ElementTree.register_namespace("", SVG[1:-1])
    return Markup(re.sub(r">\s+<", "><", ElementTree.tostring(root, encoding="unicode")))


def _prune(node: ElementTree.Element) -> None:
    for child in list(node):
        if child.tag.removeprefix(SVG) in DROPPED:
            node.remove(child)
        else:
            _prune(child)


def _plain_attributes(node: ElementTree.Element, name: str, used: set[str]) -> None:
    attributes = dict(node.attrib)
    node.attrib.clear()
    for key, value in [*attributes.items(), *_declarations(attributes.get("style", ""))]:
        if key == "id" and value in used:
            node.set("id", f"{name}-{value}")
        elif key == LINK:
            node.set("href", f"#{name}-{value[1:]}")
        elif value.startswith("url(#"):
            node.set(key, f"url(#{name}-{value[5:]}")
        elif key not in {"id", "style"} and key not in UNWANTED:
            node.set(key, THEMED.get(value.lower(), value))


def _declarations(style: str) -> Iterator[tuple[str, str]]:
    for declaration in filter(None, style.split(";")):
        key, _, value = declaration.partition(":")
        yield key.strip(), value.strip()
