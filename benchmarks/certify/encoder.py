"""A small encoder like BERT's, from embedded words to two classes, in torch and as an ONNX file.

`encoder:LAYERS,WIDTH,HEADS,HIDDEN,WORDS` names one: attention with softmax, normalization of layers with a quotient by
the root of the variance, ReLU, and weights that are random. Inputs are the embedded words.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

KIND = "encoder:"


def module(sizes: tuple[int, ...]) -> Any:
    """The encoder in torch."""
    import torch
    from torch import nn

    layers, width, heads, hidden, _ = sizes

    class Normalized(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.scale, self.shift = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

        def forward(self, x: Any) -> Any:
            centered = x - x.mean(-1, keepdim=True)
            variance = (centered * centered).mean(-1, keepdim=True)
            return centered / torch.sqrt(variance + 1e-5) * self.scale + self.shift

    class Layer(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
            self.first, self.second = nn.Linear(width, hidden), nn.Linear(hidden, width)
            self.before, self.after = Normalized(), Normalized()

        def heads(self, x: Any) -> Any:
            return x.reshape(x.shape[0], x.shape[1], heads, width // heads).permute(0, 2, 1, 3)

        def forward(self, x: Any) -> Any:
            query, key, value = (self.heads(f(x)) for f in (self.query, self.key, self.value))
            scores = torch.matmul(query, key.transpose(-1, -2)) / (width // heads) ** 0.5
            mixed = torch.matmul(torch.softmax(scores, -1), value).permute(0, 2, 1, 3).reshape(x.shape)
            x = self.before(x + self.out(mixed))
            return self.after(x + self.second(torch.relu(self.first(x))))

    class Encoder(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layers, self.classes = nn.ModuleList([Layer() for _ in range(layers)]), nn.Linear(width, 2)

        def forward(self, x: Any) -> Any:
            for layer in self.layers:
                x = layer(x)
            return self.classes(x[:, 0])

    torch.manual_seed(0)
    return Encoder().eval()


def made(text: str, folder: Path) -> tuple[Any, Path, np.ndarray]:
    """The encoder of a name, its file, and an input."""
    import torch

    sizes = tuple(map(int, text.removeprefix(KIND).split(",")))
    encoder, path = module(sizes), folder / "encoder.onnx"
    x = np.random.default_rng(0).standard_normal((1, sizes[-1], sizes[1])).astype(np.float32)
    torch.onnx.export(encoder, (torch.tensor(x),), str(path), opset_version=13, dynamo=False)
    return encoder, path, x
