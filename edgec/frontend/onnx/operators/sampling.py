"""Reading images at positions that are data: every position is a weighted sum of its neighbors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import prod

import numpy as np

from edgec.frontend.onnx.call import Call, onnx
from edgec.frontend.onnx.indices import require_inside
from edgec.frontend.onnx.operators.conv import pad_space, per_channel, spread, window
from edgec.frontend.values import (
    Value,
    check_table,
    clip,
    concat,
    constant,
    emit,
    iota,
    maximum,
    minimum,
    select,
    size,
)
from edgec.ir.expr import Extent
from edgec.ir.index import upper

#: From a floating coordinate and the extent it runs over to (place, weight) pairs, all of the same shape.
Taps = Callable[[Value], list[tuple[Value, "Value | float"]]]


def _linear_taps(x: Value) -> list[tuple[Value, Value | float]]:
    low = emit("floor", x)
    ratio = x - low
    return [(low, 1.0 - ratio), (low + 1.0, ratio)]


def _cubic_taps(x: Value) -> list[tuple[Value, Value | float]]:
    a = -0.75
    low = emit("floor", x)
    t = x - low
    u, v, w = t + 1.0, 1.0 - t, 2.0 - t
    return [
        (low - 1.0, ((u * a - 5 * a) * u + 8 * a) * u - 4 * a),
        (low, (t * (a + 2) - (a + 3)) * t * t + 1.0),
        (low + 1.0, (v * (a + 2) - (a + 3)) * v * v + 1.0),
        (low + 2.0, ((w * a - 5 * a) * w + 8 * a) * w - 4 * a),
    ]


_TAPS: dict[str, Taps] = {
    "nearest": lambda x: [(emit("round", x), 1.0)],
    "linear": _linear_taps, "bilinear": _linear_taps, "cubic": _cubic_taps, "bicubic": _cubic_taps,
}  # fmt: skip


def sampled(x: Value, coordinates: Sequence[Value], taps: Taps, place: Callable[[Value, int], Value]) -> Value:
    """x [N, C, S...] read at ``coordinates`` (one [N, P] for each of S), as [N, C, P].

    ``place`` brings a whole coordinate into dimension d; what stays outside counts as 0.
    """
    n, channels, *space = x.shape
    points = coordinates[0].shape[1]
    flat = x.reshape(n, channels, prod(space))
    counted = counted_in(*space)
    along = [[(place(p, d), w) for p, w in taps(c)] for d, c in enumerate(coordinates)]
    total: Value | None = None
    for combination in product(*along):
        weight: Value | float = 1.0
        inside: Value | None = None
        index: Value | None = None
        for (p, w), extent in zip(combination, space):
            weight = w if isinstance(weight, float) and weight == 1.0 else weight * w
            here = (p >= 0.0) & (p <= float(extent - 1))
            inside = here if inside is None else inside & here
            whole = clip(p, 0.0, float(max(extent - 1, 0))).cast(counted)
            index = whole if index is None else index * extent + whole
        assert inside is not None and index is not None
        read = emit("gather_elements", flat, index.unsqueeze(1).broadcast(n, channels, points), axis=2)
        term = select(inside.unsqueeze(1), read, 0.0)
        if isinstance(weight, Value):
            term = term * weight.unsqueeze(1).cast(x.dtype)
        total = term if total is None else total + term
    assert total is not None
    return total


def counted_in(*extents: Extent) -> str:
    """The type of positions in dimensions of these extents: 32 bits, which lanes have, where they are enough."""
    return "i32" if upper(prod(extents)) < 2**31 else "i64"


def _reflected(x: Value, low: float, high: float) -> Value:
    """Mirrored at the borders until it is inside."""
    span = high - low
    if span <= 0:
        return x * 0.0
    turned = emit("floormod", x - low, 2.0 * span)
    return minimum(turned, 2.0 * span - turned) + low


@onnx("AffineGrid")
def affine_grid(call: Call) -> Value:
    """Coordinates of every pixel of an image in another: x, y (and z) in -1 .. 1 times a matrix, [N, space.., axes].

    The standard's own body loses a batch of one. One aligned pixel stands at 1, as in onnxruntime.
    """
    theta, (_, _, *space) = call[0], call.extents(1)
    rank = len(space)
    if rank not in (2, 3) or theta.rank != 3 or theta.shape[1:] != (rank, rank + 1):
        raise call.error(f"matrices {theta.type} do not fit a size of {rank + 2} dimensions")

    def column(k: int) -> Value:
        return theta.part(2, k, k + 1).reshape(theta.shape[0], *(1,) * rank, rank)

    result = column(rank)
    for d, extent in enumerate(space):
        k = iota(extent, d + 1, rank + 2, theta.dtype)
        n = size(extent).cast(theta.dtype)
        if not call.attribute("align_corners"):
            place = (k * 2 + 1) / n - 1
        else:
            place = select(n > 1, k * 2 / maximum(n - 1, 1) - 1, 1)
        result = result + column(rank - 1 - d) * place
    return result


@onnx("GridSample")
def grid_sample(call: Call) -> Value:
    x, grid = call[0], call[1]
    n, channels, *space = x.shape
    sizes = grid.shape[1:-1]
    aligned, padding = bool(call.attribute("align_corners")), call.attribute("padding_mode", "zeros")
    borders = [(0.0, float(e - 1)) if aligned else (-0.5, e - 0.5) for e in space]
    flat = grid.reshape(n, prod(sizes), len(space))
    mode = call.attribute("mode", "linear")
    coordinates = []
    for d, extent in enumerate(space):
        axis = len(space) - 1 - d  # the grid names the innermost dimension first
        g = flat.part(2, axis, axis + 1).squeeze(2)
        c = (g + 1.0) * ((extent - 1) / 2) if aligned else ((g + 1.0) * float(extent) - 1.0) * 0.5
        c = emit("round", c) if mode == "nearest" else c
        if padding == "reflection":
            c = _reflected(c, *borders[d])
        coordinates.append(c)

    def place(p: Value, d: int) -> Value:
        if padding == "border":
            return clip(p, 0.0, float(space[d] - 1))
        if padding == "reflection":
            return clip(emit("trunc", _reflected(p, *borders[d])), 0.0, float(space[d] - 1))
        return p

    return sampled(x, coordinates, _TAPS[mode], place).reshape(n, channels, *sizes)


@onnx("DeformConv")
def deform_conv(call: Call) -> Value:
    """A convolution whose kernel elements are read at positions shifted by data, then one matrix product."""
    x, w, offset = call[0], call[1], call[2]
    bias, mask = call.optional(3), call.optional(4)
    n, channels, *space = x.shape
    outputs, per_group, *kernel = w.shape
    groups, bundles = call.attribute("group", 1), call.attribute("offset_group", 1)
    win = window(call, space, kernel)
    sizes = offset.shape[2:]
    taps, points = prod(kernel), prod(sizes)
    rank = len(space)
    shifts = offset.reshape(n, bundles, taps, rank, *sizes)
    columns = []
    for b in range(bundles):
        part = x.part(1, b * channels // bundles, (b + 1) * channels // bundles)
        coordinates = []
        for d in range(rank):
            tap = iota(kernel[d], d, 2 * rank) * win.dilations[d]
            base = tap + iota(sizes[d], rank + d, 2 * rank) * win.strides[d] - win.before[d]
            still = base.cast(x.dtype).broadcast(*kernel, *sizes).reshape(1, taps * points)
            moved = shifts.part(1, b, b + 1).part(3, d, d + 1).reshape(n, taps * points)
            coordinates.append(still + moved)
        read = sampled(part, coordinates, _linear_taps, lambda p, d: p)
        if mask is not None:
            read = read * mask.part(1, b * taps, (b + 1) * taps).reshape(n, 1, taps * points)
        columns.append(read)
    gathered = concat(columns, 1).reshape(n, groups, per_group * taps, points)
    weights = w.reshape(1, groups, outputs // groups, per_group * taps)
    y = (weights @ gathered).reshape(n, outputs, *sizes)
    return y if bias is None else y + per_channel(bias, y.rank)


@onnx("Col2Im")
def col2im(call: Call) -> Value:
    """Every element of a window is added where it came from: one shifted, spread picture a kernel element."""
    x, image, block = call[0], call.ints(1), call.ints(2)
    rank = len(image)
    win = window(call, image, block)
    n = x.shape[0]
    channels = x.shape[1] // prod(block)
    sizes = [
        (e + b + a - span) // s + 1 for e, b, a, span, s in zip(image, win.before, win.after, win.spans, win.strides)
    ]
    whole = [e + b + a for e, b, a in zip(image, win.before, win.after)]
    check_table(1000 * prod(block))  # every tap is a node
    taps = x.reshape(n, channels, prod(block), *sizes)
    total: Value | None = None
    for k, tap in enumerate(product(*(range(b) for b in block))):
        part = spread(taps.part(2, k, k + 1).squeeze(2), win.strides)
        start = [t * d for t, d in zip(tap, win.dilations)]
        term = pad_space(part, start, [e - s - p for e, s, p in zip(whole, start, part.shape[2:])])
        total = term if total is None else total + term
    assert total is not None
    return total.slice((0, 0, *win.before), (1,) * (rank + 2), (n, channels, *image))


@onnx("MaxUnpool")
def max_unpool(call: Call) -> Value:
    """Each maximum goes back to its place in the whole tensor; everything else is 0."""
    x, places = call[0], call[1]
    win = window(call, x.shape[2:], call.required("kernel_shape"))
    sizes = [
        (e - 1) * s + span - b - a
        for e, s, span, b, a in zip(x.shape[2:], win.strides, win.spans, win.before, win.after)
    ]
    shape = tuple(call.ints(2)) if call.optional(2) is not None else (*x.shape[:2], *sizes)
    smaller = (*x.shape[:2], *sizes)
    count = prod(x.shape)
    check_table(*shape)
    empty = constant(0, x.dtype).broadcast(prod(shape))
    if shape != smaller:  # the places were counted in the smaller tensor
        require_inside(call, places, prod(smaller), 0)
        flat = places.reshape(count)
        index = constant(np.arange(prod(shape)).reshape(shape)[tuple(slice(0, e) for e in smaller)].reshape(-1))
        places = index.gather(flat, 0)
    require_inside(call, places, prod(shape), 0)
    y = emit("scatter_elements", empty, places.reshape(count), x.reshape(count), axis=0)
    return y.reshape(*shape)
