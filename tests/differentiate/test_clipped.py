"""Gradients that are clipped: their norm is at most the bound, in proportion, as PyTorch computes it."""

from __future__ import annotations

import numpy as np
import pytest
from small_graphs import value

from edgec.differentiate.optimizers import clipped, optimizer_of
from edgec.execute.executor import run_graph
from edgec.frontend.values import Value
from edgec.ir.graph import Graph


def run(clip: float, *gradients: np.ndarray) -> tuple[list[np.ndarray], float]:
    inputs = [value(f"g{k}", *g.shape) for k, g in enumerate(gradients)]
    found, broken = clipped([Value(n) for n in inputs], optimizer_of(f"adam:clip={clip}"))
    outputs = (*((f"y{k}", v.node) for k, v in enumerate(found)), ("broken", broken.node))
    results = run_graph(Graph(tuple(inputs), outputs), {f"g{k}": g for k, g in enumerate(gradients)})
    return [results[f"y{k}"] for k in range(len(gradients))], float(results["broken"])


@pytest.mark.parametrize("size", [1e-6, 3e-6, 1e-4, 0.5, 1.0, 20.0])
def test_norms_of_all_sizes(size: float) -> None:
    """The factor is clip / (norm + 1e-6), which shows where norms are as small as that."""
    random = np.random.default_rng(1)
    parts = [random.standard_normal(shape) for shape in ((3, 4), (5,))]
    norm = np.sqrt(sum(np.square(p).sum() for p in parts))
    parts = [(p * size / norm).astype(np.float32) for p in parts]
    for clip in (size / 4, size, 4 * size):
        found, broken = run(clip, *parts)
        factor = min(clip / (size + 1e-6), 1.0)
        for got, given in zip(found, parts):
            np.testing.assert_allclose(got, given * factor, rtol=1e-4)
        assert not broken


def test_what_is_not_finite_is_counted() -> None:
    bad = np.array([1, np.nan, np.inf, -np.inf], np.float32)
    fine = np.ones(3, np.float32)
    assert run(1.0, bad, fine)[1] == 1.0 and run(1.0, fine, fine)[1] == 0.0
