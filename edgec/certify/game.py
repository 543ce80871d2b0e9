"""Several linear conditions at once: the point of a box at which the greatest of them is least, and the proof of it.

The two sides of this linear program answer each other in turns (fictitious play; Brown, "Iterative Solution of Games by
Fictitious Play", 1951). Points are those of the box whatever the number of rounds, and weights say a sound bound.
"""

from __future__ import annotations

import numpy as np

from edgec.certify.ranges import U64, Array

ROUNDS = 24
#: In the place of a number of which nothing is known, where it may be multiplied with zero.
_NOTHING = -1e300


def played(values: Array, slopes: Array, low: Array, high: Array, rounds: int = ROUNDS) -> tuple[Array, Array]:
    """Weights of conditions [games, conditions], which add up to 1, and moves [games, elements].

    The conditions are ``values`` + ``slopes`` @ move, with slopes [games, conditions, elements], and moves are between
    ``low`` and ``high``. The moves make the greatest condition about as small as it gets.
    """
    count = np.arange(len(values))
    weights, moves = np.zeros_like(values), np.zeros_like(low)
    last, best, kept = values.argmax(axis=1), np.full(len(values), -np.inf), None
    with np.errstate(all="ignore"):
        for k in range(rounds):
            weights *= k / (k + 1)
            weights[count, last] += 1 / (k + 1)
            slope = np.einsum("gc,gce->ge", weights, slopes)
            answer = np.where(slope > 0, low, np.where(slope < 0, high, np.clip(0, low, high)))
            least = (weights * values).sum(axis=1) + (slope * answer).sum(axis=1)
            kept = weights.copy() if kept is None else np.where((least > best)[:, None], weights, kept)
            best = np.fmax(best, least)
            moves += (answer - moves) / (k + 1)
            last = (values + np.einsum("gce,ge->gc", slopes, moves)).argmax(axis=1)
    assert kept is not None
    return kept, moves


def refuted_by(least: Array, slopes: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """By how much the best condition is missed at least, [boxes], for the conditions together.

    ``least`` [boxes, conditions] are the least values of the conditions over boxes from ``low`` to ``high``, and each
    grows from there by its ``slopes`` [boxes, conditions, elements] at least. Inputs that meet all conditions meet each
    weighted sum of them, of which the slopes cancel. Beside the margin: the inputs [boxes, elements] at which the
    greatest condition is about least.
    """
    known = np.isfinite(least) & np.isfinite(slopes).all(axis=2)
    least, slopes = np.where(known, least, _NOTHING), np.where(known[:, :, None], slopes, 0.0)
    radius, middle = (high - low) / 2, low + (high - low) / 2
    reach = np.einsum("bce,be->bc", np.abs(slopes), radius)
    weights, moves = played(least + reach, slopes, -radius, radius)
    slope = np.einsum("bc,bce->be", weights, slopes)
    gain = (weights * reach).sum(axis=1) - (np.abs(slope) * radius).sum(axis=1)
    size = (weights * (np.abs(least) + 2 * reach)).sum(axis=1)
    margin = (weights * least).sum(axis=1) + gain - 4 * U64 * (sum(slopes.shape[1:]) + 8) * size
    return margin, np.clip(middle + moves, low, high)
