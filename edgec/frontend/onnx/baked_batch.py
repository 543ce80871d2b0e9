"""Constants that an exporter wrote for a batch of one, in networks whose batch is kept open."""

from __future__ import annotations

from edgec.frontend.onnx.call import Call
from edgec.frontend.onnx.implied import is_sought
from edgec.frontend.values import Value
from edgec.ir.expr import Expr, Extent


def is_kept_open(extent: Extent) -> bool:
    """Is it a dimension that the user keeps open, and nothing else?"""
    return isinstance(extent, Expr) and extent.op == "size" and not is_sought(extent)


def repeated(call: Call, k: int, value: Value, axis: int, batch: Extent) -> Value:
    """Operand ``k``, repeated over ``batch`` along a dimension where it is a constant of one; else as it is."""
    if not (value.is_const and axis < value.rank and value.shape[axis] == 1 and is_kept_open(batch)):
        return value
    call.warn(f"input {k} was written for a batch of one: it is repeated {batch} times")
    return value.broadcast(*value.shape[:axis], batch, *value.shape[axis + 1 :])
