"""Structured operators as plain loops, to compare with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray
#: Attributes of windows over two channels.
WINDOWS: tuple[dict[str, Any], ...] = (
    {"kernel": (3, 2), "strides": (2, 1), "dilations": (1, 2), "before": (1, 0), "places": (3, 4), "columns": 14},
    {"kernel": (2, 2), "strides": (1, 1), "dilations": (1, 1), "before": (-1, 2), "places": (3, 8), "columns": 8},
    {"kernel": (3, 1), "strides": (1, 1), "dilations": (3, 1), "before": (1, 0), "places": (2, 5), "columns": 7},
)


def conv(x: Array, w: Array, strides: tuple[int, ...], dilations: tuple[int, ...], groups: int) -> Array:
    n, _, *space = x.shape
    o, c, *kernel = w.shape
    out = [(s - (k - 1) * d - 1) // st + 1 for s, k, st, d in zip(space, kernel, strides, dilations)]
    y = np.zeros((n, o, *out))
    for place in np.ndindex(*y.shape):
        b, channel, *p = place
        first = channel // (o // groups) * c
        window = tuple(slice(i * s, i * s + (k - 1) * d + 1, d) for i, s, k, d in zip(p, strides, kernel, dilations))
        y[place] = (x[(b, slice(first, first + c), *window)] * w[channel]).sum()
    return y


def windows(
    x: Array,
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
    before: tuple[int, ...],
    places: tuple[int, ...],
    columns: int,
) -> Array:
    y = np.zeros((x.shape[0], *places, columns), x.dtype)
    for n, *place in np.ndindex(x.shape[0], *places):
        for column, (c, *tap) in enumerate(np.ndindex(x.shape[1], *kernel)):
            at = [p * s + t * d - b for p, s, t, d, b in zip(place, strides, tap, dilations, before)]
            if all(0 <= a < extent for a, extent in zip(at, x.shape[2:])):
                y[(n, *place, column)] = x[(n, c, *at)]
    return y.reshape(-1, columns)


def scattered(x: Array, at: Array, updates: Array, axis: int, combine: Callable[[Any, Any], Any]) -> Array:
    y = x.copy()
    for place in np.ndindex(*at.shape):
        target = (*place[:axis], at[place] % x.shape[axis], *place[axis + 1 :])
        y[target] = combine(y[target], updates[place])
    return y


def scattered_nd(x: Array, at: Array, updates: Array, combine: Callable[[Any, Any], Any]) -> Array:
    y = x.copy()
    for place in np.ndindex(*at.shape[:-1]):
        target = tuple(at[place] % x.shape[: at.shape[-1]])
        y[target] = combine(y[target], updates[place])
    return y


def last(_: Any, new: Any) -> Any:
    return new


def pcg4d(*counters: np.ndarray) -> np.ndarray:
    """The last word of pcg4d (Jarzynski and Olano, 2020) of four words of 32 bits, as its authors write it."""
    x, y, z, w = (np.asarray(c, np.uint32) * np.uint32(1664525) + np.uint32(1013904223) for c in counters)
    for last_round in (False, True):
        x = x + y * w
        y = y + z * x
        z = z + x * y
        w = w + y * z
        if not last_round:
            x, y, z, w = (v ^ (v >> np.uint32(16)) for v in (x, y, z, w))
    return w
