"""A one-stage detector laid out as YOLOv8n: a backbone, a pyramid, and heads whose boxes are decoded in the network."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks.networks.topologies import Residual, conv

CLASSES, BINS, STRIDES = 80, 16, (8, 16, 32)


def silu(before: int, after: int, kernel: int = 3, stride: int = 1) -> nn.Sequential:
    return conv(before, after, kernel, stride, act=nn.SiLU)


class Split(nn.Module):
    """Half of the channels go through blocks one after another, and every step is kept (C2f)."""

    def __init__(self, before: int, after: int, blocks: int, is_shortcut: bool) -> None:
        super().__init__()
        half = after // 2
        self.enter, self.leave = silu(before, after, 1), silu((2 + blocks) * half, after, 1)
        self.blocks = nn.ModuleList(
            Residual(nn.Sequential(silu(half, half), silu(half, half)), is_shortcut) for _ in range(blocks)
        )

    def forward(self, x: Tensor) -> Tensor:
        steps = list(self.enter(x).chunk(2, 1))
        for block in self.blocks:
            steps.append(block(steps[-1]))
        return self.leave(torch.cat(steps, 1))


class Pyramid(nn.Module):
    """Three poolings one after another, joined (SPPF)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.enter, self.leave = silu(channels, channels // 2, 1), silu(2 * channels, channels, 1)
        self.pool = nn.MaxPool2d(5, 1, 2)

    def forward(self, x: Tensor) -> Tensor:
        steps = [self.enter(x)]
        for _ in range(3):
            steps.append(self.pool(steps[-1]))
        return self.leave(torch.cat(steps, 1))


def head(channels: int, inner: int, after: int) -> nn.Sequential:
    return nn.Sequential(silu(channels, inner), silu(inner, inner), nn.Conv2d(inner, after, 1))


class Detector(nn.Module):
    """image [1, 3, size, size] -> boxes and class scores [1, 4 + CLASSES, places]."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.low = nn.Sequential(
            silu(3, 16, 3, 2), silu(16, 32, 3, 2), Split(32, 32, 1, True), silu(32, 64, 3, 2), Split(64, 64, 2, True)
        )
        self.middle = nn.Sequential(silu(64, 128, 3, 2), Split(128, 128, 2, True))
        self.high = nn.Sequential(silu(128, 256, 3, 2), Split(256, 256, 1, True), Pyramid(256))
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.join_middle, self.join_low = Split(384, 128, 1, False), Split(192, 64, 1, False)
        self.down_low, self.again_middle = silu(64, 64, 3, 2), Split(192, 128, 1, False)
        self.down_middle, self.again_high = silu(128, 128, 3, 2), Split(384, 256, 1, False)
        self.boxes = nn.ModuleList(head(c, 64, 4 * BINS) for c in (64, 128, 256))
        self.scores = nn.ModuleList(head(c, CLASSES, CLASSES) for c in (64, 128, 256))
        self.register_buffer("bins", torch.arange(float(BINS)).view(1, BINS, 1, 1))
        grids = [self.grid(size // s) for s in STRIDES]
        self.register_buffer("centers", torch.cat(grids, 1)[None])
        scales = [torch.full((1, g.shape[1]), float(s)) for s, g in zip(STRIDES, grids)]
        self.register_buffer("scales", torch.cat(scales, 1)[None])

    @staticmethod
    def grid(extent: int) -> Tensor:
        """The middle of every cell, x and then y: [2, extent * extent]."""
        places = torch.arange(extent) + 0.5
        y, x = torch.meshgrid(places, places, indexing="ij")
        return torch.stack([x.flatten(), y.flatten()])

    def forward(self, image: Tensor) -> Tensor:
        low = self.low(image)
        middle = self.middle(low)
        high = self.high(middle)
        middle = self.join_middle(torch.cat([self.up(high), middle], 1))
        low = self.join_low(torch.cat([self.up(middle), low], 1))
        middle = self.again_middle(torch.cat([self.down_low(low), middle], 1))
        high = self.again_high(torch.cat([self.down_middle(middle), high], 1))
        levels = (low, middle, high)
        boxes = torch.cat([f(x).flatten(2) for f, x in zip(self.boxes, levels)], 2)
        scores = torch.cat([f(x).flatten(2) for f, x in zip(self.scores, levels)], 2)
        # A side is the mean of a distribution over bins.
        sides = (boxes.unflatten(1, (4, BINS)).transpose(1, 2).softmax(1) * self.bins).sum(1)
        before, after = sides.chunk(2, 1)
        first, last = self.centers - before, self.centers + after
        box = torch.cat([(first + last) / 2, last - first], 1) * self.scales
        return torch.cat([box, scores.sigmoid()], 1)
