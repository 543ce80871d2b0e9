"""The order of blocks: gradients of all layers are added to weights before those of other layers are made."""

from dataclasses import replace

import numpy as np
import pytest

from edgec import fuse
from edgec.differentiate import gradients
from edgec.execute.executor import run_plan
from edgec.execute.invariants import verify_plan
from edgec.frontend.values import Value, emit, maximum
from edgec.fuse.order import _Uses, in_less_memory
from edgec.fuse.recompute import Recomputing, recomputed
from edgec.ir import evaluate
from edgec.ir.graph import Graph, placeholder
from edgec.ir.types import Type
from tests.chance import SEED


def _step(layers: int, first: bool) -> Graph:
    """The gradients of a chain of matmuls by its matrices, the gradient of the first or of the last one first."""
    x = placeholder("x", Type("f32", (32, 16)))
    weights = [placeholder(f"w{k}", Type("f32", (16, 16))) for k in range(layers)]
    y = Value(x)
    for w in weights:
        y = emit("tanh", emit("matmul", y, Value(w)))
    found = gradients(y.node, weights)
    outputs = [(f"d{k}", g) for k, g in enumerate(found) if g is not None]
    return Graph((x, *weights), tuple(outputs if first else outputs[::-1]))


@pytest.mark.parametrize("layers", [1, 2, 7])
def test_order_does_not_depend_on_that_of_outputs(layers: int) -> None:
    peaks = []
    for first in (True, False):
        plan = in_less_memory(fuse.plan(_step(layers, first)))
        verify_plan(plan)
        peaks.append(_Uses(plan).peak(range(len(plan.blocks))))
    assert peaks[0] == peaks[1]


def test_gradients_of_maps_are_not_kept_for_those_of_weights() -> None:
    graph = _step(8, first=True)
    usual = fuse.plan(graph)
    early = in_less_memory(usual)
    before, after = (_Uses(p).peak(range(len(p.blocks))) for p in (usual, early))
    map_bytes = 32 * 16 * 4
    assert before > 14 * map_bytes  # eight maps, and the gradients of seven
    assert after <= 11 * map_bytes
    assert sorted(b.output.key for b in early.blocks) == sorted(b.output.key for b in usual.blocks)


def test_results_are_those_of_the_graph() -> None:
    graph = _step(4, first=True)
    random = np.random.default_rng(SEED)
    given = {str(n.attributes["name"]): random.standard_normal(n.type.shape).astype(np.float32) for n in graph.inputs}
    plan = in_less_memory(fuse.plan(graph))
    want, got = evaluate.run(graph, given), run_plan(plan, given)
    for name, array in want.items():
        np.testing.assert_allclose(got[name], array, rtol=1e-5, atol=1e-5)


def test_plan_that_gains_nothing_stays_as_it_is() -> None:
    graph = _step(1, first=True)
    plan = fuse.plan(replace(graph, outputs=graph.outputs[:1]))
    assert in_less_memory(plan) is plan


def test_sums_behind_a_copy_or_a_vector_are_early() -> None:
    """The gradients of a depthwise convolution's weights need a copy, that of a factor a vector between two sums: both
    come as soon as they can, so that of each layer's gradient no more than two are there at once."""
    x = placeholder("x", Type("f32", (4, 16, 12, 12)))
    shapes = {"w": (16, 1, 3, 3), "f": (16, 1, 1)}
    layers = [[placeholder(f"{name}{k}", Type("f32", shape)) for name, shape in shapes.items()] for k in range(8)]
    y = Value(x)
    for w, f in layers:
        padded, ones = y.pad((0, 0, 1, 1), (0, 0, 1, 1)), (1, 1)
        y = maximum(emit("conv", padded, Value(w), strides=ones, dilations=ones, groups=16) * Value(f), 0.0)
    weights = [n for layer in layers for n in layer]
    loss = y.sum(range(4), keep=False).node
    found = [(f"d{k}", g) for k, g in enumerate(gradients(loss, weights)) if g is not None]
    graph = recomputed(Graph((x, *weights), (("loss", loss), *found)), [loss], Recomputing())
    plan = in_less_memory(fuse.plan(graph))
    uses = _Uses(plan)
    one = 4 * 4 * 16 * 14 * 14
    assert uses.peak(range(len(plan.blocks))) <= 10 * one  # 12.8 where they wait


def test_a_number_that_others_wait_for_is_early() -> None:
    """Updates that wait for a finite loss come as their gradients do: it is known before the first of them."""
    graph = _step(6, first=True)
    loss = (Value(graph.outputs[-1][1]) * 2.0).sum(range(2), keep=False)  # stored before the other gradients
    fine = emit("abs", loss) < float("inf")
    states = [placeholder(f"s{k}", Type("f32", (16, 16))) for k in range(6)]
    moved = [emit("select", fine, Value(g) + Value(s), Value(s)).node for s, (_, g) in zip(states, graph.outputs)]
    outputs = (("loss", loss.node), *((f"n{k}", n) for k, n in enumerate(moved)))
    plan = fuse.plan(Graph((*graph.inputs, *states), outputs), materialize=())
    uses = _Uses(plan)
    order = uses.freeing_early(range(len(plan.blocks)))
    place = {plan.blocks[k].output: at for at, k in enumerate(order)}
    assert place[fine.node] == place[loss.node] + 1
