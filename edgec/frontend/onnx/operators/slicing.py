"""Slice: parts of dimensions, at positions that are known or are data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgec.frontend.onnx.call import Call, onnx
from edgec.frontend.symbolic import constant_difference, known_elements
from edgec.frontend.values import Value, clip, iota, normalize_axis, select, size
from edgec.ir import expr as X
from edgec.ir.expr import Extent
from edgec.ir.index import lesser


@onnx("Slice")
def slice_(call: Call) -> Value:
    """Attributes before opset 10, inputs since; positions are clamped as in Python."""
    x = call[0]
    axes: Sequence[int] | None
    if call.opset < 10:
        starts, ends = call.required("starts"), call.required("ends")
        axes, steps = call.attribute("axes"), None
    else:
        axes = call.ints(3) if call.optional(3) else None
        steps = call.ints(4) if call.optional(4) else None
        starts, ends = _positions(call)
    axes = range(len(starts)) if axes is None else axes
    steps = (1,) * len(starts) if steps is None else steps
    if not len(axes) == len(starts) == len(ends) == len(steps):
        counts = [len(starts), len(ends), len(axes), len(steps)]
        raise call.error(f"{counts} starts, ends, axes and steps", "there is one of each for every axis")
    first, stride, shape = [0] * x.rank, [1] * x.rank, list(x.shape)
    moving = []
    for axis, start, end, step in zip(axes, starts, ends, steps):
        axis = normalize_axis(axis, x.rank)
        if step == 0:
            raise call.error("a step is 0")
        if isinstance(start, Value):
            moving.append(_Moving(axis, start, end, step))
            continue
        begin, stop = _clamped(start, end, step, x.shape[axis])
        count = max(-(-(stop - begin) // step) if step > 0 else -(-(begin - stop) // -step), 0)
        first[axis], stride[axis], shape[axis] = (0 if X.plain(count) == 0 else begin), step, count
    y = x.slice(first, stride, shape)
    for part in moving:
        y = part.of(call, y)
    return y


def _clamped(start: Extent, end: Extent, step: int, extent: Extent) -> tuple[Any, Any]:
    """Negative positions count from the end; what is outside stands for the outermost position."""
    start, end = (p + extent if p < 0 else p for p in (start, end))
    if step > 0:
        return lesser(max(start, 0), extent), lesser(max(end, 0), extent)
    return lesser(max(start, 0), extent - 1), lesser(max(end, -1), extent - 1)


def _positions(call: Call) -> tuple[Sequence[Any], Sequence[Any]]:
    """Starts and ends: where the starts are data they are scalars, and the ends numbers that are added to them.

    Raises UnknownValue where data decide how long the slice is.
    """
    starts, ends = call[1], call[2]
    if starts.rank == 1 and starts.shape == ends.shape and not (_is_known(starts) and _is_known(ends)):
        found = [_position(starts.part(0, k, k + 1), ends.part(0, k, k + 1)) for k in range(starts.shape[0])]
        if None not in found:
            return [start for start, _ in found], [end for _, end in found]  # type: ignore[misc]
    return call.extents(1), call.extents(2)


def _is_known(v: Value) -> bool:
    return known_elements(v) is not None


def _position(start: Value, end: Value) -> tuple[Any, Any] | None:
    known = known_elements(start), known_elements(end)
    if known[0] is not None and known[1] is not None:
        return known[0][0], known[1][0]
    difference = constant_difference(end, start)
    return None if difference is None else (start.reshape().cast("i64"), difference)


@dataclass(frozen=True)
class _Moving:
    """A part of known length that begins where data say: ``start : start + span : step``."""

    axis: int
    start: Value  # a scalar
    span: int
    step: int

    def of(self, call: Call, x: Value) -> Value:
        """The part of ``x``, which demands that clamping leaves its length as it is."""
        count = max(-(-self.span // self.step), 0)
        extent = size(x.shape[self.axis])
        negative = self.start < 0
        begin = select(negative, self.start + extent, self.start)
        last = begin + self.step * (count - 1)
        if count:
            low, high = (begin, last) if self.step > 0 else (last, begin)
            fits = (low >= 0) & (high < extent) & negative.equals(self.start + self.span < 0)
            assert call.demand is not None
            call.demand(fits, f"a slice of {count} elements along dimension {self.axis} does not begin inside it")
        places = begin + iota(count, 0, 1) * self.step
        return x.gather(clip(places, 0, extent - 1), self.axis)
