"""Random weights that keep activations finite and near one."""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor, nn

_NORMS = (nn.modules.batchnorm._NormBase, nn.GroupNorm, nn.LayerNorm)


def draw(network: nn.Module) -> None:
    """He's weights for matmuls and convolutions, norms near one, and small biases; constants stay."""
    for part in network.modules():
        weight, bias = getattr(part, "weight", None), getattr(part, "bias", None)
        if isinstance(part, _NORMS) or "norm" in type(part).__name__.lower():
            for parameter, low, high in ((weight, 0.8, 1.2), (bias, -0.1, 0.1)):
                if isinstance(parameter, nn.Parameter):
                    nn.init.uniform_(parameter, low, high)
        elif isinstance(part, nn.Embedding):
            nn.init.normal_(part.weight, std=0.05)
        elif isinstance(weight, nn.Parameter) and weight.dim() > 1:
            terms = weight[0].numel()
            if getattr(part, "transposed", False) or type(part).__name__ == "Conv1D":
                terms = weight.shape[0]
            nn.init.normal_(weight, std=(1.4 if weight.dim() > 2 else 1.0) / sqrt(terms))
            if isinstance(bias, nn.Parameter):
                nn.init.uniform_(bias, -0.1, 0.1)


def calibrate(network: nn.Module, inputs: tuple[Tensor, ...]) -> None:
    """Statistics of batch norms, from random inputs like those given."""
    norms = [m for m in network.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm) and m.track_running_stats]
    if not norms:
        return
    for norm in norms:
        norm.momentum = None  # the plain mean
        norm.reset_running_stats()
    network.eval()
    for norm in norms:
        norm.train()
    with torch.no_grad():
        for _ in range(2):
            network(*(torch.randn(2, *a.shape[1:]) if a.is_floating_point() else a for a in inputs))
    network.eval()
