"""Tables that go by distance: where an entry depends on n - m alone, a line of them says it all.

Masks of what came before, and what T5 or ALiBi add to a score by how far a key is from its query, are matrices with
one number a diagonal (Toeplitz).
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from edgec.ir import expr as X
from edgec.ir import positions
from edgec.ir.expr import Expr
from edgec.ir.loads import replace_loads
from edgec.ir.nest import is_fixed, most
from edgec.ir.types import FOLD_ELEMENTS
from edgec.schedule.flat import Weights, evaluate_over, is_constant
from edgec.schedule.program import Buffer


def as_toeplitz(body: Expr, lane: Expr, other: Expr, weights: Weights) -> Expr:
    """``body`` with every table that goes by ``lane - other`` as a line, whose neighbors are those along ``lane``."""

    def change(slot: Any, place: tuple[Expr, ...]) -> Expr | None:
        if not isinstance(slot, Buffer) or slot.space != "weights":
            return None
        free = X.free_variables(place[0])
        if not {lane, other} <= free or not is_fixed(*free) or not is_constant(place[0]):
            return None
        if prod(map(most, free)) > FOLD_ELEMENTS:
            return None
        more = tuple(sorted(free - {lane, other}, key=lambda v: str(v.value.name)))
        values = evaluate_over(X.load(slot, place, slot.dtype), (*more, other, lane))
        if not np.array_equal(values[..., 1:, 1:], values[..., :-1, :-1]):
            return None
        line = np.concatenate([values[..., :0:-1, 0], values[..., 0, :]], -1)
        distance = lane + (most(other) - 1) - other
        shape = (*map(most, more), line.shape[-1])
        return X.load(weights.add(line), (positions.linearize((*more, distance), shape),), slot.dtype)

    return replace_loads(body, change)
