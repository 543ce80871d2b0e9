"""Open dimensions that equations decide are told, whichever of several it is."""

from __future__ import annotations

import numpy as np
import pytest
from small_models import model, node, tensor_input, weights

from edgec.errors import UsageError
from edgec.frontend.onnx import import_model


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_the_second_of_two_is_decided(names: tuple[str, str], turned: bool) -> None:
    """One input is free along its dimension; the other is added to five numbers, so that it has as many or one."""
    nodes = [node("Add", ["z", "c"], ["s"]), node("MatMul", ["s", "w"], ["t"]), node("Relu", ["x"], ["y"])]
    given = [tensor_input("x", [3, names[0]]), tensor_input("z", [2, names[1]])]
    constants = [weights("c", np.zeros((2, 1), np.float32)), weights("w", np.zeros((5, 4), np.float32))]
    with pytest.raises(UsageError) as found:
        import_model(model(nodes, given[::-1] if turned else given, ["y", "t"], constants))
    assert "leaves the shape of 'x' open" in str(found.value)
