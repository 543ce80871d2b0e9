"""Concatenations with parts in common lie in one another: no part of a dense block is copied."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from chance import RANDOM
from compiled import program_of
from small_graphs import graph, relu, value, weights

from edgec import ops
from edgec.check.compare import compare_all
from edgec.execute.executor import run_graph, run_plan
from edgec.fuse import plan, shared_parts
from edgec.fuse.shared_parts import with_shared_parts
from edgec.ir.graph import Graph, Node

planner = importlib.import_module("edgec.fuse.plan")


def dense_block(layers: int, *, first: bool = True, axis: int = 1) -> Graph:
    """A dense block: each layer reads all results before it, behind the ``first`` or before the last one."""
    parts: list[Node] = [ops.node("tanh", value("x", 4, 8) if axis == 1 else value("x", 8, 4))]
    for _ in range(layers):
        order = parts if first else parts[::-1]
        joined = ops.node("concat", *order, axis=axis) if len(order) > 1 else order[0]
        read = ops.node("tanh", joined)
        width = joined.type.shape[axis]
        product = (read, weights(width, 5)) if axis == 1 else (weights(5, width), read)
        parts.append(ops.node("matmul", *product))
    return graph(ops.node("concat", *(parts if first else parts[::-1]), axis=axis))


def concatenations(g: Graph) -> list[Node]:
    return [n for n in g.nodes() if n.op == "concat"]


@pytest.mark.parametrize("axis", (0, 1))
@pytest.mark.parametrize("first", (True, False))
def test_each_contains_the_one_before(axis: int, first: bool) -> None:
    before = dense_block(6, first=first, axis=axis)
    nested = with_shared_parts(before)
    assert max(len(n.args) for n in concatenations(before)) == 7
    assert {len(n.args) for n in concatenations(nested)} == {2}
    x = {"x": RANDOM.standard_normal(before.inputs[0].type.shape).astype(np.float32)}
    assert all(d.within(0) for d in compare_all(run_graph(nested, x), run_graph(before, x)))
    assert all(d.within(2e-5) for d in compare_all(run_plan(plan(before), x), run_graph(before, x)))


def test_only_along_one_axis_and_parts_in_sequence() -> None:
    a, b, c = (ops.node("tanh", value(name, 4, 4)) for name in "abc")
    for wide in (
        ops.node("concat", a, c, b, axis=0),  # not in sequence
        ops.node("concat", a, b, c, axis=1),  # of another axis
        ops.node("concat", a, b, axis=0),  # the same, which is one node already
    ):
        g = graph(ops.node("concat", a, b, axis=0), wide)
        assert with_shared_parts(g) is g or concatenations(with_shared_parts(g)) == concatenations(g)


def test_a_run_in_the_middle_is_taken() -> None:
    a, b, c, d = (ops.node("tanh", value(name, 2, 4)) for name in "abcd")
    g = graph(ops.node("concat", b, c, axis=0), ops.node("concat", a, b, c, d, axis=0))
    nested = with_shared_parts(g)
    (_, inner), (_, outer) = nested.outputs
    assert outer.args == (a, inner, d)


def conv_block(layers: int) -> Graph:
    """A dense block of a picture: scaled by each layer anew, and convolved."""
    parts: list[Node] = [relu(value("x", 1, 8, 9, 7))]
    for _ in range(layers):
        joined = ops.node("concat", *parts, axis=1) if len(parts) > 1 else parts[0]
        channels = joined.type.shape[1]
        read = relu(ops.node("mul", joined, weights(1, channels, 1, 1)))
        padded = ops.node("pad", read, before=(0, 0, 1, 1), after=(0, 0, 1, 1), value=0.0)
        parts.append(ops.node("conv", padded, weights(8, channels, 3, 3), strides=(1, 1), dilations=(1, 1), groups=1))
    return graph(ops.node("concat", *parts, axis=1))


def kernels(layers: int) -> int:
    return len(program_of(conv_block(layers)).kernels)


def test_a_layer_more_is_as_many_kernels_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies of all results before a layer would make the number of kernels a square of that of layers."""
    assert kernels(9) - kernels(8) == kernels(5) - kernels(4)
    monkeypatch.setattr(planner, "with_shared_parts", lambda g: g)
    assert kernels(9) - kernels(8) > kernels(5) - kernels(4)


def test_a_run_of_parts_that_is_wrong_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted mistake: the concatenation before is taken for one that has a part less."""
    before = dense_block(4)
    x = {"x": RANDOM.standard_normal(before.inputs[0].type.shape).astype(np.float32)}
    node = ops.node

    def short(op: str, *args: Node, **attributes: object) -> Node:
        turned = args[::-1] if op == "concat" else args
        return node(op, *turned, **attributes)

    monkeypatch.setattr(shared_parts.ops, "node", short)
    nested = with_shared_parts(before)
    monkeypatch.undo()
    assert not all(d.within(2e-5) for d in compare_all(run_graph(nested, x), run_graph(before, x)))
