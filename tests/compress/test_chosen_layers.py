"""Values that lie in memory in bf16 where some layers are chosen for it: those that nobody else reads."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from chance import RANDOM
from small_models import model, node, tensor_input, weights

from edgec.device.load import load_device
from edgec.frontend.onnx import import_model
from edgec.fuse import plan
from edgec.fuse.aliasing import Plan
from edgec.rewrite import simplify
from edgec.schedule.storage import LEAST, kept_narrow

LAYERS = ("first", "second", "third", "fourth", "fifth")
#: Layers that have to be chosen for a value; the others are read by an addition, too small, or results.
NARROW = {"curved": {"third"}, "flat": {"fourth"}}


@pytest.fixture(scope="module")
def network() -> Plan:
    """Five products in a row; the second's operand is added at the end, and the fifth's has an element too few."""
    nodes = [
        node("MatMul", ["x", "w0"], ["a"], "first"), node("Relu", ["a"], ["p"], "bent"),
        node("MatMul", ["p", "w1"], ["b"], "second"), node("Tanh", ["b"], ["q"], "curved"),
        node("MatMul", ["q", "w2"], ["c"], "third"), node("Sigmoid", ["c"], ["r"], "flat"),
        node("MatMul", ["r", "w3"], ["d"], "fourth"), node("Tanh", ["d"], ["s"], "small"),
        node("MatMul", ["s", "w4"], ["e"], "fifth"), node("Add", ["e", "p"], ["y"], "last"),
    ]  # fmt: skip
    rows, width = 16, LEAST // 16
    shapes = [(width, width)] * 3 + [(width, width - 1), (width - 1, width)]
    held = [weights(f"w{k}", RANDOM.standard_normal(s).astype(np.float32)) for k, s in enumerate(shapes)]
    made = import_model(model(nodes, [tensor_input("x", [rows, width])], ["y"], held))
    return plan(simplify(made)[0])


@pytest.mark.parametrize("chosen", [c for k in range(len(LAYERS) + 1) for c in combinations(LAYERS, k)], ids=" ".join)
def test_values_of_chosen_layers(chosen: tuple[str, ...], network: Plan) -> None:
    found = kept_narrow(network, load_device("x86_64_avx512"), set(chosen))
    names = {name for n in found for name in network.graph.names(n)}
    assert names == {value for value, layers in NARROW.items() if layers <= set(chosen)}
