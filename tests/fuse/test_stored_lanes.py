"""Products stored in the order that a movement gives them, or moved after they are stored: by price."""

from __future__ import annotations

import numpy as np
import pytest
from small_graphs import graph, pad, value

from edgec import ops
from edgec.check.compare import compare_all
from edgec.device.load import load_device
from edgec.execute.executor import run_graph, run_plan
from edgec.execute.samples import random_inputs
from edgec.fuse import plan
from edgec.fuse.choice import BlockCosts
from edgec.fuse.cost_model import CostModel
from edgec.ir.graph import Graph, constant


@pytest.mark.parametrize(
    ("device", "side", "channels", "blocks"),
    [("x86_64_avx512", 4, 3, 2), ("x86_64_avx2", 4, 3, 2), ("arm64", 4, 3, 1), ("x86_64_avx512", 4, 16, 1)],
)
def test_columns_that_a_result_keeps_apart_leave_lanes_idle(device: str, side: int, channels: int, blocks: int) -> None:
    """Pixels of a block by channel: a product stores runs of four, or what is stored whole is moved."""
    x, w = value("x", 1, 24, 14, 14), np.random.default_rng(4).random((channels * side * side, 24, 3, 3), np.float32)
    sums = ops.node("conv", x, constant(w), strides=(1, 1), dilations=(1, 1), groups=1)
    apart = ops.node("reshape", sums, shape=(1, channels, side, side, 12, 12))
    turned = ops.node("transpose", apart, perm=(0, 1, 4, 2, 5, 3))
    y = ops.node("reshape", turned, shape=(1, channels, 12 * side, 12 * side))
    moved = Graph((x,), (("y", y),))
    found = plan(moved, True, BlockCosts(CostModel(load_device(device))))
    assert len(found.blocks) == blocks
    assert [c.kind for c in found.decisions.choices] == ["movement"]
    inputs = random_inputs(moved, 0)
    assert all(d.within(1e-5) for d in compare_all(run_plan(found, inputs), run_graph(moved, inputs)))


def test_what_is_repeated_among_columns_is_added_by_a_kernel_of_its_own() -> None:
    """Points beside a reference that all heads share: in the kernel of the product, lanes would be the two coordinates.

    What every column has for itself is added to the sums.
    """
    x, weights = value("x", 1, 64, 32), constant(np.random.default_rng(4).random((32, 64), np.float32))
    product = ops.node("matmul", x, weights)
    points = ops.node("reshape", product, shape=(1, 64, 8, 4, 2))
    for shape, blocks in (((1, 64, 1, 1, 2), 2), ((1, 64, 8, 4, 2), 1), ((8, 4, 2), 1)):
        y = ops.node("add", points, value("y", *shape))
        found = plan(graph(y), True, BlockCosts(CostModel(load_device("x86_64_avx512"))))
        assert len(found.blocks) == blocks, shape


def test_a_padding_of_one_number_is_planned() -> None:
    """It has no dimension that lanes could run along."""
    x = value("x")
    y = ops.node("add", pad(ops.node("exp", x)), x)
    found = plan(graph(y), True)
    (got,) = run_plan(found, {"x": np.float32(0)}).values()
    assert got == 1
