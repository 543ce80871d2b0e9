"""Trained models of many exporters against onnxruntime, where the folder of shared models is beside the project."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from edgec.frontend.onnx import import_model
from edgec.ir import evaluate
from edgec.ir.types import DTYPES

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "models"
SHAPES: dict[str, dict[str, tuple[int, ...]]] = {
    "gesture/keypoint_classifier": {"input": (1, 42)},
    "gesture/point_history_classifier": {"input": (1, 32)},
    "gesture/point_history_classifier_lstm": {"input": (1, 32)},
    "lm_stories260k/stories260k_decode": {"past_k": (5, 1, 4, 16, 8)},
    "lm_stories260k/stories260k_prefill": {"tokens": (1, 12)},
    "mlperf_tiny/ad01_fp32": {"input_1": (1, 640)},
    "mlperf_tiny/ad01_int8": {"input_1": (1, 640)},
    "mlperf_tiny/kws_ref_model": {"input_1": (1, 49, 10, 1)},
    "mlperf_tiny/kws_ref_model_float32": {"input_1": (1, 49, 10, 1)},
    "mlperf_tiny/pretrainedResnet": {"input_1": (1, 32, 32, 3)},
    "mlperf_tiny/pretrainedResnet_quant": {"input_1_int8": (1, 32, 32, 3)},
    "mlperf_tiny/str_ww_ref_model": {"serving_default_input_1:0": (1, 30, 1, 40)},
    "mlperf_tiny/vww_96_float": {"input_1": (1, 96, 96, 3)},
    "mlperf_tiny/vww_96_int8": {"input_1_int8": (1, 96, 96, 3)},
}
#: The range of an input's numbers, where it is not that of a normal distribution (or of a token).
PICTURES = {"det_yolox_nano/yolox_nano": 255.0}


def models() -> list[str]:
    return sorted(str(p.relative_to(FOLDER).with_suffix("")) for p in FOLDER.glob("*/*.onnx"))


def some(name: str, dtype: np.dtype, shape: tuple[int, ...], model: str) -> np.ndarray:
    random = np.random.default_rng(3)
    if dtype.kind == "f":
        picture = PICTURES.get(model)
        values = random.random(shape) * picture if picture else random.standard_normal(shape)
        return np.asarray(values).astype(dtype)
    if dtype.itemsize == 8:
        return random.integers(1, 500, shape) if name.startswith("token") else np.full(shape, 16)
    return random.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype)


@pytest.mark.skipif(not FOLDER.is_dir(), reason="the shared models are not beside the project")
@pytest.mark.parametrize("name", models())
def test_agrees(name: str) -> None:
    path = FOLDER / f"{name}.onnx"
    graph = import_model(path, SHAPES.get(name))
    feeds = {
        n.attributes["name"]: some(n.attributes["name"], DTYPES[n.type.dtype], n.type.shape, name) for n in graph.inputs
    }
    options = onnxruntime.SessionOptions()
    # Its optimizations replace quantized nodes by approximations; the plain nodes are the reference.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    expected = onnxruntime.InferenceSession(path, options).run(None, feeds)
    got = evaluate.run(graph, feeds)
    for (output, node), want in zip(graph.outputs, expected):
        assert node.type.shape == want.shape and got[output].dtype == want.dtype
        difference = np.abs(got[output].astype(np.float64) - want.astype(np.float64)).max(initial=0)
        if want.dtype.kind == "f":
            assert difference <= 1e-4 * np.abs(want).max(initial=0)
        else:  # a sum in another order that rounds the other way, in the first layers, travels on
            assert difference <= 3
