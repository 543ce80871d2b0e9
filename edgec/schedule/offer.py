"""Findings of the scheduler about weights with zeros, skipped or not."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SparseOffer:
    """Predicted cost of one contraction without its zeros, by the device's cost model.

    ``zeros`` is the share of weights that are zero, ``density`` that of the vectors of ``width`` weights that are not
    all zero, ``break_even`` the share of vectors that must be zero for the sparse kernel to be the faster one.
    """

    zeros: float
    density: float
    width: int
    dense_cycles: float
    sparse_cycles: float
    break_even: float
    taken: bool
