"""Positions in memory: from indices of a shape to one number, and back."""

from __future__ import annotations

from collections.abc import Iterable

from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.index import upper


def linearize(index: Iterable[Expr], shape: Iterable[X.Extent]) -> Expr:
    """Position of an index in row-major order."""
    result = X.const(0)
    for i, extent in zip(index, shape):
        result = result * extent + i
    return result


def delinearize(position: Expr, shape: tuple[X.Extent, ...]) -> tuple[Expr, ...]:
    """Index of a position in row-major order."""
    index: list[Expr] = []
    for extent in reversed(shape):
        trivial = extent in (0, 1)
        index.append(X.const(0) if trivial else position % extent)
        position = position if trivial else position // extent
    return tuple(reversed(index))


def regrouped(place: tuple[Expr, ...], shape: tuple[X.Extent, ...], into: tuple[X.Extent, ...]) -> tuple[Expr, ...]:
    """The index in ``into`` of what is at ``place`` in ``shape``, both in row-major order.

    Run-time sizes are multiplied with one another only where the shapes leave no other way: dimensions are taken
    together in the smallest groups of equal products.
    """
    if all(type(extent) is int for extent in (*shape, *into)):
        return delinearize(linearize(place, shape), into)
    result: list[Expr] = []
    i = j = 0
    while i < len(shape) or j < len(into):
        first, start = i, j
        left: X.Extent = 1
        right: X.Extent = 1
        while True:
            if i < len(shape) and (j == len(into) or first == i or upper(left) < upper(right)):
                left, i = X.plain(left * shape[i]), i + 1
            elif j < len(into):
                right, j = X.plain(right * into[j]), j + 1
            if left == right or (i == len(shape) and j == len(into)):
                break
        result += delinearize(linearize(place[first:i], shape[first:i]), into[start:j])
    return tuple(result)
