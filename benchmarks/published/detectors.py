"""One-stage detectors: MobileNetV1-SSD (arXiv 1512.02325, 1704.04861), YOLOv4 (2004.10934) and YOLOv8n."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from benchmarks.published.layers import Net
from benchmarks.published.pictures import scaled


def places(extent: int) -> np.ndarray:
    """The middle of every cell, x and then y: [2, extent * extent]."""
    steps = np.arange(extent, dtype=np.float32) + 0.5
    y, x = np.meshgrid(steps, steps, indexing="ij")
    return np.stack([x.reshape(-1), y.reshape(-1)])


def suppressed(net: Net, boxes: str, scores: str, most: int, threshold: float = 0.6, least: float = 0.05) -> str:
    """Indices of what is kept of [1, n, 4] boxes and [1, classes, n] scores: [kept, 3]."""
    count = min(most, net.shapes[boxes][1]) * net.shapes[scores][1]
    limits = net.constant(np.array(most, np.int64)), net.constant(threshold), net.constant(least)
    return net.put((count, 3), "NonMaxSuppression", boxes, scores, *limits, kind=TensorProto.INT64)


def mobilenet_ssd(size: int = 300, width: float = 1.0, classes: int = 91) -> Net:
    """Six levels of boxes; their decoding is in the network, non-maximum suppression too."""
    net = Net()
    x = net.unit(net.input("picture", 1, 3, size, size), scaled(width, 32), 3, 2, "relu6")
    levels: list[str] = []
    for k, (after, stride) in enumerate((
        (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1),
    )):  # fmt: skip
        channels = net.shapes[x][1]
        x = net.unit(x, channels, 3, stride, "relu6", groups=channels)
        x = net.unit(x, scaled(width, after), 1, 1, "relu6")
        levels += [x] if k in (10, 12) else []
    for narrow, after in ((256, 512), (128, 256), (128, 256), (64, 128)):
        x = net.unit(x, scaled(width, narrow), 1, 1, "relu6")
        x = net.unit(x, scaled(width, after), 3, 2, "relu6")
        levels.append(x)
    boxes, scores = [], []
    for k, level in enumerate(levels):
        shapes = 3 if k == 0 else 6
        for parts, fields in ((boxes, 4), (scores, classes)):
            y = net.transpose(net.conv(level, shapes * fields, 1), 0, 2, 3, 1)
            parts.append(net.reshape(y, 1, -1, fields))
    box, score = net.concat(*boxes, axis=1), net.act(net.concat(*scores, axis=1), "sigmoid")
    count = net.shapes[box][1]
    anchors = [net.constant(net.random.uniform(0.1, 0.9, (1, count, 2)).astype(np.float32)) for _ in range(2)]
    center = net.each("Mul", net.slice(box, 2, 0, 2), net.constant(0.1))
    center = net.each("Add", net.each("Mul", center, anchors[1]), anchors[0])
    extent = net.each("Exp", net.each("Mul", net.slice(box, 2, 2, 4), net.constant(0.2)))
    half = net.each("Mul", net.each("Mul", extent, anchors[1]), net.constant(0.5))
    box = net.concat(net.each("Sub", center, half), net.each("Add", center, half), axis=2)
    kept = suppressed(net, box, net.transpose(net.slice(score, 2, 1, classes), 0, 2, 1), 100)
    return net.giving(box, score, kept)


def yolov4(size: int = 416, width: float = 1.0, classes: int = 80) -> Net:
    """CSPDarknet-53, spatial pyramid pooling, a path aggregation network, and three heads that decode their boxes."""
    net = Net()

    def unit(x: str, after: int, kernel: int = 1, stride: int = 1, act: str = "leaky") -> str:
        return net.unit(x, scaled(width, after), kernel, stride, act)

    def stage(x: str, after: int, blocks: int) -> str:
        x = unit(x, after, 3, 2, "mish")
        inner = after if blocks == 1 else after // 2
        side, y = unit(x, inner, 1, 1, "mish"), unit(x, inner, 1, 1, "mish")
        for _ in range(blocks):
            z = unit(y, after // 2, 1, 1, "mish")
            y = net.each("Add", y, unit(z, inner, 3, 1, "mish"))
        return unit(net.concat(unit(y, inner, 1, 1, "mish"), side), after, 1, 1, "mish")

    def five(x: str, channels: int) -> str:
        for k in range(5):
            x = unit(x, channels * (1 + k % 2), 1 + 2 * (k % 2))
        return x

    x = unit(net.input("picture", 1, 3, size, size), 32, 3, 1, "mish")
    x = stage(stage(x, 64, 1), 128, 2)
    low = stage(x, 256, 8)
    middle = stage(low, 512, 8)
    x = stage(middle, 1024, 4)
    x = unit(unit(unit(x, 512), 1024, 3), 512)
    x = net.concat(*(net.pool(x, "Max", k, 1, k // 2) for k in (13, 9, 5)), x)
    high = unit(unit(unit(x, 512), 1024, 3), 512)
    up = net.upsample(unit(high, 256))
    middle = five(net.concat(unit(middle, 256), up), 256)
    up = net.upsample(unit(middle, 128))
    low = five(net.concat(unit(low, 128), up), 128)
    middle2 = five(net.concat(unit(low, 256, 3, 2), middle), 256)
    high2 = five(net.concat(unit(middle2, 512, 3, 2), high), 512)
    boxes, scores = [], []
    for x, channels, stride in ((low, 256, 8), (middle2, 512, 16), (high2, 1024, 32)):
        y = net.conv(unit(x, channels, 3), 3 * (5 + classes), 1)
        extent = net.shapes[y][-1]
        y = net.transpose(net.reshape(y, 1, 3, 5 + classes, extent * extent), 0, 1, 3, 2)
        grid = net.constant((places(extent) - 0.5).T.reshape(1, 1, -1, 2))
        anchors = net.constant(net.random.uniform(10, 300, (1, 3, 1, 2)).astype(np.float32))
        center = net.each("Mul", net.act(net.slice(y, 3, 0, 2), "sigmoid"), net.constant(1.1))
        center = net.each("Mul", net.each("Add", net.each("Sub", center, net.constant(0.05)), grid),
                          net.constant(float(stride)))  # fmt: skip
        half = net.each("Mul", net.each("Exp", net.slice(y, 3, 2, 4)), net.each("Mul", anchors, net.constant(0.5)))
        box = net.concat(net.each("Sub", center, half), net.each("Add", center, half), axis=3)
        score = net.each("Mul", net.act(net.slice(y, 3, 5, 5 + classes), "sigmoid"),
                         net.act(net.slice(y, 3, 4, 5), "sigmoid"))  # fmt: skip
        boxes.append(net.reshape(box, 1, -1, 4))
        scores.append(net.reshape(score, 1, -1, classes))
    return net.giving(net.concat(*boxes, axis=1), net.concat(*scores, axis=1))


def yolov8(size: int = 640, width: float = 1.0, classes: int = 80, bins: int = 16) -> Net:
    """YOLOv8n with batch norms already in the convolutions, as SmartMem's count of operators has them."""
    net = Net()

    def unit(x: str, after: int, kernel: int = 3, stride: int = 1) -> str:
        return net.act(net.conv(x, scaled(width, after), kernel, stride), "silu")

    def split(x: str, after: int, blocks: int, is_shortcut: bool) -> str:
        steps = net.split(unit(x, after, 1), 2)
        for _ in range(blocks):
            y = unit(unit(steps[-1], after // 2), after // 2)
            steps.append(net.each("Add", steps[-1], y) if is_shortcut else y)
        return unit(net.concat(*steps), after, 1)

    def pyramid(x: str, channels: int) -> str:
        steps = [unit(x, channels // 2, 1)]
        for _ in range(3):
            steps.append(net.pool(steps[-1], "Max", 5, 1, 2))
        return unit(net.concat(*steps), channels, 1)

    x = unit(unit(net.input("picture", 1, 3, size, size), 16, 3, 2), 32, 3, 2)
    low = split(unit(split(x, 32, 1, True), 64, 3, 2), 64, 2, True)
    middle = split(unit(low, 128, 3, 2), 128, 2, True)
    high = pyramid(split(unit(middle, 256, 3, 2), 256, 1, True), 256)
    middle = split(net.concat(net.upsample(high), middle), 128, 1, False)
    low = split(net.concat(net.upsample(middle), low), 64, 1, False)
    middle = split(net.concat(unit(low, 64, 3, 2), middle), 128, 1, False)
    high = split(net.concat(unit(middle, 128, 3, 2), high), 256, 1, False)
    levels = []
    for x in (low, middle, high):
        sides = net.conv(unit(unit(x, 64), 64), 4 * bins, 1)
        scores = net.conv(unit(unit(x, classes), classes), classes, 1)
        levels.append(net.reshape(net.concat(sides, scores), 1, 4 * bins + classes, -1))
    joined = net.concat(*levels, axis=2)
    count = net.shapes[joined][2]
    sides, scores = net.slice(joined, 1, 0, 4 * bins), net.slice(joined, 1, 4 * bins, 4 * bins + classes)
    sides = net.softmax(net.transpose(net.reshape(sides, 1, 4, bins, count), 0, 2, 1, 3), 1)
    steps = net.constant(np.arange(bins, dtype=np.float32).reshape(1, bins, 1, 1))
    weighted = net.put((1, 1, 4, count), "Conv", sides, steps, kernel_shape=[1, 1])
    before, after = net.split(net.reshape(weighted, 1, 4, count), 2)
    centers = net.constant(np.concatenate([places(size // s) for s in (8, 16, 32)], 1)[None])
    first, last = net.each("Sub", centers, before), net.each("Add", centers, after)
    middle = net.each("Div", net.each("Add", first, last), net.constant(2.0))
    strides = np.concatenate([np.full((1, (size // s) ** 2), s, np.float32) for s in (8, 16, 32)], 1)
    box = net.each("Mul", net.concat(middle, net.each("Sub", last, first)), net.constant(strides[None]))
    return net.giving(net.concat(box, net.act(scores, "sigmoid")))
