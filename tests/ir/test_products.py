"""Products whose operands' copies are large, a part at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from chance import RANDOM

from edgec import ops
from edgec.ir.evaluate import evaluate_node
from edgec.ir.graph import placeholder
from edgec.ir.types import Type

Array = np.ndarray


def floats(*shape: int) -> Array:
    return RANDOM.standard_normal(shape).astype(np.float32)


def apply(op: str, *arrays: Array, **attributes: Any) -> Array:
    args = [placeholder(f"a{k}", Type("f32", a.shape)) for k, a in enumerate(arrays)]
    return evaluate_node(ops.node(op, *args, **attributes), list(arrays))


@pytest.mark.parametrize("most", (1, 7, 60, 1000))
def test_products_in_parts(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Operands whose copies are large are multiplied a part at a time, along whatever dimension is the longest."""
    x, w, deep = floats(2, 4, 7, 9), floats(6, 2, 3, 3), floats(4, 1, 3, 3)
    cases: list[tuple[str, tuple[Array, ...], dict[str, Any]]] = [
        ("matmul", (floats(3, 5, 11), floats(11, 13)), {}),
        ("matmul", (floats(5, 11), floats(2, 11, 3)), {}),
        ("matmul", (floats(1, 40), floats(40, 1)), {}),
        ("conv", (x, w), {"strides": (2, 1), "dilations": (1, 2), "groups": 2}),
        ("conv", (x, deep), {"strides": (1, 1), "dilations": (1, 1), "groups": 4}),
    ]
    for op, arrays, attributes in cases:
        whole = apply(op, *arrays, **attributes)
        with monkeypatch.context() as patch:
            patch.setattr("edgec.ir.evaluate.COPIED", most)
            parts = apply(op, *arrays, **attributes)
        np.testing.assert_allclose(parts, whole, rtol=1e-5, atol=1e-5)
