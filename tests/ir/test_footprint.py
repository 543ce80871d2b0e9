"""Elements that loads reach, beside those of arrays that are marked; operands that are read wide; reach of weights."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from chance import RANDOM
from hypothesis import given, settings
from hypothesis import strategies as st

from edgec import ops
from edgec.compress.scales import _reach_of_weights
from edgec.fuse.narrow import is_read_wide
from edgec.ir import expr as X
from edgec.ir.footprint import _places, _together
from edgec.ir.graph import Node, constant, placeholder
from edgec.ir.types import Type

TERMS = st.lists(st.tuples(st.integers(1, 5), st.integers(-3, 4)), max_size=3)


@settings(max_examples=100, deadline=None)
@given(TERMS, st.integers(-2, 6), st.integers(1, 12), st.integers(1, 3), st.booleans())
def test_places_of_an_index(terms: list[tuple[int, int]], start: int, extent: int, by: int, wraps: bool) -> None:
    loops = [X.var(f"v{k}", n) for k, (n, _) in enumerate(terms)]
    index = X.const(start)
    for v, (_, step) in zip(loops, terms):
        index = index + v * step
    index = (index // by) % 7 if wraps else index
    found = _places(index, extent)
    values = set()
    for at in product(*(range(n) for n, _ in terms)):
        value = start + sum(i * step for i, (_, step) in zip(at, terms))
        values.add((value // by) % 7 if wraps else value)
    assert found is not None and set(np.flatnonzero(found)) == {v for v in values if 0 <= v < extent}


def test_loads_of_several_places_count_each_element_once() -> None:
    slot = placeholder("x", Type("f32", (6, 8)))
    i, j = X.var("i", 3), X.var("j", 4)

    def load(*index: Any) -> X.Expr:
        return X.load(slot, index, "f32")

    for at, count in (((i, j), 12), ((i * 2, j), 12), ((i, i), 3), ((i, i + 6), 2), ((0, j * 2), 4)):
        assert _together((6, 8), [load(*at)]) == count
    assert _together((6, 8), [load(i, j), load(i + 1, j), load(i, j), load(5, 7)]) == 4 * 4 + 1


def whole(dtype: str, *shape: int) -> Node:
    return constant(np.arange(int(np.prod(shape)), dtype=dtype).reshape(shape))


def test_operands_that_are_read_wide() -> None:
    x, y = (placeholder(name, Type("i32", (2, 3))) for name in "xy")
    weights = ops.node("cast", whole("int8", 2, 3), to="i32")
    zero = constant(np.array(3, np.int32))
    assert is_read_wide(weights)
    assert is_read_wide(ops.node("cast", placeholder("q", Type("u8", (2, 3))), to="i32"))
    assert is_read_wide(ops.node("sub", weights, zero))
    assert not is_read_wide(ops.node("sub", x, zero))
    assert not is_read_wide(ops.node("add", x, y))
    assert not is_read_wide(ops.node("add", x, weights))
    assert not is_read_wide(ops.node("mul", whole("float32", 2, 3), whole("float32", 2, 3)))
    assert not is_read_wide(ops.node("reduce", whole("int32", 2, 3), combine="add", axes=(1,)))


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_the_largest_weight_that_a_channel_meets(groups: int) -> None:
    w = RANDOM.standard_normal((8, 4, 3, 2)).astype(np.float32)
    node = SimpleNamespace(op="conv", attributes={"groups": groups})
    found = _reach_of_weights(cast(Any, SimpleNamespace(node=node, weights=w)))
    each = 8 // groups
    wanted = [np.abs(w[g * each : (g + 1) * each, c]).max() for g in range(groups) for c in range(4)]
    assert found == pytest.approx(np.array(wanted))
    for shape in ((5, 3), (2, 5, 3)):
        m = RANDOM.standard_normal(shape)
        found = _reach_of_weights(cast(Any, SimpleNamespace(node=SimpleNamespace(op="matmul"), weights=m)))
        assert found == pytest.approx([np.abs(m[..., k, :]).max() for k in range(5)])
