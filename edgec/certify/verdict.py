"""The answer to whether a network has a property, and the time to find it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal

from edgec.certify.ranges import Array
from edgec.progress import Progress

Status = Literal["holds", "violated", "unknown"]


@dataclass(frozen=True)
class Verdict:
    """The answer for one case.

    ``margin`` is by how much the clause that came nearest is missed at least, ``inputs`` those at which the code meets
    one. ``parts`` is the number of boxes, or of combinations of choices, that were bounded.
    """

    status: Status
    margin: float
    seconds: float
    parts: int
    inputs: dict[str, Array] | None = None
    reason: str = ""


@dataclass(frozen=True)
class Ending:
    """The time that a search began, its end, and who is told of it."""

    begun: float
    end: float
    progress: Progress

    @property
    def is_over(self) -> bool:
        return time.perf_counter() > self.end

    def answer(
        self, status: Status, margin: float, parts: int, inputs: dict[str, Array] | None = None, reason: str = ""
    ) -> Verdict:
        return Verdict(status, margin, time.perf_counter() - self.begun, parts, inputs, reason)
