"""Parts that were built, timed on this machine: each while the other workers rest, and all of them at once.

Workers of one machine share its memory, caches and clock, so that a part takes longer while the others compute. Other
programs, and other guests of the same host, take cores and memory from all of them for a second or so: the times are
those of a quick turn among several.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

import numpy as np

from edgec.artifact.affinity import kept_cores
from edgec.artifact.folder import read_lock
from edgec.artifact.network import Network
from edgec.bench.built import drawn
from edgec.bench.timing import thread_seconds, wall_seconds
from edgec.distribute.served import states_of
from edgec.distribute.timeline import Seconds

#: Turns in which workers are timed alone and at once, and seconds of each; runs of all parts before the first turn,
#: and the fewest in a turn.
TURNS, TIMED, WARM_UP, LEAST = 5, 0.15, 3, 2


def time_workers(
    workers: Sequence[Sequence[Path]], threads: int, cores: int, on_gpu: Sequence[bool] = ()
) -> list[list[Seconds]]:
    """Seconds of the built parts of every worker on random inputs, each worker on ``threads`` threads.

    As many workers are at work at once as have ``cores`` of their own; each runs its parts in turn, as a frame does,
    on states of its own. Parts of one thread are timed by its clock: what other programs do meanwhile is no work of
    the part. Workers ``on_gpu`` wait for it, which that clock does not count.
    """
    waits = on_gpu or [False] * len(workers)
    clocks = [wall_seconds if threads > 1 or is_waiting else thread_seconds for is_waiting in waits]
    kept = any(kept_cores(read_lock(folder)) for folders in workers for folder in folders)
    places = [] if kept or threads > 1 or not hasattr(os, "sched_getaffinity") else sorted(os.sched_getaffinity(0))
    at_once = max(1, min(len(workers), cores // threads))
    with ExitStack() as stack:
        calls = [[_bound(folder, stack.enter_context(Network(folder, threads))) for folder in w] for w in workers]
        turns = [_turn(calls, clocks, places, at_once, WARM_UP if not k else 1) for k in range(TURNS)]
    alone, busy = ([[_quick(t) for t in zip(*own)] for own in zip(*found)] for found in zip(*turns))
    return [[Seconds(a, max(a, b)) for a, b in zip(*both)] for both in zip(alone, busy)]


def _turn(
    calls: Sequence[Sequence[Callable[[], None]]], clocks: Sequence[Callable[[Callable[[], object]], float]],
    places: Sequence[int], at_once: int, warm_up: int,
) -> tuple[list[list[float]], list[list[float]]]:  # fmt: skip
    """Median seconds of the calls of every worker, one worker after the other, and then so many ``at_once``."""
    alone = [_together([own], [clock], places, warm_up)[0] for own, clock in zip(calls, clocks)]
    busy = list(alone)
    for begin in range(0, len(calls), at_once) if at_once > 1 else ():
        group = [k % len(calls) for k in range(begin, begin + at_once)]
        together = _together([calls[k] for k in group], [clocks[k] for k in group], places, warm_up)
        for k, found in zip(group, together):
            busy[k] = found
    return alone, busy


def _quick(times: Sequence[float]) -> float:
    """The time of the second quickest of a few turns: nothing else was at work, and it is not the luckiest one."""
    return sorted(times)[len(times) // 4]


def _bound(folder: Path, network: Network) -> Callable[[], None]:
    """One run of a built folder on arrays of its own; states are where their next values go, as in a worker."""
    random = np.random.default_rng(0)
    arrays = {p.onnx_name: drawn(p, random, network) for p in network.inputs}
    into = {new: arrays[old] for old, new in states_of(read_lock(folder)).items()}
    return network.bind(arrays, into)[0]


def _together(
    workers: Sequence[Sequence[Callable[[], None]]], clocks: Sequence[Callable[[Callable[[], object]], float]],
    places: Sequence[int], warm_up: int,
) -> list[list[float]]:  # fmt: skip
    """Median seconds of the calls of every worker, which go on until all of them have been timed for long enough."""
    done = [False] * len(workers)

    def work(k: int) -> list[float]:
        times: list[list[float]] = [[] for _ in workers[k]]
        try:
            with _on_core(places[k % len(places)] if places else None):
                for _ in range(warm_up):
                    for call in workers[k]:
                        call()
                end = time.perf_counter() + TIMED
                while not all(done):
                    for call, taken in zip(workers[k], times):
                        taken.append(clocks[k](call))
                    done[k] = done[k] or (len(times[0]) >= LEAST and time.perf_counter() > end)
        finally:
            done[k] = True
        return [median(t) for t in times]

    with ThreadPoolExecutor(len(workers)) as pool:
        return list(pool.map(work, range(len(workers))))


@contextmanager
def _on_core(core: int | None) -> Iterator[None]:
    """Keep this thread on a core; None leaves it as it is."""
    if core is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
