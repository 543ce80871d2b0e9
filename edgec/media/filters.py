"""Resampling as Pillow does it: the places and weights of the pixels that each new pixel is the sum of."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def _bilinear(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.maximum(1 - np.abs(x), 0))


def _bicubic(x: np.ndarray) -> np.ndarray:
    x = np.abs(x)
    near, far = 1.5 * x**3 - 2.5 * x**2 + 1, -0.5 * x**3 + 2.5 * x**2 - 4 * x + 2
    return np.where(x < 1, near, np.where(x < 2, far, 0))


def _lanczos(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) < 3, np.sinc(x) * np.sinc(x / 3), 0)


#: The weight of a pixel by its distance, and the distance from which that is 0.
_FILTERS: dict[str, tuple[Callable[[np.ndarray], np.ndarray], int]] = {
    "bilinear": (_bilinear, 1),
    "bicubic": (_bicubic, 2),
    "lanczos": (_lanczos, 3),
}


def taps(before: int, after: int, filter: str, first: int = 0, count: int | None = None) -> tuple[np.ndarray, ...]:
    """(places, weights), each [count, taps], of ``count`` pixels from ``first`` on, of ``before`` made ``after``.

    Making a row smaller widens the filter (antialiasing); a pixel outside of the row has no weight.
    """
    scale = before / after
    middles = (np.arange(after)[first : None if count is None else first + count] + 0.5) * scale
    if filter == "nearest":
        along = np.cumsum([scale * 0.5, *[scale] * (after - 1)])  # Pillow adds, and rounds each sum
        places = np.minimum(along[first:][:count].astype(np.int64), before - 1)[:, None]
        return places, np.ones(places.shape)
    weigh, reach = _FILTERS[filter]
    wide = max(scale, 1.0)
    least = np.maximum((middles - reach * wide + 0.5).astype(np.int64), 0)
    most = np.minimum((middles + reach * wide + 0.5).astype(np.int64), before)
    places = least[:, None] + np.arange(int((most - least).max()))
    weights = np.where(places < most[:, None], weigh((places + 0.5 - middles[:, None]) / wide), 0)
    return np.minimum(places, before - 1), weights / weights.sum(axis=1, keepdims=True)
