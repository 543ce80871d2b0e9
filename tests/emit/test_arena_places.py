"""Places in the arena: what lives at one time lies apart, a result takes the place of an operand where it may."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from edgec.schedule.memory import ALIGNMENT, TooLarge, aligned, overwrites_in_place, plan_memory
from edgec.schedule.program import Buffer


def kernel(reads: list[Buffer], writes: Buffer, over: tuple[Buffer, ...] = (), **more: Any) -> Any:
    """A kernel that may write its result over some of its operands."""
    schedule = SimpleNamespace(shared_steps=more.get("shared", ()), overwrites=lambda b: b in over)
    guards = more.get("guards", [])
    found = SimpleNamespace(
        touches=[*guards, *reads, writes], reads=reads, writes=writes, operands=[*reads, writes], schedule=schedule,
        scratch_bytes=more.get("scratch", 0),
    )  # fmt: skip
    found.main = found
    return found


def buffers(*sizes: int, dtype: str = "f32", space: str = "arena") -> list[Buffer]:
    return [Buffer(f"b{k}", space, dtype, n) for k, n in enumerate(sizes)]


def drawn(seed: int) -> tuple[list[Any], frozenset[Buffer]]:
    random = np.random.default_rng(seed)
    made, kernels = buffers(*map(int, random.choice([1, 16, 17, 100, 400], 14))), []
    outside = buffers(50, space="input")
    for k, b in enumerate(made):
        before = [made[int(j)] for j in random.integers(0, k, min(k, 3))] if k else []
        over = tuple(b for b in before if random.integers(2))
        kernels.append(kernel([*dict.fromkeys(before), *outside], b, over))
    return kernels, frozenset(made[int(j)] for j in random.integers(0, 14, 2))


def lives(kernels: list[Any], kept: frozenset[Buffer]) -> dict[Buffer, tuple[int, int]]:
    found: dict[Buffer, tuple[int, int]] = {}
    for k, step in enumerate(kernels):
        for b in step.touches:
            if b.space == "arena":
                end = len(kernels) - 1 if b in kept else k
                found[b] = (found[b][0] if b in found else k, max(end, found[b][1] if b in found else 0))
    return found


@pytest.mark.parametrize("seed", range(24))
def test_places_of_drawn_programs(seed: int) -> None:
    kernels, kept = drawn(seed)
    found, spans = plan_memory(kernels, kept), lives(kernels, kept)
    assert found.offsets.keys() == spans.keys() and all(at % ALIGNMENT == 0 for at in found.offsets.values())
    ends = [at + aligned(b.bytes) for b, at in found.offsets.items()]
    assert found.arena_bytes == max(ends) >= found.lower_bound_bytes
    handed = {}
    for k, step in enumerate(kernels):
        result = step.writes
        for b in step.reads:
            if b.space == "arena" and found.offsets[b] == found.offsets[result] and spans[b][1] == k:
                handed[result] = b
    for a, (first, last) in spans.items():
        for b, (begin, end) in spans.items():
            if a is b or begin > last or first > end:
                continue
            apart = found.offsets[a] + aligned(a.bytes) <= found.offsets[b]
            apart |= found.offsets[b] + aligned(b.bytes) <= found.offsets[a]
            assert apart or handed.get(a) is b or handed.get(b) is a, (a.name, b.name)
    for result, operand in handed.items():
        step = next(k for k in kernels if k.writes is result)
        assert overwrites_in_place(step, operand) and operand.elements == result.elements
    moments = [sum(aligned(b.bytes) for b, (f, e) in spans.items() if f <= k <= e) for k in range(len(kernels))]
    saved = [aligned(r.bytes) if kernels[k].writes in handed else 0 for k, r in enumerate(s.writes for s in kernels)]
    assert found.lower_bound_bytes == max(m - s for m, s in zip(moments, saved))


def test_arenas_are_as_small_as_they_were() -> None:
    """Two of many programs take more than is alive at once: the orders in which places are tried decide."""
    plans = [plan_memory(*drawn(seed)) for seed in range(40)]
    beyond = {seed: p.arena_bytes - p.lower_bound_bytes for seed, p in enumerate(plans)}
    assert {seed: size // ALIGNMENT for seed, size in beyond.items() if size} == {16: 8, 36: 1}


def test_no_more_than_is_wanted() -> None:
    a, b, c = buffers(100, 40, 100)
    kernels = [kernel([], a), kernel([a], b), kernel([b], c)]
    found = plan_memory(kernels)
    assert found.arena_bytes == found.lower_bound_bytes == aligned(400) + aligned(160)
    assert plan_memory(kernels, wanted=found.lower_bound_bytes) == found
    with pytest.raises(TooLarge):
        plan_memory(kernels, wanted=found.lower_bound_bytes - 1)
    whole = plan_memory(kernels, frozenset((a,)))  # it is read after the run
    assert whole.arena_bytes == 2 * aligned(400) + aligned(160)
    nothing = plan_memory([kernel([], *buffers(9, space="output"))])
    assert (nothing.arena_bytes, nothing.lower_bound_bytes, nothing.offsets) == (0, 0, {})


def test_a_gap_that_fits_exactly_is_taken() -> None:
    """The second buffer leaves a gap between others that live on."""
    a, b, c, d = buffers(100, 40, 100, 40)
    kernels = [kernel([], a), kernel([a], b), kernel([a, b], c), kernel([a, c], d), kernel([a, c, d], Buffer(
        "y", "output", "f32", 4))]  # fmt: skip
    found = plan_memory(kernels)
    assert found.offsets[d] == found.offsets[b] and found.arena_bytes == found.lower_bound_bytes


def test_results_over_operands() -> None:
    a, b, other, small = buffers(100, 100, 100, 99)
    half = Buffer("h", "arena", "f16", 200)
    for step, operand, fits in (
        (kernel([a], b, (a,)), a, True), (kernel([a], b), a, False), (kernel([small], b, (small,)), small, False),
        (kernel([half], b, (half,)), half, False), (kernel([a], b, (a,), scratch=64), a, False),
        (kernel([other, a], b, (a,), scratch=64), a, True),
        (kernel([a], b, (a,), shared=[SimpleNamespace(operands=[a])]), a, False),
        (kernel([a], b, (a,), shared=[SimpleNamespace(operands=[other])]), a, True),
    ):  # fmt: skip
        assert overwrites_in_place(step, operand) == fits


def test_the_first_operand_that_dies_is_overwritten() -> None:
    a, b, c, d = buffers(100, 100, 100, 100)
    first = [kernel([], a), kernel([], b)]
    found = plan_memory([*first, kernel([a, b], c, (a, b)), kernel([b, c], d, (b, c))])
    assert found.offsets[a] == found.offsets[c] and found.offsets[b] == found.offsets[d]
    assert found.arena_bytes == 2 * aligned(400)
    guarded = plan_memory([*first, kernel([a], c, (a,), guards=[b]), kernel([c, b], d, (b,))])
    assert guarded.offsets[a] == guarded.offsets[c] and guarded.offsets[d] == guarded.offsets[b]
    again = plan_memory([*first, kernel([a], b, (a,)), kernel([b], c, (b,))])  # it was there before
    assert again.offsets[a] != again.offsets[b] == again.offsets[c]
