"""Decisions of the forward pass as bits: the same gradients, and no float kept that only a decision reads."""

from __future__ import annotations

import numpy as np
import pytest

from edgec import fuse
from edgec.differentiate import gradients
from edgec.execute.executor import run_plan
from edgec.execute.invariants import verify_plan
from edgec.frontend.values import Value, emit, maximum, minimum
from edgec.fuse.masks import with_packed_masks
from edgec.fuse.order import _Uses, in_less_memory
from edgec.fuse.recompute import ALL, Recomputing, recomputed
from edgec.ir import evaluate
from edgec.ir.graph import Graph, Node, placeholder, topological
from edgec.ir.types import Type
from tests.chance import RANDOM, SEED


def _network(width: int, layers: int = 4, *, biases_alone: bool = True, cap: float | None = None) -> Graph:
    """Loss and gradients by the biases of matmuls with constant weights and a ReLU behind each."""
    x = placeholder("x", Type("f32", (16, width)))
    biases = [placeholder(f"b{k}", Type("f32", (width,))) for k in range(layers)]
    weights = [placeholder(f"w{k}", Type("f32", (width, width))) for k in range(layers)]
    y = Value(x)
    for w, b in zip(weights, biases):
        y = maximum(emit("matmul", y, Value(w)) + Value(b), 0.0)
        y = y if cap is None else minimum(y, cap)
    loss = (y * y).sum([0, 1], keep=False)
    by = biases if biases_alone else [*biases, *weights]
    found = gradients(loss.node, by)
    return Graph((x, *biases, *weights), (("loss", loss.node), *((f"d{k}", g) for k, g in enumerate(found) if g)))


def _packed(graph: Graph) -> tuple[Graph, tuple[Node, ...]]:
    return with_packed_masks(graph, [dict(graph.outputs)["loss"]])


@pytest.mark.parametrize("cap", [None, 1.5])
@pytest.mark.parametrize(("width", "dtype"), [(64, "i32"), (32, "i32"), (48, "u16"), (24, "u8")])
def test_gradients_are_the_same_bits(width: int, dtype: str, cap: float | None) -> None:
    graph = _network(width, cap=cap)
    packed, words = _packed(graph)
    assert len(words) == 3 and all(w.type.dtype == dtype for w in words)  # the last y is read as a float
    assert sum(w.type.bytes for w in words) * 32 == 3 * 16 * width * 4
    given = {str(n.attributes["name"]): RANDOM.standard_normal(n.type.shape).astype(np.float32) for n in graph.inputs}
    want = evaluate.run(graph, given)
    assert all(np.any(array != 0) for array in want.values())
    for trial in (packed, recomputed(packed, [dict(packed.outputs)["loss"], *words], Recomputing(ALL, 16))):
        plan = in_less_memory(fuse.plan(trial))
        verify_plan(plan)
        made = run_plan(plan, given)
        for name, array in evaluate.run(trial, given).items():
            np.testing.assert_array_equal(array, want[name])
            np.testing.assert_allclose(made[name], array, rtol=1e-4, atol=1e-3 * float(np.abs(array).max()))


def test_no_float_is_kept_that_only_a_decision_reads() -> None:
    graph = _network(64)
    packed, words = _packed(graph)

    def kept(g: Graph, *more: Node) -> set[Node]:
        forward = {n for n in topological([dict(g.outputs)["loss"], *more]) if n.op not in ("input", "const")}
        read = {a for n in g.nodes() if n not in forward for a in n.args if a in forward}
        return {n for n in read if n.type.dtype == "f32" and n.type.bytes >= 1024}

    assert len(kept(graph)) == 4 and len(kept(packed, *words)) == 1
    peaks = []
    for trial in (_network(64, 12), _packed(_network(64, 12))[0]):
        plan = in_less_memory(fuse.plan(trial))
        peaks.append(_Uses(plan).peak(range(len(plan.blocks))))
    assert peaks[1] < 0.45 * peaks[0]


def test_nothing_is_packed_where_the_floats_are_kept_anyway() -> None:
    graph = _network(64, biases_alone=False)
    packed, words = _packed(graph)
    assert len(words) == 0 and packed is graph


def test_a_decision_of_no_whole_words_stays_as_it_is() -> None:
    graph = _network(20)
    assert _packed(graph) == (graph, ())


def test_the_bits_of_every_place_of_a_word() -> None:
    x = placeholder("x", Type("f32", (40, 32)))
    y = Value(x) * 2.0
    loss = maximum(y, 0.0).sum([0, 1], keep=False)
    (slope,) = gradients(loss.node, [x])
    packed, words = with_packed_masks(Graph((x,), (("loss", loss.node), ("dx", slope))), [loss.node])
    assert len(words) == 1
    given = np.random.default_rng(SEED).standard_normal((40, 32)).astype(np.float32)
    given[:32] = np.where(np.eye(32, dtype=bool), np.float32(1), np.float32(-1))
    np.testing.assert_array_equal(run_plan(fuse.plan(packed), {"x": given})["dx"], np.where(given > 0, 2, 0))
