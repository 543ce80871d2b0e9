"""Divided networks of whole numbers in a drawn shape, whose workers are threads that give outputs one by one."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

import numpy as np

from edgec.artifact.network import Port
from edgec.distribute.connection import Connection
from edgec.distribute.exchange import Exchange
from edgec.distribute.frames import Frames
from edgec.distribute.manifest import Manifest, PartEntry, Tensor
from edgec.distribute.parts import Read
from edgec.distribute.protocol import checksum
from edgec.distribute.served import TURNS, Told
from edgec.distribute.sides import Side
from edgec.distribute.worker import session
from edgec.errors import LinkError

#: Seconds until a run counts as stuck.
LATE = 20.0


def values(reads: Sequence[np.ndarray], part: int, output: int, count: int) -> np.ndarray:
    """An output of a part: every element depends on all that is read."""
    total = sum(int((np.arange(1, a.size + 1) * a.reshape(-1).astype(np.int64)).sum()) for a in reads)
    return ((total + 31 * part + 7 * output + np.arange(count)) % 1_000_003).astype(np.int32)


class Computed:
    """A part of numbers. ``before`` is called with the number of each output before it is computed."""

    def __init__(self, side: Side, tensors: dict[str, Tensor], draw: random.Random, tells: float) -> None:
        self.number, self.types, self.types_out = side.number, side.types, side.out
        self.length, self.length_out = side.length_in, side.length
        shapes = [r.shape(tensors[r.tensor].shape) for r in side.reads]
        self._rooms = [[np.zeros(shape, np.int32) for shape in shapes] for _ in range(TURNS)]
        self.rooms: Sequence[Sequence[memoryview]] = [
            [memoryview(a.reshape(-1).view(np.uint8)) for a in own] for own in self._rooms
        ]
        self._outputs = [np.zeros(n // 4, np.int32) for n in side.outputs]
        self._sent = [memoryview(a.view(np.uint8)) for a in self._outputs]
        self._draw, self._tells = draw, tells
        self.before: Callable[[int], None] = lambda output: None

    def run(self, turn: int, told: Told | None = None) -> Sequence[memoryview]:
        for a in self._outputs:
            a[...] = -1  # nothing of the run before may be sent
        for k, a in enumerate(self._outputs):
            self.before(k)
            a[...] = values(self._rooms[turn], self.number, k, a.size)
            if self._draw.random() < 0.3:
                time.sleep(self._draw.random() * 2e-3)
            if told is not None and self._draw.random() < self._tells and k + 1 < len(self._outputs):
                told(self._sent[: k + 1])
        return self._sent

    def reset(self) -> None:
        return None


def drawn(seed: int, workers: int) -> tuple[Manifest, list[Side]]:
    """A manifest of parts in a drawn order on so many workers: outputs of all sizes, slices, and sums."""
    draw = random.Random(seed)
    tensors = {"x": Tensor("x", "i32", (draw.randint(1, 50),))}
    terms: dict[str, list[str]] = {}
    parts: list[PartEntry] = []
    for k in range(draw.randint(2, 9)):
        there = [t for t in tensors.values() if not any(t.name in own for own in terms.values())]
        reads = [_read(t, k, draw) for t in draw.sample(there, min(len(there), draw.randint(1, 6)))]
        sizes = [draw.choice([1, 5, 40, 3000, 60_000]) for _ in range(draw.randint(1, 5))]
        own = [Tensor(f"t{k}_{j}", "i32", (n,)) for j, n in enumerate(sizes)]
        parts.append(_entry(k, draw.randrange(workers), reads, own))
        tensors |= {t.name: t for t in own}
        if draw.random() < 0.4:  # another part has the other terms of all that this one gives
            others = [Tensor(f"u{k}_{j}", "i32", t.shape) for j, t in enumerate(own)]
            again = [_read(t, k, draw) for t in draw.sample(there, min(len(there), 2))]
            parts.append(_entry(k, draw.randrange(workers), again, others))
            tensors |= {t.name: t for t in others}
            sums = [Tensor(f"s{k}_{j}", "i32", a.shape, (a.name, b.name)) for j, (a, b) in enumerate(zip(own, others))]
            tensors |= {t.name: t for t in sums}
            terms |= {t.name: list(t.terms) for t in sums}
    parts = [_numbered(p, k) for k, p in enumerate(parts)]
    added = {n for own in terms.values() for n in own}
    read = {r.tensor for p in parts for r in p.reads}
    outputs = tuple(n for n in tensors if n not in read | added and n != "x")
    manifest = Manifest(
        "drawn", "tensor", "latency", "", (), tensors, ("x",), outputs, tuple(parts), 1, 0.0, 0.0, 0, 0.0
    )
    return manifest, [_side(p, k, tensors) for k, p in enumerate(parts)]


def _read(t: Tensor, part: int, draw: random.Random) -> Read:
    if draw.random() < 0.7:
        return Read(t.name, t.name)
    begin = draw.randrange(t.shape[0])
    return Read(f"{t.name}_{part}", t.name, 0, begin, draw.randint(begin + 1, t.shape[0]))


def _entry(k: int, worker: int, reads: Sequence[Read], own: Sequence[Tensor]) -> PartEntry:
    return PartEntry(f"part{k}", worker, tuple(reads), tuple(t.name for t in own), 0.0, 0, 0)


def _numbered(p: PartEntry, k: int) -> PartEntry:
    return PartEntry(f"part{k}", p.worker, p.reads, p.writes, 0.0, 0, 0)


def _side(p: PartEntry, k: int, tensors: dict[str, Tensor]) -> Side:
    ports = tuple(Port(n, n, "i32", tensors[n].shape) for n in p.writes)
    shapes = [r.shape(tensors[r.tensor].shape) for r in p.reads]
    types, out = checksum([("i32", s) for s in shapes]), checksum([("i32", tensors[n].shape) for n in p.writes])
    length = sum(4 * s[0] for s in shapes)
    return Side(p, p.reads, ports, types, out, length, tuple(tensors[n].bytes for n in p.writes), k)


def expected(manifest: Manifest, x: np.ndarray) -> dict[str, np.ndarray]:
    """The outputs of a frame."""
    found = {"x": x}

    def of(name: str) -> np.ndarray:
        terms = manifest.tensors[name].terms
        return found[terms[0]] + found[terms[1]] if terms else found[name]

    for k, p in enumerate(manifest.parts):
        reads = [of(r.tensor)[slice(r.begin, r.end) if r.axis is not None else slice(None)] for r in p.reads]
        for j, n in enumerate(p.writes):
            found[n] = values(reads, k, j, manifest.tensors[n].shape[0])
    return {n: of(n) for n in manifest.outputs}


@contextmanager
def at_work(
    manifest: Manifest, sides: Sequence[Side], seed: int, timeout: float = LATE, overlaps: Sequence[bool] = (True,) * 3
) -> Iterator[tuple[Frames, list[dict[int, Computed]]]]:
    """Frames over workers in threads, and the parts of every worker by their numbers."""
    exchange = Exchange()
    threads: list[threading.Thread] = []
    parts: list[dict[int, Computed]] = []
    for w in range(max(p.worker for p in manifest.parts) + 1):
        draw = random.Random(100 * seed + w)
        own = {s.number: Computed(s, dict(manifest.tensors), draw, draw.random()) for s in sides if s.entry.worker == w}
        with socket.create_server(("127.0.0.1", 0)) as server:
            ours = socket.create_connection(server.getsockname())
            theirs = server.accept()[0]

        def work(theirs: socket.socket = theirs, own: dict[int, Computed] = own, overlap: bool = overlaps[w]) -> None:
            with theirs, suppress(LinkError, OSError):
                session(theirs, own, overlap)

        threads.append(threading.Thread(target=work, daemon=True))
        threads[-1].start()
        exchange.add(Connection(f"worker {w}", ours, timeout))
        parts.append(own)
    ports = [Port("x", "x", "i32", manifest.tensors["x"].shape)]
    try:
        yield Frames(manifest, sides, ports, exchange), parts
    finally:
        exchange.close()
        for thread in threads:
            thread.join(LATE)
        assert not any(t.is_alive() for t in threads), "a worker does not end with its coordinator"
