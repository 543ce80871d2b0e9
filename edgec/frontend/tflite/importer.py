"""From a TensorFlow Lite model to a graph of core operators."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from edgec.errors import EdgecError, ModelError, UsageError
from edgec.frontend import states
from edgec.frontend.onnx.support import unsupported_error
from edgec.frontend.states import SCALES
from edgec.frontend.tflite import call as registry
from edgec.frontend.tflite.call import Results, State, TfliteCall
from edgec.frontend.tflite.layout import below_transposes
from edgec.frontend.tflite.model import ABSENT, Operator, Subgraph, Tensor, TfliteModel
from edgec.frontend.tflite.support import unsupported
from edgec.frontend.values import Value, constant
from edgec.ir.graph import Graph, Node, placeholder
from edgec.ir.types import DTYPES, Type, dtype_name
from edgec.text import listed, printable

#: Nodes of subgraphs that are called, loops unrolled.
_MOST_INLINED = 50_000
#: What a lowering function runs into when a node breaks what the format promises of it.
_BROKEN_PROMISE = (
    ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, RecursionError, TypeError,
    ValueError,
)  # fmt: skip


def import_tflite(
    model: TfliteModel,
    shapes: Mapping[str, Sequence[int]] | None = None,
    *,
    values: Mapping[str, Any] | None = None,
    ops_folders: Iterable[str | Path] = (),
    tensors: dict[str, Node] | None = None,
    kept: dict[str, int] | None = None,
) -> Graph:
    """Lower a model to core operators, with constants folded.

    ``shapes`` gives inputs another shape than the file does, ``values`` fixes inputs at build time. What the network
    remembers from run to run becomes inputs and outputs of the graph: see `edgec.frontend.states`. Its metadata tell
    the quantization of inputs and outputs. ``tensors``, where it is given, receives the node of every tensor of the
    network by name, ``kept`` the tensor that holds each of the outputs that are states.

    Raises UsageError for shapes and values that do not fit, ModelError for a model that is broken or uses operators
    that are not supported (all of them at once).
    """
    missing = unsupported(model, ops_folders)
    if missing:
        raise unsupported_error(missing, model.where)
    importer = _Importer(model)
    importer.bind(shapes or {}, values or {})
    known = dict(importer.bound)
    results = importer.lower(model.main, known)
    if tensors is not None:
        tensors.update((model.main.tensors[k].name, value.node) for k, value in known.items())
    names = model.main.output_names
    if any(model.main.tensors[k].dtype == registry.COMPLEX for k in names.values()):
        raise ModelError("complex outputs are not supported", hint="return real and imaginary parts", where=model.where)
    outputs = [(name, value.node) for name, value in zip(names, results)]
    for state in sorted(importer.states.values(), key=importer.place):
        if state.value is not None and state.value is not state.given:
            if f"{state.name}_out" in names:
                raise ModelError(f"an output is called '{state.name}_out', which is the name of a state")
            outputs.append((f"{state.name}_out", state.value.node))
            if kept is not None:
                kept[f"{state.name}_out"] = state.tensor
    metadata = _metadata(model, importer)
    return Graph(tuple(importer.inputs.values()), tuple(outputs), model.name, importer.origin, metadata)


class _Importer:
    """Lowers subgraphs, and remembers where every core node came from and what the network remembers."""

    def __init__(self, model: TfliteModel) -> None:
        self.model = model
        self.inputs: dict[str, Node] = {}
        self.bound: dict[int, Value] = {}
        self.origin: dict[Node, tuple[str, ...]] = {}
        self.states: dict[str, State] = {}
        self.handles: dict[int, str] = {}
        self.depth = 0
        self.inlined = 0

    def bind(self, shapes: Mapping[str, Sequence[int]], values: Mapping[str, Any]) -> None:
        """The inputs of the network, as placeholders or as the constants they are fixed to."""
        main = self.model.main
        names = main.input_names
        for option, given in (("shape", shapes), ("value", values)):
            unknown = [name for name in given if name not in names]
            if unknown:
                raise UsageError(
                    f"a {option} is given for {listed(unknown)}, which the model does not have as input",
                    hint=f"its inputs are {listed(names)}",
                    where=self.model.where,
                )
        for name, k in names.items():
            tensor = main.tensors[k]
            if tensor.dtype not in DTYPES:
                raise ModelError(f"input '{printable(name)}' is of type {tensor.dtype}, which is not supported")
            wanted = shapes.get(name) or np.shape(values.get(name, 0)) or tensor.shape
            shape = tuple(int(d) for d in wanted)
            if len(shape) != len(tensor.shape) or any(d < 0 for d in shape):
                told = f"input '{printable(name)}' has shape {list(tensor.shape)}, not {list(shape)}"
                raise UsageError(told, hint="give as many sizes, each 0 or more")
            if name in values:
                self.bound[k] = constant(np.broadcast_to(np.asarray(values[name]), shape).astype(DTYPES[tensor.dtype]))
            else:
                self.inputs[name] = placeholder(name, Type(tensor.dtype, shape))
                self.bound[k] = Value(self.inputs[name])

    def make_state(self, name: str, initial: np.ndarray) -> Value:
        if name in self.inputs:
            raise ModelError(f"an input is called '{printable(name)}', which is the name of a state")
        self.inputs[name] = placeholder(name, Type(dtype_name(initial.dtype), initial.shape))
        return Value(self.inputs[name])

    def place(self, state: State) -> int:
        """Of its input among the inputs; what is only written comes last."""
        names = list(self.inputs)
        return names.index(state.name) if state.name in self.inputs else len(names)

    def lower(self, graph: Subgraph, known: dict[int, Value]) -> list[Value]:
        """The outputs of a subgraph; ``known`` has the values of its inputs, and of every tensor afterwards."""
        for operator in graph.operators:
            where = f"node '{operator.label}' ({printable(operator.name)})"
            try:
                results = self.results(operator, graph, known)
            except EdgecError as error:
                error.where = error.where or where
                raise
            except _BROKEN_PROMISE as error:
                raise ModelError(
                    f"the node does not fit its operator: {type(error).__name__}: {printable(str(error))}",
                    hint="if other tools accept this model, please report it",
                    where=where,
                ) from error
            for k, value in zip(operator.outputs, results):
                known[k] = value
        return [self.look_up(graph, k, known) for k in graph.outputs]

    def look_up(self, graph: Subgraph, k: int, known: dict[int, Value]) -> Value:
        tensor = graph.tensors[k]
        if k not in known:
            if tensor.data is None and 0 in tensor.shape and tensor.dtype in DTYPES:
                known[k] = constant(np.zeros(tensor.shape, DTYPES[tensor.dtype]))  # nothing is all there is to store
            elif tensor.data is None:
                what = (
                    f"of type {tensor.dtype}, which is not supported"
                    if tensor.dtype not in DTYPES
                    else "never computed"
                )
                raise ModelError(f"tensor '{printable(tensor.name)}' is {what}")
            else:
                known[k] = constant(tensor.data)
        return known[k]

    def results(self, operator: Operator, graph: Subgraph, known: dict[int, Value]) -> list[Value]:
        lowering = registry.lowering(operator.name)
        assert lowering is not None  # looked at before
        inputs = tuple(self.operand(graph, k, known) for k in operator.inputs)
        call = TfliteCall(operator, graph, inputs, self.make_state, self.states, self.inline, self.handles)
        scales = [graph.tensors[k].quantization for k in (*operator.inputs, *operator.outputs) if k != ABSENT]
        found: Results
        declared = {graph.tensors[k].dtype for k in operator.inputs if k != ABSENT}
        if registry.COMPLEX in declared:
            if not registry.is_for_complex(operator.name):
                raise ModelError("its operand is complex, which is not supported", hint="take its parts first")
            found = lowering(call)
        elif registry.is_elementwise(operator.name) and all(q is None or q.scales.size == 1 for q in scales):
            found = below_transposes(inputs, lambda *operands: _one(lowering(replace(call, inputs=operands))))
        else:
            found = lowering(call)
        results = [found] if isinstance(found, Value) else list(found)
        if len(results) < len(operator.outputs) and any(graph.tensors[k].dtype in DTYPES for k in operator.outputs):
            raise ModelError(f"it has {len(operator.outputs)} results, and {len(results)} are supported")
        for value, k in zip(results, operator.outputs):
            _check(value, graph.tensors[k])
        self.record(results, inputs, operator.label)
        return results

    def operand(self, graph: Subgraph, k: int, known: dict[int, Value]) -> Value | None:
        """None where it is left out, or is not data: a handle, or a variable that has no value of its own."""
        if k == ABSENT:
            return None
        tensor = graph.tensors[k]
        if k not in known and tensor.data is None and (tensor.variable or tensor.dtype == "resource"):
            return None
        return self.look_up(graph, k, known)

    def inline(self, index: int, inputs: Sequence[Value | None]) -> list[Value]:
        """The outputs of another subgraph on these inputs; one that is None is no data."""
        if not 0 <= index < len(self.model.subgraphs) or self.depth > 8:
            raise ModelError(f"it calls subgraph {index}, which is not there or calls itself")
        graph = self.model.subgraphs[index]
        if len(inputs) != len(graph.inputs):
            raise ModelError(f"it gives {len(inputs)} operands to subgraph {index}, which takes {len(graph.inputs)}")
        self.inlined += 1 + len(graph.operators)
        if self.inlined > _MOST_INLINED:
            raise ModelError(
                f"its subgraphs and loops amount to more than {_MOST_INLINED:,} nodes",
                hint="convert the model with fewer rounds, or with the loop outside of the network",
            )
        self.depth += 1
        outer, self.handles = self.handles, {}
        try:
            return self.lower(graph, {k: v for k, v in zip(graph.inputs, inputs) if v is not None})
        finally:
            self.handles = outer
            self.depth -= 1

    def record(self, results: Sequence[Value], inputs: Sequence[Value | None], label: str) -> None:
        """Note the origin of every core node between the operands of a node and its results."""
        stop = {v.node for v in inputs if v is not None}
        pending = [v.node for v in results]
        seen: set[Node] = set()
        while pending:
            node = pending.pop()
            if node in stop or node in seen or node.op in ("input", "const"):
                continue
            seen.add(node)
            names = self.origin.get(node, ())
            if label not in names:
                self.origin[node] = (*names, label)
            pending.extend(node.args)


def _one(found: Results) -> Value:
    """The value of an operator that has one."""
    if isinstance(found, Value):
        return found
    (value,) = found
    return value


def _check(value: Value, declared: Tensor) -> None:
    """Raises ModelError when a result is of another type than the file says: then something was misunderstood."""
    if declared.dtype in DTYPES and value.dtype != declared.dtype:
        raise ModelError(f"the result is {value.dtype}, and the file declares {declared.dtype}")


def _metadata(model: TfliteModel, importer: _Importer) -> dict[str, str]:
    found = {**model.metadata, "format": f"TensorFlow Lite {model.version}"}
    if model.description:
        found["description"] = model.description
    for name, k in {**model.main.input_names, **model.main.output_names}.items():
        quantization = model.main.tensors[k].quantization
        if quantization is not None and quantization.scales.size == 1:
            found[SCALES + name] = json.dumps([float(quantization.scale), quantization.zero])
    kept = [s for s in sorted(importer.states.values(), key=importer.place) if s.name in importer.inputs]
    return {**found, **states.describe({s.name: (f"{s.name}_out", s.initial) for s in kept})}
