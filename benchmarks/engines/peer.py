"""onnxruntime as the peer: fixed shapes, inputs and outputs bound once, so that nothing but the network is timed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

Arrays = Mapping[str, np.ndarray]


class Peer:
    """A model in onnxruntime with all its optimizations, or with none."""

    def __init__(self, path: Path, shapes: Mapping[str, Sequence[int]], threads: int, optimize: bool = True) -> None:
        levels = onnxruntime.GraphOptimizationLevel
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimize else levels.ORT_DISABLE_ALL
        options.log_severity_level = 4
        source = with_shapes(path, shapes) if shapes else str(path)
        self.session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        self.outputs = [o.name for o in self.session.get_outputs()]

    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        return dict(zip(self.outputs, self.session.run(self.outputs, dict(inputs))))

    def bind(self, inputs: Arrays, results: Arrays) -> Callable[[], None]:
        """A function that runs once on these inputs, into memory of the shapes of ``results``."""
        binding = self.session.io_binding()
        values = onnxruntime.OrtValue
        kept = [values.ortvalue_from_numpy(a) for a in (*inputs.values(), *results.values())]
        for name, value in zip(inputs, kept):
            binding.bind_ortvalue_input(name, value)
        for name, value in zip(results, kept[len(inputs) :]):
            binding.bind_ortvalue_output(name, value)
        run = self.session.run_with_iobinding
        return lambda: run(binding)


def with_shapes(path: Path, shapes: Mapping[str, Sequence[int]]) -> bytes:
    """The model with these shapes written into its inputs: what onnxruntime knows ahead, it can plan."""
    model = onnx.load(path)
    for value in model.graph.input:
        if value.name in shapes:
            dims = value.type.tensor_type.shape.dim
            for dim, size in zip(dims, shapes[value.name]):
                dim.dim_value = size
    return bytes(model.SerializeToString())
