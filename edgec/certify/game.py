"""Several linear conditions at once: the point of a box at which the greatest of them is least, and the proof of it.

The two sides of this linear program answer each other in turns (fictitious play; Brown, "Iterative Solution of Games by
Fictitious Play", 1951). Points are those of the box whatever the number of rounds, and weights say a sound bound.
"""

from __future__ import annotations

import numpy as np

from edgec.certify.ranges import Array

ROUNDS = 24


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
