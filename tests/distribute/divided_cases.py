"""A small network, and its divisions over processes of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from small_models import model, node, tensor_input, weights

from edgec.distribute.build import BuiltParts, build_over


def tower(side: int = 20, channels: int = 24) -> onnx.ModelProto:
    """image [1, 3, side, side] -> scores [1, 5]: convolutions with strides and a residual, then a classifier."""
    random = np.random.default_rng(5)

    def values(*shape: int) -> np.ndarray:
        return (random.standard_normal(shape) / 4).astype(np.float32)

    nodes = [
        node("Conv", ["image", "w0"], ["a"], "first", pads=[1, 1, 1, 1]),
        node("Relu", ["a"], ["b"], "relu"),
        node("Conv", ["b", "w1"], ["c"], "second", pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Relu", ["c"], ["d"], "relu2"),
        node("Conv", ["d", "w2"], ["e"], "third", pads=[1, 1, 1, 1]),
        node("Add", ["d", "e"], ["f"], "sum"),
        node("GlobalAveragePool", ["f"], ["g"], "pool"),
        node("Flatten", ["g"], ["h"], "flat"),
        node("MatMul", ["h", "w3"], ["scores"], "score"),
    ]
    made = [
        weights("w0", values(16, 3, 3, 3)), weights("w1", values(channels, 16, 3, 3)),
        weights("w2", values(channels, channels, 3, 3)), weights("w3", values(channels, 5)),
    ]  # fmt: skip
    return model(nodes, [tensor_input("image", [1, 3, side, side])], ["scores"], made)


def in_tiles(side: int = 30, channels: int = 32) -> onnx.ModelProto:
    """image [1, 3, side, side] -> y [1, 8, side / 2, side / 2]: convolutions by Winograd's method, one pooled."""
    random = np.random.default_rng(6)

    def values(*shape: int) -> np.ndarray:
        return (random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)

    nodes, made = [], [weights("w0", values(channels, 3, 3, 3)), weights("w4", values(8, channels, 1, 1))]
    nodes.append(node("Conv", ["image", "w0"], ["x0"], "first", pads=[1, 1, 1, 1]))
    for k in (1, 2):
        made.append(weights(f"w{k}", values(channels, channels, 3, 3)))
        nodes.append(node("Conv", [f"x{k - 1}", f"w{k}"], [f"c{k}"], f"conv{k}", pads=[1, 1, 1, 1]))
        nodes.append(node("Sigmoid", [f"c{k}"], [f"s{k}"], f"gate{k}"))
        nodes.append(node("Mul", [f"c{k}", f"s{k}"], [f"x{k}"], f"silu{k}"))
    nodes.append(node("MaxPool", ["x2"], ["p"], "pool", kernel_shape=[2, 2], strides=[2, 2]))
    nodes.append(node("Conv", ["p", "w4"], ["y"], "last"))
    return model(nodes, [tensor_input("image", [1, 3, side, side])], ["y"], made)


def divided(folder: Path, workers: int, split: str, made: onnx.ModelProto | None = None, **wanted: Any) -> BuiltParts:
    """A network over so many workers here (by default the tower), whether it pays or not."""
    path = folder / "tower.onnx"
    onnx.save(tower() if made is None else made, str(path))
    usual = {"force": True, "link_speed": "10G/0.02"}
    return build_over(path, folder / "over", over=["host@local"] * workers, split=split, **{**usual, **wanted})


def image(seed: int = 0, side: int = 20) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((1, 3, side, side)).astype(np.float32)
