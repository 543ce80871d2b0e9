"""Sums of products on Arm: odd sums, panels and rows that are not full, on cores in order and by every instruction."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from chance import RANDOM
from needed import need
from small_models import model, node, tensor_input, weights

import edgec


def products() -> onnx.ModelProto:
    """Three products in floats, the second of an odd number of steps, the last in a panel that is not full."""
    parts = [weights(name, RANDOM.standard_normal(shape).astype(np.float32)) for name, shape in
             (("a", (16, 31)), ("b", (31, 26)), ("c", (26, 9)))]  # fmt: skip
    nodes = [node("MatMul", ["x", "a"], ["h"]), node("MatMul", ["h", "b"], ["i"]), node("MatMul", ["i", "c"], ["y"])]
    return model(nodes, [tensor_input("x", [13, 16])], initializers=parts)


def products_of_bytes(kind: type[np.generic], steps: int = 36) -> onnx.ModelProto:
    """One of bytes by signed bytes; 36 steps are nine dots, two blocks and a part, or four dots and a half.

    Weights are so small that the peer, which adds pairs in 16 bits on processors without VNNI, saturates none.
    """
    parts = [weights("scale", np.float32(0.05)), weights("zero", kind(3)), weights("none", np.int8(0)),
             weights("w", RANDOM.integers(-63, 64, (steps, 21)).astype(np.int8))]  # fmt: skip
    nodes = [
        node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        node("DequantizeLinear", ["q", "scale", "zero"], ["d"]),
        node("DequantizeLinear", ["w", "scale", "none"], ["l"]),
        node("MatMul", ["d", "l"], ["y"]),
    ]
    return model(nodes, [tensor_input("x", [11, steps])], initializers=parts)


@pytest.mark.parametrize(
    ("device", "network", "by"),
    [
        ("cortex_a55", products(), "ec_join"),
        ("cortex_a55", products_of_bytes(np.int8), "ec_join"),
        ("cortex_a55", products_of_bytes(np.uint8), "ec_join"),
        ("raspberry_pi_3", products(), "ec_join"),
        ("raspberry_pi_3", products_of_bytes(np.uint8, 80), "ec_high_products"),
        ("raspberry_pi_3", products_of_bytes(np.int8), "ec_dot_blocks"),
        ("arm32", products_of_bytes(np.uint8), "ec_dot_blocks"),
        ("pixel_8", products_of_bytes(np.int8), "ec_matrix_us"),
        ("neoverse_v1", products(), "ec_fma"),
        ("neoverse_v1", products_of_bytes(np.uint8), "ec_matrix_us"),
        ("a64fx", products_of_bytes(np.uint8), "ec_dot_ss"),
    ],
)
def test_products_on_arm(device: str, network: onnx.ModelProto, by: str) -> None:
    system, bits = ("arm-linux-gnueabihf", "armhf") if device == "arm32" else ("aarch64-linux-gnu", "arm64")
    need(f"qemu-{system.partition('-')[0]}", "qemu-user")
    need(f"{system}-gcc", f"gcc-{system}", f"libc6-dev-{bits}-cross")
    assert edgec.check(network, device=device, link="qemu", samples=1).ok
    built = edgec.build(network, device=device, compile=False)
    assert any(by in path.read_text() for path in built.folder.glob("*_kernels_*.c"))
