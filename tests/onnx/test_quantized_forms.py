"""Quantized networks in any spelling become the same sums of products of bytes; trained ones keep their results."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from chance import RANDOM
from onnx import TensorProto, helper, numpy_helper

from edgec import ops
from edgec.check.reference import Reference
from edgec.device.load import load_device
from edgec.execute.samples import random_inputs
from edgec.frontend.onnx import import_model
from edgec.frontend.onnx.model import read
from edgec.ir.evaluate import run
from edgec.ir.graph import Graph, Node, constant, placeholder
from edgec.ir.text import show
from edgec.ir.types import Type
from edgec.rewrite import simplify
from edgec.rewrite.measure import OpCosts, is_widening

FOLDER = Path(os.environ.get("EDGEC_MODELS") or Path(__file__).resolve().parents[3] / "shared" / "models")
#: With the shapes of inputs that their files leave open.
TRAINED: dict[str, dict[str, tuple[int, ...]]] = {
    "mlperf_tiny/kws_ref_model": {"input_1": (1, 49, 10, 1)},
    "mlperf_tiny/pretrainedResnet_quant": {"input_1_int8": (1, 32, 32, 3)},
    "mlperf_tiny/vww_96_int8": {"input_1_int8": (1, 96, 96, 3)},
    "mlperf_tiny/ad01_int8": {"input_1": (1, 640)},
    "mlperf_tiny/str_ww_ref_model": {"serving_default_input_1:0": (1, 30, 1, 40)},
    "tflm/person_detect": {},
    "tflm/micro_speech_quantized": {},
    "coral/mobilenet_v1_0.25_128_quant": {},
}

W = RANDOM.integers(-127, 128, (6, 4, 3, 3), np.int8)
SW = RANDOM.uniform(0.001, 0.01, 6).astype(np.float32)
B = RANDOM.integers(-2000, 2000, 6, np.int32)
M = RANDOM.integers(-127, 128, (8, 5), np.int8)
U = RANDOM.integers(0, 256, (8, 5), np.uint8)
SX, SY, SM = np.float32(0.037), np.float32(0.21), np.float32(0.004)
ZX, ZY = np.uint8(113), np.uint8(97)
CONSTANTS: dict[str, np.ndarray] = {
    "w": W, "sw": SW, "zw": np.zeros(6, np.int8), "b": B, "sb": SX * SW, "sx": SX, "zx": ZX, "sy": SY, "zy": ZY,
    "m": M, "sm": SM, "zm": np.int8(0), "u": U, "zu": np.uint8(120), "six": np.float32(6), "zero": np.float32(0),
}  # fmt: skip


def model(
    nodes: list[onnx.NodeProto], shapes: dict[str, tuple[int, ...]], dtype: int = TensorProto.UINT8
) -> onnx.ModelProto:
    used = {i for n in nodes for i in n.input}
    constants = [numpy_helper.from_array(np.asarray(v), k) for k, v in CONSTANTS.items() if k in used]
    inputs = [helper.make_tensor_value_info(name, TensorProto.UINT8, shape) for name, shape in shapes.items()]
    outputs = [helper.make_tensor_value_info("y", dtype, None)]
    graph = helper.make_graph(nodes, "net", inputs, outputs, constants)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def dequantize(x: str, y: str, scale: str, zero: str = "", axis: int = 1) -> onnx.NodeProto:
    return helper.make_node("DequantizeLinear", [x, scale, *([zero] if zero else [])], [y], axis=axis)


def quantize(x: str) -> onnx.NodeProto:
    return helper.make_node("QuantizeLinear", [x, "sy", "zy"], ["y"])


def simplified(made: onnx.ModelProto, tmp_path: Path) -> Graph:
    path = tmp_path / "net.onnx"
    onnx.save(made, path)
    result, _ = simplify(import_model(path))
    return result


def reference(made: onnx.ModelProto, arrays: dict[str, np.ndarray]) -> list[np.ndarray]:
    found = Reference(read(made), rounds_operands=False).run(arrays)
    return [found[o.name] for o in made.graph.output]


def products(graph: Graph) -> list[Node]:
    return [n for n in graph.operations() if n.op in ("conv", "matmul")]


CONV = {"pads": [1, 1, 0, 1], "strides": [2, 1]}
FORMS = {
    "convolution": (
        [
            dequantize("x", "xf", "sx", "zx"), dequantize("w", "wf", "sw", "zw", axis=0),
            dequantize("b", "bf", "sb", axis=0),
            helper.make_node("Conv", ["xf", "wf", "bf"], ["c"], **CONV), quantize("c"),
        ],
        [helper.make_node("QLinearConv", ["x", "sx", "zx", "w", "sw", "zw", "sy", "zy", "b"], ["y"], **CONV)],
        {"x": (1, 4, 7, 6)},
    ),
    "matrix product": (
        [
            dequantize("x", "xf", "sx", "zx"), dequantize("m", "mf", "sm", "zm"),
            helper.make_node("MatMul", ["xf", "mf"], ["c"]), quantize("c"),
        ],
        [helper.make_node("QLinearMatMul", ["x", "sx", "zx", "m", "sm", "zm", "sy", "zy"], ["y"])],
        {"x": (3, 8)},
    ),
    "weights with a zero point": (
        [
            dequantize("x", "xf", "sx", "zx"), dequantize("u", "uf", "sm", "zu"),
            helper.make_node("MatMul", ["xf", "uf"], ["c"]), quantize("c"),
        ],
        [helper.make_node("QLinearMatMul", ["x", "sx", "zx", "u", "sm", "zu", "sy", "zy"], ["y"])],
        {"x": (3, 8)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_pairs_and_operators_become_the_same_graph(name: str, tmp_path: Path) -> None:
    pairs, operators, shapes = FORMS[name]
    first, second = (simplified(model(nodes, shapes), tmp_path) for nodes in (pairs, operators))
    assert [n for _, n in first.outputs] == [n for _, n in second.outputs], f"{show(first)}\n{show(second)}"
    assert all(is_widening(a) and a.type.dtype == "i32" for n in products(first) for a in n.args)
    arrays = {name: RANDOM.integers(0, 256, shape, np.uint8) for name, shape in shapes.items()}
    expected = reference(model(operators, shapes), arrays)[0].astype(int)
    assert (run(first, arrays)["y"].astype(int) == expected).all()


def test_an_activation_is_a_bound(tmp_path: Path) -> None:
    nodes, _, shapes = FORMS["convolution"]
    clipped = [*nodes[:-1], helper.make_node("Clip", ["c", "zero", "six"], ["r"]), quantize("r")]
    made = model(clipped, shapes)
    graph = simplified(made, tmp_path)
    assert [n.op for n in graph.operations()].count("max") == [n.op for n in graph.operations()].count("min") == 1
    arrays = {"x": RANDOM.integers(0, 256, shapes["x"], np.uint8)}
    assert (run(graph, arrays)["y"] == reference(made, arrays)[0]).all()


def test_a_zero_point_of_run_time_meets_sums_of_the_weights(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["xf"], to=TensorProto.FLOAT),
        helper.make_node("DynamicQuantizeLinear", ["xf"], ["q", "s", "z"]),
        helper.make_node("MatMulInteger", ["q", "m", "z", "zm"], ["y"]),
    ]
    made = model(nodes, {"x": (3, 8)}, TensorProto.INT32)
    graph = simplified(made, tmp_path)
    (product,) = products(graph)
    assert all(map(is_widening, product.args))
    arrays = {"x": RANDOM.integers(0, 256, (3, 8), np.uint8)}
    assert (run(graph, arrays)["y"] == reference(made, arrays)[0]).all()


def test_dot_products_of_bytes_shift_wide_weights() -> None:
    """With int8 dot products, weights of nine bits become int8 weights and a sum of the operand."""
    from random import Random

    from edgec.rewrite import load_rules
    from edgec.rewrite.prove import instances_of

    rules = load_rules()
    rule = next(r for r in rules if r.name == "shift_the_weights")
    node = next(iter(instances_of(rule, Random(0))))
    inputs = tuple(a.args[0] for a in node.args if a.args[0].op == "input")
    graph = Graph(inputs, (("y", node),))
    for prices, dtype in ((OpCosts(), "i16"), (OpCosts(bytes=4), "i8")):
        found, _ = simplify(graph, rules, prices=prices)
        assert {a.args[0].type.dtype for n in products(found) for a in n.args if a.args[0].is_const} == {dtype}


@pytest.mark.parametrize("op", ["matmul", "conv"])
def test_zero_points_of_columns_leave_weights_of_bytes(op: str) -> None:
    """Each column fits into bytes around a middle of its own, where no middle serves for all."""
    zeros = np.array([20, 128, 230], np.int64)
    centered = np.tile(np.array([[0, 255, 9], [255, 0, 7], [3, 90, 0], [60, 9, 255]]) - zeros, (8, 6))
    x = placeholder("x", Type("u8", (5, 32) if op == "matmul" else (1, 32, 5, 1)))
    given = centered if op == "matmul" else np.ascontiguousarray(centered.T).reshape(18, 32, 1, 1)
    operands = [ops.node("cast", n, to="i32") for n in (x, constant(given.astype(np.int16)))]
    told = {} if op == "matmul" else {"strides": (1, 1), "dilations": (1, 1)}
    graph = Graph((x,), (("y", ops.node(op, *operands, **told)),))
    found, _ = simplify(graph, prices=OpCosts(bytes=4))
    assert {a.args[0].type.dtype for n in products(found) for a in n.args} == {"u8", "i8"}
    arrays = {"x": RANDOM.integers(0, 256, x.type.shape, np.uint8)}
    assert (run(found, arrays)["y"] == run(graph, arrays)["y"]).all()


@pytest.mark.parametrize(("device", "is_integer"), [("x86_64_avx2", False), ("cortex_m7", True)])
def test_activations_of_sixteen_bits_on_lanes_are_floats(device: str, is_integer: bool) -> None:
    """Multiplying integers of 32 bits takes longer there, and nothing multiplies 16 bits."""
    x, w = placeholder("x", Type("u16", (5, 32))), constant(RANDOM.integers(-128, 128, (32, 9)).astype(np.int8))
    floats = [ops.node("mul", ops.node("cast", n, to="f32"), constant(np.float32(0.01))) for n in (x, w)]
    graph = Graph((x,), (("y", ops.node("matmul", *floats)),))
    found, _ = simplify(graph, prices=OpCosts.on(load_device(device)))
    assert [n.type.dtype == "i32" for n in products(found)] == [is_integer]


@pytest.mark.parametrize("name", TRAINED)
def test_trained(name: str) -> None:
    """All sums of products are of bytes, and no output is more than one step from onnxruntime's integers."""
    path = FOLDER / f"{name}.onnx"
    if not path.is_file():
        pytest.skip(f"{path.name} is not in the folder of trained models")
    graph, _ = simplify(import_model(path, TRAINED[name]))
    assert products(graph)
    assert all(is_widening(a) for n in products(graph) for a in n.args)
    arrays = random_inputs(graph, seed=1)
    results = run(graph, arrays)
    for (output, _), expected in zip(graph.outputs, reference(onnx.load(path), arrays)):
        assert np.abs(results[output].astype(int) - expected.astype(int)).max() <= 1
