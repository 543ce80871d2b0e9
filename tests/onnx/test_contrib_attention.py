"""Attention of com.microsoft: normalized operands, and lengths that are chosen at run time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from onnx import TensorProto, helper
from test_contrib import (
    GROUPS,
    KEY,
    PROMPT,
    QUERY,
    TURNS,
    VALUE,
    Case,
    assert_agree,
    computed,
    floats,
    model_of,
    reference,
    step,
)

from edgec.frontend.onnx import import_model
from edgec.ir import evaluate


def test_normalized_queries_and_keys() -> None:
    """They are normalized by head, before they are rotated."""
    weights = floats(16), floats(16)

    def normalized(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
        heads = x.reshape(2, 5, -1, 16)
        return (heads / np.sqrt((heads**2).mean(-1, keepdims=True) + 1e-5) * weight).reshape(x.shape)

    settings = {**GROUPS, "do_rotary": 1, "qk_norm_epsilon": 1e-5}
    operands = (*PROMPT[3:], *TURNS)
    plain = (normalized(QUERY, weights[0]), normalized(KEY, weights[1]), VALUE, *operands)
    want = computed(Case("GroupQueryAttention", plain, settings, (5, 6)))
    inside = (QUERY, KEY, VALUE, *operands, *(None,) * 5, *weights)
    got = computed(Case("GroupQueryAttention", inside, settings, (5, 6)))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("length, kept", [(1, 7), (5, 0)], ids=("step", "prompt"))
def test_lengths_chosen_at_run_time(length: int, kept: int) -> None:
    """The exporters' form: the longest sequence follows from the shapes of the new tokens and the cache."""
    total = length + kept
    case = Case("GroupQueryAttention", step(length, kept, (total, total), *TURNS), {**GROUPS, "do_rotary": 1})
    if not kept:
        case = replace(case, operands=(*case.operands[:3], None, None, *case.operands[5:]))
    case = replace(case, outputs=(0, 1, 2))
    model, feeds, names = model_of(case)
    wanted = reference(model, feeds, names)
    inputs = {i.name: i for i in model.graph.input}
    for name in ("x0", "x1", "x2"):
        inputs[name].type.tensor_type.shape.dim[1].dim_param = "new"
    for name in ("x3", "x4") if kept else ():
        inputs[name].type.tensor_type.shape.dim[2].dim_param = "kept"
    sums = [("Shape", ["x0"], "s0", {"start": 1, "end": 2})]
    sums += [("Shape", ["x3"], "s3", {"start": 2, "end": 3}), ("Add", ["s0", "s3"], "s", {})] if kept else []
    sums.append(("Cast", ["s" if kept else "s0"], "x6", {"to": TensorProto.INT32}))
    made = [helper.make_node(op, operands, [result], **a) for op, operands, result, a in sums]
    nodes = [*made, *model.graph.node]
    model.graph.ClearField("node")
    model.graph.node.extend(nodes)
    model.graph.input.remove(inputs["x6"])
    dims = {"new": (1, 8, 1), **({"kept": (1, 16, 1)} if kept else {})}
    graph = import_model(model, dims=dims)
    assert_agree(case, evaluate.run(graph, {n: a for n, a in feeds.items() if n != "x6"}), wanted)
