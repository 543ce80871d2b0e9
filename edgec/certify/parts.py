"""Parts of a box that wait to be bounded, with what is known of each."""

from __future__ import annotations

import numpy as np

from edgec.certify.ranges import Array


class Parts:
    """Parts with the facts that are given by name, [parts, ...].

    Facts stay where they are while parts come and go: what is moved are their numbers.
    """

    def __init__(self, **facts: Array) -> None:
        self.facts = {name: x.copy() for name, x in facts.items()}
        self.waiting = np.arange(len(next(iter(facts.values()))))
        self.free = np.zeros(0, np.int64)

    @property
    def count(self) -> int:
        return len(self.waiting)

    def add(self, **facts: Array) -> None:
        """More parts."""
        count = len(next(iter(facts.values())))
        while len(self.free) < count:
            size = len(next(iter(self.facts.values())))
            self.facts = {
                n: np.concatenate([x, np.zeros((max(size, count), *x.shape[1:]), x.dtype)])
                for n, x in self.facts.items()
            }
            self.free = np.concatenate([self.free, np.arange(size, size + max(size, count))])
        at, self.free = self.free[:count], self.free[count:]
        for name, x in facts.items():
            self.facts[name][at] = x
        self.waiting = np.concatenate([self.waiting, at])

    def last(self, count: int) -> dict[str, Array]:
        """At most so many parts, those that were added last, which wait no longer."""
        return self._taken(np.arange(max(0, self.count - count), self.count))

    def worst(self, count: int, name: str) -> dict[str, Array]:
        """At most so many parts, those where the fact of this name is least."""
        values = self.facts[name][self.waiting]
        return self._taken(np.argpartition(values, count - 1)[:count] if count < self.count else np.arange(self.count))

    def _taken(self, places: Array) -> dict[str, Array]:
        at = self.waiting[places]
        self.waiting = np.delete(self.waiting, places)
        self.free = np.concatenate([self.free, at])
        return {name: x[at] for name, x in self.facts.items()}
