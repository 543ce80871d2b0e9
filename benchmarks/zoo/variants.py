"""Variants of an ONNX file: in fp16, as onnxruntime's optimizer writes it, and as its quantizer does.

python -m benchmarks.zoo.variants VARIANT SOURCE.onnx TARGET.onnx
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.version_converter
import onnxruntime

from edgec import api
from edgec.execute.samples import random_inputs

#: Sets of random inputs that static quantization takes its ranges from, unless told otherwise.
SAMPLES = 4
#: The first operator set in which scales are of channels.
CHANNELS = 13


def write(variant: str, source: Path, target: Path, samples: int = SAMPLES) -> None:
    """Write the variant of the file ``source``; raises whatever the tool that makes it raises.

    Static quantization takes its ranges from so many ``samples`` of random inputs.
    """
    part = target.with_suffix(".part.onnx")
    if variant == "fp16":
        from onnxruntime.transformers.float16 import convert_float_to_float16

        onnx.save(convert_float_to_float16(onnx.load(source), keep_io_types=True), part)
    elif variant.startswith("ort-"):
        _optimized(source, part, variant.removeprefix("ort-"))
    else:
        _quantized(source, part, variant.removeprefix("int8-"), samples)
    part.replace(target)


def _optimized(source: Path, target: Path, level: str) -> None:
    levels = onnxruntime.GraphOptimizationLevel
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = {"basic": levels.ORT_ENABLE_BASIC, "extended": levels.ORT_ENABLE_EXTENDED}[level]
    options.optimized_model_filepath = str(target)
    options.log_severity_level = 4
    onnxruntime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])


def _quantized(source: Path, target: Path, how: str, samples: int) -> None:
    from onnxruntime import quantization as q

    with tempfile.TemporaryDirectory(prefix="edgec-zoo-") as folder:
        ready = Path(folder) / "ready.onnx"
        onnx.save(_with_axes(onnx.load(source)), ready)
        q.shape_inference.quant_pre_process(str(ready), str(ready), skip_symbolic_shape=True)
        if how == "dynamic":
            q.quantize_dynamic(ready, target)
            return
        graph = api.load(source).graph
        sets = (random_inputs(graph, seed) for seed in range(samples))
        form = {"qdq": q.QuantFormat.QDQ, "qoperator": q.QuantFormat.QOperator}[how]
        q.quantize_static(ready, target, _Reader(sets), quant_format=form, per_channel=True)


def _with_axes(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The model in an operator set with scales of channels, which the quantizer writes into any."""
    used = next((o.version for o in proto.opset_import if not o.domain), CHANNELS)
    return onnx.version_converter.convert_version(proto, CHANNELS) if used < CHANNELS else proto


class _Reader:
    """Sets of inputs, one after the other."""

    def __init__(self, sets: Any) -> None:
        self.sets = sets

    def get_next(self) -> Mapping[str, np.ndarray] | None:
        found: Mapping[str, np.ndarray] | None = next(self.sets, None)
        return found


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit((__doc__ or "").strip())
    write(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
