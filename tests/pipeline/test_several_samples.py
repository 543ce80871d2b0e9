"""A network for several samples at once, read again from its model, which takes one."""

from __future__ import annotations

import numpy as np
import pytest
from small_models import model, node, tensor_input, weights

from edgec.errors import UsageError
from edgec.options import resolve
from edgec.pipeline.context import Context
from edgec.pipeline.stages import _widened


def test_several_samples() -> None:
    nodes = [node("MatMul", ["x", "w"], ["h"]), node("Relu", ["h"], ["y"])]
    made = model(nodes, [tensor_input("x", [1, 3])], initializers=[weights("w", np.ones((3, 2), np.float32))])
    context = Context(resolve({}), model=made.SerializeToString())
    for samples in (1, 5):
        found = _widened(samples, context)
        assert [n.type.shape for n in found.inputs] == [(samples, 3)]
        assert [n.type.shape for _, n in found.outputs] == [(samples, 2)]


def test_what_is_not_read_again() -> None:
    with pytest.raises(UsageError, match="only an ONNX model is read again"):
        _widened(4, Context(resolve({})))
