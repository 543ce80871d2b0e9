"""Consecutive intervals for workers in order, with the least cost of the costliest: dynamic programming.

It is the pipeline DP of Alpa and Merak without their inner level: best[w][j] is the least largest cost of the first j
items on the first w workers, and the last of them takes an interval that ends at j.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

#: The cost of the items from the first number to before the second on a worker: ``cost(worker, begin, end)``.
Cost = Callable[[int, int, int], float]


def best_intervals(items: int, workers: int, cost: Cost) -> tuple[float, tuple[int, ...]]:
    """The least largest cost of ``items`` on exactly ``workers``, and the ends of the intervals in order.

    No interval is empty; with fewer items than workers the cost is infinite, and there are no ends.
    """
    if items < workers or workers < 1:
        return inf, ()
    best = [cost(0, 0, j) if j else inf for j in range(items + 1)]
    taken: list[list[int]] = []
    for w in range(1, workers):
        found, begins = [inf] * (items + 1), [0] * (items + 1)
        for j in range(w + 1, items + 1):
            for i in range(j - 1, w - 1, -1):
                own = cost(w, i, j)
                largest = max(best[i], own)
                if largest < found[j]:
                    found[j], begins[j] = largest, i
        best = found
        taken.append(begins)
    ends = [items]
    for begins in reversed(taken):
        ends.insert(0, begins[ends[0]])
    return best[items], tuple(ends)
