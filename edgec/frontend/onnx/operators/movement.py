"""Operators that only move elements."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import prod

import numpy as np

from edgec.frontend.onnx import masks
from edgec.frontend.onnx.baked_batch import is_kept_open, repeated
from edgec.frontend.onnx.call import Call, onnx
from edgec.frontend.onnx.indices import require_inside
from edgec.frontend.values import (
    Value,
    build,
    check_table,
    clip,
    computed,
    concat,
    constant,
    emit,
    full,
    iota,
    normalize_axis,
    select,
    size,
)
from edgec.ir import expr as X
from edgec.ir.expr import Expr, Extent
from edgec.ir.index import exact, least, upper
from edgec.ops.elementwise import broadcast_shape


@onnx("Reshape")
def reshape(call: Call) -> Value:
    """0 keeps a dimension (unless allowzero), -1 is what is left."""
    x, wanted = call[0], list(call.extents(1))
    if not call.attribute("allowzero"):
        wanted = [x.shape[d] if n == 0 and d < x.rank else n for d, n in enumerate(wanted)]
    if wanted.count(-1) > 1 or any(n < -1 for n in wanted):
        raise call.error(f"shape {wanted} is no shape")
    if -1 in wanted:
        left = exact(X.plain(prod(x.shape)), X.plain(prod(n for n in wanted if n != -1)))
        if left is None:
            raise call.error(f"shape {list(x.shape)} does not fit into {wanted}")
        wanted[wanted.index(-1)] = left
    found = _batch_in(x, wanted)
    if found is not None:
        batch, place = found
        call.warn(f"shape {wanted} was written for a batch of one: its 1 is taken for {batch}")
        wanted[place] = batch
    return x.reshape(*wanted)


def _batch_in(x: Value, wanted: Sequence[Extent]) -> tuple[Extent, int] | None:
    """(the dimension that the user keeps open, place of the 1 that stands for it); None where there is none.

    As many elements lie before it in ``x`` and in the shape, and as many behind it: it is a dimension of ``x``, or the
    outer one of two (samples and heads) that were joined and are taken apart.
    """
    batch = exact(X.plain(prod(x.shape)), X.plain(prod(wanted)))
    if batch is None or not is_kept_open(batch):
        return None
    for d, extent in enumerate(x.shape):
        inner = exact(X.plain(extent), batch)
        before, behind = X.plain(prod(x.shape[:d])), X.plain(prod(x.shape[d + 1 :]))
        for k, n in sorted(enumerate(wanted), key=lambda at: at[0] != d):
            if n != 1 or inner is None or X.plain(prod(wanted[:k])) != before:
                continue
            if inner == 1 or [*wanted[k + 1 : k + 2]] == [inner]:
                return (batch, k) if X.plain(prod(wanted[k + 1 :])) == X.plain(inner * behind) else None
    return None


@onnx("Flatten")
def flatten(call: Call) -> Value:
    x = call[0]
    axis = call.attribute("axis", 1)
    if not -x.rank <= axis <= x.rank:
        raise call.error(f"axis {axis} of a tensor of {x.rank} dimensions")
    axis = axis + x.rank if axis < 0 else axis
    return x.reshape(prod(x.shape[:axis]), prod(x.shape[axis:]))


@onnx("Squeeze")
def squeeze(call: Call) -> Value:
    axes = call.ints_or_attribute(1, "axes")
    if axes is None:
        axes = tuple(d for d, n in enumerate(call[0].shape) if n == 1)
    return call[0].squeeze(*axes)


@onnx("Unsqueeze")
def unsqueeze(call: Call) -> Value:
    return call[0].unsqueeze(*(call.ints_or_attribute(1, "axes") or ()))


@onnx("Transpose")
def transpose(call: Call) -> Value:
    perm = call.attribute("perm") or reversed(range(call[0].rank))
    return call[0].transpose(*perm)


@onnx("Concat")
def concat_(call: Call) -> Value:
    axis = normalize_axis(call.attribute("axis", 1), call[0].rank)
    return concat(_in_batches(call, axis), axis)


def _in_batches(call: Call, axis: int) -> list[Value]:
    """The operands, of which constants for a batch of one (a class token) are repeated over a batch that is open."""
    parts = list(call.operands)
    batch = next((p.shape[0] for p in parts if p.rank and is_kept_open(p.shape[0])), 1)
    return parts if axis == 0 else [repeated(call, k, part, 0, batch) for k, part in enumerate(parts)]


@onnx("Expand")
def expand(call: Call) -> Value:
    return call[0].broadcast(*broadcast_shape(call[0].shape, call.extents(1)))


@onnx("Tile")
def tile(call: Call) -> Value:
    """Repeating is broadcasting over a new dimension in front of each."""
    x, repeats = call[0], call.extents(1)
    if len(repeats) != x.rank or any(r < 0 for r in repeats):
        raise call.error(f"repeats {list(repeats)} do not fit {x.rank} dimensions")
    if all(r == 1 for r in repeats):
        return x
    split = [size for n in x.shape for size in (1, n)]
    spread = [size for r, n in zip(repeats, x.shape) for size in (r, n)]
    return x.reshape(*split).broadcast(*spread).reshape(*(r * n for r, n in zip(repeats, x.shape)))


@onnx("Split")
def split(call: Call) -> list[Value]:
    x = call[0]
    axis = normalize_axis(call.attribute("axis", 0), x.rank)
    sizes = call.extents(1) if call.optional(1) is not None else call.attribute("split")
    if sizes is None:
        count = len(call.outputs)
        if call.attribute("num_outputs", count) != count:
            raise call.error(f"num_outputs is {call.attribute('num_outputs')}, but there are {count} outputs")
        each = exact(x.shape[axis], count) or -(-x.shape[axis] // count)
        sizes = tuple(max(min(each, x.shape[axis] - k * each), 0) for k in range(count))
    if X.plain(sum(sizes)) != x.shape[axis] or any(s < 0 for s in sizes):
        raise call.error(f"parts of {list(sizes)} do not make up a dimension of {x.shape[axis]}")
    starts = map(X.plain, accumulate(sizes[:-1], initial=0))
    return [x.part(axis, start, start + size) for start, size in zip(starts, sizes)]


@onnx("Pad")
def pad(call: Call) -> Value:
    x = call[0]
    pads = call.attribute("pads") if call.opset < 11 else call.extents(1)
    axes = list(call.ints(3)) if call.optional(3) else list(range(x.rank))
    if len(pads) != 2 * len(axes):
        raise call.error(f"{len(pads)} pads for {len(axes)} dimensions")
    before, after = [0] * x.rank, [0] * x.rank
    for k, axis in enumerate(axes):
        axis = normalize_axis(axis, x.rank)
        before[axis], after[axis] = pads[k], pads[len(axes) + k]
        kept = x.shape[axis] + before[axis] + after[axis]
        if isinstance(kept, int) and kept < 0:
            raise call.error(f"pads {list(pads)} cut off more than the {x.shape[axis]} elements of dimension {axis}")
    mode = call.attribute("mode", "constant")
    if mode == "constant":
        value = call.optional(2)
        if value is None:
            return x.pad(before, after, call.attribute("value", 0))
        known = computed(value)
        if known is not None:
            return x.pad(before, after, known.reshape(-1)[0].item())
        inside = build("pad", full(x.shape, True, "bool"), before=tuple(before), after=tuple(after), value=False)
        return select(inside, x.pad(before, after), value.reshape())
    for axis in range(x.rank):
        if before[axis] or after[axis]:
            x = x.gather(_around(call, mode, x.shape[axis], before[axis], after[axis]), axis)
    return x


def _around(call: Call, mode: str, extent: Extent, before: Extent, after: Extent) -> Value:
    """Source positions of all elements after padding that repeats elements of the input."""
    if isinstance(extent, Expr) or isinstance(before, Expr) or isinstance(after, Expr):
        return _around_open(call, mode, extent, before, after)
    check_table(upper(before + extent + after))
    places = np.arange(-before, extent + after)
    if extent == 0 and len(places):
        raise call.error(f"a dimension of 0 elements cannot be padded in mode '{mode}'")
    if mode == "edge":
        return constant(np.clip(places, 0, extent - 1))
    if mode == "wrap":
        return constant(places % extent)
    if mode == "reflect":
        period = max(2 * (extent - 1), 1)
        places = places % period
        return constant(np.where(places < extent, places, period - places))
    raise call.error(f"mode '{mode}' is unknown")


def _around_open(call: Call, mode: str, extent: Extent, before: Extent, after: Extent) -> Value:
    """The same where sizes are known only at run time: no more may be padded than there is to repeat."""
    room = least(extent) - (mode == "reflect")
    if room < (0 if mode != "edge" else 1) or (mode != "edge" and room < max(upper(before), upper(after))):
        raise call.error(
            f"a dimension of as few as {least(extent)} elements is padded by more in mode '{mode}'",
            "give the dimension a greater least size with --dim",
        )
    places = iota(X.plain(before + extent + after), 0, 1) - size(before)
    count = size(extent)
    if mode == "edge":
        return clip(places, 0, count - 1)
    if mode == "wrap":
        return select(places < 0, places + count, select(places < count, places, places - count))
    if mode == "reflect":
        return count - 1 - emit("abs", count - 1 - emit("abs", places))
    raise call.error(f"mode '{mode}' is unknown")


def _block_size(call: Call) -> int:
    b = int(call.required("blocksize"))
    if b < 1:
        raise call.error(f"blocks of {b} elements", "blocksize is 1 or more")
    return b


@onnx("DepthToSpace")
def depth_to_space(call: Call) -> Value:
    x, b = call[0], _block_size(call)
    n, c, h, w = x.shape
    if call.attribute("mode", "DCR") == "CRD":
        y = x.reshape(n, c // (b * b), b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
    else:
        y = x.reshape(n, b, b, c // (b * b), h, w).transpose(0, 3, 4, 1, 5, 2)
    return y.reshape(n, c // (b * b), h * b, w * b)


@onnx("SpaceToDepth")
def space_to_depth(call: Call) -> Value:
    x, b = call[0], _block_size(call)
    n, c, h, w = x.shape
    y = x.reshape(n, c, h // b, b, w // b, b)
    if call.attribute("mode", "DCR") == "CRD":
        return y.transpose(0, 1, 3, 5, 2, 4).reshape(n, c * b * b, h // b, w // b)
    return y.transpose(0, 3, 5, 1, 2, 4).reshape(n, c * b * b, h // b, w // b)


@onnx("Trilu")
def trilu(call: Call) -> Value:
    """The upper or lower triangle, counted from diagonal k; the rest is 0."""
    x = call[0]
    k = 0 if call.optional(1) is None else clip(call[1].reshape().cast("i64"), -size(x.shape[-2]), size(x.shape[-1]))
    rows, columns = iota(x.shape[-2], 0, 2), iota(x.shape[-1], 1, 2)
    kept = columns >= rows + k if call.attribute("upper", 1) else columns <= rows + k
    return select(kept, x, False if x.dtype == "bool" else 0)


@onnx("Gather")
def gather(call: Call) -> Value:
    x, positions = call[0], call[1]
    axis = normalize_axis(call.attribute("axis", 0), x.rank)
    if positions.is_const:
        extent = x.shape[axis]
        values = positions.node.value.astype(np.int64)
        most = upper(extent)
        if values.size and not (-most <= values.min() and values.max() < most):
            raise call.error(f"index {int(values.min())} .. {int(values.max())} is outside a dimension of {extent}")
        if values.ndim == 0:
            place = int(values) + extent if values < 0 else int(values)
            return x.part(axis, place, place + 1).squeeze(axis)
        positions = constant(np.where(values < 0, values + extent, values) if isinstance(extent, int) else values)
    else:
        require_inside(call, positions, x.shape[axis])
    return x.gather(positions, axis)


@onnx("GatherElements")
def gather_elements(call: Call) -> Value:
    axis = normalize_axis(call.attribute("axis", 0), call[0].rank)
    x, positions = call[0], call[1]
    require_inside(call, positions, x.shape[axis])
    return emit("gather_elements", x, positions, axis=axis)


@onnx("GatherND")
def gather_nd(call: Call) -> Value:
    x, positions, batch = call[0], call[1], call.attribute("batch_dims", 0)
    _require_each_inside(call, positions, x.shape[batch:])
    return emit("gather_nd", x, positions, batch=batch)


def _require_each_inside(call: Call, positions: Value, shape: tuple[Extent, ...]) -> None:
    """Demand that positions [..., k] are inside of dimension k."""
    for k, extent in enumerate(shape[: positions.shape[-1]] if positions.rank else ()):
        require_inside(call, positions.part(-1, k, k + 1), extent)


_COMBINES = {"none": "last", "add": "add", "mul": "mul", "max": "max", "min": "min"}


@onnx("ScatterElements", "Scatter")
def scatter_elements(call: Call) -> Value:
    axis = normalize_axis(call.attribute("axis", 0), call[0].rank)
    combine = _COMBINES[call.attribute("reduction", "none")]
    require_inside(call, call[1], call[0].shape[axis])
    return emit("scatter_elements", call[0], call[1], call[2], axis=axis, combine=combine)


@onnx("ScatterND")
def scatter_nd(call: Call) -> Value:
    combine = _COMBINES[call.attribute("reduction", "none")]
    choice = masks.chosen(call[0], call[1], call[2]) if combine == "last" else None
    if choice is not None:
        return choice
    _require_each_inside(call, call[1], call[0].shape)
    return emit("scatter_nd", call[0], call[1], call[2], combine=combine)


@onnx("CumSum", "CumProd")
def cumulative(call: Call) -> Value:
    x = call[0]
    axis = normalize_axis(int(call.constant(1).reshape(())), x.rank)
    combine = "add" if call.operator == "CumSum" else "mul"
    exclusive, reverse = bool(call.attribute("exclusive")), bool(call.attribute("reverse"))
    return emit("prefix", x, combine=combine, axis=axis, exclusive=exclusive, reverse=reverse)
