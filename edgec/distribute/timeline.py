"""Predicted times of a divided network: its run, played through on workers and links that do one thing at a time.

Tensors go from the coordinator to a worker and back. A link carries messages one after the other in each direction, and
so does the coordinator's own where the workers share it (``hub``). A worker computes what has arrived first.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from edgec.distribute.places import HANDLED, Speed

#: Frames that are played through for the time between two of them, at least.
FRAMES = 24


@dataclass(frozen=True)
class Job:
    """A part as the prediction sees it: where it runs, for how long, what it moves, and the parts it waits for."""

    worker: int
    seconds: float
    bytes_in: int
    bytes_out: int
    after: tuple[int, ...]


@dataclass(frozen=True)
class Predicted:
    """Predicted seconds of a frame alone, and between frames where several are in flight."""

    latency_s: float
    period_s: float
    bytes_a_frame: int


def predict(jobs: Sequence[Job], speeds: Sequence[Speed], in_flight: int, hub: Speed | None = None) -> Predicted:
    """Times of ``jobs`` over links of ``speeds`` (one a worker) with so many frames at once."""
    (latency,) = _ends(jobs, speeds, 1, 1, hub)
    ends = sorted(_ends(jobs, speeds, max(FRAMES, 6 * in_flight), in_flight, hub))
    half = len(ends) // 2  # the first frames fill the pipeline
    period = (ends[-1] - ends[half - 1]) / (len(ends) - half)
    busiest = max(sum(j.seconds for j in jobs if j.worker == w) for w in {j.worker for j in jobs})
    period = max(period, busiest)  # frames that take turns on all workers may end close together
    return Predicted(latency, period, sum(j.bytes_in + j.bytes_out for j in jobs))


def _ends(jobs: Sequence[Job], speeds: Sequence[Speed], frames: int, in_flight: int, hub: Speed | None) -> list[float]:
    """The times when frames are done, in order."""
    free: dict[tuple[str, int], float] = {}
    waiting: dict[tuple[int, int], int] = {}
    readers: Mapping[int, list[int]] = {k: [r for r, j in enumerate(jobs) if k in j.after] for k in range(len(jobs))}
    events: list[tuple[float, int, int, int, str]] = []
    number = count()
    left = [len(jobs)] * frames
    done = [0.0] * frames

    def push(at: float, frame: int, k: int, step: str) -> None:
        heapq.heappush(events, (at, next(number), frame, k, step))

    def begin(frame: int, at: float) -> None:
        for k, job in enumerate(jobs):
            waiting[frame, k] = len(job.after)
            if not job.after:
                push(at, frame, k, "in")

    def occupy(at: float, seconds: float, *resources: tuple[str, int]) -> float:
        start = max([at, *(free.get(r, 0.0) for r in resources)])
        for r in resources:
            free[r] = start + seconds
        return start + seconds

    for frame in range(min(in_flight, frames)):
        begin(frame, 0.0)
    begun = min(in_flight, frames)
    while events:
        at, _, frame, k, step = heapq.heappop(events)
        job = jobs[k]
        speed = speeds[job.worker]
        if step == "compute":
            own = job.seconds + (job.bytes_in + job.bytes_out) / HANDLED
            push(occupy(at, own, ("worker", job.worker)), frame, k, "out")
            continue
        if step in ("in", "out"):
            moved = job.bytes_in if step == "in" else job.bytes_out
            if hub is not None:
                at = occupy(at, hub.seconds(moved), (f"hub {step}", 0)) - hub.seconds(moved)
            arrived = occupy(at, speed.seconds(moved), (step, job.worker)) + speed.latency_s
            push(arrived, frame, k, "compute" if step == "in" else "done")
            continue
        left[frame] -= 1
        for r in readers[k]:
            waiting[frame, r] -= 1
            if not waiting[frame, r]:
                push(at, frame, r, "in")
        if not left[frame]:
            done[frame] = at
            if begun < frames:
                begin(begun, at)
                begun += 1
    return done
