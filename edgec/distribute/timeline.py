"""Predicted times of a divided network: its run, played through on workers and links that do one thing at a time.

Tensors go from the coordinator to a worker and back. A wire carries messages one after the other in each direction, and
so does the coordinator's own where workers elsewhere share it. The coordinator handles one message at a time, of both
directions, and adds what arrives to sums. A worker computes what has arrived first.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from edgec.distribute.links import Links

#: Frames that are played through for the time between two of them, at least.
FRAMES = 24


@dataclass(frozen=True)
class Seconds:
    """Measured seconds of a part: while the other workers rest, and while all of them are at work."""

    alone: float
    busy: float


@dataclass(frozen=True)
class Job:
    """A part as the prediction sees it: where it runs, for how long, what it moves, and the parts it waits for.

    ``bytes_added`` of what it gives are added to sums. ``busy_s`` are its seconds while all workers compute, which
    share the memory of a machine; None where it takes no longer then.
    """

    worker: int
    seconds: float
    bytes_in: int
    bytes_out: int
    after: tuple[int, ...]
    bytes_added: int = 0
    busy_s: float | None = None

    @property
    def busy(self) -> Job:
        """The part while all workers compute."""
        return self if self.busy_s is None else replace(self, seconds=self.busy_s, busy_s=None)


@dataclass(frozen=True)
class Predicted:
    """Predicted seconds of a frame alone, and between frames where several are in flight."""

    latency_s: float
    period_s: float
    bytes_a_frame: int


def predict(jobs: Sequence[Job], links: Links, in_flight: int) -> Predicted:
    """Times of ``jobs`` over links, with so many frames at once.

    All workers are at work in a stream; in a frame alone, those of them whose parts do not wait for one another.
    """
    (latency,) = _ends([j.busy if shares else j for j, shares in zip(jobs, _shared(jobs))], links, 1, 1)
    jobs = [j.busy for j in jobs]
    ends = sorted(_ends(jobs, links, max(FRAMES, 6 * in_flight), in_flight))
    half = len(ends) // 2  # the first frames fill the pipeline
    period = (ends[-1] - ends[half - 1]) / (len(ends) - half)
    work = {w: sum(_occupied(j, links) for j in jobs if j.worker == w) for w in {j.worker for j in jobs}}
    hub = links.frame_s + sum(links.passed(j.bytes_in) + links.passed(j.bytes_out, j.bytes_added) for j in jobs)
    # frames that take turns on all workers may end close together
    period = max(period, hub, *work.values(), (hub + sum(work.values())) / links.cores)
    return Predicted(latency, period, sum(j.bytes_in + j.bytes_out for j in jobs))


def _shared(jobs: Sequence[Job]) -> list[bool]:
    """Does another worker have a part that may run at the same time as this one, for every part in order?"""
    before, own = [0] * len(jobs), dict.fromkeys((j.worker for j in jobs), 0)
    for k, job in enumerate(jobs):
        own[job.worker] |= 1 << k
        for other in job.after:
            before[k] |= before[other] | 1 << other
    behind = [0] * len(jobs)
    for k in reversed(range(len(jobs))):
        for other in jobs[k].after:
            behind[other] |= behind[k] | 1 << k
    everything = (1 << len(jobs)) - 1
    return [bool(everything & ~(own[j.worker] | b | a)) for j, b, a in zip(jobs, before, behind)]


def _occupied(job: Job, links: Links) -> float:
    """Seconds of a worker: those of the kernels, and those of both messages."""
    return job.seconds + links.handled(job.worker, job.bytes_in) + links.handled(job.worker, job.bytes_out)


def _ends(jobs: Sequence[Job], links: Links, frames: int, in_flight: int) -> list[float]:
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

    def occupy(at: float, seconds: float, *resources: tuple[str, int]) -> float:
        start = max([at, *(free.get(r, 0.0) for r in resources)])
        for r in resources:
            free[r] = start + seconds
        return start + seconds

    def begin(frame: int, at: float) -> None:
        at = occupy(at, links.frame_s, ("hub", 0))
        for k, job in enumerate(jobs):
            waiting[frame, k] = len(job.after)
            if not job.after:
                push(at, frame, k, "in")

    for frame in range(min(in_flight, frames)):
        begin(frame, 0.0)
    begun = min(in_flight, frames)
    while events:
        at, _, frame, k, step = heapq.heappop(events)
        job = jobs[k]
        if step == "in":
            push(occupy(at, links.passed(job.bytes_in), ("hub", 0)), frame, k, "to")
            continue
        if step == "compute":
            push(occupy(at, _occupied(job, links), ("worker", job.worker)), frame, k, "from")
            continue
        if step in ("to", "from"):
            moved = job.bytes_in if step == "to" else job.bytes_out
            if links.shared is not None and links.wires[job.worker] is not None:
                at = occupy(at, links.shared.seconds(moved), (f"shared {step}", 0)) - links.shared.seconds(moved)
            arrived = occupy(at, links.wire(job.worker, moved), (step, job.worker)) + links.latency(job.worker)
            push(arrived, frame, k, "compute" if step == "to" else "out")
            continue
        if step == "out":
            push(occupy(at, links.passed(job.bytes_out, job.bytes_added), ("hub", 0)), frame, k, "done")
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
