"""Well-known network shapes in PyTorch, with random weights: what matters here is how they compute, not what.

Each follows its paper: MobileNetV2 (arXiv 1801.04381), MobileNetV3 (1905.02244), EfficientNet (1905.11946), ResNet
(1512.03385), SqueezeNet (1602.07360), YOLOv8's published layout, U-Net (1505.04597), the keyword spotter and the image
classifier of MLPerf Tiny (2106.07597), C3D (1412.0767).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Activation = type[nn.Module] | None


def conv(
    before: int, after: int, kernel: int = 3, stride: int = 1, groups: int = 1, act: Activation = nn.ReLU
) -> nn.Sequential:
    """Convolution that keeps the size (over the stride), batch norm, activation."""
    layers: list[nn.Module] = [
        nn.Conv2d(before, after, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(after),
    ]
    return nn.Sequential(*layers, *([act()] if act else []))


class Residual(nn.Module):
    """x + body(x), or only the body where shapes differ."""

    def __init__(self, body: nn.Module, is_shortcut: bool = True) -> None:
        super().__init__()
        self.body, self.is_shortcut = body, is_shortcut

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x) if self.is_shortcut else self.body(x)


class Classifier(nn.Module):
    """Features, their mean over all positions, and dense layers."""

    def __init__(self, features: Sequence[nn.Module], *dense: nn.Module, softmax: bool = False) -> None:
        super().__init__()
        self.features, self.dense, self.softmax = nn.Sequential(*features), nn.Sequential(*dense), softmax

    def forward(self, x: Tensor) -> Tensor:
        x = self.features(x)
        pool = F.adaptive_avg_pool3d if x.dim() == 5 else F.adaptive_avg_pool2d
        x = self.dense(pool(x, 1).flatten(1))
        return x.softmax(-1) if self.softmax else x


class SqueezeExcite(nn.Module):
    """Scale channels by what a small network makes of their means."""

    def __init__(self, channels: int, inner: int, act: Activation, gate: type[nn.Module]) -> None:
        super().__init__()
        assert act is not None
        self.weigh = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, inner, 1), act(), nn.Conv2d(inner, channels, 1), gate()
        )

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weigh(x)


def inverted(
    before: int,
    wide: int,
    after: int,
    kernel: int,
    stride: int,
    act: Activation,
    excite: nn.Module | None = None,
) -> Residual:
    """Widen, convolve each channel, (excite,) narrow: the block of MobileNetV2 and all that came after it."""
    layers: list[nn.Module] = [] if wide == before else [conv(before, wide, 1, act=act)]
    layers.append(conv(wide, wide, kernel, stride, wide, act))
    layers += [excite] if excite is not None else []
    layers.append(conv(wide, after, 1, act=None))
    return Residual(nn.Sequential(*layers), stride == 1 and before == after)


def mobilenet_v2() -> nn.Module:
    layers: list[nn.Module] = [conv(3, 32, 3, 2, act=nn.ReLU6)]
    channels = 32
    stages = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
    for expansion, after, repeats, stride in stages:
        for k in range(repeats):
            layers.append(inverted(channels, channels * expansion, after, 3, 1 if k else stride, nn.ReLU6))
            channels = after
    return Classifier([*layers, conv(channels, 1280, 1, act=nn.ReLU6)], nn.Linear(1280, 1000))


def mobilenet_v3_small() -> nn.Module:
    layers: list[nn.Module] = [conv(3, 16, 3, 2, act=nn.Hardswish)]
    channels = 16
    blocks = [
        (3, 16, 16, True, nn.ReLU, 2), (3, 72, 24, False, nn.ReLU, 2), (3, 88, 24, False, nn.ReLU, 1),
        (5, 96, 40, True, nn.Hardswish, 2), (5, 240, 40, True, nn.Hardswish, 1), (5, 240, 40, True, nn.Hardswish, 1),
        (5, 120, 48, True, nn.Hardswish, 1), (5, 144, 48, True, nn.Hardswish, 1), (5, 288, 96, True, nn.Hardswish, 2),
        (5, 576, 96, True, nn.Hardswish, 1), (5, 576, 96, True, nn.Hardswish, 1),
    ]  # fmt: skip
    for kernel, wide, after, excites, act, stride in blocks:
        inner = max(8, (wide // 4 + 4) // 8 * 8)
        excite = SqueezeExcite(wide, inner, nn.ReLU, nn.Hardsigmoid) if excites else None
        layers.append(inverted(channels, wide, after, kernel, stride, act, excite))
        channels = after
    head = [nn.Linear(576, 1024), nn.Hardswish(), nn.Linear(1024, 1000)]
    return Classifier([*layers, conv(channels, 576, 1, act=nn.Hardswish)], *head)


def efficientnet_b0() -> nn.Module:
    layers: list[nn.Module] = [conv(3, 32, 3, 2, act=nn.SiLU)]
    channels = 32
    stages = [
        (1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3), (6, 5, 1, 112, 3), (6, 5, 2, 192, 4),
        (6, 3, 1, 320, 1),
    ]  # fmt: skip
    for expansion, kernel, stride, after, repeats in stages:
        for k in range(repeats):
            wide = channels * expansion
            excite = SqueezeExcite(wide, channels // 4, nn.SiLU, nn.Sigmoid)
            layers.append(inverted(channels, wide, after, kernel, 1 if k else stride, nn.SiLU, excite))
            channels = after
    return Classifier([*layers, conv(channels, 1280, 1, act=nn.SiLU)], nn.Linear(1280, 1000))


class Shortcut(nn.Module):
    """relu(body(x) + shortcut(x)): the block of ResNet."""

    def __init__(self, body: nn.Module, shortcut: nn.Module | None) -> None:
        super().__init__()
        self.body, self.shortcut = body, shortcut

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.body(x) + (self.shortcut(x) if self.shortcut is not None else x))


def resnet50() -> nn.Module:
    layers: list[nn.Module] = [conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for narrow, repeats, first in [(64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)]:
        for k in range(repeats):
            stride, wide = (1 if k else first), 4 * narrow
            body = nn.Sequential(
                conv(channels, narrow, 1), conv(narrow, narrow, 3, stride), conv(narrow, wide, 1, act=None)
            )
            layers.append(Shortcut(body, None if k else conv(channels, wide, 1, stride, act=None)))
            channels = wide
    return Classifier(layers, nn.Linear(channels, 1000))


def resnet8() -> nn.Module:
    layers: list[nn.Module] = [conv(3, 16)]
    channels = 16
    for after, stride in [(16, 1), (32, 2), (64, 2)]:
        body = nn.Sequential(conv(channels, after, 3, stride), conv(after, after, act=None))
        layers.append(Shortcut(body, nn.Conv2d(channels, after, 1, stride) if channels != after else None))
        channels = after
    return Classifier(layers, nn.Linear(64, 10), softmax=True)


class Fire(nn.Module):
    def __init__(self, before: int, squeezed: int, each: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(before, squeezed, 1)
        self.one, self.three = nn.Conv2d(squeezed, each, 1), nn.Conv2d(squeezed, each, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.squeeze(x))
        return torch.cat([F.relu(self.one(x)), F.relu(self.three(x))], 1)


def squeezenet() -> nn.Module:
    def pool() -> nn.Module:
        return nn.MaxPool2d(3, 2, ceil_mode=True)

    layers = [
        nn.Conv2d(3, 64, 3, 2), nn.ReLU(), pool(), Fire(64, 16, 64), Fire(128, 16, 64), pool(), Fire(128, 32, 128),
        Fire(256, 32, 128), pool(), Fire(256, 48, 192), Fire(384, 48, 192), Fire(384, 64, 256), Fire(512, 64, 256),
        nn.Conv2d(512, 1000, 1), nn.ReLU(),
    ]  # fmt: skip
    return Classifier(layers)


def ds_cnn() -> nn.Module:
    """Keyword spotting on 49 x 10 coefficients; the uneven padding is TensorFlow's for a stride of 2."""
    stem = [nn.ZeroPad2d((1, 1, 4, 5)), nn.Conv2d(1, 64, (10, 4), 2, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    blocks = [nn.Sequential(conv(64, 64, groups=64), conv(64, 64, 1)) for _ in range(4)]
    return Classifier([*stem, *blocks], nn.Linear(64, 12), softmax=True)


class UNet(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        channels = [width << k for k in range(5)]
        self.down = nn.ModuleList(self.double(a, b) for a, b in zip([3, *channels], channels))
        pairs = list(pairwise(channels))[::-1]
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in pairs)
        self.join = nn.ModuleList(self.double(2 * a, a) for a, _ in pairs)
        self.head = nn.Conv2d(width, 2, 1)

    @staticmethod
    def double(before: int, after: int) -> nn.Module:
        return nn.Sequential(conv(before, after), conv(after, after))

    def forward(self, x: Tensor) -> Tensor:
        kept: list[Tensor] = []
        for k, level in enumerate(self.down):
            x = level(F.max_pool2d(x, 2) if k else x)
            kept.append(x)
        kept.pop()
        for up, join in zip(self.up, self.join):
            x = join(torch.cat([kept.pop(), up(x)], 1))
        return self.head(x)


def c3d() -> nn.Module:
    """Convolutions over space and time; the last two split them, as S3D does."""

    def over_time(before: int, after: int, *kernel: int) -> nn.Sequential:
        kernel = kernel or (3, 3, 3)
        padding = tuple(k // 2 for k in kernel)
        layer = nn.Conv3d(before, after, kernel, padding=padding, bias=False)
        return nn.Sequential(layer, nn.BatchNorm3d(after), nn.ReLU())

    layers = [
        over_time(3, 16), nn.MaxPool3d((1, 2, 2)), over_time(16, 32), nn.MaxPool3d(2), over_time(32, 64),
        over_time(64, 64), nn.MaxPool3d(2), over_time(64, 128), over_time(128, 128), nn.MaxPool3d(2),
        over_time(128, 256, 1, 3, 3), over_time(256, 256, 3, 1, 1),
    ]  # fmt: skip
    return Classifier(layers, nn.Linear(256, 101))
