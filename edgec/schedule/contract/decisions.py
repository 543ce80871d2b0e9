"""Decisions about a contraction beyond its register tile, as words of its variant: ``12x2 chunk8 panels``.

``chunk8``: row tiles of one task. ``panels`` or ``rows``: the loop that is outside. ``unroll4``: most iterations of the
innermost loop of a sum that compilers are asked to unroll. ``swapped``: lanes run along the other factor.
``gathered`` or ``scattered``: panels are packed at run time, or results are stored lane by lane.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_WORD = re.compile(r"(chunk|unroll)([1-9][0-9]{0,8})|panels|rows|swapped|gathered|scattered", re.ASCII)


@dataclass(frozen=True)
class Decisions:
    """The decisions that somebody took; None where the model of the device decides."""

    chunk: int | None = None
    panel_first: bool | None = None
    unroll: int | None = None
    swapped: bool = False
    gathered: bool | None = None


def read(words: Sequence[str]) -> Decisions | None:
    """The decisions that words name; None where one is unknown, or two are about the same."""
    found: dict[str, int | bool] = {}
    for word in words:
        match = _WORD.fullmatch(word)
        if match is None:
            return None
        if match[1]:
            key, value = match[1], int(match[2])
        else:
            pairs = {"panels": "panel_first", "rows": "panel_first", "scattered": "gathered"}
            key, value = pairs.get(word, word), word not in ("rows", "scattered")
        if key in found:
            return None
        found[key] = value
    return Decisions(**found)  # type: ignore[arg-type]
