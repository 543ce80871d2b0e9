"""Weights that arithmetic on constants gives are constants of the products that read them."""

from __future__ import annotations

import numpy as np
import pytest
from small_graphs import conv, graph, number, pad, value

from edgec import ops
from edgec.fuse import plan
from edgec.ir.evaluate import run
from edgec.ir.graph import Graph, constant


def scaled_weights(dtype: str) -> Graph:
    codes = constant(np.arange(-72, 72, dtype=np.int8).reshape(4, 4, 3, 3))
    weights = ops.node("cast", codes, to=dtype)
    if dtype == "f32":
        weights = ops.node("div", ops.node("mul", weights, number(0.25)), number(3.0))
    return graph(conv(pad(value("x", 1, 4, 6, 7, dtype=dtype), 1, 1), weights))


def test_weights_times_a_scale_are_no_kernel() -> None:
    """A convolution reads each of them for every pixel: they are computed when it is built, not in each run."""
    one = scaled_weights("f32")
    found = plan(one)
    assert not {"mul", "div"} & {n.op for block in found.blocks for n in block.nodes}
    x = {"x": np.random.default_rng(0).standard_normal((1, 4, 6, 7)).astype(np.float32)}
    assert np.allclose(run(found.graph, x)["y0"], run(one, x)["y0"], rtol=1e-6)


@pytest.mark.parametrize("dtype", ["i32"])
def test_weights_that_are_only_widened_stay_narrow(dtype: str) -> None:
    consts = [n for n in plan(scaled_weights(dtype)).graph.nodes() if n.is_const and n.type.elements > 1]
    assert [n.type.dtype for n in consts] == ["i8"]


def test_few_numbers_repeated_are_not_stored_as_many() -> None:
    row = ops.node("sigmoid", constant(np.linspace(-1, 1, 1024, dtype=np.float32).reshape(1, 1024)))
    one = graph(ops.node("matmul", value("x", 2, 1024), ops.node("broadcast", row, shape=(1024, 1024))))
    assert max(n.type.elements for n in plan(one).graph.nodes() if n.is_const) == 1024
