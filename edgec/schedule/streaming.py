"""Weights in less memory than they take: what stays, and what is read in every run, in the order of the kernels."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from edgec.errors import UsageError
from edgec.schedule.memory import ALIGNMENT
from edgec.schedule.program import Buffer, Program

#: Of pieces in the file and in memory, so that reads can go past the page cache.
PAGE = 4096
#: A read is about so large, where there is memory for several.
MOST_PIECE_BYTES, LEAST_PIECE_BYTES = 4 << 20, 64 << 10
#: More memory than this for what is read ahead gains nothing.
MOST_AHEAD_BYTES = 64 << 20


@dataclass(frozen=True)
class Piece:
    """Weights that are read at once: ``bytes`` from ``file`` on into ``place``.

    Kernels ``first`` to ``last`` need them. The read may begin when ``after`` kernels of the run have ended; those of
    the run before count down from zero.
    """

    buffers: tuple[Buffer, ...]
    first: int
    last: int
    bytes: int
    file: int = 0
    place: int = 0
    after: int = 0


@dataclass(frozen=True)
class Streaming:
    """The reads of a program: ``kept`` once, ``read`` in every run, into ``memory_bytes`` of memory."""

    kept: tuple[Piece, ...]
    read: tuple[Piece, ...]
    memory_bytes: int
    kernels: int

    @property
    def pieces(self) -> tuple[Piece, ...]:
        return (*self.kept, *self.read)

    @property
    def bytes_a_run(self) -> int:
        """Bytes that are read in every run."""
        return sum(p.bytes for p in self.read)

    @property
    def places(self) -> dict[Buffer, int]:
        """The place of every buffer in memory."""
        return {b: piece.place + at for piece in self.pieces for b, at in _inside(piece.buffers)[0].items()}

    @property
    def content(self) -> bytes:
        """The file: pieces in the order in which they are read."""
        blob = np.zeros(sum(p.bytes for p in self.pieces), np.uint8)
        for piece in self.pieces:
            for buffer, at in _inside(piece.buffers)[0].items():
                assert buffer.data is not None
                raw = np.ascontiguousarray(buffer.data).reshape(-1).view(np.uint8)
                blob[piece.file + at : piece.file + at + raw.size] = raw
        return blob.tobytes()

    @property
    def awaited(self) -> Mapping[int, int]:
        """By kernel, how many pieces of the run it needs, where that is more than the one before."""
        return {piece.first: k + 1 for k, piece in enumerate(self.read)}

    @property
    def passed(self) -> frozenset[int]:
        """The kernels behind which a thread tells how far it is: some read waits for it, or the run has ended."""
        told = {(p.after - 1) % self.kernels for p in self.read}
        return frozenset(told | {self.kernels - 1})


def streaming(program: Program, room: int) -> Streaming:
    """The reads of a program in ``room`` bytes; raises UsageError where kernels need more at once."""
    found = _planned(program, room)
    if found is not None:
        return found
    sizes = range(0, 2 * program.weights_bytes + PAGE * len(program.offsets), PAGE)
    least = sizes[bisect_left(sizes, True, key=lambda size: _planned(program, size) is not None)]
    others = memory_beside(program)
    raise UsageError(
        f"weights cannot be read into {max(room, 0)} bytes: some are needed at once, or again and again",
        hint=f"--ram {-(-(least + others) // 1024)}K is enough: {others} bytes are arena, inputs and outputs",
        where="--weights stream",
    )


def memory_beside(program: Program) -> int:
    """Bytes of arena, inputs and outputs; a state and its next value are one."""
    outputs = [b for _, b, _ in program.outputs if b not in program.states]
    return program.arena_bytes + sum(b.bytes for b in (*(b for _, b, _ in program.inputs), *outputs))


def _planned(program: Program, room: int) -> Streaming | None:
    """The first plan that can be made, of those that keep the larger buffers and those that keep fewer."""
    uses = _uses(program)
    plans = (_planned_with(program, uses, room, slots) for slots in (6, 4, 3, 2))
    return next((plan for plan in plans if plan is not None), None)


def _planned_with(program: Program, uses: Mapping[Buffer, list[int]], room: int, slots: int) -> Streaming | None:
    """A plan that keeps buffers of which so many do not fit at once; None where kernels need more memory."""
    kernels, piece_bytes = len(program.kernels), max(min(room // 16, MOST_PIECE_BYTES), LEAST_PIECE_BYTES)
    again = {b for b, at in uses.items() if not at or at[-1] - at[0] > 1}
    once = sorted((b for b in uses if b not in again), key=lambda b: uses[b][0])
    large = {b for b in once if _pages(b.bytes) * slots > room}
    must = again | large
    ring = room - _whole(must)
    if ring < 0:
        return None
    rest = [b for b in once if b not in large]
    ahead = min(ring, max(MOST_AHEAD_BYTES, 4 * max((_pages(b.bytes) for b in rest), default=0)))
    if _whole(rest) <= ring:
        kept, streamed = [*must, *rest], []
    else:
        more = _even(rest, max(min(ring // 4, ring - piece_bytes * 8), ring - ahead))
        kept, streamed = [*must, *more], [b for b in rest if b not in more]
    kept = [b for b in uses if b in set(kept)]
    stays = [Piece(tuple(kept), 0, kernels - 1, _whole(kept))] if kept else []
    start = sum(p.bytes for p in stays)
    read = _placed(_pieces(streamed, uses, piece_bytes), start, room - start, kernels)
    if read is None:
        return None
    at, filed = start, []
    for piece in read:
        filed.append(_replaced(piece, file=at))
        at += piece.bytes
    memory = max((p.place + p.bytes for p in filed), default=start)
    return Streaming(tuple(stays), tuple(filed), max(memory, PAGE), kernels)


def _uses(program: Program) -> dict[Buffer, list[int]]:
    """The kernels that read each buffer of weights, in order; none for what is read outside of kernels."""
    found: dict[Buffer, list[int]] = {b: [] for b in program.offsets if b.space == "weights" and b.data is not None}
    for k, kernel in enumerate(program.kernels):
        for buffer in dict.fromkeys(kernel.touches):
            if buffer in found:
                found[buffer].append(k)
    return found


def _even(buffers: Sequence[Buffer], room: int) -> set[Buffer]:
    """Buffers of so many bytes together, spread evenly over the run: reading never rests then."""
    total = sum(b.bytes for b in buffers)
    taken: set[Buffer] = set()
    seen = size = 0
    for buffer in buffers:
        seen += buffer.bytes
        if size + buffer.bytes <= room * seen / max(total, 1) and size + buffer.bytes + PAGE <= room:
            taken.add(buffer)
            size += -(-buffer.bytes // ALIGNMENT) * ALIGNMENT
    return taken


def _pieces(buffers: Sequence[Buffer], uses: Mapping[Buffer, list[int]], most: int) -> list[Piece]:
    """Neighbors in one piece as long as it stays small."""
    groups: list[list[Buffer]] = []
    size = most
    for buffer in buffers:
        if size + buffer.bytes > most:
            groups.append([])
            size = 0
        groups[-1].append(buffer)
        size += -(-buffer.bytes // ALIGNMENT) * ALIGNMENT
    return [Piece(tuple(g), uses[g[0]][0], max(uses[b][-1] for b in g), _whole(g)) for g in groups]


def _placed(pieces: Sequence[Piece], start: int, room: int, kernels: int) -> list[Piece] | None:
    """Places one behind the other, from the start again where the end is reached; None where kernels need more."""
    placed: list[Piece] = []
    at = 0
    for piece in pieces:
        if at + piece.bytes > room:
            at = 0
        if at + piece.bytes > room:
            return None
        placed.append(_replaced(piece, place=start + at))
        at += piece.bytes
    found = []
    for k, piece in enumerate(placed):
        before = [p.last + 1 for p in placed[:k] if _overlap(p, piece)]
        earlier = [p.last + 1 - kernels for p in placed[k:] if _overlap(p, piece)]
        after = max([*before, *earlier])
        if after > piece.first:
            return None
        found.append(_replaced(piece, after=after))
    return found


def _overlap(a: Piece, b: Piece) -> bool:
    return a.place < b.place + b.bytes and b.place < a.place + a.bytes


def _replaced(piece: Piece, **changes: int) -> Piece:
    return Piece(**{**{name: getattr(piece, name) for name in Piece.__dataclass_fields__}, **changes})


def _inside(buffers: Sequence[Buffer]) -> tuple[dict[Buffer, int], int]:
    """The places of buffers in their piece, and the bytes of all."""
    places, at = {}, 0
    for buffer in buffers:
        places[buffer] = at
        at += -(-buffer.bytes // ALIGNMENT) * ALIGNMENT
    return places, at


def _pages(size: int) -> int:
    return -(-size // PAGE) * PAGE


def _whole(buffers: Sequence[Buffer] | set[Buffer]) -> int:
    return _pages(sum(-(-b.bytes // ALIGNMENT) * ALIGNMENT for b in buffers))
