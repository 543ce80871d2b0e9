"""Planning asks each block for what it reads as often as there are blocks, not for each pair of them."""

from __future__ import annotations

import pytest
from small_graphs import graph, transpose, value, weights

from edgec import ops
from edgec.fuse import block, plan
from edgec.ir.expr import Expr, loads
from edgec.ir.graph import Graph


def moved(count: int) -> Graph:
    """A recurrence that is unrolled: each step's result is read by the next, and moved into its part of the whole."""
    x, steps = value("x", 5, 16), []
    for _ in range(count):
        x = ops.node("tanh", ops.node("matmul", x, weights(16, 16)))
        steps.append(ops.node("reshape", transpose(x, 1, 0), shape=(1, 16, 5)))
    return graph(ops.node("concat", *steps, axis=0))


def asked(count: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Number of times that planning lists the reads of a formula."""
    calls: list[Expr] = []
    monkeypatch.setattr(block.X, "loads", lambda e: calls.append(e) or loads(e))
    plan(moved(count))
    return len(calls)


def test_blocks_are_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = asked(10, monkeypatch), asked(40, monkeypatch)
    assert many <= 5 * few, (few, many)
