"""Networks over space and time, C3D (arXiv 1412.0767) and S3D (1712.04851), and one that gives a picture: U-Net
(1505.04597).
"""

from __future__ import annotations

from benchmarks.published.layers import Net
from benchmarks.published.pictures import scaled


def c3d(size: int = 112, frames: int = 16, width: float = 1.0) -> Net:
    net = Net()
    x = net.input("film", 1, 3, frames, size, size)
    for k, (channels, layers) in enumerate(((64, 1), (128, 1), (256, 2), (512, 2), (512, 2))):
        for _ in range(layers):
            x = net.act(net.conv(x, scaled(width, channels)), "relu")
        x = net.pool(x, "Max", (2, 2, 2) if k else (1, 2, 2), None, (0, 1, 1) if k == 4 else 0)
    x = net.flatten(x)
    for _ in range(2):
        x = net.act(net.gemm(x, scaled(width, 4096)), "relu")
    return net.giving(net.gemm(x, 487))


def s3d(size: int = 224, frames: int = 64, width: float = 1.0) -> Net:
    """Inception over time: every 3 x 3 x 3 is a 1 x 3 x 3 and a 3 x 1 x 1."""
    net = Net()

    def apart(x: str, after: int, kernel: int = 3, stride: int = 1) -> str:
        x = net.unit(x, after, (1, kernel, kernel), (1, stride, stride))
        return net.unit(x, after, (kernel, 1, 1), (stride, 1, 1))

    def mixed(x: str, *channels: int) -> str:
        a, b0, b1, c0, c1, d = (scaled(width, c) for c in channels)
        parts = [net.unit(x, a, 1), apart(net.unit(x, b0, 1), b1), apart(net.unit(x, c0, 1), c1)]
        return net.concat(*parts, net.unit(net.pool(x, "Max", 3, 1, 1), d, 1))

    x = apart(net.input("film", 1, 3, frames, size, size), scaled(width, 64), 7, 2)
    x = net.pool(x, "Max", (1, 3, 3), (1, 2, 2), (0, 1, 1))
    x = apart(net.unit(x, scaled(width, 64), 1), scaled(width, 192))
    x = net.pool(x, "Max", (1, 3, 3), (1, 2, 2), (0, 1, 1))
    x = mixed(mixed(x, 64, 96, 128, 16, 32, 32), 128, 128, 192, 32, 96, 64)
    x = net.pool(x, "Max", 3, 2, 1)
    for channels in (
        (192, 96, 208, 16, 48, 64), (160, 112, 224, 24, 64, 64), (128, 128, 256, 24, 64, 64),
        (112, 144, 288, 32, 64, 64), (256, 160, 320, 32, 128, 128),
    ):  # fmt: skip
        x = mixed(x, *channels)
    x = net.pool(x, "Max", 2, 2)
    x = mixed(mixed(x, 256, 160, 320, 32, 128, 128), 384, 192, 384, 48, 128, 128)
    n, _, time, height, wide = net.shapes[x]
    x = net.conv(net.pool(x, "Average", (min(2, time), height, wide), 1), 400, 1)
    return net.giving(net.put((n, 400), "ReduceMean", x, axes=[2, 3, 4], keepdims=0))


def unet(size: int = 256, width: float = 0.5) -> Net:
    net = Net()
    x = net.input("picture", 1, 3, size, size)
    kept: list[str] = []
    for k in range(5):
        channels = scaled(width, 64 << k)
        x = net.unit(net.unit(net.pool(x) if k else x, channels), channels)
        kept.append(x)
    kept.pop()
    for k in reversed(range(4)):
        channels = scaled(width, 64 << k)
        x = net.concat(kept.pop(), net.transposed(x, channels))
        x = net.unit(net.unit(x, channels), channels)
    return net.giving(net.conv(x, 2, 1))
