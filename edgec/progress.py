"""Progress of long work, as stages report it."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Told what is going on: the stage, what it works on now, and how much of it is done (0 to 1) where known."""

    def __call__(self, stage: str, detail: str = "", part: float | None = None) -> None: ...


def silent(stage: str, detail: str = "", part: float | None = None) -> None:
    """Progress that nobody watches."""
