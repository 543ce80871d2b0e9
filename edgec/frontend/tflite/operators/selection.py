"""Operators that choose between values."""

from __future__ import annotations

from edgec.errors import ModelError
from edgec.frontend.tflite.call import TfliteCall, tflite
from edgec.frontend.values import Value, emit, iota, normalize_axis, select


@tflite("SELECT", "SELECT_V2")
def select_(call: TfliteCall) -> Value:
    """A condition of one dimension chooses whole rows, where the older operator has larger operands."""
    condition, a, b = call[0], call[1], call[2]
    if call.name == "SELECT" and condition.rank == 1 and a.rank > 1:
        condition = condition.reshape(condition.shape[0], *[1] * (a.rank - 1))
    return select(condition, a, b)


@tflite("ONE_HOT")
def one_hot(call: TfliteCall) -> Value:
    x, (depth,), on, off = call[0], call.ints(1), call[2].reshape(), call[3].reshape()
    axis = int(call.option("axis", -1))
    axis = normalize_axis(axis, x.rank + 1)
    places = iota(depth, axis, x.rank + 1, x.dtype)
    return select(x.unsqueeze(axis).equals(places), on, off)


@tflite("TOPK_V2")
def top_k(call: TfliteCall) -> tuple[Value, Value]:
    """Along the last dimension, the largest first."""
    x, (k,) = call[0], call.ints(1)
    if not 0 <= k <= x.shape[-1]:
        raise ModelError(f"the {k} largest of {x.shape[-1]}")
    places = emit("argsort", x, axis=x.rank - 1, descending=True, count=k)
    return emit("gather_elements", x, places, axis=x.rank - 1), places.cast("i32")


@tflite("SCATTER_ND")
def scatter_nd(call: TfliteCall) -> Value:
    """Updates at their places in zeros; those at the same place add up."""
    positions, updates = call[0], call[1]
    zeros = emit("broadcast", (updates * 0).reduce("min", range(updates.rank), keep=False), shape=call.ints(2))
    return emit("scatter_nd", zeros, positions, updates, combine="add")
