"""Activation functions. Of 8-bit integers, all but the piecewise linear ones are tables of 256 results."""

from __future__ import annotations

import numpy as np

from edgec.frontend.onnx.operators.activation import gelu_of, softmax_of
from edgec.frontend.onnx.operators.quantization import saturated
from edgec.frontend.tflite.call import TfliteCall, tflite
from edgec.frontend.tflite.integer import dequantized, is_quantized, offset, quantized, scaled, through_reals
from edgec.frontend.values import Value, clip, emit, maximum, minimum, select
from edgec.ir.types import DTYPES

_RANGES = {"RELU": (0.0, None), "RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0), "RELU_0_TO_1": (0.0, 1.0)}


@tflite("RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1", elementwise=True)
def relu(call: TfliteCall) -> Value:
    low, high = _RANGES[call.name]
    x, result = call[0], call.result()
    if not is_quantized(result):
        y = maximum(x, low)
        return y if high is None else minimum(y, high)
    inputs, outputs = call.quantization(0), result.quantized
    y = scaled(offset(x, inputs.zero), np.float64(inputs.scale) / np.float64(outputs.scale)) + outputs.zero
    limits = np.iinfo(DTYPES[result.dtype])

    def bound(real: float) -> int:
        return outputs.zero + int(np.floor(np.float32(real) / outputs.scale + 0.5))

    least, most = max(limits.min, bound(low)), limits.max if high is None else min(limits.max, bound(high))
    return clip(y, int(least), int(most)).cast(result.dtype)


@tflite("LOGISTIC", elementwise=True)
def logistic(call: TfliteCall) -> Value:
    return through_reals(call, lambda x: emit("sigmoid", x))


@tflite("TANH", elementwise=True)
def tanh(call: TfliteCall) -> Value:
    return through_reals(call, lambda x: emit("tanh", x))


@tflite("ELU", elementwise=True)
def elu(call: TfliteCall) -> Value:
    return through_reals(call, lambda x: select(x < 0, emit("expm1", minimum(x, 0)), x))


@tflite("HARD_SWISH", elementwise=True)
def hard_swish(call: TfliteCall) -> Value:
    return through_reals(call, lambda x: x * clip(x * (1 / 6) + 0.5, 0, 1))


@tflite("LEAKY_RELU", elementwise=True)
def leaky_relu(call: TfliteCall) -> Value:
    alpha = float(call.option("alpha"))
    return through_reals(call, lambda x: select(x < 0, x * alpha, x))


@tflite("GELU", elementwise=True)
def gelu(call: TfliteCall) -> Value:
    return through_reals(call, lambda x: gelu_of(x, bool(call.option("approximate", False))))


@tflite("PRELU", elementwise=True)
def prelu(call: TfliteCall) -> Value:
    return through_reals(call, lambda x, slope: select(x < 0, x * slope, x))


@tflite("SOFTMAX")
def softmax(call: TfliteCall) -> Value:
    """Along the last dimension, of x times beta."""
    x, beta = call[0], float(call.option("beta", 1.0))
    result = call.result()
    if not is_quantized(result):
        return softmax_of(x if beta == 1.0 else x * beta, x.rank - 1)
    # Only differences to the maximum count, so the zero point does not; the factor is what is left of the scale.
    factor = float(np.float32(call.quantization(0).scale * np.float32(beta)))
    y = softmax_of(x.cast("f32") * factor, x.rank - 1)
    q = result.quantized
    whole = emit("floor", y * float(1 / np.float64(q.scale)) + 0.5)
    return saturated(whole + float(q.zero) if q.zero else whole, result.dtype)


@tflite("LOG_SOFTMAX")
def log_softmax(call: TfliteCall) -> Value:
    x, result = call[0], call.result()
    reals = dequantized(x, call.tensor(0)) if is_quantized(result) else x
    shifted = reals - reals.reduce("max", [-1])
    y = shifted - emit("log", emit("exp", shifted).sum([-1]))
    return quantized(y, result) if is_quantized(result) else y


@tflite("L2_NORMALIZATION")
def l2_normalization(call: TfliteCall) -> Value:
    def formula(x: Value) -> Value:
        return x / emit("sqrt", maximum((x * x).sum([-1]), 1e-12))

    x, result = call[0], call.result()
    if not is_quantized(result):
        return formula(x)
    return quantized(formula(offset(x, call.quantization(0).zero).cast("f32")), result)
