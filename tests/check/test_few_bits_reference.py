"""Products by weights of few bits are held against what the operator means, whatever its accuracy_level."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from chance import RANDOM
from onnx import TensorProto, helper, numpy_helper

import edgec
from edgec.check.meant import in_floats
from edgec.check.reference import Reference, open_reference
from edgec.frontend.onnx.model import read

INPUTS, OUTPUTS, GROUP = 64, 24, 32


def product(level: int | None) -> onnx.ModelProto:
    codes = RANDOM.integers(0, 256, (OUTPUTS, INPUTS // GROUP, GROUP // 2)).astype(np.uint8)
    scales = (RANDOM.random(OUTPUTS * INPUTS // GROUP) + 0.1).astype(np.float32)
    settings = {"K": INPUTS, "N": OUTPUTS, "bits": 4, "block_size": GROUP}
    settings |= {} if level is None else {"accuracy_level": level}
    made = helper.make_node(
        "MatMulNBits", ["x", "codes", "scales"], ["y"], "product", domain="com.microsoft", **settings
    )
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [made], "g", [value("x", TensorProto.FLOAT, [3, INPUTS])], [value("y", TensorProto.FLOAT, [3, OUTPUTS])],
        [numpy_helper.from_array(codes, "codes"), numpy_helper.from_array(scales, "scales")],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


@pytest.mark.parametrize("level", [None, 0, 1, 4])
def test_a_product_is_right_at_every_level(level: int | None, tmp_path: Path) -> None:
    onnx.save(product(level), tmp_path / "m.onnx")
    checked = edgec.check(tmp_path / "m.onnx", samples=2)
    assert checked.ok and checked.verdict == "ok" and not checked.notes
    assert edgec.bench(tmp_path / "m.onnx", vs="onnxruntime", seconds=0.02, rounds=1).max_rel < 1e-4


def test_the_peer_itself_rounds_at_level_4(tmp_path: Path) -> None:
    onnx.save(product(4), tmp_path / "m.onnx")
    model = read(tmp_path / "m.onnx")
    given = {"x": RANDOM.standard_normal((3, INPUTS)).astype(np.float32)}
    rounded, exact = (Reference(m).run(given)["y"] for m in (model, in_floats(model)))
    assert np.abs(rounded - exact).max() > 1e-4 * np.abs(exact).max()
    assert in_floats(read(product(1))) is not None
    plain = read(product(None))
    assert in_floats(plain) is plain


def test_dequantized_blocks_are_held_against_floats(tmp_path: Path) -> None:
    """By itself onnxruntime rounds the other factor of a product by dequantized blocks to 8 bits."""
    codes = helper.make_tensor("codes", TensorProto.INT4, [INPUTS, OUTPUTS], RANDOM.integers(-8, 8, INPUTS * OUTPUTS))
    scales = (RANDOM.random((INPUTS // GROUP, OUTPUTS)) + 0.1).astype(np.float32)
    nodes = [
        helper.make_node("DequantizeLinear", ["codes", "scales"], ["w"], axis=0, block_size=GROUP),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "g", [value("x", TensorProto.FLOAT, [3, INPUTS])], [value("y", TensorProto.FLOAT, [3, OUTPUTS])],
        [codes, numpy_helper.from_array(scales, "scales")],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), tmp_path / "m.onnx")
    model = read(tmp_path / "m.onnx")
    given = {"x": RANDOM.standard_normal((3, INPUTS)).astype(np.float32)}
    rounded, exact = Reference(model).run(given)["y"], open_reference(model).run(given)["y"]
    assert np.abs(rounded - exact).max() > 1e-4 * np.abs(exact).max()
    assert edgec.check(tmp_path / "m.onnx", samples=2).verdict == "ok"


def recurrent(steps: int, directions: int, columns: bool) -> onnx.ModelProto:
    """A quantized LSTM, with scales of its columns or of its directions."""
    hidden, inputs = 8, 6
    columns_ = 4 * hidden if columns else 1
    constants: dict[str, np.ndarray] = {}
    for name, size in (("W", inputs), ("R", hidden)):
        codes = RANDOM.integers(0, 256, (directions, size, 4 * hidden)).astype(np.uint8)
        shape = (directions, columns_) if columns else (directions,)
        scale = (RANDOM.random(shape) * 0.01 + 0.005).astype(np.float32)
        constants |= {name: codes, f"{name} scale": scale, f"{name} zero": np.full(shape, 128, np.uint8)}
    constants["B"] = RANDOM.standard_normal((directions, 8 * hidden)).astype(np.float32)
    operands = ["x", "W", "R", "B", "", "", "", "", "W scale", "W zero", "R scale", "R zero"]
    made = helper.make_node(
        "DynamicQuantizeLSTM", operands, ["y"], "loop", domain="com.microsoft", hidden_size=hidden,
        direction="bidirectional" if directions == 2 else "reverse",
    )  # fmt: skip
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [made], "g", [value("x", TensorProto.FLOAT, [steps, 2, inputs])],
        [value("y", TensorProto.FLOAT, [steps, directions, 2, hidden])],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("steps", [5, 40])
def test_a_quantized_lstm_is_right_unrolled_and_as_a_loop(
    steps: int, directions: int, columns: bool, tmp_path: Path
) -> None:
    """As a loop it keeps its states in floats, which onnxruntime rounds to bytes."""
    onnx.save(recurrent(steps, directions, columns), tmp_path / "m.onnx")
    checked = edgec.check(tmp_path / "m.onnx", samples=2)
    assert checked.ok and checked.verdict == "ok", checked
    assert edgec.bench(tmp_path / "m.onnx", vs="onnxruntime", seconds=0.02, rounds=1).ratio
