"""Sizes of what is resized by factors: those that onnxruntime gives, whether dimensions are known or open.

ONNX's own inference of shapes multiplies in fp64, in which 10 times the fp32 number next to 0.7 is less than 7.
"""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from small_models import model, node, tensor_input, weights

from edgec.frontend.onnx import import_model
from edgec.ir import expr as X
from edgec.ir.expr import Expr

SCALES = (0.1, 0.3, 0.35, 0.5, 0.55, 0.7, 0.9, 1.1, 1.7, 2.0, 2.3, 3.3)
EXTENTS = range(1, 41)


def resized(scale: float, extent: int | str, opset: int = 17) -> onnx.ModelProto:
    """Along one dimension."""
    operator, operands = ("Upsample", ["x", "s"]) if opset < 10 else ("Resize", ["x", "", "s"])
    held = [weights("s", np.float32([1, 1, scale, 1]))]
    nodes = [node(operator, operands, ["y"], mode="nearest")]
    return model(nodes, [tensor_input("x", [1, 1, extent, 1])], initializers=held, opset=opset)


@pytest.mark.parametrize("scale", SCALES)
def test_sizes(scale: float) -> None:
    session = onnxruntime.InferenceSession(resized(scale, "n").SerializeToString())
    graph = import_model(resized(scale, "n"), dims={"n": (1, 40, 1)})
    (open_,) = (n for n in graph.inputs[0].type.shape if isinstance(n, Expr))
    formula = X.lift(graph.outputs[0][1].type.shape[2], "i64")
    for extent in EXTENTS:
        if int(extent * scale + 1e-5) < 1:
            continue  # onnxruntime makes one element of none
        (y,) = session.run(None, {"x": np.zeros((1, 1, extent, 1), np.float32)})
        assert X.plain(X.substitute(formula, {open_: X.const(extent)})) == y.shape[2], extent
        for opset in (9, 17) if scale >= 1 else (17,):
            assert import_model(resized(scale, extent, opset)).outputs[0][1].type.shape == y.shape, extent


@pytest.mark.parametrize(
    ("policy", "extents", "sizes"),
    [
        ("not_smaller", (10, 15), (21, 3)), ("not_smaller", (10, 25), (21, 13)), ("not_larger", (10, 15), (21, 32)),
        ("not_larger", (3, 7), (9, 14)), ("not_larger", (20, 15), (7, 13)),
    ],
)  # fmt: skip
def test_sizes_that_keep_the_aspect_ratio(policy: str, extents: tuple[int, int], sizes: tuple[int, int]) -> None:
    """21 / 10 in fp32 is less than 2.1, and 15 times that less than 31.5."""
    made = node("Resize", ["x", "", "", "s"], ["y"], mode="nearest", keep_aspect_ratio_policy=policy, axes=[2, 3])
    proto = model([made], [tensor_input("x", [1, 1, *extents])], initializers=[weights("s", np.array(sizes))], opset=18)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    (y,) = session.run(None, {"x": np.zeros((1, 1, *extents), np.float32)})
    assert import_model(proto).outputs[0][1].type.shape == y.shape
