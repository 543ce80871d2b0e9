"""Pooling over windows; padding counts neither in an average nor in a maximum."""

from __future__ import annotations

from math import inf

import numpy as np

from edgec.frontend.tflite.call import TfliteCall, tflite
from edgec.frontend.tflite.integer import activated, bounds, halved_away, is_quantized
from edgec.frontend.tflite.layout import channels_first, channels_last
from edgec.frontend.tflite.operators.conv import strides_of, window_padding
from edgec.frontend.values import Value, check_table, clip, constant, emit
from edgec.ir.types import DTYPES


def _pooled(call: TfliteCall, x: Value, combine: str, border: float) -> Value:
    """Channels first."""
    kernel = int(call.option("filter_height")), int(call.option("filter_width"))
    before, after = window_padding(call, x.shape[2:], kernel)
    padded = x.pad((0, 0, *before), (0, 0, *after), border)
    return emit("pool", padded, combine=combine, kernel=kernel, strides=strides_of(call), dilations=(1, 1))


def _counts(call: TfliteCall, x: Value) -> np.ndarray:
    """Number of elements of every window: [1, 1, H, W], or a scalar where it is the same for all."""
    check_table(*x.shape[2:])
    ones = _pooled(call, constant(np.ones((1, 1, *x.shape[2:]), np.int32)), "add", 0).node.value
    return np.asarray(ones.reshape(-1)[0]) if ones.size and (ones == ones.reshape(-1)[0]).all() else ones


def _limited(call: TfliteCall, y: Value) -> Value:
    """The fused activation; integers have the scale of the operand."""
    if not is_quantized(call.result()):
        return activated(call, y)
    limits = np.iinfo(DTYPES[call.result().dtype])
    low, high = bounds(call, call.result())
    return y if (low, high) == (limits.min, limits.max) and y.dtype == call.result().dtype else clip(y, low, high)


@tflite("MAX_POOL_2D")
def max_pool(call: TfliteCall) -> Value:
    x = channels_first(call[0])
    least = -inf if x.is_float else int(np.iinfo(DTYPES[x.dtype]).min)
    return channels_last(_limited(call, _pooled(call, x, "max", least)))


@tflite("AVERAGE_POOL_2D")
def average_pool(call: TfliteCall) -> Value:
    x = channels_first(call[0])
    counts = _counts(call, x)
    if x.is_float:
        total = _pooled(call, x, "add", 0)
        return channels_last(activated(call, total * constant(1.0 / counts, "f32")))
    total = _pooled(call, x.cast("i32"), "add", 0)
    mean = halved_away(total, constant(counts, "i32"))
    return channels_last(_limited(call, mean).cast(x.dtype))


@tflite("L2_POOL_2D")
def l2_pool(call: TfliteCall) -> Value:
    x = channels_first(call[0])
    total = _pooled(call, x * x, "add", 0)
    return channels_last(activated(call, emit("sqrt", total * constant(1.0 / _counts(call, x), "f32"))))
