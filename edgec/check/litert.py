"""The reference of TensorFlow Lite models: the interpreter of the ai-edge-litert package.

Its reference kernels are taken, not those that are fast: the arithmetic of quantized networks is theirs to the bit.
What a network remembers between runs lives inside the interpreter, so runs are in order, and `reset` starts anew.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

import numpy as np

from edgec.check.unavailable import Unavailable
from edgec.frontend.tflite import import_tflite
from edgec.frontend.tflite.model import TfliteModel
from edgec.frontend.tflite.reader import schema
from edgec.text import printable


def runtime() -> Any:
    """The interpreter's module; raises Unavailable when it is not installed."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # it greets on stderr otherwise
    try:
        from ai_edge_litert import interpreter
    except ImportError:
        raise Unavailable("ai-edge-litert is not installed", hint="pip install ai-edge-litert") from None
    return interpreter


#: Operators whose reference kernels are wrong: that of SUM is, for 8-bit integers (2.3.0).
_WRONG = {"SUM"}


class LitertReference:
    """A model in the interpreter: its reference kernels, or with ``fast`` those it takes by default.

    Operators that have no reference kernel, and shapes that a delegate refuses, run in those without delegates: that is
    tried second.
    """

    def __init__(
        self,
        model: TfliteModel,
        shapes: Mapping[str, Sequence[int]] | None = None,
        values: Mapping[str, Any] | None = None,
        threads: int = 1,
        fast: bool = False,
    ) -> None:
        kernels = runtime().OpResolverType
        self.model = model
        self.settings = {"num_threads": threads, "experimental_preserve_all_tensors": not fast}
        self._kernels = [(kernels.BUILTIN_REF, ", reference kernels"), (kernels.BUILTIN_WITHOUT_DEFAULT_DELEGATES, "")]
        if _WRONG & set(model.operator_counts()):
            self._kernels.pop(0)
        if fast:
            self._kernels = [
                (kernels.AUTO, ""), (kernels.BUILTIN_WITHOUT_DEFAULT_DELEGATES, ", without delegates")
            ]  # fmt: skip
        self.fast, self.shapes = fast, shapes or {}
        self.values = {name: np.asarray(v) for name, v in (values or {}).items()}
        self.inputs = model.main.input_names
        self.states: dict[str, int] = {}
        graph = import_tflite(model, shapes, values=values, kept=self.states)
        #: Shapes that inputs are built for: those of the file may be placeholders, which some operators refuse.
        self.built = {n.attributes["name"]: n.type.shape for n in graph.inputs if n.type.is_fixed}
        self.outputs = {**model.main.output_names, **self.states}
        self.interpreter = self._open()

    @property
    def name(self) -> str:
        return f"ai-edge-litert {metadata.version('ai-edge-litert')}{self._kernels[0][1]}"

    def _open(self) -> Any:
        while True:
            try:
                interpreter = runtime().Interpreter(
                    model_content=_mended(self.model),
                    experimental_op_resolver_type=self._kernels[0][0],
                    **self.settings,
                )
                for declared in interpreter.get_input_details():
                    shape = next((self.built.get(n) for n, k in self.inputs.items() if k == declared["index"]), None)
                    if shape is not None and tuple(declared["shape"]) != shape:
                        interpreter.resize_tensor_input(declared["index"], shape)
                interpreter.allocate_tensors()
                return interpreter
            except Exception as error:  # its errors share no base class
                if len(self._kernels) == 1:
                    raise self._refused(error) from None
                self._kernels.pop(0)

    def _refused(self, error: Exception) -> Unavailable:
        text = printable(" ".join(str(error).split()), 300)
        return Unavailable(f"ai-edge-litert refuses the model: {text}", where=self.model.where)

    def reset(self) -> None:
        """As before the first run."""
        if self.states:
            self.interpreter = self._open()

    def feed(self, inputs: Mapping[str, np.ndarray]) -> None:
        """Set the inputs, and those that were fixed for the build."""
        arrays = {**inputs, **self.values}
        declared = {d["index"]: d for d in self.interpreter.get_input_details()}
        wanted = {k: np.asarray(arrays[name]) for name, k in self.inputs.items()}
        for name, k in self.inputs.items():
            if name in self.values and wanted[k].ndim == 0:  # one number for all elements, as in the build
                wanted[k] = np.broadcast_to(wanted[k], tuple(self.shapes.get(name, declared[k]["shape"])))
        resized = {k: a.shape for k, a in wanted.items() if tuple(declared[k]["shape"]) != a.shape}
        for k, shape in resized.items():
            self.interpreter.resize_tensor_input(k, shape)
        if resized:
            self.interpreter.allocate_tensors()
        for k, array in wanted.items():
            self.interpreter.set_tensor(k, array.astype(declared[k]["dtype"], copy=False))

    def invoke(self) -> None:
        self.interpreter.invoke()

    def results(self) -> dict[str, np.ndarray]:
        """Outputs by name, and what the states became."""
        found = {}
        for name, k in self.outputs.items():
            try:
                found[k] = np.array(self.interpreter.get_tensor(k))
            except ValueError:  # a delegate keeps what the interpreter does not return
                if name not in self.states:
                    raise
        for operator in self.model.main.operators:
            if operator.name == "TFLite_Detection_PostProcess":
                # What lies beyond the number of boxes is whatever was in memory; edgec makes it 0.
                *lists, number = operator.outputs
                count = int(self.interpreter.get_tensor(number).reshape(-1)[0])
                for k in lists:
                    if k in found:
                        found[k][:, count:] = 0
        return {name: found[k] for name, k in self.outputs.items() if k in found}

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Outputs by name, in the state that the runs before left; raises Unavailable when the model fails."""
        while True:
            try:
                self.feed(inputs)
                self.invoke()
                return self.results()
            except (RuntimeError, ValueError) as error:
                if not self.fast or len(self._kernels) == 1:
                    raise self._refused(error) from None
                self._kernels.pop(0)
                self.interpreter = self._open()

    def every_tensor(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Every tensor of the network by name, from a start anew."""
        self.reset()
        self.run(inputs)
        found = {}
        for k, tensor in enumerate(self.model.main.tensors):
            try:
                found[tensor.name] = np.array(self.interpreter.get_tensor(k))
            except ValueError:  # a handle, or a temporary that holds nothing
                continue
        return found


def _mended(model: TfliteModel) -> bytes:
    """The file, with what newer interpreters refuse put right: a scaled dimension that a bias does not have.

    Where a tensor has one dimension, that one is meant; the interpreters of the time did not look.
    """
    package, content = schema(), bytearray(model.content)
    root = package.Model.GetRootAs(content, 0)
    for g in range(root.SubgraphsLength()):
        graph = root.Subgraphs(g)
        for t in range(graph.TensorsLength()):
            tensor = graph.Tensors(t)
            scales = tensor.Quantization()
            if scales is not None and tensor.ShapeLength() == 1 and scales.QuantizedDimension() > 0:
                field = scales._tab.Offset(16) + scales._tab.Pos  # QuantizationParameters.quantized_dimension
                content[field : field + 4] = bytes(4)
    return bytes(content)
