"""The reference that results are held against: onnxruntime for ONNX models, LiteRT's interpreter for theirs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx.parser import parse_model

from edgec.build import Built
from edgec.check.contained import self_contained
from edgec.check.litert import LitertReference
from edgec.check.meant import in_floats
from edgec.check.unavailable import Unavailable
from edgec.frontend.gguf.reader import GgufModel
from edgec.frontend.hugging.folder import HuggingModel
from edgec.frontend.onnx.model import Model
from edgec.frontend.onnx.sequences import numbered
from edgec.frontend.onnx.strings import rows_of, strings_of
from edgec.frontend.source import Parsed
from edgec.frontend.tflite.model import TfliteModel
from edgec.ir.graph import STRINGS, Graph
from edgec.text import printable

#: numpy's types by onnxruntime's names.
_TYPES = {
    "tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16, "tensor(bool)": np.bool_,
    **{f"tensor({name})": getattr(np, name) for name in (
        "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
    )},
}  # fmt: skip


def open_reference(
    model: Parsed,
    shapes: Mapping[str, Sequence[int]] | None = None,
    values: Mapping[str, Any] | None = None,
    graph: Graph | None = None,
    optimizes: bool = True,
) -> Reference | LitertReference:
    """Reference engine of a model; raises Unavailable if it is not installed or refuses the model."""
    if isinstance(model, TfliteModel):
        return LitertReference(model, shapes, values)
    if isinstance(model, (GgufModel, HuggingModel)):
        raise Unavailable("no engine computes this model in full precision", hint="stages are compared with the import")
    widths = widths_of(graph) if graph is not None else {}
    of_floats = in_floats(model, graph)
    return Reference(of_floats, values, shapes=shapes, rounds_operands=False, widths=widths, optimizes=optimizes)


def unoptimized(built: Built) -> Callable[[Mapping[str, np.ndarray]], Mapping[str, np.ndarray]]:
    """Results of onnxruntime by name for inputs, every operator as the file has it; opened when it is asked."""

    @cache
    def opened() -> Reference | LitertReference:
        assert built.parsed is not None
        o = built.options
        return open_reference(built.parsed, o.shapes, o.values, built.stages.graph, optimizes=False)

    return lambda inputs: opened().run(inputs)


def widths_of(graph: Graph) -> dict[str, int]:
    """Bytes of a row of each input and output of a graph that is strings in its model."""
    ends = {**{str(n.attributes["name"]): n for n in graph.inputs}, **dict(graph.outputs)}
    return {name: int(node.type.shape[-1]) for name, node in ends.items() if STRINGS + name in graph.metadata}


def runtime() -> Any:
    """The onnxruntime package; raises Unavailable when it is not installed."""
    try:
        import onnxruntime
    except ImportError:
        raise Unavailable("onnxruntime is not installed", hint="pip install onnxruntime") from None
    return onnxruntime


@cache
def saturates() -> bool:
    """Overflow in onnxruntime's products of bytes, added in pairs of 16 bits on x86 processors without VNNI."""
    made = parse_model("""<ir_version: 8, opset_import: ["" : 13]>
        pair (uint8[1, 2] x) => (int32[1, 1] y) <int8[2, 1] w = {127, 127}> { y = MatMulInteger (x, w) }""")
    session = runtime().InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    return int(session.run(None, {"x": np.full((1, 2), 255, np.uint8)})[0].item()) != 2 * 255 * 127


class Reference:
    """A model in onnxruntime, on one thread unless told otherwise.

    Some files that are not quite to the letter run only without optimizations: that is tried second. By default, its
    optimizer turns products by blocks of dequantized weights into operators that round the other factor to 8 bits;
    without ``rounds_operands`` they compute in floats, and sums of products of bytes do not saturate. ``widths`` has
    the bytes of a row of inputs and outputs that are strings here, and rows of bytes in a built network. Without
    ``optimizes``, operators are computed one by one, as the file has them.
    """

    def __init__(
        self,
        model: Model,
        values: Mapping[str, Any] | None = None,
        threads: int = 1,
        shapes: Mapping[str, Sequence[int]] | None = None,
        rounds_operands: bool = True,
        widths: Mapping[str, int] | None = None,
        optimizes: bool = True,
    ) -> None:
        ort = runtime()
        self.name = f"onnxruntime {ort.__version__}"
        self.values = values or {}
        self.shapes = shapes or {}
        self.model = model
        self.threads = threads
        self.rounds_operands = rounds_operands
        self.widths = widths or {}
        self.labels = _labels(model.proto)
        levels = ort.GraphOptimizationLevel
        self.optimizes = optimizes
        self._levels = [levels.ORT_ENABLE_ALL, levels.ORT_DISABLE_ALL][not optimizes :]
        self.session = self._open()
        self.inputs = {i.name: i.type for i in self.session.get_inputs()}
        self.outputs = [o.name for o in self.session.get_outputs()]

    def _open(self) -> Any:
        """A session of the first level that works."""
        ort = runtime()
        problem: Exception | None = None
        while self._levels:
            settings = ort.SessionOptions()
            settings.graph_optimization_level = self._levels[0]
            settings.intra_op_num_threads = self.threads
            settings.inter_op_num_threads = 1
            settings.log_severity_level = 4
            if not self.rounds_operands:
                settings.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
                if saturates():
                    settings.add_session_config_entry("session.x64quantprecision", "1")
            try:
                return ort.InferenceSession(_source(self.model), settings, providers=["CPUExecutionProvider"])
            except Exception as error:  # onnxruntime's own errors share no base class
                problem = error
                newest = re.search(r"max supported IR version: (\d+)", str(error))
                if newest and self.model.proto.ir_version > int(newest[1]):
                    self.model = _of_version(self.model, int(newest[1]))
                else:
                    self._levels.pop(0)
        raise Unavailable(f"onnxruntime refuses the model: {printable(str(problem), 300)}", where=self.model.where)

    def reset(self) -> None:
        """Nothing lives from run to run."""

    def feeds(self, inputs: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """Feeds of the session: the inputs, and those that were fixed for the build."""
        fed = {n: strings_of(a) if n in self.widths and a.dtype == np.uint8 else a for n, a in inputs.items()}
        declared = {i.name: i for i in self.session.get_inputs()}
        for name, value in self.values.items():
            fed[name] = np.asarray(value)
            if name in declared and fed[name].ndim == 0:  # one number for all elements, as in the build
                shape = self.shapes.get(name) or [d if isinstance(d, int) else 1 for d in declared[name].shape]
                fed[name] = np.broadcast_to(fed[name], tuple(shape)).copy()
            if name in declared and declared[name].type in _TYPES:
                fed[name] = fed[name].astype(_TYPES[declared[name].type])
        feeds: dict[str, Any] = {}
        for name, kind in self.inputs.items():
            if name in fed:
                feeds[name] = fed[name]
            elif kind.startswith("seq"):
                feeds[name] = [fed[numbered(name, k)] for k in range(len(fed)) if numbered(name, k) in fed]
        return feeds

    def run(self, inputs: Mapping[str, np.ndarray], outputs: Sequence[str] | None = None) -> dict[str, np.ndarray]:
        """Outputs by name; raises Unavailable when the model fails at every level."""
        names = list(outputs or self.outputs)
        while True:
            try:
                results = self.session.run(names, self.feeds(inputs))
                arrays: dict[str, np.ndarray] = {}
                for name, value in zip(names, results):
                    if name in self.widths:
                        value = rows_of(value, self.widths[name])
                    value = _numbers(_rows(value), self.labels)
                    parts = enumerate(value) if isinstance(value, list) else ()
                    arrays |= {numbered(name, k): np.asarray(part) for k, part in parts}
                    arrays |= {} if isinstance(value, list) or value is None else {name: np.asarray(value)}
                return arrays
            except Exception as error:
                self._levels.pop(0)
                if not self._levels:
                    raise Unavailable(
                        f"onnxruntime fails on the model: {printable(str(error), 300)}", where=self.model.where
                    ) from None
                self.session = self._open()


def _rows(value: Any) -> Any:
    """Probabilities by class (one dictionary a row, of ZipMap) as an array [rows, classes]; anything else as it is."""
    if isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
        return np.array([list(row.values()) for row in value], np.float32)
    return value


def _labels(proto: onnx.ModelProto) -> dict[bytes, int]:
    """The numbers of the classes whose labels are strings; none where two classifiers number them differently."""
    named = {
        tuple(a.strings) for n in proto.graph.node for a in n.attribute if a.name == "classlabels_strings" and a.strings
    }
    return {label: k for k, label in enumerate(named.pop())} if len(named) == 1 else {}


def _numbers(value: Any, labels: Mapping[bytes, int]) -> Any:
    """Labels that are strings as the numbers of their classes, which a built network gives; anything else as it is."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "OUS" and labels:
        found = [labels.get(str(label).encode(), -1) for label in value.reshape(-1)]
        return np.array(found, np.int64).reshape(value.shape)
    return value


def _source(model: Model) -> Any:
    """The bytes of a model, or its path when its weights lie beside it or it is too large for a message."""
    if model.path is not None:
        return str(model.path)
    return (model.proto if model.folder is None else self_contained(model)).SerializeToString()


def _of_version(model: Model, ir_version: int) -> Model:
    """The model in an older version of the file format: what nodes mean is decided by their operator set alone."""
    proto = self_contained(model)
    proto.ir_version = ir_version
    return replace(model, proto=proto, path=None)
