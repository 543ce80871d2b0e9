"""Operators that pick elements by their values; where data decides how many, the network computes that size."""

from __future__ import annotations

from math import prod

import numpy as np

from edgec.frontend.onnx import bounded
from edgec.frontend.onnx.call import Call, onnx
from edgec.frontend.onnx.indices import require_inside
from edgec.frontend.symbolic import known_elements
from edgec.frontend.values import Value, clip, computed, constant, emit, iota, minimum, normalize_axis, select, size
from edgec.ir import expr as X
from edgec.ir.expr import Extent


@onnx("TopK")
def top_k(call: Call) -> tuple[Value, Value]:
    """The first k along a dimension, in order; of equal elements the one with the lower index comes first."""
    x = call[0]
    axis = normalize_axis(call.attribute("axis", -1), x.rank)
    extent, descending = x.shape[axis], bool(call.attribute("largest", 1))
    k = call.required("k") if call.opset < 10 else _known(call, 1)
    if k is None:  # all are sorted, and as many taken as it turns out are wanted
        require_inside(call, call[1], extent + 1, 0)
        count = clip(call[1].reshape().cast("i64"), 0, size(extent))
        chosen = call.counted(emit("argsort", x, axis=axis, descending=descending), count, axis)
    elif k > extent:
        raise call.error(f"k is {k}, but the dimension has only {extent}")
    elif isinstance(k, int):
        chosen = emit("argsort", x, axis=axis, descending=descending, count=k)
    else:
        chosen = emit("argsort", x, axis=axis, descending=descending).part(axis, 0, k)
    return emit("gather_elements", x, chosen, axis=axis), chosen


def _known(call: Call, k: int) -> Extent | None:
    """A number that is known at build time, or that sizes decide."""
    known = known_elements(call[k])
    return None if known is None else known[0]


@onnx("Compress")
def compress(call: Call) -> Value:
    x, axis = call[0], call.attribute("axis")
    if axis is None:
        x, axis = x.reshape(X.plain(prod(x.shape))), 0
    axis = normalize_axis(axis, x.rank)
    known = computed(call[1])
    if known is not None:
        return x.gather(np.flatnonzero(known), axis)
    return call.counted(*bounded.compress(x, call[1], axis), axis)


@onnx("NonZero")
def non_zero(call: Call) -> Value:
    known = computed(call[0])
    if known is not None:
        return constant(np.asarray(np.nonzero(known), np.int64))
    return call.counted(*bounded.nonzero(call[0]), 1)


@onnx("NonMaxSuppression")
def non_max_suppression(call: Call) -> Value:
    """Boxes as corners or, with center_point_box, as center and size; without a limit, nothing is kept."""
    limit = call.optional(2)
    if limit is None:
        return constant(np.zeros((0, 3), np.int64))
    overlap = call.optional(3) or constant(0.0, "f32")
    least = call.optional(4)
    found = bounded.non_max_suppression(
        call[0], call[1], limit.reshape(), overlap.reshape(), None if least is None else least.reshape(),
        bool(call.attribute("center_point_box")),
    )  # fmt: skip
    return call.counted(*found)


@onnx("Unique")
def unique(call: Call) -> tuple[Value, ...]:
    known, axis = computed(call[0]), call.attribute("axis")
    if known is not None:
        return _unique_constants(known, axis, bool(call.attribute("sorted", 1)))
    axis = None if axis is None else normalize_axis(axis, call[0].rank)
    found = bounded.unique(call[0], bool(call.attribute("sorted", 1)), axis)
    count = call.size(found.count, found.first.shape[0])
    first, counts = (v.part(0, 0, count) for v in (found.first, found.counts))
    return found.values.part(axis or 0, 0, count), first, found.inverse, counts


def _unique_constants(x: np.ndarray, axis: int | None, ascending: bool) -> tuple[Value, ...]:
    values, first, inverse, counts = np.unique(x, True, True, True, axis=axis)
    inverse = inverse.reshape(-1)
    if not ascending:
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
    require_inside(call, lengths, x.shape[time] + 1, 0)
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
        if call.attribute("mode", "linear") == "linear":
            require_inside(call, call[2], extent - size + 1, 0)
        else:
            require_inside(call, minimum(call[2], 0), 1, 0)
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
