"""Results of branches that are chosen at run time: one value for both sides, of whichever size the taken side has."""

from __future__ import annotations

from collections.abc import Sequence

from edgec.frontend.onnx.call import Call
from edgec.frontend.onnx.sequences import Item, TensorList
from edgec.frontend.values import Value, emit, select, size
from edgec.ir import expr as X
from edgec.ir.expr import Extent
from edgec.ir.index import upper


def chosen(call: Call, condition: Value, then: Sequence[Item], otherwise: Sequence[Item]) -> list[Item]:
    """The results of a node with two branches, between which ``condition`` (one truth value) chooses at run time."""
    condition = condition.reshape()
    return [_one_of(call, condition, a, b) for a, b in zip(then, otherwise)]


def differ_in_rank(then: Sequence[Item], otherwise: Sequence[Item]) -> bool:
    """Have two branches results of different ranks, of which no value can be either?"""
    pairs = [(a, b) for a, b in zip(then, otherwise) if isinstance(a, Value) and isinstance(b, Value)]
    return any(a.rank != b.rank for a, b in pairs)


def _one_of(call: Call, condition: Value, then: Item, otherwise: Item) -> Item:
    if isinstance(then, Value) and isinstance(otherwise, Value):
        return _either(call, condition, then, otherwise)
    if isinstance(then, TensorList) and isinstance(otherwise, TensorList) and len(then.parts) == len(otherwise.parts):
        return TensorList(tuple(_either(call, condition, a, b) for a, b in zip(then.parts, otherwise.parts)))
    call.constant(0)  # whether there is a value, and how many, has to be known
    raise call.error("its branches give sequences of several lengths, or a value and none")


def _either(call: Call, condition: Value, then: Value, otherwise: Value) -> Value:
    if then.node is otherwise.node:
        return then
    if then.dtype != otherwise.dtype or then.rank != otherwise.rank:
        raise call.error(
            f"its branches give {then.type} and {otherwise.type}, and data decides which",
            "give the condition at build time with --value",
        )
    sizes: list[Extent] = []
    for d, (a, b) in enumerate(zip(then.shape, otherwise.shape)):
        if a == b:
            sizes.append(a)
            continue
        most = max(upper(a), upper(b))
        sizes.append(call.size(select(condition, size(a), size(b)), most))
        then, otherwise = _filled(then, d, most), _filled(otherwise, d, most)
    both = emit("branch", condition, then, otherwise)
    return both.slice((0,) * both.rank, (1,) * both.rank, tuple(sizes))


def _filled(x: Value, axis: int, extent: int) -> Value:
    """Zeros after the end of a dimension, up to an extent."""
    after = X.plain(extent - x.shape[axis])
    return x.pad((0,) * x.rank, [after if d == axis else 0 for d in range(x.rank)])
