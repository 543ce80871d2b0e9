"""Reductions over whole dimensions."""

from __future__ import annotations

from edgec.frontend.onnx.call import Call, onnx
from edgec.frontend.values import Value, emit, full, iota, normalize_axis, select, size
from edgec.ir import expr as X
from edgec.ir.dtypes import neutral


def _axes(call: Call) -> tuple[int, ...]:
    """An attribute in old versions, an input in new ones; none means all, unless the node says otherwise."""
    rank = call[0].rank
    axes = call.ints_or_attribute(1, "axes")
    if not axes:
        return () if call.attribute("noop_with_empty_axes") else tuple(range(rank))
    return tuple(normalize_axis(a, rank) for a in axes)


def _reduced(call: Call, x: Value, combine: str) -> Value:
    axes = _axes(call)
    return x.reduce(combine, axes, bool(call.attribute("keepdims", 1)))


def _safe_max(x: Value, axes: tuple[int, ...]) -> Value:
    """The maximum, or 0 where it is infinite: what is subtracted before exponentials."""
    top = x.reduce("max", axes)
    return select(emit("isinf", top), 0.0, top)


@onnx("ReduceSum")
def reduce_sum(call: Call) -> Value:
    return _reduced(call, call[0], "add")


@onnx("ReduceProd")
def reduce_prod(call: Call) -> Value:
    return _reduced(call, call[0], "mul")


@onnx("ReduceMax", "ReduceMin")
def reduce_extreme(call: Call) -> Value:
    x, combine = call[0], "max" if call.operator == "ReduceMax" else "min"
    if x.dtype == "bool":
        return _reduced(call, x, "or" if combine == "max" else "and")
    if 0 in (x.shape[a] for a in _axes(call)):
        shape = [1 if d in _axes(call) else n for d, n in enumerate(x.shape)]
        y = full(shape, neutral(combine, x.dtype), x.dtype)
        return y if call.attribute("keepdims", 1) else y.squeeze(*_axes(call))
    return _reduced(call, x, combine)


@onnx("ReduceMean")
def reduce_mean(call: Call) -> Value:
    return call[0].mean(_axes(call), bool(call.attribute("keepdims", 1)))


@onnx("ReduceL1")
def reduce_l1(call: Call) -> Value:
    return _reduced(call, emit("abs", call[0]), "add")


def _floating(x: Value) -> Value:
    """Integers as the floats that logarithms and roots of them are computed in."""
    return x if x.is_float else x.cast("f64" if x.dtype in ("i64", "u64", "i32", "u32") else "f32")


@onnx("ReduceL2")
def reduce_l2(call: Call) -> Value:
    x = _floating(call[0])
    return emit("sqrt", _reduced(call, x * x, "add")).cast(call[0].dtype)


@onnx("ReduceSumSquare")
def reduce_sum_square(call: Call) -> Value:
    return _reduced(call, call[0] * call[0], "add")


@onnx("ReduceLogSum")
def reduce_log_sum(call: Call) -> Value:
    return emit("log", _floating(_reduced(call, call[0], "add"))).cast(call[0].dtype)


@onnx("ReduceLogSumExp")
def reduce_log_sum_exp(call: Call) -> Value:
    x, axes = _floating(call[0]), _axes(call)
    if not axes:
        return call[0]
    if 0 in x.shape:
        return emit("log", _reduced(call, emit("exp", x), "add")).cast(call[0].dtype)
    top = _safe_max(x, axes)
    y = (emit("log", emit("exp", x - top).sum(axes)) + top).cast(call[0].dtype)
    return y if call.attribute("keepdims", 1) else y.squeeze(*axes)


def is_extreme(x: Value, extreme: Value) -> Value:
    """The elements that are the maximum (or minimum) of some: where that is NaN, those that are NaN."""
    hit = x.equals(extreme)
    return hit | emit("isnan", x) if x.is_float else hit


def arg_extreme(x: Value, axis: int, combine: str, last: bool = False) -> Value:
    """Place of the greatest (or least) element along ``axis``, which stays as extent 1: the first or last.

    NaN counts as the greatest and as the least, as in numpy. Places are compared in 32 bits, as lanes are.
    """
    hit = is_extreme(x, x.reduce(combine, [axis]))
    places = iota(x.shape[axis], axis, x.rank, "i32")
    if last:
        return select(hit, places, -1).reduce("max", [axis]).cast("i64")
    end = size(X.plain(x.shape[axis] - 1)).cast("i32")
    return select(hit, places, end).reduce("min", [axis]).cast("i64")


@onnx("ArgMax", "ArgMin")
def arg_max(call: Call) -> Value:
    x = call[0]
    axis = normalize_axis(call.attribute("axis", 0), x.rank)
    combine = "max" if call.operator == "ArgMax" else "min"
    y = arg_extreme(x, axis, combine, bool(call.attribute("select_last_index")))
    return y if call.attribute("keepdims", 1) else y.squeeze(axis)
