"""Several linear conditions at once: a point of a box at which the greatest of them is about least.

The two sides of this linear program answer each other in turns (fictitious play; Brown, "Iterative Solution of Games by
Fictitious Play", 1951), which takes little for boxes of many elements; `edgec.certify.simplex` ends with a proof.
"""

from __future__ import annotations

import numpy as np

from edgec.certify.ranges import Array

ROUNDS = 24


def played(values: Array, slopes: Array, low: Array, high: Array, rounds: int = ROUNDS) -> Array:
    """Moves [games, elements] between ``low`` and ``high`` that make the greatest condition about as small as it gets.

    The conditions are ``values`` + ``slopes`` @ move, with slopes [games, conditions, elements].
    """
    count = np.arange(len(values))
    weights, moves = np.zeros_like(values), np.zeros_like(low)
    last = values.argmax(axis=1)
    with np.errstate(all="ignore"):
        for k in range(rounds):
            weights *= k / (k + 1)
            weights[count, last] += 1 / (k + 1)
            slope = np.einsum("gc,gce->ge", weights, slopes)
            answer = np.where(slope > 0, low, np.where(slope < 0, high, np.clip(0, low, high)))
            moves += (answer - moves) / (k + 1)
            last = (values + np.einsum("gce,ge->gc", slopes, moves)).argmax(axis=1)
    return moves
