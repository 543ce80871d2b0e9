"""Weights that a file stores as integers or halves: they are trained as the floats that layers read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from chance import RANDOM
from onnx import TensorProto, helper, numpy_helper
from trained_models import floats

import edgec
from edgec.differentiate.update import trained, update_of
from edgec.frontend.onnx.importer import import_model
from edgec.frontend.onnx.model import read
from edgec.frontend.onnx.trainable import weights_of
from edgec.frontend.onnx.widened import with_floats
from edgec.ir.evaluate import run


def stored(scale: np.ndarray, axis: int) -> onnx.ModelProto:
    """A convolution with bytes as weights, one scale or several along an axis, and a classifier in halves."""
    held = {
        "bytes": RANDOM.integers(-128, 128, (4, 2, 3, 3)).astype(np.int8), "scale": scale,
        "zero": RANDOM.integers(-5, 5, scale.shape).astype(np.int8), "bias": floats(4),
        "halves": floats(64, 3).astype(np.float16), "last": floats(3),
    }  # fmt: skip
    nodes = [
        helper.make_node("DequantizeLinear", ["bytes", "scale", "zero"], ["w1"], axis=axis),
        helper.make_node("Conv", ["x", "w1", "bias"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Flatten", ["c"], ["f"]),
        helper.make_node("Cast", ["halves"], ["w2"], to=TensorProto.FLOAT),
        helper.make_node("Gemm", ["f", "w2", "last"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 4, 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3])
    graph = helper.make_graph(nodes, "g", [x], [y], [numpy_helper.from_array(a, n) for n, a in held.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


CASES = [
    (np.array(0.01, np.float32), 1),
    (np.float32([0.25]), 0),
    (np.float32([0.01, 0.02, 0.03, 0.5]), 0),
    (np.float32([0.01, 0.02]), 1),
    (np.float32([0.01, 0.02, 0.5]), -1),
]


@pytest.mark.parametrize(("scale", "axis"), CASES)
def test_the_same_network_with_more_weights(scale: np.ndarray, axis: int) -> None:
    narrow = read(stored(scale, axis))
    wide = with_floats(narrow)
    assert [w.name for w in weights_of(narrow)] == ["bias", "last"]
    names = [w.name for w in trained(weights_of(wide), update_of("all"), "model")]
    assert names == ["w1", "bias", "w2", "last"]
    assert {t.name for t in wide.proto.graph.initializer} == {"w1", "bias", "w2", "last"}
    x = {"x": floats(1, 2, 4, 4)}
    wanted, found = (run(import_model(m), x)["y"] for m in (narrow, wide))
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


def test_a_model_of_floats_is_the_same() -> None:
    wide = with_floats(read(stored(*CASES[0])))
    assert with_floats(wide) is wide


def test_they_learn_and_are_written(tmp_path: Path) -> None:
    proto = stored(*CASES[2])
    onnx.save(proto, tmp_path / "net.onnx")
    edgec.build(tmp_path / "net.onnx", tmp_path / "out", loss="cross_entropy", optimizer="sgd:lr=0.1")
    with edgec.load(tmp_path / "out") as net:
        before = {name: w.copy() for name, w in net.weights.items()}
        image = floats(1, 2, 4, 4)
        net.step(image, net(image).argmin(axis=1))  # far from saturated: every gradient is there
        assert set(before) == {"w1", "bias", "w2", "last"}
        assert all((w != before[name]).any() for name, w in net.weights.items())
        net.export_onnx(tmp_path / "trained.onnx")
        x = floats(1, 2, 4, 4)
        wanted = run(import_model(read(tmp_path / "trained.onnx")), {"x": x})["y"]
        np.testing.assert_allclose(net(x), wanted, rtol=1e-5, atol=1e-4)
