"""Resizing images. Of integers, bilinear weights are fractions of 1024 and sums exact."""

from __future__ import annotations

import numpy as np

from edgec.errors import ModelError
from edgec.frontend.onnx.operators.quantization import saturated
from edgec.frontend.onnx.operators.resize import repeated
from edgec.frontend.tflite.call import TfliteCall, tflite
from edgec.frontend.tflite.layout import channels_first, channels_last
from edgec.frontend.values import Value, constant, emit, numbers, select
from edgec.ir.types import FOLD_ELEMENTS

_ONE = 1 << 10


def _sizes(call: TfliteCall) -> tuple[int, ...]:
    sizes = call.ints(1)
    if len(sizes) != 2 or any(not 0 < s <= FOLD_ELEMENTS for s in sizes) or call[0].rank != 4:
        raise ModelError(f"resizing shape {list(call[0].shape)} to {list(sizes)}")
    return sizes


def _corners(call: TfliteCall) -> bool:
    return bool(call.option("align_corners", False))


def _centers(call: TfliteCall) -> bool:
    return bool(call.option("half_pixel_centers", False))


@tflite("RESIZE_BILINEAR")
def resize_bilinear(call: TfliteCall) -> Value:
    sizes, x = _sizes(call), channels_first(call[0])
    if x.is_float or x.dtype == "u8":
        y = x.cast("f32")
        for axis, size in enumerate(sizes, 2):
            y = _mixed(y, axis, *_taps(call, x.shape[axis], size))
        return channels_last(y if x.is_float else saturated(emit("floor", y + 0.5), x.dtype))
    y = x.cast("i32")
    for axis, size in enumerate(sizes, 2):
        y = _mixed(y, axis, *_integer_taps(call, x.shape[axis], size))
    half = _ONE * _ONE // 2
    return channels_last(emit("div", select(y > 0, y + half, y - half), _ONE * _ONE).cast(x.dtype))


def _mixed(x: Value, axis: int, low: np.ndarray, high: np.ndarray, part: np.ndarray, one: int = 1) -> Value:
    """x[low] * (one - part) + x[high] * part along a dimension."""
    if not part.any() and len(low) == x.shape[axis] and np.array_equal(low, np.arange(len(low))):
        return x * one if one != 1 else x
    shape = [len(low) if d == axis else 1 for d in range(x.rank)]
    before, after = (constant(p, x.dtype).reshape(*shape) for p in (one - part, part))
    return x.gather(low, axis) * before + x.gather(high, axis) * after


def _taps(call: TfliteCall, extent: int, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The two inputs of every output, and the weight of the second."""
    scale = np.float32(extent) / np.float32(size)
    if _corners(call) and size > 1:
        scale = np.float32(extent - 1) / np.float32(size - 1)
    y = numbers(size).astype(np.float32)
    where = (y + np.float32(0.5)) * scale - np.float32(0.5) if _centers(call) else y * scale
    low = np.maximum(np.floor(where).astype(np.int64), 0)
    high = np.minimum(np.ceil(where).astype(np.int64), extent - 1)
    # Before the first and behind the last element both are the same one, and any weights will do.
    low = np.minimum(low, extent - 1)
    return low, np.maximum(high, 0), (where - low).astype(np.float32)


def _integer_taps(call: TfliteCall, extent: int, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    scale = (_ONE * extent + size // 2) // size
    if _corners(call) and size > 1:
        scale = (_ONE * (extent - 1) + (size - 1) // 2) // (size - 1)
    y = numbers(size)
    where = y * scale + scale // 2 - _ONE // 2 if _centers(call) else y * scale
    low = np.clip(np.trunc(where / _ONE).astype(np.int64), 0, extent - 1)
    high = np.clip(np.trunc((where + _ONE - 1) / _ONE).astype(np.int64), 0, extent - 1)
    return low, high, where - low * _ONE, _ONE


@tflite("RESIZE_NEAREST_NEIGHBOR")
def resize_nearest(call: TfliteCall) -> Value:
    sizes, x = _sizes(call), channels_first(call[0])
    for axis, size in enumerate(sizes, 2):
        extent = x.shape[axis]
        scale = np.float32(extent) / np.float32(size)
        if _corners(call) and size > 1:
            scale = np.float32(extent - 1) / np.float32(size - 1)
        where = (numbers(size).astype(np.float32) + np.float32(0.5 if _centers(call) else 0)) * scale
        places = np.floor(where + np.float32(0.5)) if _corners(call) else np.floor(where)
        x = repeated(x, np.clip(places, 0, extent - 1).astype(np.int64), axis)
    return channels_last(x)
