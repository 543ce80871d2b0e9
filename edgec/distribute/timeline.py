"""Predicted times of a divided network: its run, played through on workers and links that do one thing at a time.

Tensors go from the coordinator to a worker and back. A wire carries messages one after the other in each direction, and
so does the coordinator's own where workers elsewhere share it. The coordinator handles one message at a time, of both
directions, and adds what arrives to sums. A worker computes what has arrived first. Outputs that are final before a
part has ended go before it has, and on to their readers.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import NamedTuple

from edgec.distribute.links import Links

#: Frames that are played through for the time between two of them, at least.
FRAMES = 24
#: The coordinator, as what handles one message at a time.
_HUB = ("hub", 0)


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
    return _Stream(jobs, links, frames).ends(in_flight)


class _Piece(NamedTuple):
    """A piece of a message of a part, by number, in a frame."""

    frame: int
    part: int
    number: int


class _Stream:
    """Frames on their way through workers, wires and the coordinator, event by event.

    A piece of a request passes the coordinator and a wire; the last one begins the part. A piece of an answer passes
    the wire and the coordinator, and counts for the requests that wait for it.
    """

    def __init__(self, jobs: Sequence[Job], links: Links, frames: int) -> None:
        self._jobs, self._links, self._frames = jobs, links, frames
        self._requests = [j.taken(jobs) for j in jobs]
        self._readers: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for r, request in enumerate(self._requests):
            for p, taken in enumerate(request):
                for source in taken.after:
                    self._readers.setdefault(source, []).append((r, p))
        self._free: dict[tuple[str, int], float] = {}
        self._waiting: dict[_Piece, int] = {}
        self._events: list[tuple[float, int, Callable[[float, _Piece], None], _Piece]] = []
        self._number = count()  # events of one time keep their order
        self._begun = 0
        self._left = [sum(len(j.given) for j in jobs)] * frames
        self._done = [0.0] * frames

    def ends(self, in_flight: int) -> list[float]:
        for _ in range(min(in_flight, self._frames)):
            self._begin(0.0)
        while self._events:
            at, _, step, piece = heapq.heappop(self._events)
            step(at, piece)
        return self._done

    def _then(self, at: float, step: Callable[[float, _Piece], None], piece: _Piece) -> None:
        heapq.heappush(self._events, (at, next(self._number), step, piece))

    def _occupy(self, at: float, seconds: float, *resources: tuple[str, int]) -> float:
        """The time when resources, from when all of them are free, have been busy for so long."""
        start = max([at, *(self._free.get(r, 0.0) for r in resources)])
        for r in resources:
            self._free[r] = start + seconds
        return start + seconds

    def _begin(self, at: float) -> None:
        frame, self._begun = self._begun, self._begun + 1
        at = self._occupy(at, self._links.frame_s, _HUB)
        for k, request in enumerate(self._requests):
            for p, taken in enumerate(request):
                self._waiting[_Piece(frame, k, p)] = len(taken.after) + (p > 0)  # behind the piece before it
            if not request[0].after:
                self._then(at, self._ask, _Piece(frame, k, 0))

    def _count_down(self, at: float, piece: _Piece) -> None:
        self._waiting[piece] -= 1
        if not self._waiting[piece]:
            self._then(at, self._ask, piece)

    def _ask(self, at: float, piece: _Piece) -> None:
        request = self._requests[piece.part]
        at = self._occupy(at, self._links.passed(request[piece.number].bytes), _HUB)
        self._then(at, self._send, piece)
        if piece.number + 1 < len(request):
            self._count_down(at, piece._replace(number=piece.number + 1))

    def _send(self, at: float, piece: _Piece) -> None:
        request = self._requests[piece.part]
        arrived = self._moved(at, "to", piece, request[piece.number].bytes)
        if piece.number + 1 == len(request):
            self._then(arrived, self._compute, piece)

    def _compute(self, at: float, piece: _Piece) -> None:
        job = self._jobs[piece.part]
        end = self._occupy(at, _occupied(job, self._links), ("worker", job.worker))
        rest = 0.0
        for number, output in reversed(list(enumerate(job.given))):
            given = piece._replace(number=number)
            self._then(end - rest - (1 - output.share) * job.seconds, self._answer, given)
            rest += self._links.handled(job.worker, output.bytes)

    def _answer(self, at: float, piece: _Piece) -> None:
        output = self._jobs[piece.part].given[piece.number]
        self._then(self._moved(at, "from", piece, output.bytes), self._take, piece)

    def _take(self, at: float, piece: _Piece) -> None:
        output = self._jobs[piece.part].given[piece.number]
        self._then(self._occupy(at, self._links.passed(output.bytes, output.bytes_added), _HUB), self._end, piece)

    def _end(self, at: float, piece: _Piece) -> None:
        frame = piece.frame
        self._left[frame] -= 1
        for r, p in self._readers.get((piece.part, piece.number), ()):
            self._count_down(at, _Piece(frame, r, p))
        if not self._left[frame]:
            self._done[frame] = at
            if self._begun < self._frames:
                self._begin(at)

    def _moved(self, at: float, direction: str, piece: _Piece, size: int) -> float:
        """The time when so many bytes are at the other end of the wire of a part's worker."""
        links, worker = self._links, self._jobs[piece.part].worker
        if links.shared is not None and links.wires[worker] is not None:
            seconds = links.shared.seconds(size)
            at = self._occupy(at, seconds, (f"shared {direction}", 0)) - seconds
        return self._occupy(at, links.wire(worker, size), (direction, worker)) + links.latency(worker)
