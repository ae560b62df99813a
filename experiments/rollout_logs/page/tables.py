"""Tables and lists of the page that several of its sections use."""

from collections.abc import Iterable, Mapping, Sequence

from experiments.rollout_logs.page.markup import Child, Markup, element, fragment


def table(
    name: str,
    caption: Child,
    headings: Sequence[str],
    rows: Iterable[Sequence[Child]],
    *,
    numeric: frozenset[int] = frozenset(),
) -> Markup:
    """A table that scrolls inside its own box where the page is narrower.

    Args:
        name: id of the caption, unique in the page.
        caption: what the table holds.
        headings: one a column; the first cell of each row heads the row.
        rows: cells.
        numeric: places of the columns that are set flush right.

    Returns:
        The box with the table.
    """
    kind = [("num" if place in numeric else None) for place in range(len(headings))]
    head = [
        element("th", heading, scope="col", class_=kind[place])
        for place, heading in enumerate(headings)
    ]
    body = [
        element(
            "tr",
            element("th", cells[0], scope="row", class_=kind[0]),
            *(element("td", cell, class_=kind[place]) for place, cell in enumerate(cells) if place),
        )
        for cells in rows
    ]
    return scrolling(
        name,
        element(
            "table",
            element("caption", caption, id=name),
            element("thead", element("tr", *head)),
            element("tbody", *body),
        ),
    )


def scrolling(name: str, content: Markup) -> Markup:
    """A box that scrolls sideways, by keyboard too.

    Args:
        name: id of what names the box.
        content: of the box.

    Returns:
        The box.
    """
    return element(
        "div", content, class_="scroll", role="region", tabindex="0", aria_labelledby=name
    )


def section(name: str, title: str, *children: Child) -> Markup:
    """A section of the page.

    Args:
        name: id of its heading; links lead to it.
        title: heading.
        *children: content.

    Returns:
        The section.
    """
    heading = element("h2", title, id=name, tabindex="-1")
    return element("section", heading, *children, aria_labelledby=name)


def pairs(entries: Mapping[str, Child] | Sequence[tuple[Child, Child]]) -> Markup:
    """A list of names with what they stand for.

    Args:
        entries: in order.

    Returns:
        The list.
    """
    items = list(entries.items()) if isinstance(entries, Mapping) else entries
    return element(
        "dl",
        *(fragment(element("dt", term), element("dd", meaning)) for term, meaning in items),
    )


def behind(summary: Child, *children: Child) -> Markup:
    """Content that opens on demand.

    Args:
        summary: what it is.
        *children: the content.

    Returns:
        The closed element.
    """
    return element("details", element("summary", summary), *children)


def figure(picture: Markup, caption: str, numbers: Markup) -> Markup:
    """A picture with its caption and its numbers.

    Args:
        picture: an `svg` element.
        caption: how to read it.
        numbers: the table behind it.

    Returns:
        The figure.
    """
    return element(
        "figure",
        picture,
        element("figcaption", caption),
        behind("The numbers behind the picture", numbers),
    )
