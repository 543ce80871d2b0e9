"""Classifiers of pictures: VGG-16 (arXiv 1409.1556), EfficientNet-B0 (1905.11946), RegNetY-3.2GF (2003.13678),
ResNeXt-50 32x4d (1611.05431) and ConvNeXt-T (2201.03545). ``width`` scales channels, for small ones of the same graph.
"""

from __future__ import annotations

from benchmarks.published.layers import Net


def scaled(width: float, channels: int, step: int = 8) -> int:
    """So many channels of ``channels``, a multiple of ``step``."""
    return max(step, round(channels * width / step) * step)


def vgg16(size: int = 224, width: float = 1.0, classes: int = 1000) -> Net:
    net = Net()
    x = net.input("picture", 1, 3, size, size)
    for channels, layers in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(layers):
            x = net.act(net.conv(x, scaled(width, channels)), "relu")
        x = net.pool(x)
    x = net.flatten(x)
    for _ in range(2):
        x = net.act(net.gemm(x, scaled(width, 4096)), "relu")
    return net.giving(net.gemm(x, classes))


def excited(net: Net, x: str, inner: int, act: str) -> str:
    """Channels scaled by what two layers make of their means (squeeze and excite)."""
    channels = net.shapes[x][1]
    y = net.act(net.conv(net.mean(x), inner, 1), act)
    return net.each("Mul", x, net.act(net.conv(y, channels, 1), "sigmoid"))


def efficientnet_b0(size: int = 224, width: float = 1.0) -> Net:
    net = Net()
    x = net.unit(net.input("picture", 1, 3, size, size), scaled(width, 32), 3, 2, "silu")
    stages = [
        (1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3), (6, 5, 1, 112, 3), (6, 5, 2, 192, 4),
        (6, 3, 1, 320, 1),
    ]  # fmt: skip
    for expansion, kernel, first, after, repeats in stages:
        for k in range(repeats):
            stride, before = (1 if k else first), net.shapes[x][1]
            y = net.unit(x, before * expansion, 1, 1, "silu") if expansion > 1 else x
            wide = net.shapes[y][1]
            y = net.unit(y, wide, kernel, stride, "silu", groups=wide)
            y = net.unit(excited(net, y, max(1, before // 4), "silu"), scaled(width, after), 1, 1, "")
            x = net.each("Add", x, y) if net.shapes[x] == net.shapes[y] else y
    x = net.flatten(net.mean(net.unit(x, scaled(width, 1280), 1, 1, "silu")))
    return net.giving(net.gemm(x, 1000))


def regnet(size: int = 224, width: float = 1.0) -> Net:
    """RegNetY-3.2GF with batch norms already in the convolutions, as SmartMem's count of operators has them."""
    net = Net()
    group = scaled(width, 24)
    x = net.act(net.conv(net.input("picture", 1, 3, size, size), scaled(width, 32), 3, 2), "relu")
    for channels, depth in ((72, 2), (216, 5), (576, 13), (1512, 1)):
        after = channels // 24 * group
        for k in range(depth):
            stride, before = (1 if k else 2), net.shapes[x][1]
            y = net.act(net.conv(x, after, 1), "relu")
            y = net.act(net.conv(y, after, 3, stride, groups=after // group), "relu")
            y = net.conv(excited(net, y, max(1, before // 4), "relu"), after, 1)
            shortcut = x if k else net.conv(x, after, 1, stride, padding=0)
            x = net.act(net.each("Add", y, shortcut), "relu")
    return net.giving(net.gemm(net.flatten(net.mean(x)), 1000))


def resnext(size: int = 224, width: float = 1.0) -> Net:
    """ResNeXt-50 with batch norms already in the convolutions, as SmartMem's count of operators has them."""
    net = Net()
    x = net.act(net.conv(net.input("picture", 1, 3, size, size), scaled(width, 64), 7, 2), "relu")
    x = net.pool(x, "Max", 3, 2, 1)
    for narrow, depth, first in ((128, 3, 1), (256, 4, 2), (512, 6, 2), (1024, 3, 2)):
        inner = scaled(width, narrow, 32)
        for k in range(depth):
            stride = 1 if k else first
            y = net.act(net.conv(x, inner, 1), "relu")
            y = net.conv(net.act(net.conv(y, inner, 3, stride, groups=32), "relu"), 2 * inner, 1)
            shortcut = x if k else net.conv(x, 2 * inner, 1, stride, padding=0)
            x = net.act(net.each("Add", y, shortcut), "relu")
    return net.giving(net.gemm(net.flatten(net.mean(x)), 1000))


def convnext(size: int = 224, width: float = 1.0) -> Net:
    """ConvNeXt-T: blocks work with channels last between two transposes, norms between stages with channels first."""
    net = Net()
    x = net.conv(net.input("picture", 1, 3, size, size), scaled(width, 96), 4, 4, padding=0)
    for stage, (channels, depth) in enumerate(((96, 3), (192, 3), (384, 9), (768, 3))):
        after = scaled(width, channels)
        x = net.layer_norm(x, 1)
        if stage:
            x = net.conv(x, after, 2, 2, padding=0)
        for _ in range(depth):
            y = net.transpose(net.conv(x, after, 7, groups=after), 0, 2, 3, 1)
            y = net.dense(net.act(net.dense(net.layer_norm(y), 4 * after), "gelu"), after)
            y = net.transpose(net.each("Mul", y, net.drawn(after, gain=0.3)), 0, 3, 1, 2)
            x = net.each("Add", x, y)
    return net.giving(net.gemm(net.layer_norm(net.flatten(net.mean(x))), 1000))
