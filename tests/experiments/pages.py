"""A page read back by Python's own parser."""

from html.parser import HTMLParser
from typing import NamedTuple

VOID = {"br", "input", "meta"}


class Element(NamedTuple):
    """An element of a page.

    Attributes:
        tag: of it.
        attributes: name -> value.
        parents: tags around it, outermost first.
        texts: pieces of text directly in it and in what it holds.
    """

    tag: str
    attributes: dict[str, str | None]
    parents: tuple[str, ...]
    texts: list[str]

    @property
    def text(self) -> str:
        """All of its text."""
        return "".join(self.texts)


class Page(HTMLParser):
    """Elements in order; an end tag that closes another element than the innermost one is an error."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[Element] = []
        self.open: list[Element] = []
        self.feed(source)
        self.close()
        assert not self.open, f"not closed: {[one.tag for one in self.open]}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(set(names)) == len(names), f"an attribute twice in <{tag}>"
        made = Element(tag, dict(attrs), tuple(one.tag for one in self.open), [])
        self.elements.append(made)
        if tag not in VOID:
            self.open.append(made)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert "svg" in [one.tag for one in self.open], f"<{tag}/> is no HTML"
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1].tag == tag, f"</{tag}> closes {self.open[-1:]}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        for one in self.open:
            one.texts.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data!r}")

    def unknown_decl(self, data: str) -> None:
        raise AssertionError(f"a declaration: {data!r}")

    def handle_pi(self, data: str) -> None:
        raise AssertionError(f"an instruction: {data!r}")

    def named(self, tag: str) -> list[Element]:
        """All elements with this tag."""
        return [one for one in self.elements if one.tag == tag]

    def structure(self) -> list[tuple[str, tuple[str, ...]]]:
        """Tags with the names of their attributes."""
        return [(one.tag, tuple(one.attributes)) for one in self.elements]
