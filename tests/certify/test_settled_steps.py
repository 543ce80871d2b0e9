"""Steps of quantization: one step for all readers where a value is stored, and pairs of bends in equalized layers."""

from __future__ import annotations

import numpy as np
import small_graphs as g
from bounded import box
from chance import RANDOM

import edgec
from edgec.certify.emitted import network_of
from edgec.certify.joint import Joint
from edgec.frontend.onnx.export import to_onnx
from edgec.ir.graph import Node, constant
from edgec.ir.registry import node


def _quantized(x: Node, scale: float) -> Node:
    integers = node("round", node("div", x, g.number(scale)))
    clipped = node("min", node("max", node("add", integers, g.number(128)), g.number(0)), g.number(255))
    wide = node("cast", node("cast", clipped, to="u8"), to="f32")
    return node("mul", node("sub", wide, g.number(128)), g.number(scale))


def test_a_step_settles_through_a_reshape() -> None:
    """A rounded value that is moved and stored is one number for all readers: at one input it is known."""
    x = g.value("x", 1, 4, 6)
    graph = g.graph(node("transpose", node("reshape", _quantized(x, 0.1), shape=(2, 12)), perm=(1, 0)))
    built = edgec.build(to_onnx(graph), compile=False)
    network = network_of(built.stages.plan, built.program, built.options)
    given = {"x": RANDOM.uniform(-3, 3, (1, 4, 6)).astype(np.float32)}
    (output,) = network.outputs.values()
    widths = []
    for eps in (0.0, 1e-4):
        seen = network.bounds(box(network, given, eps), tighten=False).seen[output]
        widths.append(seen.high - seen.low)
    assert all(np.median(w) < 1e-5 for w in widths), "most are far from a step"


def test_multiples_of_pairs_come_from_operands() -> None:
    """A channel of another multiple, and never above zero at a sample: its value alone says nothing of its multiple."""
    w, v = RANDOM.normal(size=(6, 4)).astype(np.float32), RANDOM.normal(size=(4, 2)).astype(np.float32)
    bias = np.array([0.3, 0.2, -50.0, 0.1], np.float32)
    multiples = np.array([4.0, 0.5, 8.0, 1.0], np.float32)

    def layers(by: np.ndarray) -> Node:
        x = g.value("x", 1, 6)
        a = g.relu(node("add", node("matmul", x, constant(w * by)), constant(bias * by)))
        return node("matmul", a, constant(v / by[:, None]))

    program, reference = g.graph(layers(multiples)), g.graph(layers(np.ones(4, np.float32)))
    built = edgec.build(to_onnx(program), compile=False)
    assert built.stages.plan is not None
    centers = [{"x": RANDOM.standard_normal((1, 6)).astype(np.float32)} for _ in range(3)]
    network = Joint(built.stages.plan, reference, centers)
    (pair,) = network.pairs
    np.testing.assert_allclose(pair.scale[0], 1 / multiples, rtol=1e-5)
