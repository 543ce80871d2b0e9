"""Places of things: the halo around a value, buffers that share memory, taps that read padding, split loops."""

from __future__ import annotations

from itertools import product
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgec import ops
from edgec.compress import search
from edgec.compress.max_loss import parsed
from edgec.fuse.aliases import Halo
from edgec.ir import expr as X
from edgec.ir.nest import _chain, _cuts
from edgec.resources import data_folder
from edgec.rewrite.load import rules_in
from edgec.rewrite.prove import Instance, _compare
from edgec.rewrite.sample import given as operand
from edgec.rewrite.taps import Axis, refusal, windows_of
from edgec.schedule.gpu.attention import _tiles
from edgec.schedule.gpu.together import meet
from edgec.schedule.halo_fill import halo_fill
from edgec.schedule.program import Buffer, Program, View

SIDES = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3), st.integers(0, 2)), min_size=1, max_size=3)


@settings(max_examples=150, deadline=None)
@given(SIDES, st.randoms(use_true_random=False))
def test_a_halo_is_filled_and_nothing_else(sides: list[tuple[int, int, int]], random: Any) -> None:
    before, shape, after = zip(*sides)
    whole = tuple(map(sum, sides))
    strides, elements = [0] * len(whole), 1
    for d in random.sample(range(len(whole)), len(whole)):
        strides[d], elements = elements, elements * whole[d]
    offset = sum(b * s for b, s in zip(before, strides))
    root = View(Buffer("y", "arena", "f32", elements), shape, tuple(strides), offset)
    filled = halo_fill(Halo(before, after, 7.0), root, "f32")
    memory = np.zeros(elements, np.float32)
    filled.fill_halo(memory, {})
    inside = {offset + sum(i * s for i, s in zip(at, strides)) for at in product(*(range(n) for n in shape))}
    assert [k for k in range(elements) if memory[k] != 7] == sorted(inside)
    assert filled.halo_bytes == 4 * (elements - len(inside))
    for slab in filled.slabs:
        assert all(outer[1] != inner[0] * inner[1] for outer, inner in zip(slab.loops, slab.loops[1:]))


@pytest.mark.parametrize(("at", "shares"), [(0, True), (31, True), (32, False), (63, False)])
def test_buffers_that_share_memory(at: int, shares: bool) -> None:
    a, b = (Buffer(name, "arena", "f32", 8) for name in "ab")
    output, old, new = (Buffer(name, space, "f32", 8) for name, space in zip("yio", ("output", "input", "output")))
    program = cast(Program, SimpleNamespace(offsets={a: 0, b: at}, states={new: old}))
    assert meet(a, b, program) == meet(b, a, program) == shares
    assert meet(a, a, program) and meet(output, output, program) and meet(new, old, program)
    assert not meet(a, output, program) and not meet(output, a, program) and not meet(output, new, program)


EXTENTS = st.tuples(*(st.integers(low, high) for low, high in ((0, 5), (0, 4), (1, 5), (1, 3), (1, 3), (0, 6))))


@settings(max_examples=200, deadline=None)
@given(EXTENTS)
def test_taps_that_read_elements(numbers: tuple[int, ...]) -> None:
    axis = Axis(*numbers)
    extent, before, taps, stride, dilation, positions = numbers
    reads = [[p for p in range(positions) if 0 <= p * stride + t * dilation - before < extent] for t in range(taps)]
    assert [list(axis.reading(t)) for t in range(taps)] == reads
    live = axis.live()
    needed = [t for t in range(taps) if reads[t]]
    if live is None:
        assert not needed
    else:
        assert set(needed) <= set(live) <= set(range(taps))
        if stride > 1 and stride > extent and needed:
            assert (live[0], live[-1]) == (needed[0], needed[-1])


def padded_pool(combine: str, value: float, dtype: str = "f32") -> Any:
    x = ops.node("pad", operand("x", 1, 2, 4, dtype=dtype), before=(0, 0, 1), after=(0, 0, 1), value=value)
    return windows_of(ops.node("pool", x, kernel=(3,), strides=(1,), dilations=(1,), combine=combine))


def test_taps_of_padding_that_is_not_finite_stay_where_they_are_added() -> None:
    for value in (float("inf"), float("-inf"), float("nan")):
        assert refusal(padded_pool("add", value)) is not None
        x = ops.node("pad", operand("x", 1, 2, 4, dtype="f32"), before=(0, 0, 1), after=(0, 0, 1), value=value)
        convolved = ops.node("conv", x, operand("w", 2, 2, 3, dtype="f32"), strides=(1,), dilations=(1,), groups=1)
        windows = windows_of(convolved)
        assert not isinstance(windows, str) and refusal(windows) is not None
        assert refusal(padded_pool("max", value)) is None and refusal(padded_pool("min", value)) is None
    assert refusal(padded_pool("add", 0.0)) is None
    assert refusal(padded_pool("mul", 1.0)) is not None


def test_loops_are_split_where_they_are_divided() -> None:
    v, w = X.var("v", 24), X.var("w", 24)
    assert _cuts(v // 4 + w // 3, v) == {4}
    assert _cuts(v % 6 + (v // 2) % 4, v) == {2, 6, 8}
    assert _chain({4, 2, 8, 24, 1}, 24) == [2, 4, 8]
    assert _chain({3, 2, 6, 5}, 24) == [2, 6]


def test_rows_of_attention_are_as_wide_as_warps() -> None:
    assert {t.width for t in _tiles(40, 33)} == {64}
    assert {t.width for t in _tiles(40, 64)} == {64}
    assert {t.width for t in _tiles(40, 1)} == {32}


def test_a_slice_moves_before_a_reshape_that_keeps_it_apart() -> None:
    rule = next(r for r in rules_in(data_folder("rewrite_rules")) if r.name == "slice_before_movement")
    for shape, other, starts, steps, part in (
        ((4, 1, 6), (4, 6), (1, 1), (1, 2), (2, 3)),
        ((4, 6), (4, 1, 6), (1, 0, 0), (2, 1, 2), (2, 1, 3)),
        ((1, 6, 1), (6,), (2,), (1,), (3,)),
        ((5,), (1, 5, 1), (0, 3, 0), (1, 1, 1), (1, 2, 1)),
    ):
        moved = ops.node("reshape", operand("x", *shape), shape=other)
        node = ops.node("slice", moved, starts=starts, steps=steps, shape=part)
        (replacement,) = rule.propose(node, Instance(node))
        assert replacement.type == node.type
        _compare(rule, node, replacement, Random(0))


@pytest.mark.parametrize("limit", range(5))
def test_the_cheapest_layers_within_a_bound(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    layers = [SimpleNamespace(name=name) for name in "acbd"]
    keyed = {"a": 3.0, "b": 2.0, "c": 2.0, "d": 1.0}
    asked: list[str] = []

    def figure(graph: Any, chosen: Any, samples: Any, found: Any, bound: Any, bf16: Any = ()) -> float:
        asked.append("".join(layer.name for layer in (*chosen, *bf16)))
        return float(len(asked[-1]) > limit)

    class Costs(dict[Any, float]):
        def __getitem__(self, layer: Any) -> float:
            return keyed[layer.name]

    class Noise(dict[Any, Any]):
        def __getitem__(self, layer: Any) -> Any:
            return SimpleNamespace(noise=keyed[layer.name])

    monkeypatch.setattr(search, "figure", figure)
    found: Any = SimpleNamespace(numbers=Noise())
    bound = parsed("max_abs=0.5")
    given_layers: Any = layers
    chosen, value = search.within(cast(Any, None), given_layers, [], found, Costs(), bound)
    assert "".join(layer.name for layer in chosen) == "dbca"[:limit] and value == float(not limit)
    assert len(asked) == len(set(asked))
    asked.clear()
    more, value = search.bf16_within(cast(Any, None), given_layers, [], found, [], bound)
    assert "".join(layer.name for layer in more) == "dbca"[:limit] and value == 0.0
    assert search.contributors(given_layers, found) == "a (38%), c (25%), b (25%)"
