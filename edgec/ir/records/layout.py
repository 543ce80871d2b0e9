"""Line breaks of printed records: what fits is one line, what does not is one item a line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

#: Lines are at most this long where they can be broken.
WIDTH = 112
#: Items up to this length share lines.
_SHORT = 16


@dataclass(frozen=True)
class Group:
    """Items between ``open`` and ``close``, separated by commas."""

    open: str
    items: tuple[Layout, ...]
    close: str


Layout = Union[str, Group]


def prefixed(prefix: str, layout: Layout) -> Layout:
    """The same layout behind a prefix."""
    if isinstance(layout, str):
        return prefix + layout
    return Group(prefix + layout.open, layout.items, layout.close)


def flat(layout: Layout) -> str:
    """All in one line."""
    if isinstance(layout, str):
        return layout
    return f"{layout.open}{', '.join(map(flat, layout.items))}{layout.close}"


def lines(layout: Layout, indent: str = "", end: str = "") -> list[str]:
    """The lines of a layout, the last of which ends with ``end``."""
    whole = flat(layout)
    if isinstance(layout, str) or not layout.items or len(indent) + len(whole) + len(end) <= WIDTH:
        return [f"{indent}{whole}{end}"]
    inner = f"{indent}  "
    body: list[str] = []
    for item in layout.items:
        short = isinstance(item, str) and len(item) <= _SHORT
        if short and body and body[-1].endswith(", ") and len(body[-1]) + len(flat(item)) < WIDTH:
            body[-1] += f"{flat(item)}, "
        elif short:
            body.append(f"{inner}{flat(item)}, ")
        else:
            body += lines(item, inner, ",")
    return [f"{indent}{layout.open}", *(line.rstrip() for line in body), f"{indent}{layout.close.lstrip(',')}{end}"]
