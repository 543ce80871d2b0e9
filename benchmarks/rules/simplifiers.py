"""The simplifiers that edgec is held against.

Each gets the same file with the same fixed shapes. What onnxruntime's extended level fuses into operators of its own is
imported like everything else: edgec knows those operators.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import onnx
from onnx import ModelProto

Shapes = Mapping[str, tuple[int, ...]]


def with_shapes(model: ModelProto, shapes: Shapes) -> ModelProto:
    """The model with fixed input shapes: a copy."""
    fixed = ModelProto()
    fixed.CopyFrom(model)
    for value in fixed.graph.input:
        if value.name in shapes:
            for dimension, extent in zip(value.type.tensor_type.shape.dim, shapes[value.name]):
                dimension.ClearField("dim_param")
                dimension.dim_value = extent
    return fixed


def by_onnxsim(path: Path) -> ModelProto:
    import onnxsim

    with _quiet():
        simplified, _ = onnxsim.simplify(str(path))
    return simplified


def by_onnxslim(path: Path) -> ModelProto:
    import onnxslim

    with _quiet():
        return onnxslim.slim(str(path))


def by_onnxruntime(path: Path) -> ModelProto:
    """The model after onnxruntime's extended optimizations on the CPU."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.log_severity_level = 4
    with tempfile.TemporaryDirectory() as folder:
        options.optimized_model_filepath = str(Path(folder) / "optimized.onnx")
        onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        return onnx.load(options.optimized_model_filepath)


SIMPLIFIERS: dict[str, Callable[[Path], ModelProto]] = {
    "onnxsim": by_onnxsim,
    "onnxslim": by_onnxslim,
    "onnxruntime": by_onnxruntime,
}


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The libraries print warnings from C; they go nowhere."""
    kept = [os.dup(1), os.dup(2)]
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
        try:
            yield
        finally:
            for descriptor, original in zip((1, 2), kept):
                os.dup2(original, descriptor)
                os.close(original)


def numbered(model: ModelProto) -> ModelProto:
    """The model with a name of its own for every node, so that what it is imported as can be told apart by node."""
    for k, n in enumerate(model.graph.node):
        n.name = f"n{k}"
    return model
