"""The difference of two maxima, max(v + e, 0) - max(v, 0), as a function of the difference e of their operands.

It is between 0 and e, and follows one of the two as far as v stays on one side: up to e = -v, where v + e turns. For a
given e it is monotone in v. So its least and its greatest value are functions of e that are made of straight pieces,
which lines are laid below and above.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgec.certify.ranges import U64, Array


@dataclass(frozen=True)
class Band:
    """bottom * e + bottom_0 <= d <= top * e + top_0 and low <= d <= high, for every element."""

    bottom: Array
    bottom_0: Array
    top: Array
    top_0: Array
    low: Array
    high: Array

    @property
    def negated(self) -> Band:
        """The bend of -d as a function of -e."""
        return Band(self.top, -self.top_0, self.bottom, -self.bottom_0, -self.high, -self.low)


def band(kind: str, low: Array, high: Array, least: Array, most: Array) -> Band:
    """The band of a "max" or "min" with 0, for e from ``low`` to ``high`` and v from ``least`` to ``most``."""
    if kind == "min":
        return band("max", -high, -low, -most, -least).negated
    low, high, least, most = np.broadcast_arrays(low, high, least, most)
    places = np.stack([low, high, *(np.clip(x, low, high) for x in (0 * low, -least, -most))])
    above = np.where(
        places >= 0, np.maximum(np.minimum(places, most + places), 0), np.minimum(np.maximum(places, -least), 0)
    )
    below = np.where(
        places >= 0, np.maximum(np.minimum(places, least + places), 0), np.minimum(np.maximum(places, -most), 0)
    )
    top, top_0 = _line(places, above)
    bottom, bottom_0 = _line(-places, -below)
    slack = 8 * U64 * (np.maximum(np.abs(low), np.abs(high)) + np.maximum(np.abs(least), np.abs(most)))
    return Band(bottom, -bottom_0 - slack, top, top_0 + slack, below.min(axis=0) - slack, above.max(axis=0) + slack)


def chord(low: Array, high: Array, least: Array, most: Array) -> tuple[Array, Array]:
    """The slope and the offset of the lowest line above s * e, for e from low to high and s from least to most."""
    ends = np.where(low < 0, least, most) * low, np.where(high < 0, least, most) * high
    with np.errstate(all="ignore"):
        slope = (ends[1] - ends[0]) / (high - low)
    slope = np.where(high > low, np.clip(slope, least, most), most)
    slope = np.where(low >= 0, most, np.where(high <= 0, least, slope))
    offset = np.maximum(ends[0] - slope * low, ends[1] - slope * high)
    return slope, np.where((low >= 0) | (high <= 0), 0.0, offset)


def _line(places: Array, values: Array) -> tuple[Array, Array]:
    """Slope and offset of a line that is not below any of these values; of a few lines the one nearest to them."""
    first, last = places[0], places[1]
    with np.errstate(all="ignore"):
        through = np.clip((values[1] - values[0]) / (last - first), 0.0, 1.0)
    slopes = np.stack([np.zeros_like(first), np.ones_like(first), np.where(first == last, 0.0, through)])
    offsets = (values - slopes[:, None] * places).max(axis=1)
    chosen = (slopes * (first + last) / 2 + offsets).argmin(axis=0)[None]
    return np.take_along_axis(slopes, chosen, 0)[0], np.take_along_axis(offsets, chosen, 0)[0]
