"""Timings of repeated runs, and what a benchmark found."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    pass


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
