"""Timings of repeated runs, and what a benchmark found."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import numpy as np

from edgec.text import counted


def thread_seconds(call: Callable[[], object]) -> float:
    """Seconds of a call that runs on this thread alone: the lesser of wall time and the thread's CPU time.

    Wall time contains what the machine did for others meanwhile; the thread's clock takes a part of a microsecond.
    """
    began = time.thread_time_ns()
    begun = time.perf_counter_ns()
    call()
    wall = time.perf_counter_ns() - begun
    return min(wall, time.thread_time_ns() - began) * 1e-9


def wall_seconds(call: Callable[[], object]) -> float:
    """Seconds of a call that other threads share in."""
    begun = time.perf_counter_ns()
    call()
    return (time.perf_counter_ns() - begun) * 1e-9


@dataclass(frozen=True)
class Timing:
    """Latency of single calls in milliseconds."""

    median_ms: float
    p10_ms: float
    p90_ms: float
    calls: int

    @staticmethod
    def of(seconds: list[float]) -> Timing:
        low, high = np.percentile(seconds, [10, 90])
        return Timing(median(seconds) * 1e3, float(low) * 1e3, float(high) * 1e3, len(seconds))


@dataclass(frozen=True)
class Benched:
    """A network's timing; with a peer, its timing and ``ratio``: our time over the peer's, so below 1 is faster.

    ``max_rel`` is the largest difference between the outputs of the two. Where it was timed over a ``link``,
    ``kernels`` are what every kernel computes and its milliseconds in one run, in the order of the program.
    """

    timing: Timing
    threads: int
    pinned: bool
    rounds: int
    peer: str | None = None
    peer_timing: Timing | None = None
    ratio: float | None = None
    max_rel: float | None = None
    link: str | None = None
    kernels: tuple[tuple[str, float], ...] = ()
    peer_missing: str = ""  # why a report has no peer

    def __str__(self) -> str:
        """A line for each one that was timed, and how the two compare."""
        timed = [("edgec", self.timing), *([(self.peer, self.peer_timing)] if self.peer and self.peer_timing else [])]
        width = max(len(name) for name, _ in timed)
        lines = [
            f"{name:{width}}  {t.median_ms:.4g} ms ({t.p10_ms:.4g} to {t.p90_ms:.4g}), {counted(t.calls, 'call')}"
            for name, t in timed
        ]
        if self.ratio:
            word = f"{1 / self.ratio:.2f}x faster" if self.ratio < 1 else f"{self.ratio:.2f}x slower"
            lines.append(f"{word} than {self.peer}")
        return "\n".join([*lines, f"threads: {self.threads}"])

    __repr__ = __str__
