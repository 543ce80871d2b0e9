"""The cost of bytes, next to onnxruntime's quantizer in the same mode, on networks whose channels differ widely."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_dynamic, quantize_static
from small_models import model, node, tensor_input, weights

from edgec import ops
from edgec.compress import Request, compress
from edgec.device.load import load_device
from edgec.frontend.onnx import import_model
from edgec.ir.evaluate import run
from edgec.ir.graph import Graph, constant, placeholder
from edgec.ir.types import Type
from edgec.rewrite import simplify
from edgec.rewrite.measure import OpCosts

#: An error that is always allowed, and the most times that of the peer.
FLOOR, TIMES = 0.03, 1.5
DEVICE = load_device("x86_64_avx512")
#: How biases are drawn: whole numbers and zeros of both signs are where a rule may take a float for an integer.
BIASES = ("real", "whole", "zeros")
#: An activation as exporters spell it.
SPELLINGS = ("HardSwish", "legacy", "Relu", "Sigmoid")


class _Network:
    """A random network in the making: nodes and weights."""

    def __init__(self, seed: int, biases: str, activation: str) -> None:
        self.random = np.random.default_rng(seed)
        self.biases, self.activation = biases, activation
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def constant(self, value: Any) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(weights(name, np.asarray(value, np.float32)))
        return name

    def add(self, operator: str, *operands: str, **attributes: Any) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(node(operator, list(operands), [name], name, **attributes))
        return name

    def conv(self, x: str, inputs: int, outputs: int, kernel: int = 1, groups: int = 1) -> str:
        """A convolution whose channels differ by the scales of a folded normalization."""
        terms = inputs // groups * kernel**2
        scale = np.exp(self.random.standard_normal(outputs)).reshape(-1, 1, 1, 1)
        w = self.random.standard_normal((outputs, inputs // groups, kernel, kernel)) / np.sqrt(terms) * scale
        bias = self.random.standard_normal(outputs)
        bias = {"real": bias, "whole": np.rint(3 * bias), "zeros": np.copysign(0.0, bias)}[self.biases]
        around = [kernel // 2] * 4
        return self.add("Conv", x, self.constant(w), self.constant(bias), pads=around, group=groups)

    def active(self, x: str) -> str:
        if self.activation in ("HardSwish", "Relu"):
            return self.add(self.activation, x)
        if self.activation == "Sigmoid":
            return self.add("Mul", x, self.add("Sigmoid", x))
        shifted = self.add("Clip", self.add("Add", x, self.constant(3)), self.constant(0), self.constant(6))
        return self.add("Mul", x, self.add("Div", shifted, self.constant(6)))

    def gated(self, x: str, channels: int) -> str:
        """Squeeze and excite."""
        mean = self.add("ReduceMean", x, axes=[2, 3], keepdims=1)
        narrow = self.add("Relu", self.conv(mean, channels, channels // 4))
        gate = self.add("HardSigmoid", self.conv(narrow, channels // 4, channels), alpha=1 / 6, beta=0.5)
        return self.add("Mul", x, gate)


def network(seed: int, biases: str, activation: str) -> onnx.ModelProto:
    """Two inverted bottlenecks with a residual, and a classifier."""
    n = _Network(seed, biases, activation)
    x = n.conv("x", 3, 8, 3)
    for is_gated in (True, False):
        y = n.active(n.conv(x, 8, 16))
        y = n.active(n.conv(y, 16, 16, 3, 16))
        y = n.gated(y, 16) if is_gated else y
        x = n.add("Add", x, n.conv(y, 16, 8))
    flat = n.add("Flatten", n.add("GlobalAveragePool", x))
    n.nodes.append(node("MatMul", [flat, n.constant(n.random.standard_normal((8, 5)))], ["y"]))
    return model(n.nodes, [tensor_input("x", [1, 3, 10, 10])], initializers=n.weights)


class _Samples(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, samples: list[dict[str, np.ndarray]]) -> None:
        self.left: Iterator[dict[str, np.ndarray]] = iter(samples)

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self.left, None)


def error(got: list[np.ndarray], want: list[np.ndarray]) -> float:
    """Root of the mean square error, over that of the results."""
    g, w = np.concatenate([a.ravel() for a in got]), np.concatenate([a.ravel() for a in want])
    return float(np.sqrt(((g - w) ** 2).mean() / (w**2).mean()))


def of_peer(proto: onnx.ModelProto, mode: str, data: list[dict[str, np.ndarray]], folder: Path) -> list[np.ndarray]:
    source, target = folder / "floats.onnx", folder / "bytes.onnx"
    onnx.save(proto, source)
    logging.getLogger().setLevel(logging.ERROR)
    if mode == "int8-dynamic":
        quantize_dynamic(source, target, weight_type=QuantType.QUInt8)
    else:
        quantize_static(source, target, _Samples(data), per_channel=True)
    session = onnxruntime.InferenceSession(str(target), providers=["CPUExecutionProvider"])
    return [session.run(None, x)[0] for x in data]


@pytest.mark.parametrize("mode", ["int8-dynamic", "int8"])
@pytest.mark.parametrize("biases", BIASES)
@pytest.mark.parametrize("activation", SPELLINGS)
def test_bytes_cost_what_they_cost_the_peer(mode: str, biases: str, activation: str, tmp_path: Path) -> None:
    prices = OpCosts.on(DEVICE)
    for seed in range(2):
        proto = network(seed, biases, activation)
        random = np.random.default_rng(seed)
        data = [{"x": random.standard_normal((1, 3, 10, 10)).astype(np.float32)} for _ in range(6)]
        np.savez(tmp_path / "data.npz", x=np.stack([x["x"] for x in data]))
        graph, _ = simplify(import_model(proto), prices=prices)
        want = [run(graph, x)["y"] for x in data]
        request = Request(mode, calibration=tmp_path / "data.npz", corrections=(), device=DEVICE)
        narrow = compress(graph, request).graph
        simpler, _ = simplify(narrow, prices=prices)
        plain, own = ([run(g, x)["y"] for x in data] for g in (narrow, simpler))
        allowed = FLOOR + TIMES * error(of_peer(proto, mode, data, tmp_path), want)
        assert error(own, want) <= allowed
        assert error(own, plain) <= allowed


@pytest.mark.parametrize("bias", [0.0, 3.0, -0.0])
def test_a_whole_bias_stays_behind_a_scale_that_the_network_computes(bias: float) -> None:
    """It is added to floats, not to the integers before they are scaled."""
    x, scale = placeholder("x", Type("u8", (1, 4, 5, 5))), placeholder("s", Type("f32", (1, 1, 1, 1)))
    w = constant(np.random.default_rng(0).integers(-9, 9, (6, 4, 1, 1)).astype(np.int8))
    wide = [ops.node("cast", v, to="i32") for v in (x, w)]
    total = ops.node("conv", *wide, strides=(1, 1), dilations=(1, 1))
    columns = ops.node("mul", scale, constant(np.linspace(0.1, 1, 6, dtype=np.float32).reshape(6, 1, 1)))
    offset = constant(np.array([bias, 0.0, -0.0, 2, bias, -5], np.float32).reshape(6, 1, 1))
    real = ops.node("mul", ops.node("cast", total, to="f32"), columns)
    graph = Graph((x, scale), (("y", ops.node("add", real, offset)),))
    given = {
        "x": np.random.default_rng(1).integers(0, 256, (1, 4, 5, 5)).astype(np.uint8),
        "s": np.full((1, 1, 1, 1), 1e-3, np.float32),
    }
    np.testing.assert_allclose(run(simplify(graph)[0], given)["y"], run(graph, given)["y"], rtol=1e-5, atol=1e-5)
