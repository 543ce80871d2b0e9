"""Spectra: Fourier transforms of a fixed length are matrix products with constants."""

from __future__ import annotations

import numpy as np

from edgec.errors import ModelError
from edgec.frontend.onnx.call import Call, onnx
from edgec.frontend.onnx.model import element_type
from edgec.frontend.values import Value, check_table, concat, constant, normalize_axis
from edgec.ir.types import DTYPES


def transform(x: Value, length: int, onesided: bool, inverse: bool) -> Value:
    """[..., n, 1 or 2] -> [..., bins, 2]: real and imaginary parts, transformed along the last but one."""
    n = x.shape[-2]
    if length < 1:
        raise ModelError(f"a transform of length {length}", hint="its length is 1 or more")
    x = x.pad((0,) * x.rank, [max(length - n, 0) if d == x.rank - 2 else 0 for d in range(x.rank)])
    x = x.part(x.rank - 2, 0, length)
    bins = length // 2 + 1 if onesided and not inverse else length
    check_table(length, bins)
    # Exact reduction of the angle first: large products lose digits.
    turns = (np.arange(length)[:, None] * np.arange(bins)[None, :]) % length
    angle = (2 if inverse else -2) * np.pi * turns / length
    scale = 1 / length if inverse else 1.0
    cos, sin = (constant(f(angle) * scale, x.dtype) for f in (np.cos, np.sin))
    last = x.rank - 1
    real = x.part(last, 0, 1).squeeze(-1)
    if x.shape[-1] == 1:
        return concat([(real @ cos).unsqueeze(-1), (real @ sin).unsqueeze(-1)], last)
    imaginary = x.part(last, 1, 2).squeeze(-1)
    parts = [real @ cos - imaginary @ sin, real @ sin + imaginary @ cos]
    return concat([p.unsqueeze(-1) for p in parts], last)


@onnx("DFT")
def dft(call: Call) -> Value:
    x = call[0]
    if call.opset < 20:
        axis = call.attribute("axis", 1)
    else:
        axis = int(call.constant(2).reshape(())) if call.optional(2) is not None else -2
    axis = normalize_axis(axis, x.rank)
    length = int(call.constant(1).reshape(())) if call.optional(1) is not None else x.shape[axis]
    onesided, inverse = bool(call.attribute("onesided")), bool(call.attribute("inverse"))
    if onesided and inverse:
        # Half a spectrum of a real signal: the other half is its mirror image.
        length = length if call.optional(1) is not None else 2 * (x.shape[axis] - 1)
        turned = x.swap(axis, x.rank - 2)
        mirrored = turned.part(turned.rank - 2, 1, length - turned.shape[-2] + 1).flip(turned.rank - 2)
        sign = constant(np.array([1, -1]), x.dtype)
        whole = concat([turned, mirrored * sign], turned.rank - 2)
        y = transform(whole, length, False, True)
        return y.part(y.rank - 1, 0, 1).swap(axis, x.rank - 2)
    if axis == x.rank - 1:
        raise call.error("the last dimension holds the real and imaginary parts and cannot be transformed")
    return transform(x.swap(axis, x.rank - 2), length, onesided, inverse).swap(axis, x.rank - 2)


@onnx("STFT")
def stft(call: Call) -> Value:
    """Frames of the signal times a window, each transformed."""
    signal = call[0]
    signal = signal.unsqueeze(-1) if signal.rank == 2 else signal
    step = int(call.constant(1).reshape(()))
    window = call.optional(2)
    length = int(call.constant(3).reshape(())) if call.optional(3) is not None else call[2].shape[0]
    if step < 1 or not 1 <= length <= signal.shape[1]:
        raise call.error(f"frames of {length} elements in steps of {step}, out of {signal.shape[1]}")
    count = (signal.shape[1] - length) // step + 1
    check_table(count, length)
    places = np.arange(count)[:, None] * step + np.arange(length)[None, :]
    frames = signal.gather(constant(places.astype(np.int64)), 1)
    if window is not None:
        frames = frames * window.reshape(1, 1, length, 1)
    return transform(frames, length, bool(call.attribute("onesided", 1)), False)


@onnx("MelWeightMatrix")
def mel_weight_matrix(call: Call) -> Value:
    """Triangles that gather the bins of a spectrum into mel bands; everything is known at build time."""
    bands, length, rate = (int(call.constant(k).reshape(())) for k in range(3))
    if min(bands, length, rate) < 1:
        raise call.error(f"{bands} bands of a transform of length {length} at {rate} samples a second")
    low, high = (float(call.constant(k).reshape(())) for k in (3, 4))
    bins = length // 2 + 1
    check_table(bins, bands)
    edges = 2595 * np.log10(1 + np.array([low, high]) / 700)
    points = edges[0] + np.arange(bands + 2) * (edges[1] - edges[0]) / (bands + 2)
    places = ((length + 1) * (700 * (10 ** (points / 2595) - 1)) // rate).astype(np.int64)
    matrix = np.zeros((bins, bands))
    for band in range(bands):
        first, middle, last = places[band : band + 3]
        if middle == first:
            matrix[middle, band] = 1
        for k in range(first, middle + 1):
            matrix[k, band] = (k - first) / max(middle - first, 1) if middle != first else matrix[k, band]
        for k in range(middle, last):
            matrix[k, band] = (last - k) / (last - middle)
    dtype = element_type(call.attribute("output_datatype", 1))
    return constant(matrix.astype(DTYPES[dtype]))
