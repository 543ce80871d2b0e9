"""Attention forwards and backwards where a finite number masks keys, some of a query or all: shares are those of the
scores as they round beside it. A query all of whose keys are hidden by -inf sees none, and has no gradient."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from attention_cases import attention
from compiled import Compiled, compile_graphs
from emulated import Emulated, emulate
from small_graphs import graph, value
from small_models import model, node, tensor_input, weights
from trained_models import floats

import edgec
from edgec.artifact.trainer import Trainer
from edgec.check.training import batch_of, differences_of
from edgec.device.load import load_device
from edgec.differentiate import gradients
from edgec.differentiate.attention import Blocks
from edgec.ir import evaluate
from edgec.ir.graph import Graph

QUERIES, KEYS, FEATURES = 72, 100, 16
NUMBERS = (-1e4, -3e8, -1e9, -3e38, float(np.finfo(np.float32).min), 3e8)
#: Of the largest gradient.
BOUNDS = {"C": 1e-5, "fp32": 1e-5, "fp16": 5e-3}


def _attended(blocks: Blocks | None, is_guarded: bool) -> Graph:
    """Attention and its gradients by queries, keys and values, under a mask that is given."""
    q, k, v = value("q", 1, QUERIES, FEATURES), value("k", 1, KEYS, FEATURES), value("v", 1, KEYS, FEATURES)
    result = attention(q, k, v, value("mask", 1, QUERIES, KEYS), 0.25, is_guarded)
    found = gradients(result, [q, k, v], seed=value("g", *result.type.shape), blocks=blocks)
    return graph(result, *(g for g in found if g is not None))


def _given(numbers: Sequence[float]) -> dict[str, np.ndarray]:
    """Whole queries and keys, so that scores are the same numbers in every precision; masks of the last keys, of all
    and of every second, each by every number in turn."""
    random = np.random.default_rng(5)
    q, k = (random.integers(-2, 3, (1, n, FEATURES)).astype(np.float32) for n in (QUERIES, KEYS))
    v, g = (random.standard_normal((1, n, FEATURES)).astype(np.float32) for n in (KEYS, QUERIES))
    m, n = np.mgrid[:QUERIES, :KEYS]
    hidden = np.choose(m // len(numbers) % 3, [n >= 70, n >= 0, n % 2 == 1])
    mask = np.where(hidden, np.array(numbers, np.float32)[m % len(numbers)], np.float32(0))[None]
    return {"q": q, "k": k, "v": v, "g": g, "mask": mask}


@pytest.mark.parametrize("kind", BOUNDS)
def test_shares_of_masked_keys(kind: str, tmp_path: Path) -> None:
    """Large numbers, and infinite ones under a guard."""
    blocks, kinds = Blocks() if kind == "C" else Blocks(256, has_statistics=True), {"large": False, "infinite": True}
    made = {name: _attended(blocks, is_guarded) for name, is_guarded in kinds.items()}
    on_gpu = replace(load_device("cuda_sm90"), precision=kind)
    networks = compile_graphs(made, tmp_path) if kind == "C" else emulate(made, tmp_path, on_gpu)
    for name, is_guarded in kinds.items():
        network, given = networks[name], _given([-np.inf] if is_guarded else NUMBERS)
        assert isinstance(network, (Compiled, Emulated))
        got, want = network(given), evaluate.run(_attended(None, is_guarded), given)
        assert len(got) == len(want) == 4
        for output, array in want.items():
            assert np.abs(got[output] - array).max() <= BOUNDS[kind] * np.abs(array).max(), f"{name}: {output}"


def test_a_guard_keeps_gradients_finite_however_small_attention_is() -> None:
    """Without blocks too, as of fewer scores than they are worth: as scaled_dot_product_attention of PyTorch does."""
    found = evaluate.run(_attended(None, is_guarded=True), _given([-np.inf]))
    assert all(np.isfinite(x).all() for x in found.values())
    assert not found["y1"][:, 1::3].any() and found["y1"][:, 2::3].any()


def test_slopes_of_queries_that_see_no_key(tmp_path: Path) -> None:
    """A loss does not follow the scores of a query whose keys are all hidden, though it has their gradient."""
    nodes = [
        node("Cast", ["seen"], ["ones"], to=onnx.TensorProto.FLOAT),
        node("Sub", ["one", "ones"], ["hidden"]),
        node("Mul", ["hidden", "least"], ["mask"]),
        node("MatMul", ["x", "wq"], ["q"]),
        node("MatMul", ["x", "wk"], ["k"]),
        node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]),
        node("MatMul", ["q", "kt"], ["scores"]),
        node("Add", ["scores", "mask"], ["masked"]),
        node("Softmax", ["masked"], ["shares"], axis=-1),
        node("MatMul", ["shares", "x"], ["mixed"]),
        node("ReduceMean", ["mixed"], ["y"], axes=[1], keepdims=0),
    ]
    held = {
        "one": np.float32(1), "least": np.float32(np.finfo(np.float32).min), "wq": floats(4, 4), "wk": floats(4, 4),
    }  # fmt: skip
    given = [
        tensor_input("x", [1, 3, 4]),
        onnx.helper.make_tensor_value_info("seen", onnx.TensorProto.INT64, [1, 3, 3]),
    ]
    network = model(nodes, given, ["y"], [weights(n, v) for n, v in held.items()])
    built = edgec.build(network.SerializeToString(), tmp_path / "out", loss="mse", optimizer="sgd:lr=0.1")
    with Trainer(built.folder, 1) as trainer:
        batches = [batch_of(trainer, k) for k in range(40)]
        batch = next(b for b in batches if not b[1].any(2).all() and b[1].any(2).any())
        found = differences_of(trainer, batch)
        assert found is not None and found < 1e-5
