"""Operators that pick elements by their values, as far as the size of the result does not depend on them."""

from __future__ import annotations

import numpy as np

from edgec.frontend.call import Call, onnx
from edgec.frontend.values import Value, constant, emit, iota, normalize_axis, select


@onnx("TopK")
def top_k(call: Call) -> tuple[Value, Value]:
    """The first k along a dimension, in order; of equal elements the one with the lower index comes first."""
    x = call[0]
    axis = normalize_axis(call.attribute("axis", -1), x.rank)
    k = int(call.required("k")) if call.opset < 10 else int(call.constant(1).reshape(-1)[0])
    if k > x.shape[axis]:
        raise call.error(f"k is {k}, but the dimension has only {x.shape[axis]}")
    chosen = emit("argsort", x, axis=axis, descending=bool(call.attribute("largest", 1)), count=k)
    return emit("gather_elements", x, chosen, axis=axis), chosen


@onnx("Compress")
def compress(call: Call) -> Value:
    """The condition decides the shape, so it must be known."""
    x = call[0]
    chosen = np.flatnonzero(call.constant(1))
    axis = call.attribute("axis")
    if axis is None:
        return x.reshape(x.node.type.elements).gather(chosen, 0)
    return x.gather(chosen, normalize_axis(axis, x.rank))


@onnx("NonZero")
def non_zero(call: Call) -> Value:
    """The size of the result is data: only what is known at build time has one."""
    return constant(np.asarray(np.nonzero(call.constant(0)), np.int64))


@onnx("Unique")
def unique(call: Call) -> tuple[Value, ...]:
    """The size of the result is data: only what is known at build time has one."""
    x, axis = call.constant(0), call.attribute("axis")
    values, first, inverse, counts = np.unique(x, True, True, True, axis=axis)
    inverse = inverse.reshape(-1)
    if not call.attribute("sorted", 1):
        order = np.argsort(first, kind="stable")
        values = np.take(values, order, axis=axis or 0)
        inverse = np.argsort(order)[inverse]
        first, counts = first[order], counts[order]
    return (constant(values), *(constant(v.astype(np.int64)) for v in (first, inverse, counts)))


@onnx("ReverseSequence")
def reverse_sequence(call: Call) -> Value:
    """The first ``lengths[b]`` elements of every sequence backwards, the rest as they are."""
    x, lengths = call[0], call[1].cast("i64")
    time, batch = call.attribute("time_axis", 0), call.attribute("batch_axis", 1)
    lengths = lengths.reshape(*(x.shape[d] if d == batch else 1 for d in range(x.rank)))
    places = iota(x.shape[time], time, x.rank)
    source = select(places < lengths, lengths - 1 - places, places)
    return emit("gather_elements", x, source.broadcast(*x.shape), axis=time)


@onnx("TensorScatter")
def tensor_scatter(call: Call) -> Value:
    """A cache with an update written at a position of its own for each batch element."""
    x, update = call[0], call[1]
    axis = normalize_axis(call.attribute("axis", -2), x.rank)
    extent, size = x.shape[axis], update.shape[axis]
    places = iota(extent, axis, x.rank)
    if call.optional(2) is not None:
        places = places - call[2].cast("i64").reshape(x.shape[0], *[1] * (x.rank - 1))
    if call.attribute("mode", "linear") == "circular":
        places = emit("floormod", places, extent)
    inside = (places >= 0) & (places < size)
    shape = tuple(extent if d == axis else n for d, n in enumerate(update.shape))
    source = select(inside, places, 0).broadcast(*shape)
    return select(inside, emit("gather_elements", update, source, axis=axis), x)


@onnx("Det")
def determinant(call: Call) -> Value:
    """Expanded along the first row, which is sensible only for small matrices."""
    x = call[0]
    if x.shape[-1] != x.shape[-2] or x.shape[-1] > 4:
        raise call.error("determinants are supported up to 4 x 4")
    rows = [[_element(x, r, c) for c in range(x.shape[-1])] for r in range(x.shape[-1])]
    return _expanded(rows)


def _element(x: Value, row: int, column: int) -> Value:
    return x.part(x.rank - 2, row, row + 1).part(x.rank - 1, column, column + 1).squeeze(-2, -1)


def _expanded(rows: list[list[Value]]) -> Value:
    if len(rows) == 1:
        return rows[0][0]
    total: Value | None = None
    for k, head in enumerate(rows[0]):
        minor = _expanded([row[:k] + row[k + 1 :] for row in rows[1:]])
        term = head * minor
        total = term if total is None else total - term if k % 2 else total + term
    assert total is not None
    return total
