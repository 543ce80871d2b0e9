"""Products of what other kernels have computed, which lies in the arena: in half precision where that is asked for."""

from __future__ import annotations

from small_graphs import conv, graph, pad, relu, value, weights

from edgec import ops
from edgec.ir.graph import Graph


def handed_on() -> dict[str, Graph]:
    """Graphs of two products, by name."""
    found = {}
    for m, k, between, n in ((5, 7, 20, 12), (33, 16, 24, 40), (3, 9, 35, 8), (70, 32, 64, 20)):
        first = relu(ops.node("matmul", value("a", m, k), weights(k, between)))
        found[f"matmul {m}x{k}x{between}x{n}"] = graph(ops.node("matmul", first, weights(between, n)))
    for channels, between, out, taps in ((3, 8, 12, 3), (4, 20, 16, 1), (5, 36, 8, 3)):
        x = value("x", 1, channels, 9, 11)
        first = relu(conv(x, weights(between, channels, 1, 1)))
        border = taps // 2
        second = conv(pad(first, border, border), weights(out, between, taps, taps))
        found[f"conv {taps}x{taps} {between}->{out}"] = graph(second)
    return found
