"""What is written from the catalogue: the tables of docs/planted_bugs.md and the table behind the figure.

`python -m tests.planted_bugs.document` writes both; `python -m paper_figures.build` records the figure's digests then.
"""

from pathlib import Path

import pyarrow as pa

from paper_figures.build import HOME, LAYOUTS, build, write_table
from paper_figures.columns import schema
from tests.conftest import ROOT
from tests.planted_bugs.catalogue import CATALOGUE, FAMILIES
from tests.planted_bugs.defect import Defect

DOCUMENT = ROOT / "docs" / "planted_bugs.md"
FIGURE = "planted_defect_damage"
TABLE = HOME / "tables" / f"{FIGURE}.csv"
FIRST_HEADING = "## The catalogue\n"
"""From here on the document is written by `render`."""


def number(damage: float) -> str:
    """Six digits, as they are asserted."""
    return f"{damage:.6g}"


def row(defect: Defect) -> str:
    """One line of a table."""
    path, _, function = defect.test.partition("::")
    cells = (
        defect.kind,
        f"`{defect.name}`",
        ", ".join(defect.reports) or "-",
        defect.toy,
        f"{number(defect.damage)} ({defect.unit})",
        f"`{path}`: `{function}`",
    )
    return f"| {' | '.join(cells)} |"


def render() -> str:
    """All tables, one a family."""
    lines = [FIRST_HEADING]
    for family, defects in FAMILIES.items():
        lines += [
            f"### {family}\n",
            "| kind | twin | public reports | toy | damage | caught by |",
            "|---|---|---|---|---|---|",
            *map(row, defects),
            "",
        ]
    return "\n".join(lines)


def damage_table() -> pa.Table:
    """The table behind the figure: the largest damage of each twin in each unit, in the order of the catalogue."""
    worst: dict[tuple[str, str], tuple[str, Defect]] = {}
    for family, defects in FAMILIES.items():
        for defect in defects:
            key = (defect.name, defect.unit)
            if key not in worst or defect.damage > worst[key][1].damage:
                worst[key] = (family, defect)
    rows = [(family, d.kind, d.unit, d.toy, d.damage) for family, d in worst.values()]
    columns = [list(column) for column in zip(*rows, strict=True)]
    return pa.table(columns, schema=schema(LAYOUTS[FIGURE]))


def document() -> str:
    """The document with its tables brought up to date."""
    text = DOCUMENT.read_text(encoding="utf-8")
    return text[: text.index(FIRST_HEADING)] + render()


def main() -> None:
    """Write what is generated."""
    DOCUMENT.write_text(document(), encoding="utf-8")
    write_table(damage_table(), TABLE)
    for path in build(FIGURE, HOME / "tables", DOCUMENT.parent):
        if path.suffix == ".pdf":
            Path(path).unlink()
    print(f"{len(CATALOGUE)} entries")


if __name__ == "__main__":
    main()
