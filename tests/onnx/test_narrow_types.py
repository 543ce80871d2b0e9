"""Narrow types in a model: stored as they are, quantized by blocks, saturated as the standard says."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import ml_dtypes
import numpy as np
import onnx
import pytest
from chance import RANDOM
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import edgec
from edgec.frontend.onnx import import_model
from edgec.ir import evaluate
from edgec.ir.types import DTYPES, plain

FLOAT8 = ["FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ"]
QUANTIZED = [*FLOAT8, "FLOAT4E2M1", "INT4", "UINT4", "INT2", "UINT2", "INT8", "UINT16"]


def model(node: onnx.NodeProto, **operands: np.ndarray) -> onnx.ModelProto:
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in operands.items()
    ]
    output = helper.make_empty_tensor_value_info("y")
    graph = helper.make_graph([node], "g", inputs, [output])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)])


def agrees(node: onnx.NodeProto, **operands: np.ndarray) -> np.ndarray:
    """The same as the standard's own implementation, element by element."""
    proto = model(node, **operands)
    (want,) = ReferenceEvaluator(proto).run(None, operands)
    got = evaluate.run(import_model(proto), operands)["y"]
    assert got.dtype == want.dtype and got.shape == want.shape
    assert ((plain(got) == plain(want)) | ((got != got) & (want != want))).all()
    return got


def specials() -> np.ndarray:
    x = np.float32([0, -0.0, 1e-9, -1e-9, 240, 448, 449, 464, 465, -480, 57344, 61440, -61441, 1e30, np.inf, -np.inf])
    return np.concatenate([x, [np.nan], RANDOM.standard_normal(200) * 100]).astype(np.float32)


@pytest.mark.parametrize("to, saturate", list(product(FLOAT8, (0, 1))))
def test_cast_to_float8(to: str, saturate: int) -> None:
    agrees(helper.make_node("Cast", ["x"], ["y"], to=getattr(TensorProto, to), saturate=saturate), x=specials())


@pytest.mark.parametrize("mode, saturate", list(product(("up", "nearest", "down"), (0, 1))))
def test_cast_to_powers_of_two(mode: str, saturate: int) -> None:
    near_powers = np.ldexp(RANDOM.choice([1, 1.25, 1.5, 1.75, 1.999], 300), RANDOM.integers(-148, 128, 300))
    x = np.concatenate([specials(), near_powers.astype(np.float32)])
    node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT8E8M0, round_mode=mode, saturate=saturate)
    agrees(node, x=x)


def blocks() -> Iterator[tuple[int, int, tuple[int, ...], tuple[int, ...]]]:
    """Axis, length of a block, shape of the data and of its scales."""
    yield 0, 0, (6, 10), ()
    yield 1, 0, (6, 10), (10,)
    yield 0, 0, (6, 10), (6,)
    yield 1, 5, (6, 10), (6, 2)
    yield 0, 3, (6, 10), (2, 10)
    yield -1, 2, (3, 2, 10), (3, 2, 5)


@pytest.mark.parametrize("to", QUANTIZED)
def test_quantize_and_back(to: str) -> None:
    kind = helper.tensor_dtype_to_np_dtype(getattr(TensorProto, to))
    for axis, block_size, shape, scales in blocks():
        x = (RANDOM.standard_normal(shape) * 3).astype(np.float32)
        scale = RANDOM.uniform(0.05, 0.5, scales).astype(np.float32)
        is_float = "FLOAT" in to
        zero = np.zeros(scales) if is_float else RANDOM.integers(0, 2, scales)
        operands = {"x": x, "scale": scale, "zero": zero.astype(kind)}
        attributes = {"axis": axis, "block_size": block_size}
        q = agrees(helper.make_node("QuantizeLinear", list(operands), ["y"], **attributes), **operands)
        operands["x"] = q
        agrees(helper.make_node("DequantizeLinear", list(operands), ["y"], **attributes), **operands)


def test_an_artefact_takes_and_gives_narrow_types(tmp_path: object) -> None:
    """Inputs, weights and outputs of a byte an element, through the compiled library and its file."""
    weights = numpy_helper.from_array(RANDOM.integers(-8, 8, (5, 7)).astype(ml_dtypes.int4), "w")
    nodes = [
        helper.make_node("Cast", ["a"], ["fa"], to=TensorProto.FLOAT),
        helper.make_node("DequantizeLinear", ["w", "s"], ["fw"]),
        helper.make_node("MatMul", ["fa", "fw"], ["fy"]),
        helper.make_node("Cast", ["fy"], ["y"], to=TensorProto.FLOAT8E4M3FN),
        helper.make_node("Transpose", ["a"], ["t"]),
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("a", TensorProto.UINT4, [3, 5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT8E4M3FN, [3, 7]),
         helper.make_tensor_value_info("t", TensorProto.UINT4, [5, 3])],
        [weights, numpy_helper.from_array(np.float32(0.3), "s")],
    )  # fmt: skip
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)])
    net = edgec.build(proto)
    a = RANDOM.integers(0, 16, (3, 5)).astype(DTYPES["u4"])
    got = net(a)
    want = a.astype(np.float32) @ (numpy_helper.to_array(weights).astype(np.float32) * np.float32(0.3))
    assert got["y"].dtype == DTYPES["f8e4m3fn"] and got["t"].dtype == DTYPES["u4"]
    assert (plain(got["t"]) == plain(np.ascontiguousarray(a.T))).all()
    np.testing.assert_allclose(got["y"].astype(np.float32), want, rtol=2**-4 * 1.01, atol=2**-9)
