"""MediaPipe's own operators: pooling that says where the greatest element was, and its reverse."""

from __future__ import annotations

import struct

import numpy as np

from edgec.errors import ModelError
from edgec.frontend.tflite.call import TfliteCall, tflite
from edgec.frontend.values import Value, check_table, concat, constant, select

_SAME, _VALID = 1, 2


def _window(call: TfliteCall) -> tuple[int, tuple[int, int], tuple[int, int]]:
    """Padding, strides and extents (height, width) of the window, which the options hold as 32-bit integers."""
    raw = call.operator.custom_options
    if len(raw) < 24:
        raise ModelError("its options are cut off", hint="the file is damaged")
    padding, across, down, width, height, activation = struct.unpack("<6i", raw[:24])
    if padding not in (_SAME, _VALID) or min(across, down, width, height) < 1 or activation:
        raise ModelError(f"a window of padding {padding}, {height}x{width}, with activation {activation}")
    check_table(height * width)
    return padding, (down, across), (height, width)


@tflite("MaxPoolingWithArgmax2D")
def max_pool_with_places(call: TfliteCall) -> list[Value]:
    """The greatest element of every window, and its place in the window (plus 0.1, as a float); the first of equals."""
    x = call[0]
    padding, strides, extents = _window(call)
    n, channels = x.shape[0], x.shape[3]
    sizes, before, after = [], [0], [0]
    for have, stride, extent in zip(x.shape[1:3], strides, extents):
        sizes.append(-(-have // stride) if padding == _SAME else (have - extent + stride) // stride)
        missing = max((sizes[-1] - 1) * stride + extent - have, 0)
        before.append(missing // 2)
        after.append(missing - missing // 2)
    padded = x.pad((*before, 0), (*after, 0), -np.inf)
    shape = (n, *sizes, channels)
    parts = [
        padded.slice((0, i, j, 0), (1, *strides, 1), shape).unsqueeze(0)
        for i in range(extents[0])
        for j in range(extents[1])
    ]
    views = concat(parts, 0)
    y = views.reduce("max", [0])
    places = constant(np.arange(len(parts), dtype=np.float32).reshape(-1, 1, 1, 1, 1))
    first = select(views.equals(y), places, float(len(parts))).reduce("min", [0], keep=False)
    return [y.squeeze(0), first + 0.1]


@tflite("MaxUnpooling2D")
def max_unpool(call: TfliteCall) -> Value:
    """Every element at its place in a window of zeros; the windows lie side by side."""
    x, places = call[0], call[1]
    _, strides, (height, width) = _window(call)
    if strides != (height, width):
        raise ModelError(f"windows of {height}x{width} with strides {list(strides)} overlap or leave gaps")
    n, rows, columns, channels = x.shape
    numbers = constant(np.arange(height * width, dtype=np.int32))
    spread = select(places.cast("i32").unsqueeze(4).equals(numbers), x.unsqueeze(4), 0.0)
    spread = spread.reshape(n, rows, columns, channels, height, width).transpose(0, 1, 4, 2, 5, 3)
    return spread.reshape(n, rows * height, columns * width, channels)
