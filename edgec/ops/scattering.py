"""Operators that write where data says: scatter and its relatives.

Updates are applied one after the other in the order they are given, so that of several for one element the last one
stays. An update whose index is outside of its dimension is left out: it must not take the place of another.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from edgec.errors import ModelError
from edgec.ir import expr as X
from edgec.ir.expr import Expr, Extent
from edgec.ir.graph import Node, Procedure
from edgec.ir.registry import Tensor, adjoint, node, procedure
from edgec.ir.types import STORED, Type
from edgec.ops import graphs

#: Elements of a slice that a task copies and updates.
_BLOCK = 256
_COMBINE = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


@procedure
def scatter_elements(x: Tensor, positions: Tensor, updates: Tensor, *, axis: int, combine: str = "last") -> Procedure:
    """x with updates[p] written (or combined) at p, its index along ``axis`` taken from positions[p]."""
    _check(x, updates, combine)
    small = positions.rank == x.rank and all(
        d == axis or p == s or p <= s for d, (p, s) in enumerate(zip(positions.shape, x.shape))
    )
    if positions.shape != updates.shape or not small:
        raise ModelError(f"updates {updates.type} at positions {positions.type} do not fit {x.type}")
    strides = _strides(x.shape)

    def compute(old: np.ndarray, places: np.ndarray, new: np.ndarray) -> np.ndarray:
        where: list[np.ndarray] = list(np.indices(places.shape, sparse=True))
        where[axis], inside = _wrapped(places, x.shape[axis])
        linear = np.broadcast_to(sum(i * s for i, s in zip(where, strides)), new.shape)
        return _written(old, linear[inside], new[inside], combine)

    return Procedure(
        Type(x.dtype, x.shape),
        compute,
        tasks=prod(x.shape[:axis]),
        steps=x.type.elements + updates.type.elements,
        overwrites=0,
        sizes={
            "extent": x.shape[axis],
            "inner": strides[axis],
            # (extent, extent of the positions, step in the positions) of what is before the axis, then
            # (extent of the positions, step in x) of the axis and what is after it.
            "outer": tuple(zip(x.shape[:axis], positions.shape[:axis], _strides(positions.shape)[:axis])),
            "loops": tuple(zip(positions.shape[axis:], strides[axis:])),
        },
    )


@procedure
def scatter_nd(x: Tensor, positions: Tensor, updates: Tensor, *, combine: str = "last") -> Procedure:
    """x with updates[p, c] written (or combined) at x[positions[p, :], c]."""
    _check(x, updates, combine)
    depth = positions.shape[-1] if positions.rank else x.rank + 1
    if depth > x.rank or updates.shape != (*positions.shape[:-1], *x.shape[depth:]):
        raise ModelError(f"updates {updates.type} at positions {positions.type} do not fit {x.type}")
    count, inner = prod(positions.shape[:-1]), X.plain(prod(x.shape[depth:]))
    strides = _strides(x.shape)

    def compute(old: np.ndarray, places: np.ndarray, new: np.ndarray) -> np.ndarray:
        rows, inside = np.zeros(places.shape[:-1], np.int64), np.ones(places.shape[:-1], bool)
        for d in range(depth):
            along, fits = _wrapped(places[..., d], x.shape[d])
            rows, inside = rows + along * strides[d], inside & fits
        return _written(old, rows[inside].reshape(-1, 1) + np.arange(int(inner)), new[inside], combine)

    blocks = X.plain(-(-inner // _BLOCK))
    even = _BLOCK if isinstance(blocks, Expr) else -(-inner // blocks) if blocks else 0
    return Procedure(
        Type(x.dtype, x.shape),
        compute,
        tasks=blocks,
        steps=x.type.elements + updates.type.elements,
        overwrites=0,
        sizes={
            "rows": prod(x.shape[:depth]),
            "inner": inner,
            "block": even,
            "count": count,
            "depth": depth,
            "steps": tuple(zip(x.shape[:depth], strides)),
        },
    )


def _check(x: Tensor, updates: Tensor, combine: str) -> None:
    if updates.dtype != x.dtype:
        raise ModelError(f"updates of type {updates.dtype} for elements of type {x.dtype}")
    if combine != "last" and combine not in _COMBINE:
        raise ModelError(f"updates cannot be combined by '{combine}'")
    if combine != "last" and x.dtype in STORED:
        raise ModelError(f"combining updates of {x.dtype}", hint="cast to a wider type first")


def _strides(shape: tuple[Extent, ...]) -> tuple[Any, ...]:
    return tuple(X.plain(prod(shape[d + 1 :])) for d in range(len(shape)))


def _wrapped(positions: np.ndarray, extent: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions from 0 on, negative ones counted from the end, and which of them are inside."""
    places = positions.astype(np.int64)
    places = np.where(places < 0, places + extent, places)
    return places, (places >= 0) & (places < extent)


def _written(old: np.ndarray, linear: np.ndarray, new: np.ndarray, combine: str) -> np.ndarray:
    """A copy of ``old`` with each of ``new`` at its row-major position, one after the other."""
    result = np.array(old, order="C")
    flat, where, values = result.reshape(-1), linear.reshape(-1), new.reshape(-1)
    if combine == "last":  # numpy does not say in which order it assigns, so every place is written once
        _, backwards = np.unique(where[::-1], return_index=True)
        chosen = where.size - 1 - backwards
        flat[where[chosen]] = values[chosen]
    else:
        _COMBINE[combine].at(flat, where, values)
    return result


# ---- derivatives


@adjoint("scatter_elements")
def _scatter_elements_back(n: Node, g: Node, k: int) -> Node:
    """The gradient of what was kept, and of the updates that were written; by 'mul' it is refused."""
    positions, axis = n.args[1], n.attributes["axis"]

    def read(values: Node) -> Node:
        return node("gather_elements", values, positions, axis=axis)

    def written(values: Node, new: Node, combine: str = "last") -> Node:
        return node("scatter_elements", values, positions, new, axis=axis, combine=combine)

    return _back(n, g, k, read, written, graphs.inside(positions, (n.type.shape[axis],)))


@adjoint("scatter_nd")
def _scatter_nd_back(n: Node, g: Node, k: int) -> Node:
    """The gradient of what was kept, and of the updates that were written; by 'mul' it is refused."""
    positions = n.args[1]

    def read(values: Node) -> Node:
        return node("gather_nd", values, positions)

    def written(values: Node, new: Node, combine: str = "last") -> Node:
        return node("scatter_nd", values, positions, new, combine=combine)

    *outer, depth = positions.type.shape
    fits = node("reduce", graphs.inside(positions, n.type.shape[:depth]), combine="and", axes=(len(outer),))
    return _back(n, g, k, read, written, graphs.reshape(fits, (*outer, *(1 for _ in n.type.shape[depth:]))))


def _back(n: Node, g: Node, k: int, read: Callable[[Node], Node], written: Callable[..., Node], inside: Node) -> Node:
    """The gradient of a scatter that reads and writes its positions by the functions given; ``inside`` are its own.

    Of several updates of one element the last has its gradient; several extremes of one element share it evenly.
    """
    x, _, updates = n.args
    dtype, combine = x.type.dtype, n.attributes["combine"]
    zero = graphs.number(0, dtype)
    if combine == "add":
        return g if k == 0 else node("select", inside, read(g), zero)
    if combine == "last":
        if k == 0:
            return written(g, graphs.full(0, dtype, updates.type.shape))
        count = graphs.elements(updates.type.shape)
        numbers = graphs.reshape(node("iota", shape=(count,), axis=0), updates.type.shape)
        last = read(written(graphs.full(-1, "i64", x.type.shape), numbers))
        return node("select", node("eq", last, numbers), read(g), zero)
    if combine == "mul":
        raise ModelError("scattering by 'mul' has no derivative")
    is_kept, is_new = node("eq", x, n), node("and", inside, node("eq", updates, read(n)))
    share = node("div", g, written(node("cast", is_kept, to=dtype), node("cast", is_new, to=dtype), "add"))
    return node("select", is_kept, share, zero) if k == 0 else node("select", is_new, read(share), zero)
