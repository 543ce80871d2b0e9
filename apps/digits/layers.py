"""The layers of a small network: forward pass, backward pass and ONNX nodes of each, side by side.

Arrays are [picture, row, column, channel] here, and [picture, channel, row, column] in the ONNX model.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

Array = npt.NDArray[np.float32]

EPSILON = 1e-5
"""What batch normalization adds to the variance."""
PER_CHANNEL = (0, 1, 2)
"""The axes to sum over for one value a channel."""


class Model:
    """An ONNX graph under construction. Every value is called after the node that computes it."""

    def __init__(self) -> None:
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


# -- layers ----------------------------------------------------------------------------------------


class Layer:
    """One step of a network.

    `backward` takes the gradient of the loss by the output of the last `forward`, returns the one by its
    input and leaves those by the weights in `gradients`.
    """

    def __init__(self, **weights: Array) -> None:
        self.weights = weights
        self.gradients: dict[str, Array] = {}

    def forward(self, x: Array, *, training: bool) -> Array:
        raise NotImplementedError

    def backward(self, gradient: Array) -> Array:
        raise NotImplementedError

    def export(self, model: Model, x: str) -> str:
        raise NotImplementedError

    def leaves(self) -> Iterator[Layer]:
        yield self


def pad(x: Array, border: int) -> Array:
    return np.pad(x, ((0, 0), (border, border), (border, border), (0, 0)))


def crop(x: Array, border: int) -> Array:
    return x[:, border : x.shape[1] - border, border : x.shape[2] - border]


def windows(padded: Array, size: int) -> Iterator[tuple[tuple[int, int], Array]]:
    """Each place (row, column) of a window, with the pixels it meets as the window slides."""
    rows, columns = padded.shape[1] - size + 1, padded.shape[2] - size + 1
    for row, column in np.ndindex(size, size):
        yield (row, column), padded[:, row : row + rows, column : column + columns]


class Conv(Layer):
    """A convolution that keeps the size of the picture; batch normalization brings the bias."""

    def __init__(self, rng: np.random.Generator, size: int, inputs: int, outputs: int) -> None:
        spread = np.sqrt(2 / (size * size * inputs))
        super().__init__(w=rng.normal(0, spread, (size, size, inputs, outputs)).astype(np.float32))
        self.size, self.border = size, size // 2

    def forward(self, x: Array, *, training: bool) -> Array:
        self.x = pad(x, self.border)
        y = np.zeros((*x.shape[:3], self.weights["w"].shape[-1]), np.float32)
        for place, part in windows(self.x, self.size):
            y += part @ self.weights["w"][place]
        return y

    def backward(self, gradient: Array) -> Array:
        dw, dx = np.zeros_like(self.weights["w"]), np.zeros_like(self.x)
        for (place, part), (_, dpart) in zip(windows(self.x, self.size), windows(dx, self.size), strict=True):
            dw[place] = np.tensordot(part, gradient, (PER_CHANNEL, PER_CHANNEL))
            dpart += gradient @ self.weights["w"][place].T
        self.gradients = {"w": dw}
        return crop(dx, self.border)

    def export(self, model: Model, x: str) -> str:
        w = model.constant(self.weights["w"].transpose(3, 2, 0, 1))
        return model.node("Conv", x, w, kernel_shape=[self.size] * 2, pads=[self.border] * 4)


class Depthwise(Layer):
    """A 3x3 convolution of each channel with itself alone."""

    def __init__(self, rng: np.random.Generator, channels: int) -> None:
        super().__init__(w=rng.normal(0, np.sqrt(2 / 9), (3, 3, channels)).astype(np.float32))

    def forward(self, x: Array, *, training: bool) -> Array:
        self.x = pad(x, 1)
        y = np.zeros_like(x)
        for place, part in windows(self.x, 3):
            y += part * self.weights["w"][place]
        return y

    def backward(self, gradient: Array) -> Array:
        dw, dx = np.zeros_like(self.weights["w"]), np.zeros_like(self.x)
        for (place, part), (_, dpart) in zip(windows(self.x, 3), windows(dx, 3), strict=True):
            dw[place] = (part * gradient).sum(PER_CHANNEL)
            dpart += gradient * self.weights["w"][place]
        self.gradients = {"w": dw}
        return crop(dx, 1)

    def export(self, model: Model, x: str) -> str:
        w = model.constant(self.weights["w"].transpose(2, 0, 1)[:, None])
        return model.node("Conv", x, w, kernel_shape=[3, 3], pads=[1] * 4, group=self.weights["w"].shape[-1])


class BatchNorm(Layer):
    """Normalizes each channel: over the batch when training, by the running mean and variance afterwards."""

    def __init__(self, channels: int) -> None:
        super().__init__(scale=np.ones(channels, np.float32), shift=np.zeros(channels, np.float32))
        self.mean, self.variance = np.zeros(channels, np.float32), np.ones(channels, np.float32)

    def forward(self, x: Array, *, training: bool) -> Array:
        mean, variance = self.mean, self.variance
        if training:
            mean, variance = x.mean(PER_CHANNEL), x.var(PER_CHANNEL)
            self.mean = 0.9 * self.mean + 0.1 * mean
            self.variance = 0.9 * self.variance + 0.1 * variance
        self.deviation = np.sqrt(variance + EPSILON)
        self.normal = (x - mean) / self.deviation
        y: Array = self.normal * self.weights["scale"] + self.weights["shift"]
        return y

    def backward(self, gradient: Array) -> Array:
        along = (gradient * self.normal).mean(PER_CHANNEL)
        count = self.normal[..., 0].size
        self.gradients = {"scale": along * count, "shift": gradient.sum(PER_CHANNEL)}
        centered = gradient - gradient.mean(PER_CHANNEL) - self.normal * along
        dx: Array = centered * self.weights["scale"] / self.deviation
        return dx

    def export(self, model: Model, x: str) -> str:
        facts = (self.weights["scale"], self.weights["shift"], self.mean, self.variance)
        return model.node("BatchNormalization", x, *map(model.constant, facts), epsilon=EPSILON)


class Relu(Layer):
    """max(x, 0), or ReLU6 and the like where there is an upper limit."""

    def __init__(self, limit: float | None = None) -> None:
        super().__init__()
        self.limit = limit

    def forward(self, x: Array, *, training: bool) -> Array:
        self.passes = (x > 0) & (x < (self.limit or np.inf))
        return np.clip(x, 0, self.limit)

    def backward(self, gradient: Array) -> Array:
        return gradient * self.passes

    def export(self, model: Model, x: str) -> str:
        if self.limit is None:
            return model.node("Relu", x)
        return model.node("Clip", x, model.constant(0), model.constant(self.limit))


class MaxPool(Layer):
    """The largest value of each 2x2 tile."""

    def forward(self, x: Array, *, training: bool) -> Array:
        n, rows, columns, channels = x.shape
        tiles = x.reshape(n, rows // 2, 2, columns // 2, 2, channels)
        largest = tiles.max((2, 4), keepdims=True)
        self.winners = (tiles == largest).astype(np.float32)
        self.winners /= self.winners.sum((2, 4), keepdims=True)
        y: Array = largest[:, :, 0, :, 0]
        return y

    def backward(self, gradient: Array) -> Array:
        n, rows, columns, channels = gradient.shape
        dx: Array = self.winners * gradient[:, :, None, :, None]
        return dx.reshape(n, 2 * rows, 2 * columns, channels)

    def export(self, model: Model, x: str) -> str:
        return model.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])


class AveragePool(Layer):
    """The mean of each channel over the whole picture."""

    def forward(self, x: Array, *, training: bool) -> Array:
        self.shape = x.shape
        y: Array = x.mean((1, 2))
        return y

    def backward(self, gradient: Array) -> Array:
        _, rows, columns, _ = self.shape
        return np.broadcast_to(gradient[:, None, None] / (rows * columns), self.shape)

    def export(self, model: Model, x: str) -> str:
        return model.node("Flatten", model.node("GlobalAveragePool", x))


class Linear(Layer):
    """A matrix product and a bias."""

    def __init__(self, rng: np.random.Generator, inputs: int, outputs: int) -> None:
        w = rng.normal(0, np.sqrt(1 / inputs), (inputs, outputs)).astype(np.float32)
        super().__init__(w=w, b=np.zeros(outputs, np.float32))

    def forward(self, x: Array, *, training: bool) -> Array:
        self.x = x
        return x @ self.weights["w"] + self.weights["b"]

    def backward(self, gradient: Array) -> Array:
        self.gradients = {"w": self.x.T @ gradient, "b": gradient.sum(0)}
        return gradient @ self.weights["w"].T

    def export(self, model: Model, x: str) -> str:
        return model.node("Gemm", x, *map(model.constant, (self.weights["w"].T, self.weights["b"])), transB=1)


class Chain(Layer):
    """Layers one after the other."""

    def __init__(self, *layers: Layer) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, x: Array, *, training: bool) -> Array:
        for layer in self.layers:
            x = layer.forward(x, training=training)
        return x

    def backward(self, gradient: Array) -> Array:
        for layer in reversed(self.layers):
            gradient = layer.backward(gradient)
        return gradient

    def export(self, model: Model, x: str) -> str:
        for layer in self.layers:
            x = layer.export(model, x)
        return x

    def leaves(self) -> Iterator[Layer]:
        for layer in self.layers:
            yield from layer.leaves()


class Residual(Chain):
    """Layers whose result is added to what went in."""

    def forward(self, x: Array, *, training: bool) -> Array:
        return x + super().forward(x, training=training)

    def backward(self, gradient: Array) -> Array:
        return gradient + super().backward(gradient)

    def export(self, model: Model, x: str) -> str:
        return model.node("Add", x, super().export(model, x))
