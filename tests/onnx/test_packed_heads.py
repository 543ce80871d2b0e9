"""Queries, keys and values that are packed into one operand are those that are given one by one."""

from __future__ import annotations

import numpy as np
import pytest
from small_models import model, node, tensor_input

from edgec.execute.executor import run_graph
from edgec.frontend.onnx import import_model

HEADS, SIZE = 2, 4


def run(**operands: np.ndarray) -> np.ndarray:
    names = ["q", "k", "v"]
    given = [n if n in operands else "" for n in names]
    while not given[-1]:
        given.pop()
    op = node("MultiHeadAttention", given, ["y"], domain="com.microsoft", num_heads=HEADS)
    inputs = [tensor_input(n, a.shape) for n, a in operands.items()]
    return run_graph(import_model(model([op], inputs, domains=["com.microsoft"])), operands)["y"]


@pytest.mark.parametrize("length", [1, 5])
def test_packed(length: int) -> None:
    random = np.random.default_rng(2)
    q, k, v = random.standard_normal((3, 2, length, HEADS, SIZE)).astype(np.float32)
    rows = {n: a.reshape(2, length, HEADS * SIZE) for n, a in zip("qkv", (q, k, v))}
    want = run(**rows)
    np.testing.assert_allclose(run(q=np.stack([q, k, v], 3)), want, atol=1e-6)
    np.testing.assert_allclose(run(q=rows["q"], k=np.stack([k, v], 3)), want, atol=1e-6)
