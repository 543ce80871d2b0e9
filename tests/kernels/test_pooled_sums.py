"""Pools behind a convolution and a residual: what the pool reads lies in rows far apart, inside a sum of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from compiled import compile_graphs, target
from small_graphs import arrays, conv, graph, pool, relu, value, weights

from edgec import ops
from edgec.ir import evaluate
from edgec.ir.graph import Graph


def pooled(channels: int, pixels: int) -> Graph:
    x, z = (value(name, 1, channels, pixels, pixels) for name in ("x", "z"))
    first, second, other = (weights(channels, channels, 1, 1) for _ in range(3))
    total = ops.node("add", conv(relu(conv(x, first)), second), relu(conv(z, other)))
    return graph(pool(total, "add", (2, 2), 2))


@pytest.mark.parametrize("device", ["host", "generic"])
def test_agrees_with_the_formula(device: str, tmp_path: Path) -> None:
    """A row of 512 channels is half a page, and pixels of two rows are read for each result."""
    where = target(device)
    graphs = {"far": pooled(512, 6), "near": pooled(24, 6)}
    found = compile_graphs(graphs, tmp_path, flags=where.flags, device=where.device)
    for name, network in found.items():
        given = arrays(graphs[name], 3)
        for output, want in evaluate.run(graphs[name], given).items():
            np.testing.assert_allclose(network(given)[output], want, rtol=1e-4, atol=1e-4 * np.abs(want).max())
