"""Transformers on pictures: ViT-B/16 (arXiv 2010.11929) and Swin-T (2103.14030)."""

from __future__ import annotations

import numpy as np

from benchmarks.published.layers import Net
from benchmarks.published.text import attention


def vit(size: int = 224, layers: int = 12, width: int = 768, heads: int = 12) -> Net:
    net = Net()
    x = net.conv(net.input("picture", 1, 3, size, size), width, 16, 16, padding=0)
    x = net.transpose(net.reshape(x, 1, width, -1), 0, 2, 1)
    x = net.concat(net.drawn(1, 1, width, gain=0.1), x, axis=1)
    x = net.each("Add", x, net.drawn(1, net.shapes[x][1], width, gain=0.1))
    for _ in range(layers):
        y = net.layer_norm(x)
        y = attention(net, net.dense(y, width), net.dense(y, width), net.dense(y, width), heads)
        x = net.each("Add", net.dense(y, width), x)
        y = net.dense(net.act(net.dense(net.layer_norm(x), 4 * width), "gelu"), width)
        x = net.each("Add", y, x)
    first = net.put((1, width), "Gather", net.layer_norm(x), net.constant(np.array(0, np.int64)), axis=1)
    return net.giving(net.gemm(first, 1000))


def rolled(net: Net, x: str, by: int) -> str:
    """Rows and columns moved round by ``by``, as exporters write it."""
    for axis in (1, 2):
        extent = net.shapes[x][axis]
        cut = by % extent
        x = net.concat(net.slice(x, axis, extent - cut, extent), net.slice(x, axis, 0, extent - cut), axis=axis)
    return x


def windows_mask(extent: int, window: int, shift: int) -> np.ndarray:
    """[windows, window^2, window^2]: what keeps parts of a rolled window apart that were not neighbors."""
    part = np.zeros((extent, extent), np.int64)
    bounds = (slice(0, -window), slice(-window, -shift), slice(-shift, None))
    for i, rows in enumerate(bounds):
        for j, columns in enumerate(bounds):
            part[rows, columns] = 3 * i + j
    count = extent // window
    flat = part.reshape(count, window, count, window).transpose(0, 2, 1, 3).reshape(count * count, window * window)
    return np.where(flat[:, None] == flat[:, :, None], 0, -100).astype(np.float32)


def windowed(net: Net, x: str, window: int, shift: int, heads: int) -> str:
    """Attention inside windows of [1, extent, extent, width], rolled by ``shift`` before and back after."""
    _, extent, _, width = net.shapes[x]
    count, tokens = extent // window, window * window
    x = rolled(net, x, -shift) if shift else x
    x = net.transpose(net.reshape(x, 1, count, window, count, window, width), 0, 1, 3, 2, 4, 5)
    x = net.reshape(x, count * count, tokens, width)
    bias = net.drawn(1, heads, tokens, tokens, gain=0.3)
    mask = None
    if shift:
        mask = net.constant(windows_mask(extent, window, shift)[:, None])
    x = attention(net, net.dense(x, width), net.dense(x, width), net.dense(x, width), heads, mask, bias)
    x = net.reshape(net.dense(x, width), 1, count, count, window, window, width)
    x = net.reshape(net.transpose(x, 0, 1, 3, 2, 4, 5), 1, extent, extent, width)
    return rolled(net, x, shift) if shift else x


def swin(size: int = 224, width: int = 96, heads: int = 3, window: int = 7) -> Net:
    net = Net()
    x = net.conv(net.input("picture", 1, 3, size, size), width, 4, 4, padding=0)
    extent = net.shapes[x][2]
    x = net.layer_norm(net.transpose(net.reshape(x, 1, width, -1), 0, 2, 1))
    x = net.reshape(x, 1, extent, extent, width)
    for stage, depth in enumerate((2, 2, 6, 2)):
        if stage:
            rows = [net.slice(x, 1, k, extent, 2) for k in (0, 1)]
            parts = [net.slice(r, 2, k, extent, 2) for k in (0, 1) for r in rows]
            extent, width, heads = extent // 2, 2 * width, 2 * heads
            x = net.dense(net.layer_norm(net.concat(*parts, axis=3)), width, bias=False)
        for k in range(depth):
            shift = window // 2 if k % 2 and extent > window else 0
            x = net.each("Add", windowed(net, net.layer_norm(x), window, shift, heads), x)
            y = net.dense(net.act(net.dense(net.layer_norm(x), 4 * width), "gelu"), width)
            x = net.each("Add", y, x)
    x = net.reshape(net.layer_norm(x), 1, extent * extent, width)
    x = net.put((1, width), "ReduceMean", x, axes=[1], keepdims=0)
    return net.giving(net.gemm(x, 1000))
