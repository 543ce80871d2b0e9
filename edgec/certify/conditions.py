"""Linear conditions of inputs in boxes, each of which is to be at most zero: whether all can be, and where.

A condition is given by its least value in the box, and grows from the corner where it has that by its slopes at least.
"""

from __future__ import annotations

import numpy as np

from edgec.certify.ranges import U64, Array
from edgec.certify.simplex import solved

#: In the place of a number of which nothing is known, where it may be multiplied with zero.
_NOTHING = -1e300
#: Times that the box of a condition is found with what others left of it.
_TURNS = 2


def refuted_by(least: Array, slopes: Array, low: Array, high: Array) -> tuple[Array, Array, Array]:
    """By how much the best condition is missed at least, [boxes], for the conditions together.

    ``least`` [boxes, conditions] are the least values of the conditions over boxes from ``low`` to ``high``, and each
    grows from there by its ``slopes`` [boxes, conditions, elements] at least. Inputs that meet all conditions meet each
    weighted sum of them, of which the slopes cancel. Beside the margin: the inputs [boxes, elements] at which the
    greatest condition is about least, as far as it took to decide, and the weights [boxes, conditions].
    """
    known = np.isfinite(least) & np.isfinite(slopes).all(axis=2)
    slopes = np.where(known[:, :, None], slopes, 0.0)
    radius, middle = (high - low) / 2, low + (high - low) / 2
    reach = np.einsum("bce,be->bc", np.abs(slopes), radius)
    weights, moves = solved(np.where(known, least + reach, -np.inf), slopes, -radius, radius)
    least = np.where(known, least, _NOTHING)
    slope = np.einsum("bc,bce->be", weights, slopes)
    gain = (weights * reach).sum(axis=1) - (np.abs(slope) * radius).sum(axis=1)
    size = (weights * (np.abs(least) + 2 * reach)).sum(axis=1)
    margin = (weights * least).sum(axis=1) + gain - 4 * U64 * (sum(slopes.shape[1:]) + 8) * size
    return margin, np.clip(middle + moves, low, high), weights


def shrunk(least: Array, slopes: Array, low: Array, high: Array) -> tuple[Array, Array, Array]:
    """The boxes of the inputs at which no condition is known to be missed, and which boxes have none of them.

    An input at a distance from the corner where a condition is least misses it by the slope times that distance, less
    the least value (domain clipping: Zhou et al., "Clip-and-Verify", 2025). Boxes with no such input stay.
    """
    known = np.isfinite(least) & np.isfinite(slopes).all(axis=2)
    slopes = np.where(known[:, :, None], slopes, 0.0)
    least = np.where(known, least, _NOTHING)
    corners = np.where(slopes > 0, low[:, None], high[:, None])
    first, last, is_empty = low, high, np.zeros(len(low), bool)
    grown = 1 + 8 * U64 * (low.shape[1] + 8)
    for c in (*range(least.shape[1]),) * _TURNS:
        slope, corner = slopes[:, c], corners[:, c]
        away = np.abs(np.where(slope > 0, first, last) - corner)
        here = least[:, c] + (np.abs(slope) * away).sum(axis=1) / grown
        is_empty |= here > 8 * U64 * np.abs(least[:, c])
        with np.errstate(all="ignore"):
            reach = np.maximum(8 * U64 * np.abs(least[:, c]) - here, 0)[:, None] / np.abs(slope) * grown
        last = np.where(slope > 0, np.minimum(last, np.nextafter(first + reach, np.inf)), last)
        first = np.where(slope < 0, np.maximum(first, np.nextafter(last - reach, -np.inf)), first)
    stays = is_empty[:, None] | (first > last)
    return np.where(stays, low, first), np.where(stays, high, last), is_empty


def within(least: Array, slopes: Array, box: tuple[Array, Array], part: tuple[Array, Array]) -> Array:
    """The least values [boxes] of one condition each in a part of its box."""
    moves = np.where(slopes > 0, part[0] - box[0], part[1] - box[1])
    sizes = np.abs(slopes) * (np.abs(box[0]) + np.abs(box[1]) + np.abs(part[0]) + np.abs(part[1]))
    return np.asarray(least + (slopes * moves).sum(axis=1) - 4 * U64 * (8 + slopes.shape[1]) * sizes.sum(axis=1))
