"""From an ONNX model to a graph of core operators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, NodeProto, TypeProto

from edgec.errors import EdgecError, ModelError
from edgec.frontend import call as registry
from edgec.frontend import operators as _operators  # noqa: F401  (they register)
from edgec.frontend.call import Call, Results, load_operators
from edgec.frontend.inputs import bind_inputs
from edgec.frontend.model import Model, Source, dense, domain_name, opset_versions, read, tensor
from edgec.frontend.text import listed, printable
from edgec.frontend.validate import in_order, schema_of, validate
from edgec.frontend.values import Value, constant
from edgec.ir.graph import Graph, Node

#: Functions may call functions, but no deeper than this (one that calls itself never ends).
_MAX_DEPTH = 50


def import_model(
    source: Source,
    shapes: Mapping[str, Sequence[int]] | None = None,
    *,
    values: Mapping[str, Any] | None = None,
    ops_folders: Iterable[str | Path] = (),
) -> Graph:
    """Read an ONNX model and lower it to core operators, with constants folded.

    ``shapes`` gives the shape of inputs whose dimensions the model leaves open, ``values`` fixes inputs at build
    time (they are then no inputs of the graph), ``ops_folders`` hold Python files with operators of the user's own.
    ``origin`` of the result names the ONNX nodes every core node came from; the names are untrusted text.

    Raises UsageError for shapes that are missing or do not fit, ModelError for a model that is broken or
    uses operators that are not supported (all of them at once).
    """
    for folder in ops_folders:
        load_operators(folder)
    model = read(source)
    validate(model)
    missing = unsupported(model)
    if missing:
        raise _unsupported_error(missing, model.where)
    inputs, bound = bind_inputs(model, shapes or {}, values or {})
    importer = _Importer(model)
    scope = _Scope({**importer.initializers(model.proto.graph), **bound}, model.opsets)
    importer.lower_nodes(model.proto.graph.node, scope, set(o.name for o in model.proto.graph.output))
    outputs = tuple((o.name, importer.look_up(scope, o.name).node) for o in model.proto.graph.output)
    return Graph(inputs, outputs, model.name, importer.origin, _metadata(model))


def unsupported(source: Source | Model, ops_folders: Iterable[str | Path] = ()) -> list[tuple[str, str, str]]:
    """(node, operator, hint) for every operator that cannot be lowered, wherever it stands in the model."""
    for folder in ops_folders:
        load_operators(folder)
    model = source if isinstance(source, Model) else read(source)
    local = {(domain_name(f.domain), f.name) for f in model.proto.functions}
    found: list[tuple[str, str, str]] = []

    def visit(nodes: Iterable[NodeProto], opsets: Mapping[str, int]) -> None:
        for node in nodes:
            domain = domain_name(node.domain)
            key = domain, node.op_type
            for attribute in node.attribute:
                for graph in (attribute.g, *attribute.graphs):
                    visit(graph.node, opsets)
            if key in local or registry.lowering(*key) or _standard_function(node, opsets.get(domain)):
                continue
            spelled = f"{domain}::{node.op_type}" if domain else node.op_type
            found.append((_label(node), printable(spelled), _hint(node, domain, opsets.get(domain))))

    visit(model.proto.graph.node, model.opsets)
    for function in model.proto.functions:
        visit(function.node, opset_versions(function.opset_import))
    return found


def _standard_function(node: NodeProto, opset: int | None) -> bool:
    """Whether the ONNX standard itself defines the operator by other operators."""
    if registry.reason(domain_name(node.domain), node.op_type):
        return False
    schema = schema_of(node, opset)
    return schema is not None and bool(schema.has_function or schema.has_context_dependent_function)


def _hint(node: NodeProto, domain: str, opset: int | None) -> str:
    reason = registry.reason(domain, node.op_type)
    if reason:
        return reason
    if domain:
        return f'write @onnx("{printable(node.op_type)}", domain="{printable(domain)}") in a file of your own, and --ops its folder'
    if schema_of(node, opset) is None:
        return f"operator set {opset} of ONNX has no such operator"
    return "no lowering to core operators exists yet"


def _unsupported_error(missing: list[tuple[str, str, str]], where: str) -> ModelError:
    kinds: dict[tuple[str, str], list[str]] = {}
    for label, operator, hint in missing:
        kinds.setdefault((operator, hint), []).append(label)
    lines = [f"  {operator}, used by {listed(labels, 3)}: {hint}" for (operator, hint), labels in kinds.items()]
    count = len({operator for operator, _ in kinds})
    return ModelError(
        f"{count} operator{'s' if count > 1 else ''} of the model {'are' if count > 1 else 'is'} not supported\n"
        + "\n".join(lines),
        hint="export the model without them, or add them from outside: --ops FOLDER",
        where=where,
    )


def _metadata(model: Model) -> dict[str, str]:
    proto = model.proto
    found = {printable(p.key): printable(p.value, 1000) for p in proto.metadata_props}
    if proto.producer_name:
        found["producer"] = printable(f"{proto.producer_name} {proto.producer_version}".strip())
    found["opset"] = ", ".join(f"{printable(d) or 'ai.onnx'} {v}" for d, v in sorted(model.opsets.items()))
    return found


def _label(node: NodeProto) -> str:
    """The name of a node in messages and origins: its own, or that of its first output."""
    return printable(node.name or next((o for o in node.output if o), "") or node.op_type)


@dataclass
class _Scope:
    """What names mean at one place of the model; inner scopes see the outer ones' names."""

    names: dict[str, Value]
    opsets: Mapping[str, int]
    outer: _Scope | None = None
    prefix: str = ""
    #: Attributes of the function being lowered, for nodes that refer to them.
    attributes: Mapping[str, AttributeProto] = field(default_factory=dict)
    depth: int = 0


class _Importer:
    def __init__(self, model: Model) -> None:
        self.model = model
        self.functions = {(domain_name(f.domain), f.name): f for f in model.proto.functions}
        self.origin: dict[Node, tuple[str, ...]] = {}

    def initializers(self, graph: GraphProto) -> dict[str, Value]:
        found = {t.name: constant(tensor(t, self.model.folder)) for t in graph.initializer}
        return {**found, **{s.values.name: constant(dense(s)) for s in graph.sparse_initializer}}

    def look_up(self, scope: _Scope | None, name: str) -> Value:
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.outer
        raise ModelError(f"tensor '{printable(name)}' is used but never computed", where=self.model.where)

    def lower_nodes(self, nodes: Iterable[NodeProto], scope: _Scope, wanted: set[str]) -> None:
        """Lower the nodes that ``wanted`` names need, in an order in which every operand comes first."""
        for node in in_order(list(nodes), wanted, self.model.where):
            self.lower(node, scope)

    def lower(self, node: NodeProto, scope: _Scope) -> None:
        domain = domain_name(node.domain)
        label = scope.prefix + _label(node)
        inputs = tuple(self.look_up(scope, name) if name else None for name in node.input)
        given = self.attributes(node, scope)
        outputs = tuple(node.output)
        function = self.functions.get((domain, node.op_type))
        opset = scope.opsets.get(domain, 1)
        schema = schema_of(node, opset)
        try:
            if function is not None:
                results: Results = self.lower_function(function, inputs, given, scope, label)
            else:
                values = _defaults(schema) if schema else {}
                values |= {name: self.attribute(a) for name, a in given.items()}
                call = Call(node.op_type, domain, opset, f"node '{label}' ({node.op_type})", inputs, values, outputs)
                lowering = registry.lowering(domain, node.op_type)
                if lowering is not None:
                    nested = any(a.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS) for a in given.values())
                    if nested:
                        call = replace(call, inline=self.inliner(scope, label))
                    results = lowering(call)
                    self.record(results, inputs, label, nested)
                else:
                    body = _function_body(node, list(given.values()), schema, opset, inputs)
                    defaults = {a.name: a.default_value for a in schema.attributes.values()} if schema else {}
                    results = self.lower_function(body, inputs, {**defaults, **given}, scope, label)
        except EdgecError as error:
            if error.where is None:
                error.where = f"node '{label}' ({printable(node.op_type)})"
            raise
        except (
            ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError
        ) as error:
            # Lowering functions trust the shapes and attributes that the standard promises; a node that breaks
            # the promise ends here.
            raise ModelError(
                f"the node does not fit its operator: {type(error).__name__}: {printable(str(error))}",
                hint="if other tools accept this model, please report it",
                where=f"node '{label}' ({printable(node.op_type)})",
            ) from error
        found = (results,) if isinstance(results, Value) else tuple(results)
        for k, name in enumerate(outputs):
            value = found[k] if k < len(found) else None
            if name and value is None:
                raise ModelError(
                    f"output {k} ('{printable(name)}') is not supported", where=f"node '{label}' ({node.op_type})"
                )
            if name and value is not None:
                scope.names[name] = value

    def attributes(self, node: NodeProto, scope: _Scope) -> dict[str, AttributeProto]:
        """Attributes by name; in a function, those that stand for one of the function's own are looked up."""
        found = {}
        for a in node.attribute:
            if not a.ref_attr_name:
                found[a.name] = a
            elif a.ref_attr_name in scope.attributes:
                found[a.name] = scope.attributes[a.ref_attr_name]
        return {name: a for name, a in found.items() if a.type != AttributeProto.UNDEFINED}

    def attribute(self, a: AttributeProto) -> Any:
        if a.type == AttributeProto.TENSOR:
            return tensor(a.t, self.model.folder)
        if a.type == AttributeProto.SPARSE_TENSOR:
            return dense(a.sparse_tensor)
        return _plain(a)

    def inliner(self, scope: _Scope, label: str) -> Any:
        def inline(graph: GraphProto, inputs: Sequence[Value] = (), suffix: str = "") -> list[Value]:
            """Lower a subgraph whose formal inputs are ``inputs``; gives its outputs."""
            names = {**self.initializers(graph), **dict(zip((i.name for i in graph.input), inputs))}
            inner = replace(scope, names=names, outer=scope, prefix=f"{label}{suffix}/", depth=scope.depth + 1)
            outputs = [o.name for o in graph.output]
            self.lower_nodes(graph.node, inner, set(outputs))
            return [self.look_up(inner, name) for name in outputs]

        return inline

    def lower_function(
        self,
        function: onnx.FunctionProto,
        inputs: Sequence[Value | None],
        given: Mapping[str, AttributeProto],
        scope: _Scope,
        label: str,
    ) -> list[Value | None]:
        """Lower the body of a function in the place of a call to it; None for outputs that it does not compute."""
        if scope.depth >= _MAX_DEPTH:
            raise ModelError(f"function '{printable(function.name)}' calls itself", where=self.model.where)
        names = {name: value for name, value in zip(function.input, inputs) if value is not None}
        absent = {name for name in function.input if name not in names}
        attributes = {**{a.name: a for a in function.attribute_proto}, **given}
        opsets = {**scope.opsets, **opset_versions(function.opset_import)}
        inner = _Scope(names, opsets, None, f"{label}/", attributes, scope.depth + 1)
        nodes = [_without(node, absent) for node in function.node]
        self.lower_nodes(nodes, inner, set(function.output))
        return [inner.names.get(name) for name in function.output]

    def record(self, results: Results, inputs: Sequence[Value | None], label: str, nested: bool) -> None:
        """Note the origin of every core node between the operands of an ONNX node and its results."""
        stop = {v.node for v in inputs if v is not None}
        pending = [v.node for v in ([results] if isinstance(results, Value) else results)]
        seen: set[Node] = set()
        while pending:
            node = pending.pop()
            if node in stop or node in seen or node.op in ("input", "const") or (nested and node in self.origin):
                continue
            seen.add(node)
            names = self.origin.get(node, ())
            if label not in names:
                self.origin[node] = (*names, label)
            pending.extend(node.args)


def _without(node: NodeProto, absent: set[str]) -> NodeProto:
    """The node with operands that the caller of the function left out left out here too."""
    if not absent.intersection(node.input):
        return node
    result = NodeProto()
    result.CopyFrom(node)
    del result.input[:]
    result.input.extend("" if name in absent else name for name in node.input)
    return result


def _plain(a: AttributeProto) -> Any:
    value = onnx.helper.get_attribute_value(a)
    if a.type == AttributeProto.STRING:
        return value.decode("utf-8", "replace")
    if a.type == AttributeProto.STRINGS:
        return tuple(v.decode("utf-8", "replace") for v in value)
    return tuple(value) if a.type in (AttributeProto.INTS, AttributeProto.FLOATS) else value


def _defaults(schema: onnx.defs.OpSchema) -> dict[str, Any]:
    found = {name: a.default_value for name, a in schema.attributes.items()}
    return {name: _plain(value) for name, value in found.items() if value.type != AttributeProto.UNDEFINED}


def _function_body(
    node: NodeProto,
    attributes: list[AttributeProto],
    schema: onnx.defs.OpSchema | None,
    opset: int,
    inputs: Sequence[Value | None],
) -> onnx.FunctionProto:
    """The standard's own definition of an operator by other operators."""
    assert schema is not None
    function = onnx.FunctionProto()
    if schema.has_context_dependent_function:
        concrete = NodeProto()
        concrete.CopyFrom(node)
        del concrete.attribute[:]
        concrete.attribute.extend(attributes)
        types = [_type_proto(v) for v in inputs]
        versions = [v for v in schema.context_dependent_function_opset_versions if v <= opset]
        text = schema.get_context_dependent_function_with_opset_version(
            max(versions, default=opset), concrete.SerializeToString(), [t.SerializeToString() for t in types]
        )
    else:
        versions = [v for v in schema.function_opset_versions if v <= opset]
        text = schema.get_function_with_opset_version(max(versions, default=opset))
    function.ParseFromString(text)
    return function


def _type_proto(value: Value | None) -> TypeProto:
    if value is None:
        return TypeProto()
    from edgec.ir.types import DTYPES

    code = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(DTYPES[value.dtype]))
    return onnx.helper.make_tensor_type_proto(code, value.shape)
