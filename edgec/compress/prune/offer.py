"""An offer of the scheduler for a layer with zeros in its weights."""

from __future__ import annotations

from typing import Protocol


class Offered(Protocol):
    """A scheduler's verdict on one layer with zeros."""

    dense_cycles: float
    sparse_cycles: float
    break_even: float
    taken: bool
