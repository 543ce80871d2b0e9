"""Scales of products whose factors are repeated over batch dimensions, carried into constants, keep the results."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from chance import RANDOM

from edgec.frontend.values import Value, constant, emit
from edgec.ir.evaluate import run
from edgec.ir.graph import Graph, placeholder
from edgec.ir.types import Type
from edgec.rewrite import simplify


def drawn(*shape: int) -> np.ndarray:
    return RANDOM.uniform(-2, 2, shape).astype(np.float32)


def some_of(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape with 1 in the place of some extents."""
    return tuple(1 if RANDOM.integers(2) else n for n in shape)


def factor(name: str, batch: tuple[int, ...], rows: int, columns: int, inputs: dict[str, Value]) -> Value:
    """A matrix product of an input and a constant, taken apart into batches, some of which are repeated."""
    shape = (*some_of(batch)[int(RANDOM.integers(len(batch) + 1)) :], rows, columns)
    inner = int(RANDOM.integers(1, 5))
    x = inputs[name] = Value(placeholder(name, Type("f32", (rows, inner))))
    lead = prod(shape[:-2])
    whole = (x @ constant(drawn(inner, lead * columns))).reshape(rows, lead, columns)
    return whole.transpose(1, 0, 2).reshape(*shape)


def network() -> Graph:
    """(a @ b) * scale, taken apart by a reshape in between now and then."""
    batch = tuple(int(n) for n in RANDOM.integers(1, 5, RANDOM.integers(1, 4)))
    m, k, n = (int(e) for e in RANDOM.integers(1, 6, 3))
    inputs: dict[str, Value] = {}
    y = factor("a", batch, m, k, inputs) @ factor("b", batch, k, n, inputs)
    if RANDOM.integers(2):
        y = y.reshape(prod(y.shape[:-1]), y.shape[-1])
    scale = some_of(y.shape)[int(RANDOM.integers(y.rank + 1)) :]
    y = emit("mul", y, constant(drawn(*scale))) if RANDOM.integers(3) else y / constant(drawn(*scale) + 3)
    return Graph(tuple(v.node for v in inputs.values()), (("y", y.node),), "net", {})


@pytest.mark.parametrize("seed", range(150))
def test_scale_of_a_product_of_repeated_factors(seed: int) -> None:
    graph = network()
    given = {n.attributes["name"]: drawn(*n.type.shape) for n in graph.inputs}
    want = run(graph, given)["y"]
    got = run(simplify(graph)[0], given)["y"]
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-4 * max(float(np.abs(want).max(initial=0)), 1e-6))
