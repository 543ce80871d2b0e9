"""Networks that tests of the planner walk over: small ones, and the trained ones where they lie beside the project."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from convnet import convnet, tokens
from small_models import model, node, tensor_input, weights

from edgec import pipeline
from edgec.ir.graph import Graph
from edgec.options import resolve
from edgec.pipeline.context import Context
from edgec.resources import data_folder

FOLDER = Path(__file__).resolve().parents[2].parent / "shared" / "models"
TRAINED: dict[str, dict[str, tuple[int, ...]]] = {
    "mlperf_tiny/kws_ref_model_float32": {"input_1": (1, 49, 10, 1)},
    "mlperf_tiny/ad01_fp32": {"input_1": (1, 640)},
    "mlperf_tiny/pretrainedResnet": {"input_1": (1, 32, 32, 3)},
    "det_fastestdet/FastestDet": {},
    "gesture/keypoint_classifier": {"input": (1, 42)},
    "gesture/point_history_classifier": {"input": (1, 32)},
    "lm_stories260k/stories260k_prefill": {"tokens": (1, 32)},
}


def attention(length: int = 24, features: int = 16) -> onnx.ModelProto:
    """One layer of attention with a residual and a normalization, and a mask that two products read."""
    random = np.random.default_rng(0)

    def values(*shape: int) -> np.ndarray:
        return (random.standard_normal(shape) / 4).astype(np.float32)

    nodes = [
        node("MatMul", ["x", "wq"], ["q"]), node("MatMul", ["x", "wk"], ["k"]), node("MatMul", ["x", "wv"], ["v"]),
        node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]),
        node("MatMul", ["q", "kt"], ["scores"], "scores"),
        node("Sigmoid", ["bias"], ["gate"], "gate"),
        node("Add", ["scores", "gate"], ["masked"], "masked"),
        node("Softmax", ["masked"], ["p"], "soft", axis=-1),
        node("MatMul", ["p", "v"], ["o"], "mixed"),
        node("Add", ["o", "x"], ["r"], "residual"),
        node("LayerNormalization", ["r", "s"], ["y"], "norm"),
        node("Mul", ["gate", "gate"], ["squared"], "squared"),
    ]  # fmt: skip
    constants = [weights(n, values(features, features)) for n in ("wq", "wk", "wv")] + [weights("s", values(features))]
    inputs = [tensor_input("x", [1, length, features]), tensor_input("bias", [1, length, length])]
    return model(nodes, inputs, ("y", "squared"), constants)


SMALL = {"convnet": convnet, "tokens": tokens, "attention": attention}
NAMES = [*SMALL, "digits", *TRAINED]


def source(name: str) -> Any | None:
    """Source of a network; None if it is not here."""
    if name in SMALL:
        return SMALL[name]()
    path = data_folder("apps") / "digits" / "digits.onnx" if name == "digits" else FOLDER / f"{name}.onnx"
    return path if path.is_file() else None


@cache
def graph(name: str, simplified: bool = True) -> Graph | None:
    """Its graph of core operators, simplified or as imported."""
    found = source(name)
    if found is None:
        return None
    context = Context(resolve({"shapes": TRAINED.get(name, {})}))
    imported = pipeline.import_(found, context)
    return pipeline.simplify(imported, context).graph if simplified else imported


def here() -> list[str]:
    """Names of the networks that are here."""
    return [name for name in NAMES if source(name) is not None]
