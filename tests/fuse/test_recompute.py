"""Values of the forward pass computed again: the same results, and no value kept that follows from another."""

import numpy as np
import pytest

from edgec import fuse
from edgec.differentiate import gradients
from edgec.execute.executor import run_plan
from edgec.execute.invariants import verify_plan
from edgec.frontend.values import Value, emit, maximum
from edgec.fuse.order import _Uses, in_less_memory
from edgec.fuse.recompute import ALL, WIDE, Recomputing, recomputed
from edgec.ir import evaluate
from edgec.ir.graph import Graph, Node, placeholder, topological
from edgec.ir.registry import node
from edgec.ir.types import Type
from tests.chance import SEED


def _network(layers: int) -> Graph:
    """Loss and gradients of matmuls, each with a factor, an offset and a ReLU behind it."""
    x = placeholder("x", Type("f32", (32, 16)))
    named = [
        [placeholder(f"{what}{k}", Type("f32", (16, 16) if what == "w" else (16,))) for what in "wsb"]
        for k in range(layers)
    ]
    y = Value(x)
    for w, s, b in named:
        y = maximum(emit("matmul", y, Value(w)) * Value(s) + Value(b), 0.0)
    loss = y.sum([0, 1], keep=False)
    weights = [n for row in named for n in row]
    found = gradients(loss.node, weights)
    outputs = [(f"d{k}", g) for k, g in enumerate(found) if g is not None]
    return Graph((x, *weights), (("loss", loss.node), *outputs))


def _kept(graph: Graph) -> list[Node]:
    """The large values of the forward pass that the backward pass reads."""
    forward = {n for n in topological([dict(graph.outputs)["loss"]]) if n.op != "input"}
    read = {a for n in graph.nodes() if n not in forward for a in n.args if a in forward}
    return [n for n in read if n.type.bytes >= 1024]


@pytest.mark.parametrize("limits", [Recomputing(), Recomputing(ALL, 16)])
def test_results_are_the_same(limits: Recomputing) -> None:
    graph = _network(4)
    again = recomputed(graph, [dict(graph.outputs)["loss"]], limits)
    assert again is not graph
    random = np.random.default_rng(SEED)
    given = {str(n.attributes["name"]): random.standard_normal(n.type.shape).astype(np.float32) for n in graph.inputs}
    plan = in_less_memory(fuse.plan(again))
    verify_plan(plan)
    want, got, made = evaluate.run(graph, given), evaluate.run(again, given), run_plan(plan, given)
    for name, array in want.items():
        np.testing.assert_array_equal(got[name], array)
        np.testing.assert_allclose(made[name], array, rtol=1e-4, atol=1e-3)


def test_products_alone_are_kept() -> None:
    graph = _network(5)
    again = recomputed(graph, [dict(graph.outputs)["loss"]], Recomputing())
    assert {"matmul"} < {n.op for n in _kept(graph)}
    assert {n.op for n in _kept(again)} == {"matmul"}
    assert len(_kept(recomputed(graph, [dict(graph.outputs)["loss"]], Recomputing(ALL, 16)))) <= 2


def test_less_is_alive_at_once() -> None:
    graph = _network(8)
    peaks = []
    for trial in (graph, recomputed(graph, [dict(graph.outputs)["loss"]], Recomputing())):
        plan = in_less_memory(fuse.plan(trial))
        peaks.append(_Uses(plan).peak(range(len(plan.blocks))))
    assert peaks[1] < 0.75 * peaks[0]


def test_nothing_is_computed_again_where_nothing_follows() -> None:
    graph = _network(3)
    assert recomputed(graph, [dict(graph.outputs)["loss"]], Recomputing(longest=0)) is graph


def test_what_is_compared_for_equality_is_kept() -> None:
    """A kernel of another shape may round it to its neighbor, which is no maximum."""
    x = placeholder("x", Type("f32", (1, 4, 16, 16)))
    s = placeholder("s", Type("f32", (4, 1, 1)))
    y = maximum(Value(x) * Value(s) + 1.0, 0.0)
    pooled = Value(node("pool", y.node, combine="max", kernel=(2, 2), strides=(2, 2), dilations=(1, 1)))
    loss = (pooled * pooled).sum([0, 1, 2, 3], keep=False)
    (found,) = gradients(loss.node, [s])
    assert found is not None
    graph = Graph((x, s), (("loss", loss.node), ("d", found)))
    again = recomputed(graph, [loss.node], Recomputing())
    compared = [a for n in topological([dict(again.outputs)["d"]]) if n.op == "eq" for a in n.args]
    assert any(y.node in topological([a]) for a in compared)


def test_what_is_wider_than_its_source_is_computed_again() -> None:
    """An inverted bottleneck keeps its narrow values alone; a convolution of many terms stays."""
    x = placeholder("x", Type("f32", (1, 8, 16, 16)))
    w = [placeholder(f"w{k}", Type("f32", s)) for k, s in enumerate([(48, 8, 1, 1), (48, 1, 3, 3), (8, 48, 1, 1)])]
    first = placeholder("first", Type("f32", (8, 8, 3, 3)))

    def conv(y: Value, w: Node, groups: int = 1) -> Value:
        around = (0, 0, 1, 1) if w.type.shape[-1] == 3 else (0, 0, 0, 0)
        padded = emit("pad", y, before=around, after=around, value=0.0)
        return emit("conv", padded, Value(w), strides=(1, 1), dilations=(1, 1), groups=groups)

    narrow = maximum(conv(Value(x), first), 0.0)
    wide = maximum(conv(narrow, w[0]), 0.0)
    deep = maximum(conv(wide, w[1], 48), 0.0)
    loss = (conv(deep, w[2]) * conv(deep, w[2])).sum(range(4), keep=False)
    found = gradients(loss.node, [first, *w])
    graph = Graph((x, first, *w), (("loss", loss.node), *((f"d{k}", g) for k, g in enumerate(found) if g is not None)))
    assert max(n.type.shape[1] for n in _kept(graph)) == 48
    kept = _kept(recomputed(graph, [loss.node], Recomputing(WIDE, 16)))
    assert {n.type.shape[1] for n in kept} == {8}
