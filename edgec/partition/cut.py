"""Minimum cuts: the cheapest way to divide what is connected into two sides.

By the theorem of Ford and Fulkerson the cut costs what flows at most; the flow is Dinic's: levels by breadth first
search, then paths along them until none is left. E. A. Dinic, Soviet Math. Doklady 11, 1970.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable

#: A price that no cut pays.
NEVER = float("inf")
#: Of the largest price: flows this small are rounding.
_ROUNDING = 1e-12


class Cut:
    """Vertices between ``source`` and ``sink``; an edge is paid where only its tail is on the side of the source."""

    source: Hashable = ("source",)
    sink: Hashable = ("sink",)

    def __init__(self) -> None:
        self._edges: dict[Hashable, list[int]] = {self.source: [], self.sink: []}
        self._head: list[Hashable] = []
        self._left: list[float] = []  # capacity; edge k ^ 1 is edge k backwards

    def edge(self, tail: Hashable, head: Hashable, price: float) -> None:
        """Cost of ``tail`` on the side of the source with ``head`` on the other."""
        for vertex, other, capacity in ((tail, head, price), (head, tail, 0.0)):
            self._edges.setdefault(vertex, []).append(len(self._head))
            self._head.append(other)
            self._left.append(capacity)

    def far_side(self) -> set[Hashable]:
        """The vertices on the side of the sink in a cheapest cut; of several, that of the fewest."""
        finite = max((c for c in self._left if c < NEVER), default=0.0)
        self._least = finite * _ROUNDING
        while self._levels():
            while self._push():
                pass
        found = {self.sink}
        queue = deque(found)
        while queue:  # what could still send something to the sink
            for k in self._edges[queue.popleft()]:
                tail = self._head[k]
                if tail not in found and self._left[k ^ 1] > self._least:
                    found.add(tail)
                    queue.append(tail)
        return found - {self.sink}

    def _levels(self) -> bool:
        self._level = {self.source: 0}
        self._next = dict.fromkeys(self._edges, 0)
        queue = deque([self.source])
        while queue:
            vertex = queue.popleft()
            for k in self._edges[vertex]:
                if self._left[k] > self._least and self._head[k] not in self._level:
                    self._level[self._head[k]] = self._level[vertex] + 1
                    queue.append(self._head[k])
        return self.sink in self._level

    def _push(self) -> bool:
        """Send what one path still takes; whether there was one."""
        path: list[int] = []
        vertex = self.source
        while vertex != self.sink:
            edges = self._edges[vertex]
            while self._next[vertex] < len(edges):
                k = edges[self._next[vertex]]
                if self._left[k] > self._least and self._level.get(self._head[k]) == self._level[vertex] + 1:
                    break
                self._next[vertex] += 1
            else:
                if not path:
                    return False
                vertex = self._head[path.pop() ^ 1]
                self._next[vertex] += 1
                continue
            path.append(k)
            vertex = self._head[k]
        amount = min(self._left[k] for k in path)
        for k in path:
            self._left[k] -= amount
            self._left[k ^ 1] += amount
        return True
