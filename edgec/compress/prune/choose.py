"""Selection of the zero weights of one layer, and compensation by the others.

Three ways to score a column k of a panel: by **magnitude** (the sum of squares of its weights); by what it adds to the
results of calibration data, **wanda** (each weight times the norm of its input: Sun et al., "A simple and effective
pruning approach for large language models", 2023); and by **obs**, what leaving it out costs when the others may
change: the sum of w_k^2 over [H^-1]_kk, with H = X'X (Hassibi and Stork 1993; Frantar and Alistarh, "SparseGPT", 2023),
in rounds, after each of which the panel's weights are made anew. All outputs of a panel keep the same columns, so their
repair is one exact least-squares problem: the weights on what is kept that come nearest to the dense results.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from edgec.compress.prune.scheme import Scheme, kept

Array = np.ndarray
METHODS = ("magnitude", "wanda", "obs")
#: What is added to the diagonal of H, as a part of its mean: so much where rows are many, and in proportion to the
#: columns for each row where they are fewer than so many times the columns.
DAMPING, ENOUGH = 0.01, 10
#: Rounds of `obs`, each of which drops an equal part of what is left.
ROUNDS = 4
#: Multiply-adds that these may take: panels times columns cubed, for each. Single outputs are many panels.
WORK = 1e12


@dataclass(frozen=True)
class Statistics:
    """Of rows of operands X and dense results Y, both without their means: H = X'X and X'Y, a row on average.

    Both are damped towards the dense weights: where the data say nothing, weights stay what they were.
    """

    hessian: Array  # [columns, columns]
    cross: Array  # [columns, outputs]
    mean_x: Array
    mean_y: Array

    @cached_property
    def inverse(self) -> Array:
        return np.asarray(np.linalg.inv(self.hessian))

    @cached_property
    def full(self) -> Array:
        """[outputs, columns]: the best weights where nothing is left out."""
        return np.asarray((self.inverse @ self.cross).T)

    @staticmethod
    def of(x: Array, y: Array, w: Array) -> Statistics:
        a, b = x.astype(np.float64), y.astype(np.float64)
        mean_x, mean_y = a.mean(axis=0), b.mean(axis=0)
        a, b = a - mean_x, b - mean_y
        hessian = a.T @ a / len(a)
        share = DAMPING * max(1.0, ENOUGH * len(hessian) / len(a))
        damping = share * max(float(np.trace(hessian)) / len(hessian), 1e-12)
        hessian[np.diag_indices_from(hessian)] += damping
        return Statistics(hessian, a.T @ b / len(a) + damping * w.T, mean_x, mean_y)


@dataclass(frozen=True)
class Chosen:
    """A layer's new matrix [outputs, columns], its mask, and what is added to each output."""

    matrix: Array
    mask: Array
    shift: Array | None


def chosen(
    w: Array,
    taps: int,
    scheme: Scheme,
    sparsity: float,
    method: str,
    statistics: Statistics | None,
    repair: bool = True,
) -> Chosen:
    """Prune a matrix [outputs, columns]; without ``statistics`` by magnitude, and nothing is repaired."""
    stay = _mask(w, taps, scheme, sparsity, method, statistics)
    return repaired(w, stay, scheme, statistics if repair else None)


def repaired(w: Array, stay: Array, scheme: Scheme, statistics: Statistics | None) -> Chosen:
    """The matrix under a mask [panels, columns] that is given."""
    mask = stay.repeat(scheme.outputs, axis=0)[: len(w)]
    if statistics is None:
        return Chosen(np.where(mask, w, 0), mask, None)
    new = _solved(w, stay, scheme.outputs, statistics)
    shift = statistics.mean_y - new @ statistics.mean_x
    return Chosen(new, mask, shift)


def by_panel(values: Array, outputs: int) -> Array:
    """Sums over the outputs of every panel: [panels, columns]."""
    missing = -len(values) % outputs
    padded = np.pad(values, ((0, missing), (0, 0)))
    return np.asarray(padded.reshape(-1, outputs, values.shape[1]).sum(axis=1))


def _mask(w: Array, taps: int, scheme: Scheme, sparsity: float, method: str, statistics: Statistics | None) -> Array:
    squares = w.astype(np.float64) ** 2
    if statistics is None or method == "magnitude":
        return kept(by_panel(squares, scheme.outputs), scheme, taps, sparsity)
    if method == "wanda":
        norms = np.diag(statistics.hessian) + statistics.mean_x**2
        return kept(by_panel(squares * norms, scheme.outputs), scheme, taps, sparsity)
    return _by_rounds(w, taps, scheme, sparsity, statistics)


def _by_rounds(w: Array, taps: int, scheme: Scheme, sparsity: float, statistics: Statistics) -> Array:
    """`obs`: score what is left by what it costs to lose, drop some, solve for the rest, again."""
    work = -(-len(w) // scheme.outputs) * w.shape[1] ** 3
    rounds = 1 if scheme.of else min(max(round(WORK / work), 1), ROUNDS)
    inverse = statistics.inverse
    full = statistics.full
    current, diagonal = full, np.broadcast_to(np.diag(inverse), (-(-len(w) // scheme.outputs), w.shape[1]))
    stay = np.ones(diagonal.shape, bool)
    for k in range(rounds):
        scores = np.where(stay, by_panel(current**2, scheme.outputs) / diagonal, -1.0)
        part = 1 - (1 - sparsity) ** ((k + 1) / rounds) if k < rounds - 1 else sparsity
        stay = kept(scores, scheme, taps, part)
        if k < rounds - 1:
            current, diagonal = _without(full, inverse, stay, scheme.outputs)
    return stay


def _without(full: Array, inverse: Array, stay: Array, outputs: int) -> tuple[Array, Array]:
    """The best weights on what is kept, and the diagonal of each panel's own inverse (1 where nothing is kept).

    Of the inverse P of all columns, that of the kept ones is P_ss - P_sr P_rr^-1 P_rs, r being those left out.
    """
    new, diagonal = np.zeros(full.shape), np.ones(stay.shape)
    for p, mine in enumerate(stay):
        (s,), (r,) = np.nonzero(mine), np.nonzero(~mine)
        panel = slice(p * outputs, min((p + 1) * outputs, len(full)))
        across = inverse[np.ix_(s, r)]
        solved = np.linalg.solve(inverse[np.ix_(r, r)], across.T) if len(r) else across.T
        new[panel, s] = full[panel][:, s] - full[panel][:, r] @ solved
        diagonal[p, s] = np.maximum(np.diag(inverse)[s] - np.einsum("sr,rs->s", across, solved), 1e-30)
    return new, diagonal


def _solved(w: Array, stay: Array, outputs: int, statistics: Statistics) -> Array:
    """The best weights on what is kept, by the smaller of two systems: of what is kept, or of what is left out."""
    new = np.zeros(w.shape)
    for p, mine in enumerate(stay):
        (s,), (r,) = np.nonzero(mine), np.nonzero(~mine)
        panel = slice(p * outputs, min((p + 1) * outputs, len(w)))
        if len(r) >= len(s) > 0:
            new[panel, s] = np.linalg.solve(statistics.hessian[np.ix_(s, s)], statistics.cross[s, panel]).T
        elif len(s):
            inverse, full = statistics.inverse, statistics.full[panel]
            lost = np.linalg.solve(inverse[np.ix_(r, r)], full[:, r].T)
            new[panel, s] = full[:, s] - lost.T @ inverse[np.ix_(r, s)]
    return new
