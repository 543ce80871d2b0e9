"""Layers by weights [outputs, inputs] that learn: tokens lie row by row in both directions, as where weights are
constant."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from chance import RANDOM
from small_models import model, node, tensor_input, weights

import edgec
from edgec import Trainer
from edgec.check.training import check_training


def blocks(tokens: int = 29, width: int = 48) -> onnx.ModelProto:
    """Two blocks of a transformer without attention: a norm, two layers, a shortcut."""

    def drawn(*shape: int) -> np.ndarray:
        return (RANDOM.standard_normal(shape) / 8).astype(np.float32)

    nodes, held, x = [], [weights("f", drawn(width, 5))], "x"
    for k in range(2):
        nodes += [
            node("LayerNormalization", [x, f"g{k}", f"h{k}"], [f"n{k}"], axis=-1),
            node("Transpose", [f"u{k}"], [f"ut{k}"], perm=[1, 0]), node("MatMul", [f"n{k}", f"ut{k}"], [f"a{k}"]),
            node("Tanh", [f"a{k}"], [f"t{k}"]),
            node("Transpose", [f"v{k}"], [f"vt{k}"], perm=[1, 0]), node("MatMul", [f"t{k}", f"vt{k}"], [f"b{k}"]),
            node("Add", [f"b{k}", f"c{k}"], [f"e{k}"]), node("Add", [x, f"e{k}"], [f"x{k}"]),
        ]  # fmt: skip
        shapes = {"g": (width,), "h": (width,), "u": (2 * width, width), "v": (width, 2 * width), "c": (width,)}
        held += [weights(f"{name}{k}", drawn(*shape)) for name, shape in shapes.items()]
        x = f"x{k}"
    nodes += [node("ReduceMean", [x], ["p"], axes=[1], keepdims=0), node("MatMul", ["p", "f"], ["y"])]
    return model(nodes, [tensor_input("x", (1, tokens, width))], ["y"], held)


def test_norms_and_layers_do_not_gather_tokens(tmp_path: Path) -> None:
    """Results that lay along tokens made norms and slopes gather: 29 times in this step."""
    options = {"loss": "cross_entropy", "optimizer": "sgd:lr=0.01,momentum=0.9", "threads": 1}
    edgec.build(blocks(), tmp_path / "wide", compile=False, device="x86_64_avx2", **options)
    text = "".join(p.read_text() for p in (tmp_path / "wide").glob("net_step_kernels*.c"))
    assert text.count("ec_gather(") < 10
    edgec.build(blocks(), tmp_path / "out", **options)
    with Trainer(tmp_path / "out") as trainer:
        assert check_training(trainer, vs=None, steps=5).ok
