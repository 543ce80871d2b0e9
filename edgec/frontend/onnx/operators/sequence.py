"""Lists of tensors and optional values: Python's own, while the model is imported."""

from __future__ import annotations

from itertools import accumulate

import numpy as np

from edgec.errors import ModelError
from edgec.frontend.onnx.call import Call, onnx
from edgec.frontend.onnx.sequences import Absent, Item, TensorList
from edgec.frontend.values import Value, check_table, concat, constant, normalize_axis


def _parts(call: Call, k: int = 0) -> tuple[Value, ...]:
    item = call.item(k)
    if not isinstance(item, TensorList):
        raise call.error(f"operand {k} is no sequence")
    return item.parts


def _position(call: Call, k: int, places: int) -> int:
    """A place inside the list, counted from the end where it is negative."""
    position = int(call.constant(k).reshape(-1)[0])
    if not -places <= position < places:
        raise call.error(f"position {position} is outside a sequence of {places}")
    return position % places


@onnx("SequenceConstruct")
def sequence_construct(call: Call) -> TensorList:
    return TensorList(tuple(call.operands))


@onnx("SequenceEmpty")
def sequence_empty(call: Call) -> TensorList:
    return TensorList()


@onnx("SequenceAt")
def sequence_at(call: Call) -> Value:
    parts = _parts(call)
    return parts[_position(call, 1, len(parts))]


@onnx("SequenceInsert")
def sequence_insert(call: Call) -> TensorList:
    """Before the tensor at a position, or at the end."""
    parts = _parts(call)
    k = len(parts)
    if call.optional(2) is not None:
        k = int(call.constant(2).reshape(-1)[0])
        if not -len(parts) <= k <= len(parts):
            raise call.error(f"position {k} is outside a sequence of {len(parts)}")
        k = k + len(parts) if k < 0 else k
    return TensorList((*parts[:k], call[1], *parts[k:]))


@onnx("SequenceErase")
def sequence_erase(call: Call) -> TensorList:
    parts = _parts(call)
    k = _position(call, 1, len(parts)) if call.optional(1) is not None else len(parts) - 1
    if not parts:
        raise call.error("an empty sequence has nothing to erase")
    return TensorList((*parts[:k], *parts[k + 1 :]))


@onnx("SequenceLength")
def sequence_length(call: Call) -> Value:
    return constant(np.asarray(len(_parts(call)), np.int64))


@onnx("SplitToSequence")
def split_to_sequence(call: Call) -> TensorList:
    """In pieces of one size, the last being shorter, or of given sizes; single slices may lose their dimension."""
    x = call[0]
    axis = normalize_axis(call.attribute("axis", 0), x.rank)
    extent = x.shape[axis]
    if call.optional(1) is None or call[1].rank == 0:
        size = int(call.constant(1)) if call.optional(1) is not None else 1
        if size < 1:
            raise call.error(f"pieces of {size} elements")
        check_table(1000, -(-extent // size))  # every piece is a node
        sizes = [min(size, extent - start) for start in range(0, extent, size)]
    else:
        sizes = list(call.ints(1))
    if sum(sizes) != extent or any(s < 0 for s in sizes):
        raise call.error(f"pieces of {sizes} elements do not make up {extent}")
    starts = accumulate(sizes[:-1], initial=0)
    parts = [x.part(axis, start, start + size) for start, size in zip(starts, sizes)]
    if call.optional(1) is None and not call.attribute("keepdims", 1):
        parts = [p.squeeze(axis) for p in parts]
    return TensorList(tuple(parts))


@onnx("ConcatFromSequence")
def concat_from_sequence(call: Call) -> Value:
    parts = list(_parts(call))
    if not parts:
        raise call.error("an empty sequence has no type to concatenate")
    is_new = call.attribute("new_axis", 0)
    axis = normalize_axis(call.required("axis"), parts[0].rank + (1 if is_new else 0))
    return concat([p.unsqueeze(axis) for p in parts] if is_new else parts, axis)


@onnx("SequenceMap")
def sequence_map(call: Call) -> list[Item]:
    """The body once for every tensor of the first list; other lists go along with it, tensors are the same for all."""
    assert call.inline is not None
    body, first = call.required("body"), _parts(call)
    others = call.inputs[1:]
    for k, other in enumerate(others, 1):
        if isinstance(other, TensorList) and len(other.parts) != len(first):
            raise call.error(f"operand {k} has {len(other.parts)} tensors, the first has {len(first)}")
    results: list[list[Value]] = [[] for _ in body.output]
    for j, part in enumerate(first):
        items = [o.parts[j] if isinstance(o, TensorList) else o for o in others]
        for series, value in zip(results, call.inline(body, [part, *items], f"[{j}]")):
            if not isinstance(value, Value):
                raise ModelError("the body of a SequenceMap gives no tensor", where=call.label)
            series.append(value)
    return [TensorList(tuple(series)) for series in results]


@onnx("Optional")
def optional(call: Call) -> Item:
    item = call.item(0)
    return Absent() if item is None else item


@onnx("OptionalHasElement")
def optional_has_element(call: Call) -> Value:
    return constant(np.asarray(not isinstance(call.item(0), Absent | None)))


@onnx("OptionalGetElement")
def optional_get_element(call: Call) -> Item:
    item = call.item(0)
    if item is None or isinstance(item, Absent):
        raise call.error("an optional value that is not there has no element")
    return item
