"""Cells of the walk: devices x apps x arithmetic x shapes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch

from edgec.device.load import list_devices
from edgec.emit.apps import APPS

#: The build without an app, and all apps.
KINDS = ("none", *APPS)
ARITHMETIC = ("fp32", "int8")
SHAPES = ("fixed", "open")


@dataclass(frozen=True)
class Cell:
    """One way to ask for a build, each part by its name."""

    device: str
    app: str
    arithmetic: str
    shapes: str

    @property
    def name(self) -> str:
        return f"{self.device} {self.app} {self.arithmetic} {self.shapes}"


def cells(patterns: Sequence[str] = ()) -> list[Cell]:
    """All cells; with patterns, those of which every pattern fits the name or a part of it."""
    every = (
        Cell(device.name, app, arithmetic, shapes)
        for device in list_devices()
        for app in KINDS
        for arithmetic in ARITHMETIC
        for shapes in SHAPES
    )
    return [c for c in every if all(any(fnmatch(t, p) for t in (c.name, *c.name.split())) for p in patterns)]


def drawn(offered: Sequence[Cell], count: int | None, seed: int) -> list[Cell]:
    """``count`` of the cells at random; None: all, in their order."""
    return list(offered) if count is None else random.Random(seed).sample(offered, len(offered))[:count]
