"""Trains the demo network on 8x8 handwritten digits with the training step that edgec writes.

It is a mobile network in miniature: a convolution, a depthwise separable convolution, pooling, a residual block, global
pooling and a linear layer. It begins with random weights. `digits.onnx` and `digits_test.npz` go to the folder `--out`.
Needs edgec, onnxruntime and, for the pictures, scikit-learn.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime  # type: ignore[import-untyped]
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits  # type: ignore[import-untyped]
from sklearn.model_selection import train_test_split  # type: ignore[import-untyped]

import edgec

SEED = 1
EPOCHS = 150
BATCH = 32
LEARNING_RATE = 1e-2
WEIGHT_DECAY = 5e-2
TEST_PICTURES = 360
OPTIMIZER = f"adamw:lr={LEARNING_RATE},weight_decay={WEIGHT_DECAY}"

Array = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]


class Network:
    """An ONNX graph under construction, with random weights. Every value is called after the node that computes it."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def node(self, op: str, *inputs: str, **attributes: Any) -> str:
        """Adds a node and gives the name of its only output."""
        name = f"{op}_{sum(node.op_type == op for node in self.nodes) + 1}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        return name

    def constant(self, value: npt.ArrayLike) -> str:
        """Adds a float constant and gives its name."""
        name = f"constant_{len(self.constants) + 1}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value, np.float32), name))
        return name

    def conv(self, x: str, size: int, inputs: int, outputs: int, group: int = 1) -> str:
        """A convolution that keeps the size of the picture; batch normalization brings the bias."""
        each = inputs // group
        spread = math.sqrt(2 / (size * size * each))
        w = self.constant(self.rng.normal(0, spread, (size, size, each, outputs)).transpose(3, 2, 0, 1))
        return self.node("Conv", x, w, kernel_shape=[size] * 2, pads=[size // 2] * 4, group=group)

    def normalized(self, x: str, channels: int) -> str:
        """Batch normalization that has seen nothing yet."""
        facts = (np.ones(channels), np.zeros(channels), np.zeros(channels), np.ones(channels))
        return self.node("BatchNormalization", x, *map(self.constant, facts), epsilon=1e-5)

    def separable(self, x: str, inputs: int, outputs: int) -> str:
        """A 3x3 convolution of each channel with itself alone, and one that mixes them."""
        return self.normalized(self.conv(self.conv(x, 3, inputs, inputs, inputs), 1, inputs, outputs), outputs)


def digits_network(rng: np.random.Generator, width: int = 1) -> onnx.ModelProto:
    """The demo network, from an `image` [n, 1, 8, 8] with values in 0..1 to the `probabilities` [n, 10], with weights
    drawn from `rng`; or one with `width` times its channels."""
    few, many, net = 16 * width, 32 * width, Network(rng)
    x = net.node("Relu", net.normalized(net.conv("image", 3, 1, few), few))
    x = net.node("Clip", net.separable(x, few, many), net.constant(0), net.constant(6))
    x = net.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = net.node("Relu", net.node("Add", x, net.separable(x, many, many)))
    x = net.node("Flatten", net.node("GlobalAveragePool", x))
    w = net.constant(rng.normal(0, math.sqrt(1 / many), (many, 10)).T)
    scores = net.node("Gemm", x, w, net.constant(np.zeros(10)), transB=1)
    net.nodes.append(helper.make_node("Softmax", [scores], ["probabilities"], name="Softmax_1", axis=1))
    graph = helper.make_graph(
        net.nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 1, 8, 8])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["n", 10])],
        net.constants,
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    about = {
        "author": "the edgec authors",
        "license": "Apache-2.0",
        "description": "Reads a handwritten digit of 8x8 gray pixels in 0..1; made by apps/digits/train.py",
    }
    helper.set_model_props(proto, about)
    onnx.checker.check_model(proto, full_check=True)
    return proto


def of_one(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The network for one picture a run."""
    made = onnx.ModelProto()
    made.CopyFrom(proto)
    for value in (*made.graph.input, *made.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = 1
    return made


def nudged(pictures: Array, rng: np.random.Generator) -> Array:
    """Half of the pictures [n, 1, rows, columns] moved by one pixel at most, so that the network sees more than the few
    it has."""
    count, _, rows, columns = pictures.shape
    moves = rng.integers(-1, 2, (2, count, 1, 1)) * rng.integers(0, 2, (count, 1, 1))
    row = 1 + moves[0] + np.arange(rows)[:, None]
    column = 1 + moves[1] + np.arange(columns)
    padded = np.pad(pictures[:, 0], ((0, 0), (1, 1), (1, 1)))
    moved: Array = padded[np.arange(count)[:, None, None], row, column][:, None]
    return moved


def cosine(step: int, steps: int) -> float:
    """The learning rate of a step, which falls along a cosine to zero."""
    return LEARNING_RATE * (1 + math.cos(math.pi * step / steps)) / 2


def trained(
    proto: onnx.ModelProto, pictures: Array, labels: Labels, rng: np.random.Generator, epochs: int = EPOCHS
) -> onnx.ModelProto:
    """The network fitted to the pictures by cross-entropy."""
    count, number = len(pictures) // BATCH, 0
    with tempfile.TemporaryDirectory() as folder:
        asked = {"loss": "cross_entropy", "optimizer": OPTIMIZER, "batch": BATCH, "batch_norm": "batch"}
        edgec.build(proto, Path(folder) / "out", **asked)
        with edgec.load(Path(folder) / "out") as net:
            for epoch in range(1, epochs + 1):
                loss = 0.0
                for batch in rng.permutation(len(pictures))[: count * BATCH].reshape(-1, BATCH):
                    rate = cosine(number, epochs * count)
                    loss += net.step(nudged(pictures[batch], rng), labels[batch], learning_rate=rate) / count
                    number += 1
                if epoch % 30 == 0:
                    print(f"epoch {epoch:3}: loss {loss:.4f}")
            net.export_onnx(Path(folder) / "trained.onnx")
        return onnx.load(Path(folder) / "trained.onnx")


def data() -> tuple[Array, Array, Labels, Labels]:
    """Pictures [n, 1, 8, 8] to learn from and others to count, and the labels of both."""
    pictures, labels = load_digits(return_X_y=True)
    pictures = (pictures.reshape(-1, 1, 8, 8) / 16).astype(np.float32)
    split = train_test_split(pictures, labels, test_size=TEST_PICTURES, random_state=SEED, stratify=labels)
    return split[0], split[1], split[2].astype(np.int64), split[3].astype(np.int64)


def accuracy(proto: onnx.ModelProto, images: Array, labels: Labels) -> float:
    """The share of the pictures that onnxruntime reads right with a model of one picture or many."""
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    read = [session.run(None, {"image": image[None]})[0].argmax() for image in images]
    return float(np.mean(np.array(read) == labels))


def main() -> None:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--seeds", type=int, nargs="+", default=[SEED], help="of weights and order; the first is written")
    p.add_argument("--out", type=Path, default=Path("."), help="folder to write to")
    given = p.parse_args()
    seen, unseen, seen_labels, unseen_labels = data()
    found = []
    for seed in given.seeds:
        rng = np.random.default_rng(seed)
        made = of_one(trained(digits_network(rng), seen, seen_labels, rng))
        found.append(accuracy(made, unseen, unseen_labels))
        print(f"seed {seed}: {found[-1]:.2%} of {len(unseen)} pictures it has not seen are read right", flush=True)
        if seed == given.seeds[0]:
            given.out.mkdir(parents=True, exist_ok=True)
            onnx.save(made, given.out / "digits.onnx")
            np.savez_compressed(given.out / "digits_test.npz", image=unseen, label=unseen_labels)
    print(f"mean of {len(found)}: {np.mean(found):.2%}")


if __name__ == "__main__":
    main()
