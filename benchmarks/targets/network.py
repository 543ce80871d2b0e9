"""The network of the walk: a small classifier of color pictures, whose height and width may stay open."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

#: Height and width where they are fixed, their range where they are open, and the names of the classes.
SIDE, RANGE, LABELS = 12, (8, 16, 1), ("red", "green", "blue", "gray")
#: Channels of its convolutions.
WIDTH = 32
#: Pictures that calibrate int8, and those that one to run is chosen from.
CALIBRATION, CANDIDATES = 8, 32


def network(seed: int = 0) -> onnx.ModelProto:
    """image [1, 3, rows, columns] -> scores [1, 4]: convolutions of three kinds, a residual, a mean, a softmax."""
    random = np.random.default_rng(seed)

    def weights(name: str, *shape: int) -> onnx.TensorProto:
        value = random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
        return numpy_helper.from_array(value.astype(np.float32), name)

    nodes = [
        helper.make_node("Conv", ["image", "w0", "b0"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w1"], ["c"], pads=[1, 1, 1, 1], group=WIDTH),
        helper.make_node("Relu", ["c"], ["d"]),
        helper.make_node("Conv", ["d", "w2"], ["e"]),
        helper.make_node("Add", ["b", "e"], ["f"]),
        helper.make_node("Conv", ["f", "w3"], ["g"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["g"], ["h"]),
        helper.make_node("GlobalAveragePool", ["h"], ["i"]),
        helper.make_node("Flatten", ["i"], ["j"]),
        helper.make_node("Gemm", ["j", "w4", "b4"], ["k"], transB=1),
        helper.make_node("Softmax", ["k"], ["scores"]),
    ]
    constants = [
        weights("w0", WIDTH, 3, 3, 3), weights("b0", WIDTH), weights("w1", WIDTH, 1, 3, 3),
        weights("w2", WIDTH, WIDTH, 1, 1), weights("w3", WIDTH, WIDTH, 3, 3), weights("w4", 4, WIDTH),
        weights("b4", 4),
    ]  # fmt: skip
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, "rows", "columns"])
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 4])
    graph = helper.make_graph(nodes, "colors", [image], [scores], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def pictures(count: int, seed: int) -> np.ndarray:
    """Noise around one color each: u8[count, 3, height, width]."""
    random = np.random.default_rng(seed)
    color = random.uniform(0, 200, (count, 3, 1, 1))
    return (color + random.uniform(0, 55, (count, 3, SIDE, SIDE))).astype(np.uint8)


def as_read(pixels: np.ndarray) -> np.ndarray:
    """Pixels as apps hand them to a network of floats: from 0 to 1."""
    return pixels.astype(np.float32) / np.float32(255)


def clearest(scores: np.ndarray) -> int:
    """The row of ``scores`` whose best class is the farthest before the second."""
    ranked = np.sort(scores, axis=1)
    return int(np.argmax(ranked[:, -1] - ranked[:, -2]))


def write_ppm(pixels: np.ndarray, path: Path) -> None:
    """A picture u8[3, height, width] as a PPM file."""
    path.write_bytes(b"P6\n%d %d\n255\n" % pixels.shape[:0:-1] + pixels.transpose(1, 2, 0).tobytes())
