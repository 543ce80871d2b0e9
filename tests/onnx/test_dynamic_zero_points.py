"""Convolutions of bytes whose zero point only run time knows, as dynamic quantization writes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from chance import RANDOM
from small_models import model, node, tensor_input, weights

import edgec

#: (channels, outputs, groups, extents, kernel, pads, strides, dilations)
Shape = tuple[int, int, int, tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]
SHAPES: dict[str, Shape] = {
    "same": (5, 7, 1, (9, 11), (3, 3), (1, 1, 1, 1), (1, 1), (1, 1)),
    "wide": (16, 33, 1, (12, 12), (3, 3), (1, 1, 1, 1), (1, 1), (1, 1)),
    "lopsided": (4, 6, 1, (8, 9), (3, 2), (2, 0, 0, 1), (2, 1), (1, 1)),
    "dilated": (4, 6, 1, (10, 10), (3, 3), (2, 2, 2, 2), (1, 1), (2, 2)),
    "groups": (6, 8, 2, (7, 7), (3, 3), (1, 1, 1, 1), (2, 2), (1, 1)),
    "depthwise": (16, 16, 16, (9, 9), (3, 3), (1, 1, 1, 1), (1, 1), (1, 1)),
    "a line": (3, 5, 1, (17,), (5,), (2, 2), (1,), (1,)),
    "no padding": (3, 5, 1, (6, 6), (3, 3), (0, 0, 0, 0), (1, 1), (1, 1)),
}


def dynamic(shape: Shape, relu: bool, zero: int | None = None) -> onnx.ModelProto:
    """The scaled convolution of a tensor that is quantized by its own extremes.

    Weights are signed, or unsigned with a ``zero`` point, as quantizers of older opsets write them.
    """
    channels, outputs, groups, extents, kernel, pads, strides, dilations = shape
    low, dtype = (-127, np.int8) if zero is None else (0, np.uint8)
    w = RANDOM.integers(low, low + 255, (outputs, channels // groups, *kernel)).astype(dtype)
    bias = RANDOM.standard_normal((1, outputs, *(1,) * len(kernel))).astype(np.float32)
    geometry = {"kernel_shape": kernel, "pads": pads, "strides": strides, "dilations": dilations, "group": groups}
    nodes = [
        node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        node("ConvInteger", ["q", "w", "z", *(["zw"] if zero is not None else [])], ["c"], **geometry),
        node("Cast", ["c"], ["f"], to=onnx.TensorProto.FLOAT),
        node("Mul", ["s", "sw"], ["m"]),
        node("Mul", ["f", "m"], ["g"]),
        node("Add", ["g", "b"], ["h"]),
        node("Relu" if relu else "Identity", ["h"], ["y"]),
    ]
    constants = [weights("w", w), weights("sw", np.float32(0.003)), weights("b", bias)]
    constants += [] if zero is None else [weights("zw", np.uint8(zero))]
    return model(nodes, [tensor_input("x", [1, channels, *extents])], initializers=constants)


@pytest.mark.parametrize("zero", [None, 137])
@pytest.mark.parametrize("name", SHAPES)
def test_as_onnxruntime(name: str, zero: int | None, tmp_path: Path) -> None:
    shape = SHAPES[name]
    proto = dynamic(shape, relu=name != "groups", zero=zero)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    net = edgec.build(proto, tmp_path / "net", threads=2)
    multiplied = [n for n in net.graph.operations() if n.op == "conv"]
    assert all(n.args[0].op == "cast" or n.args[0].args[0].op == "cast" for n in multiplied), "zero points are outside"
    for shift in (0.0, 3.0, -40.0):
        x = (RANDOM.standard_normal((1, shape[0], *shape[3])) + shift).astype(np.float32)
        want = session.run(None, {"x": x})[0]
        assert np.abs(net(x) - want).max() <= 1e-5 * np.abs(want).max()


@pytest.mark.parametrize("zero", [None, 137])
def test_no_loop_over_single_products(zero: int | None) -> None:
    """A product with one more term must not end in a kernel that multiplies element by element."""
    net = edgec.build(dynamic(SHAPES["wide"], relu=True, zero=zero), compile=False)
    kinds = {k.main.template for k in net.program.kernels if any(n.op == "conv" for n in k.block.nodes)}
    assert kinds == {"contract"}
    (product,) = (n for n in net.graph.operations() if n.op == "conv")
    assert {a.args[0].type.dtype for a in product.args if a.op == "cast"} <= {"u8", "i8"}
