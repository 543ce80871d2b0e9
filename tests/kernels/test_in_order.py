"""Sums of products for cores that run instructions in order: odd sums, panels and rows that are not full."""

from __future__ import annotations

import shutil

import numpy as np
import onnx
import pytest
from small_models import model, node, tensor_input, weights

import edgec

RANDOM = np.random.default_rng(5)


def products() -> onnx.ModelProto:
    """Three products in floats, the second of an odd number of steps, the last in a panel that is not full."""
    parts = [weights(name, RANDOM.standard_normal(shape).astype(np.float32)) for name, shape in
             (("a", (16, 31)), ("b", (31, 26)), ("c", (26, 9)))]  # fmt: skip
    nodes = [node("MatMul", ["x", "a"], ["h"]), node("MatMul", ["h", "b"], ["i"]), node("MatMul", ["i", "c"], ["y"])]
    return model(nodes, [tensor_input("x", [13, 16])], initializers=parts)


def products_of_bytes(kind: type[np.generic]) -> onnx.ModelProto:
    """One of bytes by signed bytes, 36 steps of which make nine words."""
    parts = [weights("scale", np.float32(0.05)), weights("zero", kind(3)), weights("none", np.int8(0)),
             weights("w", RANDOM.integers(-127, 128, (36, 21)).astype(np.int8))]  # fmt: skip
    nodes = [
        node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        node("DequantizeLinear", ["q", "scale", "zero"], ["d"]),
        node("DequantizeLinear", ["w", "scale", "none"], ["l"]),
        node("MatMul", ["d", "l"], ["y"]),
    ]
    return model(nodes, [tensor_input("x", [11, 36])], initializers=parts)


@pytest.mark.skipif(not shutil.which("qemu-aarch64") or not shutil.which("aarch64-linux-gnu-gcc"), reason="needs qemu")
@pytest.mark.parametrize("network", [products(), products_of_bytes(np.int8), products_of_bytes(np.uint8)])
def test_loads_between_multiply_adds(network: onnx.ModelProto) -> None:
    assert edgec.check(network, device="cortex_a55", link="qemu:max", samples=1).ok
    built = edgec.build(network, device="cortex_a55", compile=False)
    assert any("ec_join" in path.read_text() for path in built.folder.glob("*_kernels_*.c"))
