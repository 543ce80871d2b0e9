"""Division of a kernel's tasks among threads: consecutive shares of as many tasks each, and how even these are.

Templates divide so (`c/tasks.jinja`): thread t of T has the tasks from n * t // T to n * (t + 1) // T. Where tasks are
few, or one is smaller than the others, a share may be much longer than another, and all wait for it. A schedule that
can cut its work in several ways takes that into its price. Results are the same in any case: a task computes whole
results, each in the order of the sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import ceil

import numpy as np

from edgec.device.device import Device

#: What a task costs beside its work, in units of its smallest part (a register tile, a row of blocks).
TASK = 0.05
#: Tasks from which on shares are even whatever the last of them are like.
MANY = 4096


def is_worth(cycles: float, device: Device, threads: int) -> bool:
    """Do ``threads`` save more by even shares of so many cycles than it costs them to meet?"""
    return threads > 1 and cycles > threads * device.costs.threads.barrier


def shares(tasks: int, threads: int) -> list[tuple[int, int]]:
    """Of each thread, its first task and that behind its last."""
    ends = [tasks * t // threads for t in range(threads + 1)]
    return list(pairwise(ends))


def uneven(tasks: Sequence[float] | np.ndarray, threads: int) -> float:
    """The longest share over the mean of all, of tasks with their work in order; 1 where there is no work."""
    total = float(np.sum(tasks))
    if threads == 1 or len(tasks) >= MANY or not total:
        return 1.0
    longest = max(float(np.sum(tasks[first:last])) for first, last in shares(len(tasks), threads))
    return longest * threads / total


def parts(extent: int, part: int) -> np.ndarray:
    """Sizes of consecutive parts of a loop, of which the last may be smaller."""
    found = np.full(ceil(extent / part), part)
    if extent % part:
        found[-1] = extent % part
    return found


def most_even(sizes: Iterable[tuple[int, Sequence[float] | np.ndarray]], threads: int) -> int:
    """The size of tasks, in units of their smallest part, whose shares take least; ``sizes`` are given with their
    tasks, the largest first."""
    best, least = 0, float("inf")
    for size, tasks in sizes:
        beside = 1 + TASK / size
        if beside >= least:
            break
        cost = uneven(tasks, threads) * beside
        if cost < least:
            best, least = size, cost
    return best
