"""Ten networks of PyTorch with random weights: those whose training is held beside PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from edgec.check.training import batch_of

if TYPE_CHECKING:
    from edgec.artifact.trainer import Trainer


@dataclass(frozen=True)
class Case:
    """A module in evaluation (batch normalization uses its statistics), the shape of a sample, the loss, and the
    learning rate: one at which 200 steps on random data do not lead rounding errors apart.

    ``high`` is the number of words where inputs are their numbers.
    """

    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    loss: str = "cross_entropy"
    high: int = 0
    rate: float = 0.01

    def module(self) -> nn.Module:
        """The module, the same on every call."""
        torch.manual_seed(0)
        made = self.make().eval()
        for m in made.modules():  # statistics of a network that was trained, rather than 0 and 1
            if isinstance(m, nn.BatchNorm2d):
                m.running_mean.normal_(0, 0.1)
                m.running_var.uniform_(0.5, 1.5)
        return made

    def batch(self, trainer: Trainer, seed: int) -> list[np.ndarray]:
        """Random inputs and targets of a step."""
        inputs, targets = batch_of(trainer, seed)
        return [np.random.default_rng(seed).integers(0, self.high, inputs.shape) if self.high else inputs, targets]

    def example(self, batch: int, seed: int = 0) -> Tensor:
        """Random inputs of ``batch`` samples."""
        drawn = torch.Generator().manual_seed(seed)
        shape = (batch, *self.shape)
        return torch.randint(self.high, shape, generator=drawn) if self.high else torch.randn(shape, generator=drawn)


def _conv(into: int, out: int, kernel: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    conv = nn.Conv2d(into, out, kernel, stride, kernel // 2, groups=groups, bias=False)
    return [conv, nn.BatchNorm2d(out), nn.ReLU()]


def digits() -> nn.Module:
    """The convolutions of LeNet on 28 x 28 pixels."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 5, padding=2), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(784, 10),
    )  # fmt: skip


def ds_cnn() -> nn.Module:
    """The keyword spotter of MLPerf Tiny: depthwise separable convolutions on 49 x 10 coefficients."""
    first = nn.Conv2d(1, 64, (10, 4), 2, (5, 1), bias=False)
    layers = [first, nn.BatchNorm2d(64), nn.ReLU()]
    for _ in range(4):
        layers += [*_conv(64, 64, 3, groups=64), *_conv(64, 64, 1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 12))


class _Residual(nn.Module):
    def __init__(self, into: int, out: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(*_conv(into, out, 3, stride), *_conv(out, out, 3)[:2])
        self.across = nn.Conv2d(into, out, 1, stride) if into != out else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.relu(self.body(x) + self.across(x))


def resnet8() -> nn.Module:
    """The image classifier of MLPerf Tiny, on 32 x 32 pixels."""
    blocks = [_Residual(16, 16, 1), _Residual(16, 32, 2), _Residual(32, 64, 2)]
    return nn.Sequential(*_conv(3, 16, 3), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def mobilenet_v2() -> nn.Module:
    from torchvision.models import mobilenet_v2 as made

    return made(num_classes=1000)


def resnet18() -> nn.Module:
    from torchvision.models import resnet18 as made

    return made()


class _First(nn.Module):
    """The logits of a model of transformers, a row a sample."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, words: Tensor) -> Tensor:
        return self.model(words).logits.flatten(0, -2)


def tinybert() -> nn.Module:
    """Four layers of 312, with the vocabulary of BERT and a classifier."""
    from transformers import BertConfig, BertForSequenceClassification

    size = {"hidden_size": 312, "num_hidden_layers": 4, "num_attention_heads": 12, "intermediate_size": 1200}
    return _First(BertForSequenceClassification(BertConfig(**size, num_labels=3, pad_token_id=None)))


def gpt2() -> nn.Module:
    """GPT-2 small: twelve layers of 768."""
    from transformers import GPT2Config, GPT2LMHeadModel

    return _First(GPT2LMHeadModel(GPT2Config(use_cache=False)))


def vit_tiny() -> nn.Module:
    from timm import create_model

    return create_model("vit_tiny_patch16_224")


class Lstm(nn.Module):
    """Words in a table, two layers of LSTM, a class of what was said last."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.lstm, self.classes = (
            nn.Embedding(1000, 64),
            nn.LSTM(64, 96, 2, batch_first=True),
            nn.Linear(96, 8),
        )

    def forward(self, words: Tensor) -> Tensor:
        return self.classes(self.lstm(self.table(words))[0][:, -1])


class UNet(nn.Module):
    """Three levels down by pools and up by transposed convolutions, on 64 x 64 pixels."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        sizes = [width, 2 * width, 4 * width]
        self.down = nn.ModuleList(nn.Sequential(*_conv(a, b, 3), *_conv(b, b, 3)) for a, b in zip([3, *sizes], sizes))
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in pairwise(sizes))
        self.joined = nn.ModuleList(nn.Sequential(*_conv(2 * a, a, 3)) for a in sizes[:-1])
        self.last = nn.Conv2d(width, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for level in self.down[:-1]:
            kept.append(level(x))
            x = nn.functional.max_pool2d(kept[-1], 2)
        x = self.down[-1](x)
        for up, joined, beside in list(zip(self.up, self.joined, kept))[::-1]:
            x = joined(torch.cat([up(x), beside], 1))
        return self.last(x)


#: The networks by name.
CASES = {
    "digits": Case(digits, (1, 28, 28)),
    "ds_cnn": Case(ds_cnn, (1, 49, 10)),
    "resnet8": Case(resnet8, (3, 32, 32)),
    "mobilenet_v2": Case(mobilenet_v2, (3, 224, 224)),
    "resnet18": Case(resnet18, (3, 224, 224), rate=0.00003),
    "tinybert": Case(tinybert, (64,), high=30522),
    "vit_tiny": Case(vit_tiny, (3, 224, 224), rate=0.001),
    "lstm": Case(Lstm, (20,), high=1000),
    "unet": Case(UNet, (3, 64, 64), "mse"),
    "gpt2": Case(gpt2, (32,), high=50257),
}
