"""Gradients of a strided convolution beside a shortcut: phases of a transposed convolution, written by channel."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from chance import RANDOM
from small_models import model, node, tensor_input, weights

import edgec
from edgec import Trainer
from edgec.check.training import check_training


def test_lanes_run_along_channels_of_the_gradient(tmp_path: Path) -> None:
    """As weights that learn are stored in another shape, two phases of a row were taken for lanes, of sixteen."""

    def drawn(*shape: int) -> np.ndarray:
        return (RANDOM.standard_normal(shape) / 8).astype(np.float32)

    nodes = [
        node("Conv", ["x", "w0"], ["a"]), node("Relu", ["a"], ["b"]),
        node("Conv", ["b", "w1"], ["c"], strides=[2, 2], pads=[1, 1, 1, 1]), node("Relu", ["c"], ["d"]),
        node("Conv", ["d", "w2"], ["e"], pads=[1, 1, 1, 1]), node("Conv", ["b", "w3"], ["s"], strides=[2, 2]),
        node("Add", ["e", "s"], ["t"]), node("Relu", ["t"], ["u"]), node("GlobalAveragePool", ["u"], ["p"]),
        node("Flatten", ["p"], ["g"]), node("MatMul", ["g", "f"], ["y"]),
    ]  # fmt: skip
    shapes = {"w0": (16, 3, 1, 1), "w1": (32, 16, 3, 3), "w2": (32, 32, 3, 3), "w3": (32, 16, 1, 1), "f": (32, 10)}
    held = [weights(name, drawn(*shape)) for name, shape in shapes.items()]
    network = model(nodes, [tensor_input("x", (1, 3, 14, 14))], ["y"], held)
    built = edgec.build(
        network, tmp_path / "out", loss="cross_entropy", optimizer="sgd:lr=0.01,momentum=0.9", threads=1
    )
    assert built.program.training is not None
    texts = [k.describe for k in built.program.training.step.kernels if "contract" in k.describe]
    assert any("contract M=8 N=16 K=128" in text for text in texts), texts
    assert all(" N=2 " not in text for text in texts), texts
    with Trainer(tmp_path / "out") as trainer:
        assert check_training(trainer, vs=None, steps=5).ok
