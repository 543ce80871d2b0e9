"""Weights read in every run: nothing is overwritten before it was used, nor read later than it may be.

Each plan of drawn programs is played through for two runs.
"""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from chance import RANDOM

from edgec.errors import UsageError
from edgec.schedule.memory import aligned
from edgec.schedule.program import Buffer
from edgec.schedule.streaming import PAGE, Piece, Streaming, memory_beside, streaming

ARENA, BESIDE = 3000, 500


def program(sizes: list[int], uses: list[list[int]], kernels: int) -> Any:
    """A program of so many kernels, of which weights of these sizes are read by those named in ``uses``."""
    data = [RANDOM.integers(0, 256, n).astype(np.uint8) for n in sizes]
    weights = [Buffer(f"w{k}", "weights", "u8", len(d), d) for k, d in enumerate(data)]
    others = [Buffer(name, "input", "u8", BESIDE) for name in "abc"]
    steps = [SimpleNamespace(touches=[w for w, at in zip(weights, uses) if k in at] * 2) for k in range(kernels)]
    offsets = dict.fromkeys(weights, 0) | {Buffer("t", "arena", "u8", 9000): 0}
    return SimpleNamespace(
        kernels=steps, offsets=offsets, weights_bytes=sum(map(aligned, sizes)), arena_bytes=ARENA,
        inputs=[("a", others[0], None)], outputs=[("b", others[1], None), ("c", others[2], None)],
        states={others[2]: others[0]},
    )  # fmt: skip


def drawn(seed: int) -> tuple[Any, list[list[int]]]:
    random = np.random.default_rng(seed)
    kernels = int(random.integers(2, 25))
    sizes = [int(n) for n in random.choice([1, 63, 64, 65, 4000, 4096, 9000, 70_000, 200_000], kernels * 2)]
    uses = []
    for k in range(len(sizes)):
        first = k // 2
        uses.append([first] if k % 5 else [first, min(first + 1, kernels - 1)])
    for k in random.choice(len(sizes), len(sizes) // 6, replace=False):
        uses[k] = sorted({0, uses[k][0], kernels - 1}) if random.integers(3) else []
    return program(sizes, uses, kernels), uses


def played(found: Streaming, kernels: int) -> None:
    """No place has two pieces at a time, in two runs one after the other; reads begin as soon as they may."""
    times = [(p, p.after + run * kernels, p.last + run * kernels) for run in (0, 1) for p in found.read]
    for (a, begin, _), (b, start, end) in product(times, times):
        if (a, begin) != (b, start) and start <= begin:
            assert end < begin or a.place >= b.place + b.bytes or b.place >= a.place + a.bytes
    for piece in found.read:
        assert 1 - kernels <= piece.after <= piece.first <= piece.last < kernels
        over = [p for p in found.read if p.place < piece.place + piece.bytes and piece.place < p.place + p.bytes]
        assert piece.after in {p.last + 1 for p in over} | {p.last + 1 - kernels for p in over}


@pytest.mark.parametrize("seed", [k for k in range(17) if k != 11])  # which has one piece alone to read
def test_plans_of_drawn_programs(seed: int) -> None:
    made, uses = drawn(seed)
    weights = [b for b in made.offsets if b.space == "weights"]
    several = 0
    for share in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.3):
        room = int(made.weights_bytes * share)
        try:
            found = streaming(made, room)
        except UsageError:
            continue
        assert found.kernels == len(made.kernels) and found.memory_bytes <= max(room, PAGE)
        assert sorted(b.name for p in found.pieces for b in p.buffers) == sorted(w.name for w in weights)
        assert all(p.bytes % PAGE == 0 and p.place % PAGE == 0 for p in found.pieces)
        assert all(p.place + p.bytes <= found.memory_bytes for p in found.pieces)
        assert [p.file for p in found.pieces] == [
            sum(p.bytes for p in found.pieces[:k]) for k in range(len(found.pieces))
        ]
        for w, places in zip(weights, uses):
            (piece,) = (p for p in found.pieces if w in p.buffers)
            at = found.places[w] - piece.place
            assert at % 64 == 0 and at + w.bytes <= piece.bytes
            assert found.content[piece.file + at :][: w.bytes] == w.data.tobytes()
            if piece in found.read:
                assert places and piece.first <= places[0] and places[-1] <= piece.last and places[-1] - places[0] <= 1
        for piece in found.read:
            own = [u for w, u in zip(weights, uses) if w in piece.buffers]
            assert (piece.first, piece.last) == (min(u[0] for u in own), max(u[-1] for u in own))
        for kept in found.kept:
            assert all(kept.place + kept.bytes <= p.place for p in found.read)
        played(found, found.kernels)
        assert found.bytes_a_run == sum(p.bytes for p in found.read)
        for kernel, count in found.awaited.items():
            assert count == sum(p.first <= kernel for p in found.read)
        waited = {p.after % found.kernels for p in found.read}
        assert found.passed == {(w - 1) % found.kernels for w in waited} | {found.kernels - 1}
        several += len(found.read) > 2
        if room >= 2 * made.weights_bytes:
            assert not found.read
    assert several


@pytest.mark.parametrize("seed", range(8))
def test_the_least_memory_is_told(seed: int) -> None:
    made, _ = drawn(seed)
    with pytest.raises(UsageError) as error:
        streaming(made, -5)
    assert "into 0 bytes" in error.value.message
    kilobytes = int((error.value.hint or "").split("K is enough")[0].rpartition(" ")[2])
    assert memory_beside(made) == ARENA + 2 * BESIDE  # the third is the first
    least = (kilobytes * 1024 - memory_beside(made)) // PAGE * PAGE
    streaming(made, least)
    with pytest.raises(UsageError):
        streaming(made, least - PAGE)


def test_all_weights_stay_where_there_is_room() -> None:
    made = program([100, 5000, 64], [[0], [1], [2]], 3)
    found = streaming(made, 3 * PAGE)
    assert not found.read and [p.bytes for p in found.kept] == [2 * PAGE] and found.memory_bytes == 2 * PAGE
    assert found.awaited == {} and found.passed == {2}


def test_what_is_kept_is_spread_over_the_run() -> None:
    """So much is read between any two kernels, give or take a piece, that reading never rests."""
    kernels, size = 64, 100_000
    made = program([size] * kernels, [[k] for k in range(kernels)], kernels)
    found = streaming(made, 48 * size)
    (kept,) = found.kept
    at = sorted(int(b.name[1:]) for b in kept.buffers)
    assert len(at) >= 6
    gaps = np.diff([-1, *at, kernels])
    assert max(gaps) <= 2 * kernels / len(at) + 1
    assert all(
        isinstance(p, Piece) and len(p.buffers) * size <= max(48 * size // 16, 1 << 16) + size for p in found.read
    )
