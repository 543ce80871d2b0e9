"""Footprints: the exact number of elements of each operand that a formula reads, from its index expressions.

An element that a window, a broadcast or a reduction reads many times counts once. Loops are split until indices are
linear; then the values each index takes are listed, dimension by dimension, and elements that several loads have in
common are counted once. Three things are bounds instead of counts: an index that depends on data may reach every
element, though no more than there are loops around it; loops that occur in two dimensions of one load (a diagonal) are
listed together only while that is few; and so are the places in a dimension of very many elements. Sizes that are open
count as the greatest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

import numpy as np

from edgec.ir import expr as X
from edgec.ir import index
from edgec.ir.evaluate import evaluate_formula
from edgec.ir.expr import Expr
from edgec.ir.graph import Formula
from edgec.ir.nest import most, split_formula
from edgec.ir.types import FOLD_ELEMENTS, Type

#: Loops are listed together up to so many combinations, and tensors are marked up to so many elements.
LISTED = 1 << 22

#: The elements a load reaches: for each dimension the places, as truth values; or nothing where only a number is known.
Box = tuple[np.ndarray, ...]


def footprint(derived: Formula) -> dict[Any, int]:
    """Elements read of each operand, by the slot it is loaded from."""
    body = split_formula(derived).body
    greatest = {e: X.const(e.value.high) for e in X.walk(body) if e.op == "size"}
    loads: dict[Any, list[Expr]] = {}
    for load in X.loads(X.substitute(body, greatest) if greatest else body):
        loads.setdefault(load.value, []).append(load)
    return {slot: _together(slot.type.bounds, found) for slot, found in loads.items()}


def _together(shape: Sequence[int], loads: Iterable[Expr]) -> int:
    """Elements that any of the loads reaches."""
    total = prod(shape)
    boxes: list[Box] = []
    numbers = 0
    for load in dict.fromkeys(loads):
        reached = _reached(shape, load)
        if isinstance(reached, int):
            numbers += reached
        elif not any(_equal(reached, b) for b in boxes):
            boxes.append(reached)
    if len(boxes) == 1:
        return min(total, numbers + _size(boxes[0]))
    if total <= LISTED:
        mark = np.zeros(tuple(shape), bool)
        for box in boxes:
            mark[np.ix_(*box)] = True
        return min(total, numbers + int(mark.sum()))
    return min(total, numbers + sum(map(_size, boxes)))


def _reached(shape: Sequence[int], load: Expr) -> Box | int:
    """The places a load reaches in each dimension; only how many at most, where they are not a box."""
    free = [X.free_variables(i) for i in load.args]
    around = frozenset().union(*free)
    combinations = prod(most(v) for v in around)
    if any(e.op == "load" for i in load.args for e in X.walk(i)):
        return min(prod(shape), combinations)
    if any(a & b for k, a in enumerate(free) for b in free[k + 1 :]):
        return _listed(shape, load, sorted(around, key=str), combinations)
    places = [p for i, n in zip(load.args, shape) if (p := _places(i, n)) is not None]
    return tuple(places) if len(places) == len(shape) else min(prod(shape), combinations)


def _places(i: Expr, extent: int) -> np.ndarray | None:
    """Positions in a dimension that an index takes; None if they cannot be listed. Those outside are never loaded."""
    variables = sorted(X.free_variables(i), key=str)
    if max([extent, *map(most, variables)]) > FOLD_ELEMENTS:
        return None
    mark = np.zeros(extent, bool)
    linear = index.coefficients(i, variables)
    if linear is not None and isinstance(linear[1], int) and all(isinstance(c, int) for c in linear[0].values()):
        values = np.array([linear[1]])
        for v in variables:
            steps = np.arange(most(v)) * linear[0].get(v, 0)
            values = np.unique((values[:, None] + steps).reshape(-1))
    elif prod(map(most, variables)) <= LISTED:
        values = _values(i, variables)
    else:
        return None
    mark[values[(values >= 0) & (values < extent)]] = True
    return mark


def _listed(shape: Sequence[int], load: Expr, variables: Sequence[Expr], combinations: int) -> int:
    """Elements of a load some of whose dimensions depend on the same loops."""
    if combinations > LISTED or prod(shape) > LISTED:
        return min(prod(shape), combinations)
    places = [_values(i, variables) for i in load.args]
    inside = np.all([(p >= 0) & (p < n) for p, n in zip(places, shape)], axis=0)
    flat = np.ravel_multi_index(tuple(p[inside] for p in places), tuple(shape))
    return int(np.unique(flat).size)


def _values(i: Expr, variables: Sequence[Expr]) -> np.ndarray:
    """The values of an index over all combinations of loops, flat."""

    extents = tuple(most(v) for v in variables)
    loops = tuple(X.var(f"i{k}", n) for k, n in enumerate(extents))
    body = X.cast(X.substitute(i, dict(zip(variables, loops))), "i64")
    found = evaluate_formula(Formula(Type("i64", extents), loops, body), lambda slot: np.empty(0))
    return np.asarray(found).reshape(-1)


def _size(box: Box) -> int:
    return prod(int(p.sum()) for p in box)


def _equal(a: Box, b: Box) -> bool:
    return len(a) == len(b) and all(np.array_equal(x, y) for x, y in zip(a, b))
