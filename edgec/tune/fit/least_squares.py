"""Least squares over the logarithms of positive constants, for formulas that are only evaluated.

A constant stays positive since its logarithm is what is solved for; residuals are logarithms of predicted over measured
times, so that every kernel counts by its relative error. The steps are those of Levenberg and Marquardt; residuals
beyond `HUBER` count by their size and not by its square, as some kernels do what no formula says.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

#: The residual from which on it counts linearly: a factor of 1.35.
HUBER = 0.3
#: Steps at most, and the step in a logarithm for derivatives.
STEPS, STEP = 60, 1e-4
#: Pull of every constant towards its start, so small that only constants feel it that times hardly tell anything of.
RIDGE = 3e-3
#: A constant whose effect on every logarithm is less has none.
NO_EFFECT = 1e-3
#: Factors that a scan tries on each constant, and its sweeps at most.
FACTORS, SWEEPS = (1e-3, 1e-2, 0.1, 0.25, 0.5, 2.0, 4.0, 10.0, 1e2, 1e3), 5
#: A constant is found within this factor of its start.
FARTHEST = 1e5

Residuals = Callable[[np.ndarray], np.ndarray]


def solve(residuals: Residuals, start: np.ndarray) -> tuple[np.ndarray, float]:
    """The constants with the least sum of squared residuals, and the sum; both are near the ``start`` alone.

    ``residuals`` maps positive constants [n] to logarithms of relative errors [m].
    """
    begin = np.log(start)
    at, damping = begin.copy(), 1e-2

    def value(x: np.ndarray) -> tuple[float, np.ndarray]:
        r = residuals(np.exp(x))
        return _robust(r) + float(RIDGE * ((x - begin) ** 2).sum()), r

    best, r = value(at)
    for _ in range(STEPS):
        slopes = np.stack([(residuals(np.exp(at + STEP * e)) - r) / STEP for e in np.eye(len(at))], axis=1)
        weight = np.where(np.abs(r) <= HUBER, 1.0, HUBER / np.maximum(np.abs(r), 1e-12))
        normal = slopes.T @ (weight[:, None] * slopes) + RIDGE * np.eye(len(at))
        gradient = slopes.T @ (weight * r) + RIDGE * (at - begin)
        before = best
        while damping < 1e8:
            step = np.linalg.solve(normal + damping * np.diag(np.diag(normal)), -gradient)
            new = np.clip(at + np.clip(step, -2, 2), begin - np.log(FARTHEST), begin + np.log(FARTHEST))
            cost, found = value(new)
            if cost < best:
                at, best, r, damping = new, cost, found, max(damping / 5, 1e-9)
                break
            damping *= 4
        else:
            break
        if before - best < 1e-7 * before:
            break
    return np.exp(at), best


def scanned(residuals: Residuals, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A start that is near for formulas with maxima: each constant in turn takes the best of `FACTORS` around it.

    Also gives a mask [n] of the constants that the residuals follow somewhere on the way.
    """
    at, felt = start.copy(), np.zeros(len(start), bool)
    best = _robust(residuals(at))
    for _ in range(SWEEPS):
        before = best
        for k in range(len(at)):
            own = residuals(at)
            chosen = at
            for factor in FACTORS:
                tried = at.copy()
                tried[k] *= factor
                found = residuals(tried)
                felt[k] |= bool(np.abs(found - own).max() > NO_EFFECT)
                cost = _robust(found)
                if cost < best * (1 - 1e-6):
                    best, chosen = cost, tried
            at = chosen
        if best >= before:
            break
    return at, felt


def _robust(r: np.ndarray) -> float:
    """Sum of squares, of sizes where residuals are large; infinite for what is no number."""
    if not np.isfinite(r).all():
        return float("inf")
    size = np.abs(r)
    return float(np.where(size <= HUBER, r * r, HUBER * (2 * size - HUBER)).sum())
