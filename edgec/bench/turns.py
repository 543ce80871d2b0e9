"""Functions timed in turns, on cores of their own, so that all of them see the same machine."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from edgec.bench.timing import wall_seconds
from edgec.errors import UsageError
from edgec.progress import Progress

#: Calls before the clock starts: caches, page tables and clock frequency settle.
WARM_UP = 5
#: Calls of one turn at least, and in all at most.
_LEAST, _MOST = 3, 20_000
#: Seconds between turns, in which the threads of the other one stop spinning.
_PAUSE = 0.02


def refuse_none(seconds: float, rounds: int) -> None:
    """Raises UsageError where nothing would be timed, or more rounds than calls."""
    if rounds < 1 or not seconds > 0:
        raise UsageError("nothing to time", hint="give 1 round or more, and some seconds")
    if rounds > _MOST:
        raise UsageError(f"{rounds} rounds are too many", hint=f"give up to {_MOST}")


def take_turns(
    calls: list[Callable[[], None]], seconds: float, rounds: int, progress: Progress,
    clock: Callable[[Callable[[], object]], float] = wall_seconds,
) -> list[list[float]]:  # fmt: skip
    """Seconds of every single call by a clock, each function getting its share of every round."""
    times: list[list[float]] = [[] for _ in calls]
    for call in calls:
        for _ in range(WARM_UP):
            call()
    share = seconds / rounds / len(calls)
    for k in range(rounds):
        progress("bench", f"round {k + 1} of {rounds}", k / rounds)
        for call, taken in zip(calls, times):
            time.sleep(_PAUSE)
            call()  # the other one had the caches
            end = time.perf_counter() + share
            count = 0
            while count < _LEAST or (time.perf_counter() < end and count < _MOST // rounds):
                taken.append(clock(call))
                count += 1
    return times


@contextmanager
def pinned(threads: int, cores: Collection[int] = ()) -> Iterator[bool]:
    """Keep this process, and the threads it starts meanwhile, on as many cores as there are threads, or on ``cores``.

    Cores that the process may not all use count for nothing.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield False
        return
    before = os.sched_getaffinity(0)
    is_placed = bool(cores) and before.issuperset(cores)
    if threads >= len(before) and not is_placed:
        yield False
        return
    os.sched_setaffinity(0, cores if is_placed else set(sorted(before)[:threads]))
    try:
        yield True
    finally:
        os.sched_setaffinity(0, before)
