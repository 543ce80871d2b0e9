"""Predicted times of a divided network: its run, played through on workers and links that do one thing at a time.

Tensors go from the coordinator to a worker and back. A wire carries messages one after the other in each direction, and
so does the coordinator's own where workers elsewhere share it. The coordinator handles one message at a time, of both
directions, and adds what arrives to sums. A worker computes what has arrived first. Outputs that are final before a
part has ended go before it has, and on to their readers.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
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
class Output:
    """Bytes of an answer that go at once, after this share of the part's seconds; some of them are added to sums."""

    bytes: int
    share: float
    bytes_added: int = 0


@dataclass(frozen=True)
class Input:
    """Bytes of a request that go at once, when these outputs are there: each a part and the number of its output."""

    bytes: int
    after: frozenset[tuple[int, int]]


@dataclass(frozen=True)
class Job:
    """A part as the prediction sees it: where it runs, for how long, what it moves, and the parts it waits for.

    ``bytes_added`` of what it gives are added to sums. ``busy_s`` are its seconds while all workers compute, which
    share the memory of a machine; None where it takes no longer then. ``outputs`` and ``inputs`` are both messages in
    order, where they go piece by piece.
    """

    worker: int
    seconds: float
    bytes_in: int
    bytes_out: int
    after: tuple[int, ...]
    bytes_added: int = 0
    busy_s: float | None = None
    outputs: tuple[Output, ...] = ()
    inputs: tuple[Input, ...] = ()

    @property
    def given(self) -> tuple[Output, ...]:
        """The pieces of its answer."""
        return self.outputs or (Output(self.bytes_out, 1.0, self.bytes_added),)

    def taken(self, jobs: Sequence[Job]) -> tuple[Input, ...]:
        """The pieces of its request, of which the first one goes when all that others wait for is on its way."""
        if not self.inputs:
            return (Input(self.bytes_in, frozenset((k, p) for k in self.after for p in range(len(jobs[k].given)))),)
        first = self.inputs[0]
        begun = frozenset((k, 0) for k in self.after)
        return (replace(first, after=first.after | begun), *self.inputs[1:])

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
    hub = links.frame_s + sum(_passed(j, links) for j in jobs)
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
    pieces = [i.bytes for i in job.inputs] or [job.bytes_in]
    pieces += [o.bytes for o in job.given]
    return job.seconds + sum(links.handled(job.worker, n) for n in pieces)


def _passed(job: Job, links: Links) -> float:
    """Seconds of the coordinator for both messages of a part."""
    pieces = [i.bytes for i in job.inputs] or [job.bytes_in]
    return sum(map(links.passed, pieces)) + sum(links.passed(o.bytes, o.bytes_added) for o in job.given)


def _ends(jobs: Sequence[Job], links: Links, frames: int, in_flight: int) -> list[float]:
    """The times when frames are done, in order."""
    free: dict[tuple[str, int], float] = {}
    waiting: dict[tuple[int, int, int], int] = {}
    requests = [j.taken(jobs) for j in jobs]
    readers: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for r, request in enumerate(requests):
        for p, taken in enumerate(request):
            for source in taken.after:
                readers.setdefault(source, []).append((r, p))
    events: list[tuple[float, int, int, int, int, str]] = []
    number = count()
    left = [sum(len(j.given) for j in jobs)] * frames
    done = [0.0] * frames

    def push(at: float, frame: int, k: int, piece: int, step: str) -> None:
        heapq.heappush(events, (at, next(number), frame, k, piece, step))

    def occupy(at: float, seconds: float, *resources: tuple[str, int]) -> float:
        start = max([at, *(free.get(r, 0.0) for r in resources)])
        for r in resources:
            free[r] = start + seconds
        return start + seconds

    def begin(frame: int, at: float) -> None:
        at = occupy(at, links.frame_s, ("hub", 0))
        for k, request in enumerate(requests):
            for p, taken in enumerate(request):
                waiting[frame, k, p] = len(taken.after) + (p > 0)  # behind the piece before it
            if not request[0].after:
                push(at, frame, k, 0, "in")

    def count_down(at: float, frame: int, k: int, piece: int) -> None:
        waiting[frame, k, piece] -= 1
        if not waiting[frame, k, piece]:
            push(at, frame, k, piece, "in")

    def compute(at: float, frame: int, k: int) -> None:
        job = jobs[k]
        end = occupy(at, _occupied(job, links), ("worker", job.worker))
        rest = 0.0
        for piece, output in reversed(list(enumerate(job.given))):
            push(end - rest - (1 - output.share) * job.seconds, frame, k, piece, "from")
            rest += links.handled(job.worker, output.bytes)

    for frame in range(min(in_flight, frames)):
        begin(frame, 0.0)
    begun = min(in_flight, frames)
    while events:
        at, _, frame, k, piece, step = heapq.heappop(events)
        job = jobs[k]
        if step == "in":
            at = occupy(at, links.passed(requests[k][piece].bytes), ("hub", 0))
            push(at, frame, k, piece, "to")
            if piece + 1 < len(requests[k]):
                count_down(at, frame, k, piece + 1)
            continue
        if step == "compute":
            compute(at, frame, k)
            continue
        if step in ("to", "from"):
            moved = requests[k][piece].bytes if step == "to" else job.given[piece].bytes
            if links.shared is not None and links.wires[job.worker] is not None:
                at = occupy(at, links.shared.seconds(moved), (f"shared {step}", 0)) - links.shared.seconds(moved)
            arrived = occupy(at, links.wire(job.worker, moved), (step, job.worker)) + links.latency(job.worker)
            if step == "from":
                push(arrived, frame, k, piece, "out")
            elif piece + 1 == len(requests[k]):
                push(arrived, frame, k, 0, "compute")
            continue
        if step == "out":
            output = job.given[piece]
            push(occupy(at, links.passed(output.bytes, output.bytes_added), ("hub", 0)), frame, k, piece, "done")
            continue
        left[frame] -= 1
        for r, p in readers.get((k, piece), ()):
            count_down(at, frame, r, p)
        if not left[frame]:
            done[frame] = at
            if begun < frames:
                begin(begun, at)
                begun += 1
    return done
