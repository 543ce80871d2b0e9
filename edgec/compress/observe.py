"""Observers: the range of real numbers that 256 integers are to stand for, from samples of a tensor."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Array = np.ndarray
Range = tuple[float, float]

#: Elements of a tensor that are looked at, evenly spread, where it has more.
MOST = 1 << 18
#: What a percentile observer leaves out at either end, in percent.
TAIL = 0.01
#: Parts of the whole range that are tried by observers that search, and bins of a histogram.
_TRIED = np.linspace(1.0, 0.3, 71)
_BINS, _LEVELS = 2048, 256


def sampled(values: Array, most: int = MOST) -> Array:
    """At most so many elements, evenly spread."""
    flat = values.reshape(-1)
    return flat[:: -(-flat.size // most)] if flat.size > most else flat


def minmax(values: Array) -> Range:
    return float(values.min()), float(values.max())


def percentile(values: Array) -> Range:
    """Without the greatest and the least ten-thousandth."""
    low, high = np.percentile(values, [TAIL, 100 - TAIL])
    return float(low), float(high)


def least_error(values: Array) -> Range:
    """The part of the range whose quantization is nearest to the values, in the mean of squares."""
    low, high = minmax(values)
    values = sampled(values)
    errors = [float(np.mean((quantized(values, low * part, high * part) - values) ** 2)) for part in _TRIED]
    part = float(_TRIED[int(np.argmin(errors))])
    return low * part, high * part


def entropy(values: Array) -> Range:
    """The part of the range that loses the least information (Kullback-Leibler), as TensorRT calibrates."""
    low, high = minmax(values)
    bins = int(np.clip(values.size // 16, _LEVELS, _BINS))  # of too few values a histogram is mostly chance
    counts, edges = np.histogram(values, bins, (low, high) if high > low else (low, low + 1))
    centers = (edges[:-1] + edges[1:]) / 2
    divergences = [_divergence(counts, centers, low * part, high * part) for part in _TRIED]
    part = float(_TRIED[int(np.argmin(divergences))])
    return low * part, high * part


def _divergence(counts: Array, centers: Array, low: float, high: float) -> float:
    """Loss of information when values outside are clipped and the rest is counted on 256 levels."""
    inside = (centers >= low) & (centers <= high)
    if not inside.any():
        return float("inf")
    reference = counts[inside].astype(np.float64)
    reference[0] += counts[centers < low].sum()
    reference[-1] += counts[centers > high].sum()
    level = np.minimum((np.arange(reference.size) * _LEVELS) // reference.size, _LEVELS - 1)
    known = counts[inside] > 0
    totals = np.bincount(level, counts[inside].astype(np.float64), _LEVELS)
    spread = totals[level] / np.maximum(np.bincount(level, known.astype(np.float64), _LEVELS)[level], 1)
    candidate = np.where(known, spread, 0)
    p, q = reference / reference.sum(), candidate / max(candidate.sum(), 1e-30)
    seen = p > 0
    return float(np.sum(p[seen] * np.log(p[seen] / np.maximum(q[seen], 1e-12))))


def quantized(values: Array, low: float, high: float) -> Array:
    """The numbers that values become on 256 levels of a range with 0 in it."""
    scale, zero = scale_and_zero(low, high)
    levels: Array = np.clip(np.rint(values / scale) + zero, 0, 255) - zero
    return levels * scale


def scale_and_zero(low: float, high: float) -> tuple[float, int]:
    """The step between two levels of u8, and the level of 0, which is always one."""
    low, high = min(low, 0.0), max(high, 0.0)
    scale = float(np.float32((high - low) / 255))
    if scale < np.finfo(np.float32).tiny:  # below normal floats a step has no digits left: all of that is 0
        scale = 1.0
    return scale, int(np.clip(np.rint(-low / scale), 0, 255))


OBSERVERS: dict[str, Callable[[Array], Range]] = {
    "minmax": minmax,
    "percentile": percentile,
    "mse": least_error,
    "entropy": entropy,
}
