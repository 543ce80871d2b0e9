"""A small network, and its divisions over processes of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from small_models import model, node, tensor_input, weights

from edgec.distribute.build import BuiltParts, build_over


def tower(side: int = 20) -> onnx.ModelProto:
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
        weights("w0", values(16, 3, 3, 3)), weights("w1", values(24, 16, 3, 3)), weights("w2", values(24, 24, 3, 3)),
        weights("w3", values(24, 5)),
    ]  # fmt: skip
    return model(nodes, [tensor_input("image", [1, 3, side, side])], ["scores"], made)


def divided(folder: Path, workers: int, split: str, **wanted: Any) -> BuiltParts:
    """The network over so many workers here, whether it pays or not."""
    path = folder / "tower.onnx"
    onnx.save(tower(), str(path))
    usual = {"force": True, "link_speed": "10G/0.02"}
    return build_over(path, folder / "over", over=["host@local"] * workers, split=split, **{**usual, **wanted})


def image(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((1, 3, 20, 20)).astype(np.float32)
