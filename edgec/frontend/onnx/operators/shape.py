"""Constants, shapes and tensors made from nothing: known as soon as the shapes are."""

from __future__ import annotations

from math import ceil, prod

import numpy as np

from edgec.frontend.onnx.call import Call, onnx
from edgec.frontend.onnx.model import element_type
from edgec.frontend.onnx.sequences import Item
from edgec.frontend.onnx.strings import Strings, rows_of
from edgec.frontend.symbolic import known_elements
from edgec.frontend.values import (
    MAX_ELEMENTS,
    Value,
    computed,
    constant,
    extents_of,
    iota,
    normalize_axis,
    select,
    size,
)
from edgec.ir import expr as X
from edgec.ir.expr import Extent


@onnx("Constant")
def constant_(call: Call) -> Item:
    kinds = {
        "value_float": np.float32,
        "value_floats": np.float32,
        "value_int": np.int64,
        "value_ints": np.int64,
    }
    for name, value in call.attributes.items():
        if name in ("value", "sparse_value"):
            return value if isinstance(value, Strings) else constant(value)
        if name in ("value_string", "value_strings"):
            return Strings(constant(rows_of(np.array(value, object))))
        if name in kinds:
            return constant(np.asarray(value, kinds[name]))
    raise call.error("a constant without a value")


@onnx("Shape")
def shape(call: Call) -> Value:
    dims = call[0].shape
    start, end = call.attribute("start", 0), call.attribute("end")
    return extents_of(dims[slice(start, end)])


@onnx("Size")
def size_(call: Call) -> Value:
    return size(X.plain(prod(call[0].shape)))


@onnx("ConstantOfShape")
def constant_of_shape(call: Call) -> Value:
    value = np.asarray(call.attribute("value", np.zeros(1, np.float32)))
    dims = call.extents(0)
    if any(d < 0 for d in dims):
        raise call.error(f"shape {list(dims)} is negative")
    return constant(value.reshape(())).broadcast(*dims)


@onnx("Range")
def range_(call: Call) -> Value:
    """Exporters write the bounds as scalars or, against the standard, as tensors of one element."""
    limits = [known_elements(v) for v in call.operands]
    if any(known is not None and computed(v) is None for v, known in zip(call.operands, limits)):
        return _range_of_sizes(call, limits)
    bounds = [call.constant(k) for k in range(3)]
    if any(b.size != 1 for b in bounds):
        raise call.error(f"the bounds have shapes {[list(b.shape) for b in bounds]}, and must be scalars")
    if any(b.ndim for b in bounds):
        call.warn("its bounds should be scalars, but are tensors of one element")
    start, limit, delta = (b.reshape(()) for b in bounds)
    if not delta:
        raise call.error("the step is 0")
    steps = max((float(limit) - float(start)) / float(delta), 0.0)
    if not steps <= MAX_ELEMENTS:  # nor is it a number
        raise call.error(f"a range of {steps:g} elements is too large")
    count = ceil(steps)
    places = iota(count, 0, 1).cast(call[0].dtype)
    return places * constant(delta) + constant(start)


def _range_of_sizes(call: Call, limits: list[tuple[Extent, ...] | None]) -> Value:
    """A range whose bounds are formulas of run-time sizes."""
    if any(known is None or len(known) != 1 for known in limits) or not isinstance(limits[2][0], int):  # type: ignore[index]
        raise call.error("its bounds depend on sizes and on data")
    (start,), (limit,), (delta,) = limits  # type: ignore[misc]
    if not delta:
        raise call.error("the step is 0")
    count = max(-(-(limit - start) // delta) if delta > 0 else -(-(start - limit) // -delta), 0)
    places = iota(count, 0, 1) * call[2].cast("i64") + size(start)
    return places.cast(call[0].dtype)


@onnx("EyeLike")
def eye_like(call: Call) -> Value:
    code = call.attribute("dtype")
    dtype = element_type(code) if code else call[0].dtype
    rows, columns = iota(call[0].shape[0], 0, 2), iota(call[0].shape[1], 1, 2)
    return columns.equals(rows + call.attribute("k", 0)).cast(dtype)


@onnx("OneHot")
def one_hot(call: Call) -> Value:
    """``values`` are (off, on); negative positions count from the end, those outside give off alone."""
    positions, values = call[0], call[2]
    depth = int(call.constant(1).reshape(-1)[0])
    if depth < 0:
        raise call.error(f"a depth of {depth}")
    axis = normalize_axis(call.attribute("axis", -1), positions.rank + 1)
    positions = positions.cast("i64")
    positions = select(positions < 0, positions + depth, positions).unsqueeze(axis)
    hit = iota(depth, axis, positions.rank).equals(positions)
    off, on = values.part(0, 0, 1).squeeze(0), values.part(0, 1, 2).squeeze(0)
    return select(hit, on, off)
