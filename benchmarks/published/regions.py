"""Two-stage detectors: Faster R-CNN (arXiv 1506.01497) and Mask R-CNN (1703.06870) on a ResNet-50 with a pyramid.

Everything has a fixed size: what suppression leaves is filled up to so many boxes by a TopK over the scores of those
that were kept, and every region is pooled from all levels, of which its size selects one. (The exports that the papers
counted choose with NonZero, and have one branch of operators a level and, in some, a class.)
"""

from __future__ import annotations

from math import log

import numpy as np
from onnx import TensorProto

from benchmarks.published.detectors import places, suppressed
from benchmarks.published.layers import Net
from benchmarks.published.pictures import scaled

INT64 = TensorProto.INT64
STRIDES = (4, 8, 16, 32, 64)


def resnet50(net: Net, x: str, width: float) -> list[str]:
    """The results of its four stages."""
    x = net.pool(net.unit(x, scaled(width, 64), 7, 2), "Max", 3, 2, 1)
    stages = []
    for narrow, depth, first in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        inner = scaled(width, narrow)
        for k in range(depth):
            stride = 1 if k else first
            y = net.unit(net.unit(x, inner, 1), inner, 3, stride)
            y = net.unit(y, 4 * inner, 1, 1, "")
            shortcut = x if k else net.unit(x, 4 * inner, 1, stride, "", padding=0)
            x = net.act(net.each("Add", y, shortcut), "relu")
        stages.append(x)
    return stages


def pyramid(net: Net, stages: list[str], after: int) -> list[str]:
    """Five levels of as many channels, the finest first."""
    inner = [net.conv(x, after, 1) for x in stages]
    for k in (2, 1, 0):
        inner[k] = net.each("Add", inner[k], net.upsample(inner[k + 1]))
    levels = [net.conv(x, after) for x in inner]
    return [*levels, net.pool(levels[-1], "Max", 1, 2)]


def top(net: Net, x: str, count: int) -> tuple[str, str]:
    """The largest ``count`` along the last dimension, and where they are."""
    shape = (*net.shapes[x][:-1], count)
    names = (f"top_{len(net.nodes)}", f"at_{len(net.nodes)}")
    net.node("TopK", x, net.constant([count]), results=names, axis=-1)
    net.shapes.update(dict.fromkeys(names, shape))
    net.kinds[names[1]] = INT64
    return names


def decoded(net: Net, deltas: str, centers: str, extents: str, size: int, variances: tuple[float, float]) -> str:
    """Boxes [.., 4] inside the picture, from what was predicted for boxes of ``extents`` around ``centers``."""
    last = len(net.shapes[deltas]) - 1
    move = net.each("Div", net.slice(deltas, last, 0, 2), net.constant(variances[0]))
    grow = net.each("Div", net.slice(deltas, last, 2, 4), net.constant(variances[1]))
    grow = net.each("Min", grow, net.constant(log(1000 / 16)))
    center = net.each("Add", net.each("Mul", move, extents), centers)
    half = net.each("Mul", net.each("Mul", net.each("Exp", grow), extents), net.constant(0.5))
    box = net.concat(net.each("Sub", center, half), net.each("Add", center, half), axis=last)
    return net.each("Clip", box, net.constant(0.0), net.constant(float(size)))


def filled(net: Net, scores: str, kept: str, columns: int, count: int) -> tuple[str, str]:
    """The ``count`` best of those that were kept, filled up with others: their scores, and where they are.

    ``scores`` has ``columns`` dimensions, the last of ``kept``'s columns say where in it.
    """
    where = net.slice(kept, 1, 3 - columns, 3)
    found = net.put((net.shapes[kept][0],), "GatherND", scores, where)
    none = net.constant(np.full(net.shapes[scores], -1, np.float32))
    marked = net.put(net.shapes[scores], "ScatterND", none, where, found)
    return top(net, net.reshape(marked, -1), count)


def proposals(net: Net, levels: list[str], size: int, before: int, after: int) -> str:
    """Region proposals: [after, 4] boxes."""
    channels = net.shapes[levels[0]][1]
    weights = [
        net.drawn(n, channels, k, k, terms=channels * k * k, gain=gain)
        for n, k, gain in ((channels, 3, 1.0), (3, 1, 0.3), (12, 1, 0.1))
    ]
    boxes, scores = [], []
    for level, stride in zip(levels, STRIDES):
        _, _, extent, _ = net.shapes[level]
        x = net.act(net.put(net.shapes[level], "Conv", level, weights[0], pads=[1] * 4, kernel_shape=[3, 3]), "relu")
        score = net.put((1, 3, extent, extent), "Conv", x, weights[1], kernel_shape=[1, 1])
        delta = net.put((1, 12, extent, extent), "Conv", x, weights[2], kernel_shape=[1, 1])
        score = net.reshape(net.transpose(score, 0, 2, 3, 1), -1)
        delta = net.transpose(net.reshape(delta, 3, 4, extent, extent), 2, 3, 0, 1)
        best, at = top(net, score, min(before, 3 * extent * extent))
        count = net.shapes[at][0]
        chosen = net.put((count, 4), "Gather", net.reshape(delta, -1, 4), at, axis=0)
        middle = np.repeat(places(extent).T * stride, 3, 0).astype(np.float32)
        sides = 8 * stride * np.array([[0.7, 1.4], [1, 1], [1.4, 0.7]], np.float32)
        anchors = [net.put((count, 2), "Gather", net.constant(a), at, axis=0)
                   for a in (middle, np.tile(sides, (extent * extent, 1)))]  # fmt: skip
        boxes.append(decoded(net, chosen, *anchors, size, (1.0, 1.0)))
        scores.append(net.act(best, "sigmoid"))
    # Boxes of different levels do not suppress each other: they are moved apart.
    apart = np.concatenate([np.full((net.shapes[b][0], 1), 2.0 * size * k, np.float32) for k, b in enumerate(boxes)])
    box, score = net.concat(*boxes, axis=0), net.concat(*scores, axis=0)
    moved = net.each("Add", box, net.constant(apart))
    count = net.shapes[box][0]
    kept = suppressed(net, net.reshape(moved, 1, count, 4), net.reshape(score, 1, 1, count), after, 0.7, 0.0)
    _, at = filled(net, score, kept, 1, min(after, count))
    return net.put((net.shapes[at][0], 4), "Gather", box, at, axis=0)


def pooled(net: Net, levels: list[str], boxes: str, side: int) -> str:
    """[boxes, channels, side, side]: each box from the level that suits its size."""
    count, channels = net.shapes[boxes][0], net.shapes[levels[0]][1]
    extent = net.each("Sub", net.slice(boxes, 1, 2, 4), net.slice(boxes, 1, 0, 2))
    area = net.each("Mul", net.slice(extent, 1, 0, 1), net.slice(extent, 1, 1, 2))
    octave = net.each("Log", net.each("Add", net.each("Sqrt", area), net.constant(1e-6)))
    octave = net.each("Div", net.each("Sub", octave, net.constant(log(224))), net.constant(log(2)))
    octave = net.each("Clip", net.each("Floor", net.each("Add", octave, net.constant(4 + 1e-6))),
                      net.constant(2.0), net.constant(5.0))  # fmt: skip
    octave = net.reshape(octave, count, 1, 1, 1)
    picture = net.constant(np.zeros(count, np.int64))
    result = ""
    for k, level in enumerate(levels[:4]):
        region = net.put((count, channels, side, side), "RoiAlign", level, boxes, picture, output_height=side,
                         output_width=side, sampling_ratio=2, spatial_scale=1 / STRIDES[k])  # fmt: skip
        chosen = net.each("Equal", octave, net.constant(float(k + 2)))
        result = net.each("Where", chosen, region, result or net.constant(0.0))
    return result


def faster_rcnn(
    size: int = 800, width: float = 1.0, before: int = 1000, regions: int = 1000, found: int = 100, masks: bool = False,
    classes: int = 91,
) -> Net:  # fmt: skip
    net = Net()
    stages = resnet50(net, net.input("picture", 1, 3, size, size), width)
    levels = pyramid(net, stages, scaled(width, 256))
    boxes = proposals(net, levels, size, before, regions)
    count = net.shapes[boxes][0]
    x = net.flatten(pooled(net, levels, boxes, 7))
    for _ in range(2):
        x = net.act(net.gemm(x, scaled(width, 1024)), "relu")
    scores = net.slice(net.softmax(net.gemm(x, classes, 0.3)), 1, 1, classes)
    deltas = net.reshape(net.gemm(x, 4 * classes, 0.3), count, classes, 4)
    corners = [net.slice(boxes, 1, *span) for span in ((0, 2), (2, 4))]
    extent = net.each("Sub", corners[1], corners[0])
    center = net.each("Add", corners[0], net.each("Mul", extent, net.constant(0.5)))
    around = [net.reshape(a, count, 1, 2) for a in (center, extent)]
    box = decoded(net, net.slice(deltas, 1, 1, classes), *around, size, (10.0, 5.0))
    # Classes do not suppress each other: each has its own boxes, which are moved apart.
    flat = count * (classes - 1)
    apart = np.arange(classes - 1, dtype=np.float32).reshape(1, -1, 1) * 2 * size
    moved = net.reshape(net.each("Add", box, net.constant(apart)), 1, flat, 4)
    score = net.reshape(scores, -1)
    kept = suppressed(net, moved, net.reshape(score, 1, 1, flat), found, 0.5, 0.05)
    best, at = filled(net, score, kept, 1, min(found, flat))
    result = net.put((net.shapes[at][0], 4), "Gather", net.reshape(box, flat, 4), at, axis=0)
    label = net.put(net.shapes[at], "Mod", at, net.constant(np.array(classes - 1, np.int64)), kind=INT64)
    if not masks:
        return net.giving(result, best, label)
    x = pooled(net, levels, result, 14)
    for _ in range(4):
        x = net.act(net.conv(x, scaled(width, 256)), "relu")
    x = net.conv(net.act(net.transposed(x, scaled(width, 256)), "relu"), classes, 1)
    n, _, height, wide = net.shapes[x]
    where = net.put((n, 1, 1, 1), "Reshape", label, net.constant([n, 1, 1, 1]), kind=INT64)
    where = net.put((n, 1, height, wide), "Expand", where, net.constant([n, 1, height, wide]), kind=INT64)
    mask = net.put((n, 1, height, wide), "GatherElements", net.act(x, "sigmoid"), where, axis=1)
    return net.giving(result, best, label, mask)


def mask_rcnn(size: int = 800, width: float = 1.0, before: int = 1000, regions: int = 1000, found: int = 100) -> Net:
    return faster_rcnn(size, width, before, regions, found, masks=True)
