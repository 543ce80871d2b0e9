"""Trains the demo network on 8x8 handwritten digits; writes `digits.onnx` and `digits_test.npz` beside it.

It is a mobile network in miniature: a convolution, a depthwise separable convolution, pooling, a residual
block, global pooling and a linear layer. Needs numpy, onnx, onnxruntime and, for the pictures, scikit-learn.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime  # type: ignore[import-untyped]
from layers import (
    Array,
    AveragePool,
    BatchNorm,
    Chain,
    Conv,
    Depthwise,
    Layer,
    Linear,
    MaxPool,
    Model,
    Relu,
    Residual,
    pad,
)
from onnx import TensorProto, helper
from sklearn.datasets import load_digits  # type: ignore[import-untyped]
from sklearn.model_selection import train_test_split  # type: ignore[import-untyped]
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

HERE = Path(__file__).parent
SEED = 1
EPOCHS = 150
BATCH = 32
LEARNING_RATE = 1e-2
WEIGHT_DECAY = 5e-2
TEST_PICTURES = 360

Labels = npt.NDArray[np.int64]


def digits_network(rng: np.random.Generator, width: int = 1) -> Chain:
    """The demo network, with weights drawn from `rng`, or one with `width` times its channels."""
    few, many = 16 * width, 32 * width
    return Chain(
        *(Conv(rng, 3, 1, few), BatchNorm(few), Relu()),
        *(Depthwise(rng, few), Conv(rng, 1, few, many), BatchNorm(many), Relu(limit=6)),
        MaxPool(),
        Residual(Depthwise(rng, many), Conv(rng, 1, many, many), BatchNorm(many)),
        Relu(),
        AveragePool(),
        Linear(rng, many, 10),
    )


class Adam:
    """Adam with decoupled weight decay, and a learning rate that falls along a cosine to zero."""

    def __init__(self, network: Layer, steps: int) -> None:
        self.layers, self.steps, self.step_number = list(network.leaves()), steps, 0
        self.moments = {id(w): (np.zeros_like(w), np.zeros_like(w)) for _, w in self._weights()}

    def _weights(self) -> Iterator[tuple[Array | None, Array]]:
        for layer in self.layers:
            for name, weight in layer.weights.items():
                yield layer.gradients.get(name), weight

    def step(self) -> None:
        """Changes every weight, in place, by its last gradient."""
        rate = LEARNING_RATE * (1 + math.cos(math.pi * self.step_number / self.steps)) / 2
        self.step_number += 1
        for gradient, weight in self._weights():
            assert gradient is not None, "step() comes after backward()"
            first, second = self.moments[id(weight)]
            first += 0.1 * (gradient - first)
            second += 0.001 * (gradient**2 - second)
            ahead = first / (1 - 0.9**self.step_number)
            size = np.sqrt(second / (1 - 0.999**self.step_number)) + 1e-8
            weight -= rate * (ahead / size + WEIGHT_DECAY * weight)


def nudged(pictures: Array, rng: np.random.Generator) -> Array:
    """Half of the pictures moved by one pixel at most, so that the network sees more than the few it has."""
    count, rows, columns, _ = pictures.shape
    moves = rng.integers(-1, 2, (2, count, 1, 1)) * rng.integers(0, 2, (count, 1, 1))
    row = 1 + moves[0] + np.arange(rows)[:, None]
    column = 1 + moves[1] + np.arange(columns)
    moved: Array = pad(pictures, 1)[np.arange(count)[:, None, None], row, column]
    return moved


def softmax(scores: Array) -> Array:
    """The probabilities that scores [picture, class] stand for."""
    powers: Array = np.exp(scores - scores.max(1, keepdims=True))
    powers /= powers.sum(1, keepdims=True)
    return powers


def train(network: Layer, pictures: Array, labels: Labels, rng: np.random.Generator) -> None:
    """Fits the network to the pictures by cross-entropy."""
    adam = Adam(network, steps=EPOCHS * (len(pictures) // BATCH))
    for epoch in range(1, EPOCHS + 1):
        loss = 0.0
        batches = rng.permutation(len(pictures))[: len(pictures) // BATCH * BATCH].reshape(-1, BATCH)
        for batch in batches:
            wanted = np.eye(10, dtype=np.float32)[labels[batch]]
            likely = softmax(network.forward(nudged(pictures[batch], rng), training=True))
            network.backward((likely - wanted) / np.float32(BATCH))
            adam.step()
            loss -= float(np.log((likely * wanted).sum(1)).mean()) / len(batches)
        if epoch % 30 == 0:
            print(f"epoch {epoch:3}: loss {loss:.4f}")


# -- files -----------------------------------------------------------------------------------------


def to_onnx(network: Layer) -> onnx.ModelProto:
    """The network, from an `image` [1, 1, 8, 8] with values in 0..1 to the `probabilities` [1, 10]."""
    model = Model()
    scores = network.export(model, "image")
    model.nodes.append(helper.make_node("Softmax", [scores], ["probabilities"], name="Softmax_1", axis=1))
    graph = helper.make_graph(
        model.nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 8, 8])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [1, 10])],
        model.constants,
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


def accuracy(path: Path, images: Array, labels: Labels) -> float:
    """The share of the pictures [N, 1, 8, 8] that onnxruntime reads right with the model file."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    read = [session.run(None, {"image": image[None]})[0].argmax() for image in images]
    return float(np.mean(np.array(read) == labels))


def main() -> None:
    pictures, labels = load_digits(return_X_y=True)
    pictures = (pictures.reshape(-1, 8, 8, 1) / 16).astype(np.float32)
    seen, unseen, seen_labels, unseen_labels = train_test_split(
        pictures, labels, test_size=TEST_PICTURES, random_state=SEED, stratify=labels
    )
    rng = np.random.default_rng(SEED)
    network = digits_network(rng)
    with threadpool_limits(1):  # sums split over threads would round differently on another number of cores
        train(network, seen, seen_labels, rng)
    images = unseen.transpose(0, 3, 1, 2)
    onnx.save(to_onnx(network), HERE / "digits.onnx")
    np.savez_compressed(HERE / "digits_test.npz", image=images, label=unseen_labels.astype(np.int64))
    right = accuracy(HERE / "digits.onnx", images, unseen_labels)
    print(f"{right:.2%} of {len(images)} pictures it has not seen are read right")


if __name__ == "__main__":
    main()
