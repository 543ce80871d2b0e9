"""Weights that a node reads in another form than the file has them, as exporters write them."""

from __future__ import annotations

import numpy as np
import pytest
from chance import RANDOM
from small_models import model, node, tensor_input, weights
from trained_models import floats

from edgec.differentiate.unrolled import unrolled
from edgec.frontend.onnx.importer import import_model
from edgec.frontend.onnx.model import read
from edgec.frontend.onnx.trainable import weights_of
from edgec.ir.evaluate import run


def test_moved_and_joined_weights() -> None:
    nodes = [
        node("Transpose", ["w"], ["t"], perm=[1, 0]),
        node("MatMul", ["x", "t"], ["p"], "product"),
        node("Concat", ["b1", "b2"], ["b"], axis=0),
        node("Add", ["p", "b"], ["q"], "shift"),
        node("Concat", ["q", "token"], ["y"], "joined", axis=0),
    ]
    held = {"w": floats(6, 4), "b1": floats(2), "b2": floats(4), "token": floats(1, 6)}
    proto = model(nodes, [tensor_input("x", [3, 4])], ["y"], [weights(n, v) for n, v in held.items()])
    found = [(w.name, w.node, w.kind, w.layer) for w in weights_of(read(proto))]
    assert found == [
        ("w", "product", "weight", 0), ("b1", "shift", "bias", 0), ("b2", "shift", "bias", 0),
        ("token", "joined", "weight", 1),
    ]  # fmt: skip


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_loops_are_their_steps(kind: str, direction: str) -> None:
    """A sequence long enough for a loop, with lengths of its own."""
    gates, both = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind], 1 + (direction == "bidirectional")
    held = {"w": floats(both, gates * 5, 3), "r": floats(both, gates * 5, 5), "b": floats(both, gates * 10)}
    lengths = weights("lengths", np.array([20, 7], np.int32))
    made = [node(kind, ["x", "w", "r", "b", "lengths"], ["y", "last"], hidden_size=5, direction=direction)]
    graph = import_model(model(made, [tensor_input("x", [20, 2, 3])], ["y", "last"],
                               [*(weights(n, v) for n, v in held.items()), lengths]))  # fmt: skip
    steps = unrolled(graph)
    assert any(n.op == "recurrence" for n in graph.operations())
    assert not any(n.op == "recurrence" for n in steps.operations())
    x = RANDOM.standard_normal((20, 2, 3)).astype(np.float32)
    for name, value in run(graph, {"x": x}).items():
        np.testing.assert_allclose(run(steps, {"x": x})[name], value, rtol=0, atol=1e-5)
