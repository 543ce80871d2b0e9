"""Between real numbers and integers, and between integers of different scales."""

from __future__ import annotations

import numpy as np

from edgec.errors import ModelError
from edgec.frontend.tflite.call import TfliteCall, tflite
from edgec.frontend.tflite.integer import dequantized, is_quantized, offset, quantized, requantized
from edgec.frontend.values import Value, clip, emit


@tflite("QUANTIZE", elementwise=True)
def quantize(call: TfliteCall) -> Value:
    x = call[0]
    if x.is_float:
        return quantized(x, call.result())
    source, target = call.quantization(0), call.result().quantized
    return requantized(call, offset(x, source.zero), np.float64(source.scale) / np.float64(target.scale))


@tflite("DEQUANTIZE", elementwise=True)
def dequantize(call: TfliteCall) -> Value:
    """Weights that are stored as f16 or integers are constants, and become f32 at build time."""
    x = call[0]
    if x.is_float:
        return x.cast("f32")
    return dequantized(x, call.tensor(0))


@tflite("DENSIFY")
def densify(call: TfliteCall) -> Value:
    """Sparse constants are written out when the file is read."""
    return call[0]


def part_of(x: Value, k: int) -> Value:
    """The real (0) or imaginary (1) part of a complex tensor [..., 2]."""
    return x.part(x.rank - 1, k, k + 1).squeeze(-1)


@tflite("CAST", elementwise=True)
def cast(call: TfliteCall) -> Value:
    x, to = call[0], call.result().dtype
    if call.is_complex:  # the imaginary part is dropped
        x = part_of(x, 0)
    if to == "bool":
        return x if x.dtype == "bool" else ~x.equals(0)
    return x.cast(to)


@tflite("FAKE_QUANT", elementwise=True)
def fake_quant(call: TfliteCall) -> Value:
    """Fake quantization from quantization-aware training: real numbers, rounded to steps between two bounds."""
    low, high, bits = float(call.option("min")), float(call.option("max")), int(call.option("num_bits"))
    least, most = float(bool(call.option("narrow_range", False))), float(2**bits - 1)
    if not low < high or is_quantized(call.result()):
        raise ModelError(f"fake quantization between {low} and {high}")
    step = np.float32((high - low) / (most - least))
    zero = np.floor(np.clip(least - low / step, least, most) + 0.5)
    bottom, top = np.float32((least - zero) * step), np.float32((most - zero) * step)
    whole = emit("floor", (clip(call[0], float(bottom), float(top)) - float(bottom)) * float(1 / step) + 0.5)
    return whole * float(step) + float(bottom)
