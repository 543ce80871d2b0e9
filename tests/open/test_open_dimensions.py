"""Graphs whose dimensions are chosen when they run: compiled once, right for every size."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from attention_cases import attention as flash
from compiled import Compiled, compile_graphs, target
from procedure_cases import CELLS, recurrence
from sanitized import ADDRESS, run_sanitized
from small_graphs import gelu, graph, layernorm, mean, pad, relu, softmax, transpose, weights

from edgec import ops
from edgec.execute.samples import random_inputs
from edgec.ir import evaluate
from edgec.ir.expr import Expr
from edgec.ir.graph import Graph, Node, constant, placeholder
from edgec.ir.sizes import Dimension
from edgec.ir.types import Type

B, L, W = Dimension("batch", 1, 3).extent, Dimension("length", 1, 37).extent, Dimension("width", 8, 72, 8).extent
N = Dimension("long", 1, 300).extent
M = Dimension("n", 1, 1500).extent  # long sums have parts, whatever the name of what they run over
E, H = Dimension("empty", 0, 5).extent, Dimension("height", 3, 40).extent
Built = Callable[[], Node]


def value(name: str, *shape: int | Expr, dtype: str = "f32") -> Node:
    return placeholder(name, Type(dtype, shape))


def widened(name: str, *shape: int | Expr) -> Node:
    """Bytes without their zero point."""
    wide = ops.node("cast", value(name, *shape, dtype="i8"), to="i32")
    return ops.node("sub", wide, constant(np.array(5, np.int32)))


def attention() -> Node:
    x = value("x", B, L, 24)

    def heads(seed: int) -> Node:
        y = ops.node("matmul", x, weights(24, 24, scale=0.2))
        return transpose(ops.node("reshape", y, shape=(B, L, 3, 8)), 0, 2, 1, 3)

    scores = ops.node("matmul", heads(0), transpose(heads(1), 0, 1, 3, 2))
    mixed = transpose(ops.node("matmul", softmax(scores, 3), heads(2)), 0, 2, 1, 3)
    return ops.node("reshape", mixed, shape=(B, L, 24))


def conv(x: Node, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> Node:
    w = weights(outputs, x.type.shape[1] // groups, kernel, kernel)
    return ops.node("conv", x, w, strides=(stride, stride), dilations=(1, 1), groups=groups)


def normalized(x: Node) -> Node:
    d = ops.node("sub", x, mean(x, 1))
    scale = ops.node("add", mean(ops.node("mul", d, d), 1), constant(np.array(1e-3, np.float32)))
    return ops.node("div", d, ops.node("sqrt", scale))


def convnet() -> Node:
    x = value("x", B, 3, W, H)
    y = relu(conv(pad(x, 0, 0, 1, 1), 16, 3, 2))
    y = relu(conv(pad(y, 0, 0, 1, 1), 16, 3, 1, 16))
    y = conv(y, 20, 1)
    return mean(y, 2, 3)


CASES: dict[str, Built] = {
    "rows of a product": lambda: gelu(ops.node("matmul", value("x", L, 19), weights(19, 53))),
    "lanes of a product": lambda: ops.node("matmul", weights(11, 13), value("x", 13, L)),
    "sum of a product": lambda: ops.node("matmul", value("x", 5, L), value("y", L, 21)),
    "sum of a product of integers": lambda: ops.node("matmul", widened("x", 3, L), widened("y", L, 21)),
    "a long sum of a product": lambda: ops.node("matmul", value("x", 5, M), value("y", M, 21)),
    "a long sum of open loops": lambda: conv(value("x", 1, 90, L, W), 7, 3, 2),
    "columns an open step apart": lambda: transpose(ops.node("matmul", value("x", L, 24), weights(24, 40)), 1, 0),
    "a product of open matrices": lambda: ops.node("matmul", value("x", B, L, W), value("y", B, W, L)),
    "element by element": lambda: gelu(ops.node("add", value("x", B, L, 7), value("y", L, 1))),
    "lanes that end anywhere": lambda: relu(ops.node("add", value("x", B, L), value("y", 1, L))),
    "softmax": lambda: softmax(value("x", B, L), 1),
    "layer normalization": lambda: layernorm(value("x", B, L, 40), 2),
    "normalization over an open row": lambda: normalized(value("x", 3, L)),
    "mean of columns": lambda: mean(value("x", B, L, 6), 1),
    "attention": attention,
    "attention over a long length": lambda: flash(value("q", N, 9), value("k", N, 9), value("v", N, 20)),
    "transposed": lambda: transpose(relu(value("x", B, L, 5)), 2, 1, 0),
    "merged": lambda: relu(ops.node("reshape", value("x", B, L, 6), shape=(B * L, 6))),
    "merged whole": lambda: relu(ops.node("reshape", value("x", B, L, 6), shape=(B * L * 6,))),
    "split": lambda: relu(ops.node("reshape", value("x", B, W, 3), shape=(B, W // 8, 24))),
    "concatenated": lambda: ops.node("concat", relu(value("x", L, 5)), relu(value("y", B, 5)), axis=0),
    "concatenated inside": lambda: ops.node("concat", relu(value("x", L, 5)), relu(value("y", L, 3)), axis=1),
    "sliced": lambda: ops.node("slice", relu(value("x", W, 9)), starts=(2, 1), steps=(1, 2), shape=(W - 3, 4)),
    "last": lambda: relu(ops.node("slice", value("x", L, 9), starts=(L - 1, 0), steps=(1, 1), shape=(1, 9))),
    "broadcast": lambda: ops.node("add", ops.node("broadcast", value("x", L, 1), shape=(B, L, 6)), value("y", B, 1, 6)),
    "padded": lambda: pad(relu(value("x", L, 5)), 2, 1),
    "convolution": lambda: relu(conv(pad(value("x", B, 5, L, W), 0, 0, 1, 1), 18, 3)),
    "strided convolution": lambda: conv(pad(value("x", 1, 5, H, W), 0, 0, 1, 1), 9, 3, 2),
    "depthwise convolution": lambda: relu(conv(pad(relu(value("x", B, 20, L, W)), 0, 0, 1, 1), 20, 3, 1, 20)),
    "a small network": convnet,
    "gathered": lambda: ops.node("gather", weights(10, 12), value("i", B, L, dtype="i64"), axis=0),
    "gathered from what is open": lambda: ops.node("gather", value("x", L, 6), value("i", 4, dtype="i64"), axis=0),
    "its own size": lambda: ops.node("cast", ops.node("size", value=B * L + 2), to="f32"),
    "positions": lambda: ops.node("add", value("x", L, dtype="i64"), ops.node("iota", shape=(L,), axis=0)),
    "lstm over any number of steps": lambda: recurrence(CELLS["lstm"], L, 2, 12),
    "lstm that may have no step": lambda: recurrence(CELLS["lstm"], E, B, 7, lengths=True, backwards=True),
    "gru of any number of sequences": lambda: recurrence(CELLS["gru"], 3, H, 18),
    "nothing at all": lambda: ops.node("reduce", relu(value("x", E, 4)), combine="add", axes=(0,)),
    "what may be nothing": lambda: ops.node("matmul", value("x", E, 7), weights(7, 20)),
    "joined to nothing": lambda: softmax(ops.node("concat", relu(value("x", 2, E)), value("y", 2, 3), axis=1), 1),
}
SEEDS = (0, 1, 2, 5)  # the least sizes, the greatest, and any


def _graph(name: str) -> Graph:
    node = CASES[name]()
    made = graph(node)
    known = dict.fromkeys(made.inputs)
    return Graph(tuple(known), made.outputs)


GRAPHS = {name: _graph(name) for name in CASES if name != "its own size"}
GRAPHS["its own size"] = Graph((value("x", B, L),), (("y0", CASES["its own size"]()), ("y1", relu(value("x", B, L)))))


def _close(name: str, got: dict[str, np.ndarray], want: dict[str, np.ndarray]) -> None:
    for port, array in want.items():
        assert got[port].shape == array.shape, (name, port)
        most = np.abs(array).max(initial=1e-30)
        assert np.abs(got[port] - array).max(initial=0) <= 1e-5 * most, (name, port, array.shape)


@pytest.mark.parametrize("fuse", [True, False])
@pytest.mark.parametrize("device", ["host", "generic"])
def test_one_artefact_serves_the_range(device: str, fuse: bool, tmp_path: Path) -> None:
    where = target(device)
    made = compile_graphs(GRAPHS, tmp_path, fuse, where.flags, where.device, threads=3)
    for name, network in made.items():
        assert isinstance(network, Compiled), (name, network)
        for seed in SEEDS:
            given = random_inputs(GRAPHS[name], seed)
            alone = network(given)
            _close(name, alone, evaluate.run(GRAPHS[name], given))
            shared = network(given, 3)
            assert all(np.array_equal(alone[port], shared[port]) for port in alone), name


@pytest.mark.parametrize("seed", SEEDS[:3])
def test_stays_inside_its_buffers(seed: int, tmp_path: Path) -> None:
    given = {name: random_inputs(graph, seed) for name, graph in GRAPHS.items()}
    got = run_sanitized(GRAPHS, given, tmp_path, target("host"), ADDRESS)
    for name, outputs in got.items():
        _close(name, outputs, evaluate.run(GRAPHS[name], given[name]))
