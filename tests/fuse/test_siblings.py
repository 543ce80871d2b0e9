"""Siblings: products and convolutions that read one value, stacked into one where that is cheaper."""

from __future__ import annotations

from pathlib import Path

import networks_here as networks
import numpy as np
import pytest
from small_models import model, node, tensor_input, weights

import edgec
from edgec import ops
from edgec.check.compare import compare_all
from edgec.execute.executor import run_graph, run_plan
from edgec.execute.samples import random_inputs
from edgec.fuse import Block, plan
from edgec.fuse.choice import BlockCosts
from edgec.ir.graph import Graph, Node, constant, placeholder
from edgec.ir.types import Type


@pytest.mark.parametrize("price", [0.1, 9.0])
def test_products_of_one_operand_are_stacked_where_that_is_cheaper(price: float) -> None:
    """Queries, keys and values: three products with weights of 16 columns, or one of 48."""
    graph = networks.graph("attention")
    assert graph is not None

    def prices(block: Block) -> float:
        return price if block.output.type.shape[-1] == 48 else 1.0

    found = plan(graph, True, BlockCosts(prices))
    widths = [
        b.output.type.shape[-1] for b in found.blocks if any(n.op == "matmul" and n.args[1].is_const for n in b.nodes)
    ]
    (choice,) = [c for c in found.decisions.choices if c.kind == "stack"]
    assert (choice.taken.name, widths) == (("stacked", [48]) if price < 3 else ("apart", [16, 16, 16]))
    inputs = random_inputs(graph, 0)
    assert all(d.within(2e-5) for d in compare_all(run_plan(found, inputs), run_graph(graph, inputs)))


def test_products_of_int8_are_stacked_on_a_gpu(tmp_path: Path) -> None:
    """With the scales and biases of columns: their operand is read once, and one kernel starts."""
    random = np.random.default_rng(2)
    constants = [weights(n, random.standard_normal((32, 16)).astype(np.float32)) for n in ("wq", "wk", "wv")]
    constants.append(weights("b", random.standard_normal(16).astype(np.float32)))
    nodes = [
        node("MatMul", ["x", "wq"], ["q"]), node("MatMul", ["x", "wk"], ["k0"]), node("Add", ["k0", "b"], ["k"]),
        node("Transpose", ["k"], ["kt"], perm=[1, 0]), node("MatMul", ["q", "kt"], ["s"]),
        node("Softmax", ["s"], ["p"]), node("MatMul", ["x", "wv"], ["v"]), node("MatMul", ["p", "v"], ["y"]),
    ]  # fmt: skip
    proto = model(nodes, [tensor_input("x", [8, 32])], ("y",), constants)
    np.savez(tmp_path / "x.npz", x=random.standard_normal((8, 32)).astype(np.float32))
    built = edgec.build(
        proto, device="cuda_sm90", precision="int8", calibrate=tmp_path / "x.npz", compiler="emulated"
    )  # fmt: skip
    products = [n for k in built.program.kernels if k.block for n in k.block.nodes if n.type.dtype == "i32"]
    assert [n.type.shape for n in products if n.op == "matmul"] == [(8, 48)]
    inputs = {"x": random.standard_normal((8, 32)).astype(np.float32)}
    want = run_graph(built.graph, inputs)["y"]
    assert np.abs(built.run(inputs)["y"] - want).max() <= 4e-3 * np.abs(want).max()


def test_int8_with_a_bias_of_floats_and_without_one_is_stacked() -> None:
    """The zero point has its addend among the integers, the bias is added to what they become, and keys have none."""
    random = np.random.default_rng(4)

    def projected(x: Node, has_bias: bool) -> Node:
        weights = constant(random.integers(-128, 128, (32, 16)).astype(np.int8))
        sums = ops.node("matmul", x, ops.node("cast", weights, to="i32"))
        sums = ops.node("add", sums, constant(random.integers(-99, 99, 16).astype(np.int32)))
        y = ops.node("mul", ops.node("cast", sums, to="f32"), constant(random.uniform(1e-4, 1e-3, 16).astype("f4")))
        return ops.node("add", y, constant(random.standard_normal(16).astype(np.float32))) if has_bias else y

    x = ops.node("cast", placeholder("x", Type("i8", (8, 32))), to="i32")
    query, key, value = projected(x, True), projected(x, False), projected(x, True)
    scores = ops.node("matmul", query, ops.node("transpose", key, perm=(1, 0)))
    graph = Graph((x.args[0],), (("y", ops.node("matmul", scores, value)),))
    found = plan(graph, gpu=True, head=64)
    widths = [n.type.shape[-1] for b in found.blocks for n in b.nodes if n.op == "matmul" and n.type.dtype == "i32"]
    assert widths == [48]
    inputs = {"x": random.integers(-128, 128, (8, 32)).astype(np.int8)}
    assert all(d.within(2e-5) for d in compare_all(run_plan(found, inputs), run_graph(graph, inputs)))


def test_siblings_with_biases_keep_their_names() -> None:
    random = np.random.default_rng(0)

    def values(*shape: int) -> np.ndarray:
        return random.standard_normal(shape).astype(np.float32)

    nodes = [
        node("MatMul", ["x", "wq"], ["q0"], "query"), node("Add", ["q0", "bq"], ["q"]),
        node("MatMul", ["x", "wk"], ["k"], "key"), node("Transpose", ["k"], ["kt"], perm=[1, 0]),
        node("MatMul", ["q", "kt"], ["y"], "scores"),
        node("MatMul", ["x", "wz"], ["z"], "another"),
    ]  # fmt: skip
    constants = [
        weights("wq", values(5, 8)),
        weights("wk", values(5, 8)),
        weights("wz", values(5, 8)),
        weights("bq", values(8)),
    ]
    proto = model(nodes, [tensor_input("x", [6, 5])], ("y", "z"), constants)
    built = edgec.build(proto)
    products = [k for k in built.program.kernels if k.block and any(n.op == "matmul" for n in k.block.nodes)]
    assert [k.block.output.type.shape for k in products if k.block] == [(6, 16), (6, 6), (6, 8)], "z is an output"
    assert {"query", "key"} <= set(products[0].names)
    assert edgec.check(proto, samples=2, blocks=True).ok


def test_convolutions_of_one_picture_are_one() -> None:
    """Two heads look at one picture, one with a bias, both with an activation; then each goes on with what it found.

    A third is read by more than convolutions, and a fourth has other strides: both stay alone.
    """
    random = np.random.default_rng(1)

    def values(*shape: int) -> np.ndarray:
        return random.standard_normal(shape).astype(np.float32)

    around = {"pads": [1, 1, 1, 1]}
    nodes = [
        node("Conv", ["x", "wa", "b"], ["a"], "first", **around), node("Sigmoid", ["a"], ["sa"]),
        node("Mul", ["a", "sa"], ["ma"]), node("Conv", ["ma", "w1"], ["y1"], "far", pads=[2, 2, 2, 2]),
        node("Conv", ["x", "wb"], ["c"], "second", **around), node("Sigmoid", ["c"], ["sc"]),
        node("Mul", ["c", "sc"], ["mc"]), node("Conv", ["mc", "w2"], ["y2"], "near"),
        node("Conv", ["x", "wd"], ["d"], "third", **around), node("Conv", ["d", "w1"], ["e"]),
        node("GlobalAveragePool", ["d"], ["y3"]), node("GlobalAveragePool", ["e"], ["y4"]),
        node("Conv", ["x", "wa"], ["g"], "fourth", strides=[2, 2], **around), node("Conv", ["g", "w1"], ["y5"]),
    ]  # fmt: skip
    constants = [
        weights("wa", values(5, 3, 3, 3)),
        weights("wb", values(7, 3, 3, 3)),
        weights("wd", values(5, 3, 3, 3)),
        weights("w1", values(2, 5, 5, 5)),
        weights("w2", values(3, 7, 1, 1)),
        weights("b", values(5)),
    ]
    proto = model(nodes, [tensor_input("x", [1, 3, 11, 10])], ("y1", "y2", "y3", "y4", "y5"), constants)
    built = edgec.build(proto)
    blocks = [k.block for k in built.program.kernels if k.block and any(n.op == "conv" for n in k.block.nodes)]
    stacked = [b for b in blocks if b.output.type.shape == (1, 12, 11, 10)]
    assert (len(blocks), len(stacked)) == (7, 1)
    assert edgec.check(proto, samples=2, blocks=True).ok


def test_regions_are_read_where_they_lie() -> None:
    """Four neighbors of every sample, all channels of each side by side: nothing that was gathered is stored."""
    random = np.random.default_rng(2)
    nodes = [
        node("Conv", ["x", "w"], ["f"], kernel_shape=[1, 1]),
        node("RoiAlign", ["f", "b", "i"], ["y"], output_height=3, output_width=2, sampling_ratio=2),
    ]
    constants = [
        weights("w", random.standard_normal((19, 3, 1, 1)).astype(np.float32)),
        weights("i", np.zeros(5, np.int64)),
    ]
    inputs = [tensor_input("x", [1, 3, 9, 10]), tensor_input("b", [5, 4])]
    proto = model(nodes, inputs, ("y",), constants)
    built = edgec.build(proto)
    gathers = [k.block for k in built.program.kernels if k.block and k.block.output.op == "gather"]
    assert not gathers
    assert edgec.check(proto, samples=2, blocks=True).ok
