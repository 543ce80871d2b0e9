"""The table of pairs: what happens when an operator of one mapping class is computed inside one of another.

The classes and the 5x5 table are those of DNNFusion (Niu et al., PLDI 2021, table 3): green pairs are fused wherever it
can be done, yellow ones where their price says so, red ones never by composing formulas. One red pair has a kernel of
its own, attention; it is asked for by price.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from edgec.fuse.classify import Mapping


class Color(Enum):
    """The planner's treatment of a pair."""

    GREEN = "fuse"
    YELLOW = "ask the price"
    RED = "never"


@dataclass(frozen=True)
class Cell:
    """Color of a pair, and the class of the two together (None if they are never fused)."""

    first: Mapping
    second: Mapping
    color: Color
    result: Mapping | None

    def __str__(self) -> str:
        return f"{self.first.label} into {self.second.label}: {self.color.name.lower()}"


_ORDER = (Mapping.ONE_TO_ONE, Mapping.ONE_TO_MANY, Mapping.MANY_TO_MANY, Mapping.REORGANIZE, Mapping.SHUFFLE)
_NAMES = {"1": Mapping.ONE_TO_ONE, "m": Mapping.ONE_TO_MANY, "M": Mapping.MANY_TO_MANY,
          "r": Mapping.REORGANIZE, "s": Mapping.SHUFFLE, "-": None}  # fmt: skip
_COLORS = {"g": Color.GREEN, "y": Color.YELLOW, "x": Color.RED}
#: Rows are the class of what is computed first, columns that of its reader, both in the order of ``_ORDER``.
#: An entry is the class of both together and the color.
_CELLS = """
1g mg Mg rg sg
mg my -x my my
Mg My -x My My
rg my My rg rg
sg my My rg sg
"""
#: The whole table, by the classes of the two.
TABLE: dict[tuple[Mapping, Mapping], Cell] = {
    (first, second): Cell(first, second, _COLORS[entry[1]], _NAMES[entry[0]])
    for first, row in zip(_ORDER, _CELLS.split("\n")[1:])
    for second, entry in zip(_ORDER, row.split())
}


def markdown() -> str:
    """The table as it stands in the documentation."""
    lines = [
        "| first, then | " + " | ".join(m.label for m in _ORDER) + " |",
        "|---" * (len(_ORDER) + 1) + "|",
    ]
    for first in _ORDER:
        cells = (TABLE[first, second] for second in _ORDER)
        words = (f"{c.result.label}, {c.color.name.lower()}" if c.result else c.color.name.lower() for c in cells)
        lines.append(f"| **{first.label}** | " + " | ".join(words) + " |")
    return "\n".join(lines)
