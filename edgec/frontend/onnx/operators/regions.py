"""Pools of regions whose corners are data: RoiAlign and MaxRoiPool."""

from __future__ import annotations

from math import inf

import numpy as np

from edgec.frontend.onnx.call import Call, onnx
from edgec.frontend.onnx.indices import require_inside
from edgec.frontend.onnx.operators.sampling import counted_in
from edgec.frontend.values import Value, check_table, clip, constant, emit, iota, maximum, minimum, select, size
from edgec.ir.expr import Extent

#: Length of a region over that of the picture, from which on a cell gets no more samples.
LONGEST = 16
#: First pixel of each cell along a dimension, [R, cells], and as many pixels as are read of each.
Run = tuple[Value, Extent]


@onnx("RoiAlign")
def roi_align(call: Call) -> Value:
    """Each cell of a region is the mean (or maximum) of samples between pixels."""
    x, rois, batches = call[0], call[1], call[2]
    require_inside(call, batches, x.shape[0], 0)
    _, channels, height, width = x.shape
    rows, columns = call.attribute("output_height", 1), call.attribute("output_width", 1)
    ratio = call.attribute("sampling_ratio", 0)
    half = call.attribute("coordinate_transformation_mode", "half_pixel" if call.opset >= 16 else "") == "half_pixel"
    regions = rois.shape[0]
    scaled = rois * call.attribute("spatial_scale", 1.0) - (0.5 if half else 0.0)
    left, top, right, bottom = (scaled.part(1, k, k + 1) for k in range(4))
    if ratio <= 0:
        if call.attribute("mode", "avg") == "max":
            told = "the largest of as many samples as regions are large, which is data, is not supported"
            raise call.error(told, "export the model with sampling_ratio=2")
        tall, wide = (bottom - top, right - left) if half else (maximum(e, 1.0) for e in (bottom - top, right - left))
        return _mean(x, batches, _window(call, top, tall, rows, height), _window(call, left, wide, columns, width))
    check_table(rows, ratio, columns, ratio)

    def axis(start: Value, end: Value, cells: int) -> Value:
        """Sample positions [R, cells * ratio] along one dimension."""
        span = end - start if half else maximum(end - start, 1.0)
        steps = (np.arange(cells * ratio) + 0.5) / ratio
        return start + span * (1.0 / cells) * constant(steps, x.dtype).reshape(1, cells * ratio)

    y, x_ = axis(top, bottom, rows), axis(left, right, columns)
    points = rows * ratio * columns * ratio
    shape = (regions, rows * ratio, columns * ratio)
    ys = y.unsqueeze(2).broadcast(*shape).reshape(1, regions * points)
    xs = x_.unsqueeze(1).broadcast(*shape).reshape(1, regions * points)
    inside = (ys >= -1.0) & (ys <= float(height)) & (xs >= -1.0) & (xs <= float(width))
    counted = counted_in(x.shape[0], height, width)
    picture = batches.cast(counted).unsqueeze(1).broadcast(regions, points).reshape(1, regions * points)
    # All pictures as one tall one: the batch is part of the row.
    flat = x.transpose(1, 0, 2, 3).reshape(channels, x.shape[0] * height * width)
    parts: list[Value] = []
    (y0, wy0), (y1, wy1) = _border_taps(ys, height, counted)
    (x0, wx0), (x1, wx1) = _border_taps(xs, width, counted)
    for row, wr in ((y0, wy0), (y1, wy1)):
        for column, wc in ((x0, wx0), (x1, wx1)):
            index = (picture * height + row) * width + column
            read = flat.gather(index.reshape(regions * points), 1)
            parts.append(select(inside, read * (wr * wc), 0.0))
    cells = (channels, regions, rows, ratio, columns, ratio)
    if call.attribute("mode", "avg") == "max":
        best = maximum(maximum(parts[0], parts[1]), maximum(parts[2], parts[3])).reshape(*cells)
        pooled = best.reduce("max", (3, 5), keep=False)
    else:
        pooled = (parts[0] + parts[1] + parts[2] + parts[3]).reshape(*cells).mean((3, 5), keep=False)
    return pooled.transpose(1, 0, 2, 3)


@onnx("MaxRoiPool")
def max_roi_pool(call: Call) -> Value:
    """The largest element in every cell of regions [R, 5] of (picture, left, top, right, bottom); 0 in an empty cell.

    The edges of a region are rounded to whole pixels, those of its cells away from their middle.
    """
    x, regions = call[0], call[1]
    rows, columns = call.required("pooled_shape")
    scale = call.attribute("spatial_scale", 1.0)
    if regions.rank != 2 or regions.shape[1] != 5 or not scale > 0:
        raise call.error(f"regions {list(regions.shape)} at scale {scale}", "they are [R, 5], at a scale above 0")
    edges = regions.part(1, 1, 5) * scale
    edges = select(edges < 0, -emit("floor", 0.5 - edges), emit("floor", edges + 0.5))

    batches = regions.part(1, 0, 1).squeeze(1).cast("i64")
    require_inside(call, batches, x.shape[0], 0)

    def run(axis: int, cells: int) -> tuple[Value, Value, Extent]:
        """First pixel of each cell along a dimension (0 across, 1 down), how many it has, and the most, [R, cells]."""
        extent = x.shape[3 - axis]
        start, end = (edges.part(1, k, k + 1) for k in (axis, axis + 2))
        span, k = maximum(end - start + 1, 1) / cells, iota(cells, 1, 2, x.dtype)
        ends = (start + emit("floor", k * span), start + emit("ceil", (k + 1) * span))
        first, last = (clip(e, 0, size(extent).cast(x.dtype)) for e in ends)
        return first, last - first, call.size((last - first).reduce("max", [0, 1], keep=False).cast("i64"), extent)

    (top, tall, most_tall), (left, wide, most_wide) = run(1, rows), run(0, columns)
    read = _pixels(x, batches, (top, most_tall), (left, most_wide))
    down, across = iota(most_tall, 3, 5, x.dtype), iota(most_wide, 4, 5, x.dtype)
    inside = (down < tall.unsqueeze(2, 3, 4)) & (across < wide.unsqueeze(1, 3, 4))
    y = select(inside.unsqueeze(5), read, -inf).reduce("max", [3, 4], keep=False)
    return select(y.equals(-inf), 0, y).transpose(0, 3, 1, 2)


def _pixels(x: Value, batches: Value, down: Run, across: Run) -> Value:
    """[R, rows, columns, tall, wide, C] the pixels of every cell, of which those beyond the picture are its last."""
    (top, tall), (left, wide) = down, across
    n, channels, height, width = x.shape
    counted = counted_in(n, height, width)
    high, broad = (size(extent).cast(counted) for extent in (height, width))
    row = minimum(top.cast(counted).unsqueeze(2, 3, 4) + iota(tall, 3, 5, counted), high - 1)
    column = minimum(left.cast(counted).unsqueeze(1, 3, 4) + iota(wide, 4, 5, counted), broad - 1)
    index = (batches.cast(counted).unsqueeze(1, 2, 3, 4) * high + row) * broad + column
    flat = x.transpose(0, 2, 3, 1).reshape(n * height * width, channels)
    return flat.gather(index, 0)


def _window(call: Call, start: Value, span: Value, cells: int, extent: int) -> tuple[Run, Value]:
    """The pixels that samples along one dimension read, and what each adds to the mean of its cell [R, cells, pixels].

    A cell has a sample for each pixel of its length, or of the next whole one.
    """
    length, most = span * (1.0 / cells), -(-LONGEST * extent // cells)
    counts = clip(emit("ceil", length), 0.0, float(most))
    largest = counts.reduce("max", [0, 1], keep=False)
    samples = call.size(largest.cast("i64"), most)
    step = length / maximum(counts, 1.0)
    begin = start + iota(cells, 1, 2, span.dtype) * length + step * 0.5
    first = emit("floor", clip(begin, 0.0, float(extent - 1)))
    pixels = call.size(minimum(largest + 1.0, float(extent)).cast("i64"), extent)
    k = iota(samples, 3, 4, span.dtype)
    at = begin.unsqueeze(2, 3) + k * step.unsqueeze(2, 3)
    taken = (k < counts.unsqueeze(2, 3)) & (at >= -1.0) & (at <= float(extent))
    place = first.unsqueeze(2, 3) + iota(pixels, 2, 4, span.dtype)
    share = maximum(1.0 - emit("abs", clip(at, 0.0, float(extent - 1)) - place), 0.0)
    weights = select(taken, share, 0.0).sum([3], keep=False) / maximum(counts, 1.0).unsqueeze(2)
    return (first, pixels), weights


def _mean(x: Value, batches: Value, down: tuple[Run, Value], across: tuple[Run, Value]) -> Value:
    """The weighted sum of the pixels of each cell; what others hold, be it infinite, does not count."""
    (rows, by_row), (columns, by_column) = down, across
    weights = (by_row.unsqueeze(2, 4) * by_column.unsqueeze(1, 3)).unsqueeze(5)
    terms = select(weights > 0, _pixels(x, batches, rows, columns) * weights, 0)
    return terms.sum([3, 4], keep=False).transpose(0, 3, 1, 2)


def _border_taps(c: Value, extent: int, counted: str) -> list[tuple[Value, Value]]:
    """The two neighbors of a coordinate, which is held inside; both are the last pixel behind it."""
    c = clip(c, 0.0, float(extent - 1))
    low = emit("floor", c)
    ratio = c - low
    high = minimum(low + 1.0, float(extent - 1))
    return [(low.cast(counted), 1.0 - ratio), (high.cast(counted), ratio)]
