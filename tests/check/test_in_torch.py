"""Shapes, casts, slices and choices that exporters write around a network, executed by PyTorch."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from small_models import model, node, tensor_input, weights


def test_shapes_slices_and_choices() -> None:
    torch = pytest.importorskip("torch", reason="pip install torch")
    from edgec.check.in_torch import run

    constants = {
        "minus": np.array(-1), "ids": np.array([[-1, 0], [2, 1]]), "axis": np.array([1]), "begin": np.array([4]),
        "end": np.array([-9]), "back": np.array([-2]), "zero": np.array(0), "one": np.array(1), "stop": np.array(5),
    }  # fmt: skip
    nodes = [
        node("Shape", ["x"], ["shape"]), node("Constant", [], ["ones"], value_ints=[1, 1, 1]),
        node("Gather", ["x", "minus"], ["last"], axis=1), node("Unsqueeze", ["last", "axis"], ["high"]),
        node("Expand", ["high", "shape"], ["wide"]), node("GreaterOrEqual", ["wide", "x"], ["above"]),
        node("Where", ["above", "wide", "x"], ["chosen"]), node("IsNaN", ["chosen"], ["none"]),
        node("Cast", ["none"], ["number"], to=onnx.TensorProto.FLOAT),
        node("Range", ["zero", "stop", "one"], ["steps"]),
        node("CastLike", ["steps", "x"], ["slope"]), node("Slice", ["slope", "begin", "end", "at", "back"], ["turned"]),
        node("GatherElements", ["turned2", "ids"], ["picked"], axis=1),
        node("Add", ["chosen", "number"], ["y"]), node("Identity", ["picked"], ["z"]),
    ]  # fmt: skip
    nodes.insert(12, node("Expand", ["turned", "pair"], ["turned2"]))
    held = constants | {"at": np.array([0]), "pair": np.array([2, 3])}
    used = {name for n in nodes for name in n.input}
    given = [tensor_input("x", [2, 3, 4])]
    made = model(nodes, given, ["y", "z"], [weights(n, v) for n, v in held.items() if n in used])
    x = np.random.default_rng(1).standard_normal((2, 3, 4)).astype(np.float32)
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    found = run(made, {"x": torch.from_numpy(x).double()})
    for got, want in zip(found, session.run(None, {"x": x}), strict=True):
        assert got.dtype == torch.float64
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)
