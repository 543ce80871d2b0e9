"""A budget of seconds for trials: how many of them still fit, by how long the ones before took."""

from __future__ import annotations

import time
from collections.abc import Callable

#: Trials that are made to learn how long one takes.
FIRST = 2
#: Batches that tell how long a trial takes; the slowest counts.
REMEMBERED = 3


class Budget:
    """Seconds that began to run when this was made. ``clock`` gives seconds from any point in time."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds, self._clock, self._begun = seconds, clock, clock()
        self._each: list[float] = []

    @property
    def spent(self) -> float:
        return self._clock() - self._begun

    def fitting(self, wanted: int) -> int:
        """As many of the wanted trials as the rest of the seconds is expected to hold."""
        rest = self.seconds - self.spent
        if rest <= 0:
            return 0
        if not self._each:
            return min(wanted, FIRST)
        return min(wanted, int(rest / max(max(self._each[-REMEMBERED:]), 1e-9)))

    def took(self, trials: int, seconds: float) -> None:
        """A batch of so many trials took so long, all that belongs to it included."""
        self._each.append(seconds / max(1, trials))
