"""Activation functions."""

from __future__ import annotations

from math import pi, prod, sqrt

from edgec.frontend.onnx.call import Call, onnx
from edgec.frontend.onnx.operators.reduction import arg_extreme
from edgec.frontend.values import Value, clip, emit, iota, maximum, minimum, normalize_axis, select


@onnx("Relu")
def relu(call: Call) -> Value:
    return maximum(call[0], 0)


@onnx("LeakyRelu")
def leaky_relu(call: Call) -> Value:
    x = call[0]
    return select(x < 0, x * call.attribute("alpha"), x)


@onnx("PRelu")
def prelu(call: Call) -> Value:
    """The slope broadcasts as in numpy; one value a channel is written [C] by some exporters."""
    x, slope = call[0], call[1]
    is_by_channel = slope.rank == 1 and x.rank > 2 and slope.shape[0] == x.shape[1] != 1
    if is_by_channel and (call.opset < 7 or slope.shape[0] != x.shape[-1]):
        slope = slope.reshape(slope.shape[0], *[1] * (x.rank - 2))
    return select(x < 0, x * slope, x)


@onnx("Elu")
def elu(call: Call) -> Value:
    x = call[0]
    return select(x < 0, emit("expm1", minimum(x, 0)) * call.attribute("alpha"), x)


@onnx("Celu")
def celu(call: Call) -> Value:
    x, alpha = call[0], float(call.attribute("alpha"))
    return maximum(x, 0) + minimum(emit("expm1", minimum(x, 0) / alpha) * alpha, 0)


@onnx("Selu")
def selu(call: Call) -> Value:
    x, alpha, gamma = call[0], float(call.attribute("alpha")), float(call.attribute("gamma"))
    return select(x > 0, x, emit("expm1", minimum(x, 0)) * alpha) * gamma


@onnx("HardSigmoid")
def hard_sigmoid(call: Call) -> Value:
    return clip(call[0] * call.attribute("alpha") + call.attribute("beta"), 0, 1)


@onnx("HardSwish")
def hard_swish(call: Call) -> Value:
    x = call[0]
    return x * clip(x * (1 / 6) + 0.5, 0, 1)


@onnx("Swish")
def swish(call: Call) -> Value:
    x, alpha = call[0], call.attribute("alpha")
    return x * emit("sigmoid", x if alpha == 1 else x * alpha)


@onnx("Softplus")
def softplus(call: Call) -> Value:
    return softplus_of(call[0])


def softplus_of(x: Value) -> Value:
    """log(1 + e^x) without overflow."""
    return maximum(x, 0) + emit("log1p", emit("exp", -emit("abs", x)))


@onnx("Mish")
def mish(call: Call) -> Value:
    return call[0] * emit("tanh", softplus_of(call[0]))


@onnx("Softsign")
def softsign(call: Call) -> Value:
    return call[0] / (emit("abs", call[0]) + 1)


@onnx("Gelu")
def gelu(call: Call) -> Value:
    return gelu_of(call[0], call.attribute("approximate") == "tanh")


def gelu_of(x: Value, approximate: bool = False) -> Value:
    """x times the probability that a normally distributed number is less than x, or nearly so."""
    if approximate:
        inner = (x + x * x * x * 0.044715) * sqrt(2 / pi)
        return x * 0.5 * (emit("tanh", inner) + 1)
    return x * 0.5 * (emit("erf", x * sqrt(0.5)) + 1)


@onnx("ThresholdedRelu")
def thresholded_relu(call: Call) -> Value:
    x = call[0]
    return select(x > call.attribute("alpha"), x, 0)


@onnx("Shrink")
def shrink(call: Call) -> Value:
    """Integers are computed as floats, whose fractions are cut off."""
    dtype, bias, threshold = call[0].dtype, call.attribute("bias"), call.attribute("lambd")
    x = call[0] if call[0].is_float else call[0].cast("f32")
    return select(x < -threshold, x + bias, select(x > threshold, x - bias, 0)).cast(dtype)


def softmax_of(x: Value, axis: int) -> Value:
    """e^(x - max) / sum, along one dimension."""
    powers = emit("exp", x - x.reduce("max", [axis]))
    return powers / powers.sum([axis])


def _log_softmax_of(x: Value, axis: int) -> Value:
    shifted = x - x.reduce("max", [axis])
    return shifted - emit("log", emit("exp", shifted).sum([axis]))


def _hardmax_of(x: Value, axis: int) -> Value:
    """1 at the first place of the maximum, else 0."""
    places = iota(x.shape[axis], axis, x.rank)
    return places.equals(arg_extreme(x, axis, "max")).cast(x.dtype)


@onnx("Softmax", "LogSoftmax", "Hardmax")
def softmax(call: Call) -> Value:
    """Before opset 13 the dimensions from ``axis`` on are one."""
    x = call[0]
    along = {"Softmax": softmax_of, "LogSoftmax": _log_softmax_of, "Hardmax": _hardmax_of}[call.operator]
    axis = normalize_axis(call.attribute("axis", -1 if call.opset >= 13 else 1), x.rank)
    if call.opset >= 13 or axis == x.rank - 1:
        return along(x, axis)
    flat = x.reshape(prod(x.shape[:axis]), prod(x.shape[axis:]))
    return along(flat, 1).reshape(*x.shape)
