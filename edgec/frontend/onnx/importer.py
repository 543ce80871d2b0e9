"""From an ONNX model to a graph of core operators."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, SparseTensorProto, TensorProto

from edgec import limits
from edgec.errors import EdgecError, ModelError, UsageError
from edgec.frontend.onnx import call as registry
from edgec.frontend.onnx.call import Call, ModelWarning, Results, load_operators
from edgec.frontend.onnx.drawn import Drawn
from edgec.frontend.onnx.implied import as_one, implied, lone_batch
from edgec.frontend.onnx.inputs import (
    OpenShapes,
    bind_inputs,
    declared_shapes,
    dimension_hint,
    identifier_of,
)
from edgec.frontend.onnx.model import (
    NEWEST_OPSET,
    Model,
    Source,
    dense,
    domain_name,
    metadata_of,
    opset_versions,
    read,
    tensor,
)
from edgec.frontend.onnx.schema import body_of, check_lengths, check_operands, default_attributes, has_body, schema_of
from edgec.frontend.onnx.scope import Scope, attributes_of, tensors_of, without
from edgec.frontend.onnx.sequences import Item, named, values_of
from edgec.frontend.onnx.strings import Strings, strings
from edgec.frontend.onnx.support import hint_for, label_of, unsupported, unsupported_error
from edgec.frontend.onnx.validate import check_declared, in_order, validate
from edgec.frontend.values import Value, constant
from edgec.ir import expr as X
from edgec.ir.expr import Expr, Extent
from edgec.ir.graph import STRINGS, Graph, Node, placeholder
from edgec.ir.index import lesser, upper
from edgec.options.texts import DimensionRange
from edgec.text import listed, printable

#: The exceptions that a lowering function may raise for a node that violates the standard.
_BROKEN_PROMISE = (
    ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, RecursionError, TypeError,
    ValueError,
)  # fmt: skip

_SUBGRAPH = (AttributeProto.GRAPH, AttributeProto.GRAPHS)


@limits.stage("import")
def import_model(
    source: Source | Model,
    shapes: Mapping[str, Sequence[int]] | None = None,
    *,
    values: Mapping[str, Any] | None = None,
    dims: Mapping[str, DimensionRange] | None = None,
    rounds: Mapping[str, int] | None = None,
    ops_folders: Iterable[str | Path] = (),
    tensors: dict[str, Node] | None = None,
) -> Graph:
    """Read an ONNX model and lower it to core operators, with constants folded.

    ``shapes`` has the shapes of inputs whose dimensions the model leaves open, ``values`` the values of inputs that are
    fixed at build time (and are not inputs of the graph), ``dims`` the ranges (least, most, step) of dimensions that
    stay open until run time, ``rounds`` the largest number of iterations of loops, by the names of their nodes.
    ``ops_folders`` contain Python files with the user's own operators. ``origin`` of the result maps every core node to
    the ONNX nodes that it came from. ``tensors``, where it is given, receives the node of every tensor of the main
    graph, by ONNX name.

    Raises UsageError for shapes that are missing or do not fit, ModelError for a model that is invalid or has
    unsupported operators (all of them in one error).
    """
    for folder in ops_folders:
        load_operators(folder)
    model = source if isinstance(source, Model) else read(source)
    check(model)
    inputs, bound = _bound(model, shapes or {}, values or {}, dims or {}, rounds or {})
    names = _output_names(model)
    importer, scope = lower_model(model, inputs, bound, rounds or {}, names)
    unused = [name for name in importer.rounds if name not in importer.bounded]
    if unused:
        hint = f"loops without a number of rounds are {listed(importer.bounded) or 'none'}"
        raise UsageError(f"rounds are given for {listed(unused)}, no Loop of the model", hint=hint, where=model.where)
    found = {name: importer.look_up(scope, name) for name in names}
    check_declared(model, found)
    outputs = tuple((label, v.node) for name in names for label, v in named(name, found[name]))
    if not outputs:
        raise ModelError("no output of the model has a value", hint="all are empty sequences", where=model.where)
    if len({label for label, _ in outputs}) < len(outputs):
        hint = "an output that is a sequence becomes the outputs NAME[0], NAME[1], ..."
        raise ModelError(f"outputs share a name: {listed(label for label, _ in outputs)}", hint=hint, where=model.where)
    if tensors is not None:
        tensors.update((label, v.node) for name, item in scope.names.items() for label, v in named(name, item))
    ends = {**importer.given, **found}
    texts = {STRINGS + name: "" for name, item in ends.items() if isinstance(item, Strings)}
    sizes, told = tuple(importer.sizes.items()), {**metadata_of(model), **importer.drawn.metadata, **texts}
    inputs, outputs = (*inputs, *importer.drawn.inputs), (*outputs, *importer.drawn.outputs)
    return Graph(inputs, outputs, model.name, importer.origin, told, sizes, tuple(importer.demands))


def check(model: Model) -> None:
    """Raises ModelError for a model that is invalid or has unsupported operators."""
    validate(model)
    missing = unsupported(model)
    if missing:
        raise unsupported_error(missing, model.where)


def _bound(
    model: Model,
    shapes: Mapping[str, Sequence[int]],
    values: Mapping[str, Any],
    dims: Mapping[str, DimensionRange],
    rounds: Mapping[str, int],
) -> tuple[tuple[Node, ...], dict[str, Item]]:
    """The inputs; open dimensions that the user does not give are those that the operators imply, and a batch is 1."""
    try:
        return bind_inputs(model, shapes, values, dims)
    except OpenShapes:

        def lower(shapes: Mapping[str, Sequence[int]], extents: Mapping[str, Extent]) -> None:
            inputs, bound = bind_inputs(model, shapes, values, dims, extents)
            lower_model(model, inputs, bound, rounds, [o.name for o in model.proto.graph.output])

        declared = declared_shapes(model, shapes, values)
        known = {**{n: np.shape(v) for n, v in values.items() if np.ndim(v)}, **shapes}
        extents = implied(declared, known, dims, lower)
        batch = lone_batch(declared, known, {*extents, *dims})
        if batch:
            told = f"the first dimension of the inputs ('{printable(batch[0])}') is open and taken as 1"
            warnings.warn(f"{told}; {dimension_hint(batch[0])} keeps it open", ModelWarning, stacklevel=2)
        return bind_inputs(model, shapes, values, dims, as_one(extents, batch))


def lower_model(
    model: Model, inputs: Sequence[Node], bound: dict[str, Item], rounds: Mapping[str, int], names: Sequence[str]
) -> tuple[Importer, Scope]:
    """The nodes that the outputs ``names`` need, lowered."""
    importer = Importer(model, rounds)
    importer.size_names.update(s.value.name for n in inputs for s in n.sizes)
    graph = model.proto.graph
    importer.given = dict(bound)
    scope = Scope(bound, model.opsets, tensors_of(graph))
    importer.lower_nodes(graph.node, scope, set(names))
    return importer, scope


def _output_names(model: Model) -> list[str]:
    """Names of the model's outputs, in order; a name that is listed twice is one output."""
    declared = [o.name for o in model.proto.graph.output]
    names = list(dict.fromkeys(declared))
    for name in names:
        if declared.count(name) > 1:
            warnings.warn(f"output '{printable(name)}' is listed twice; it is one output", ModelWarning, stacklevel=3)
    return names


class Importer:
    """Lowers nodes in their scopes, and records the origin of every core node."""

    def __init__(self, model: Model, rounds: Mapping[str, int]) -> None:
        self.model = model
        self.rounds = rounds
        self.bounded: set[str] = set()  # names of lowered nodes: those in ``rounds`` that are missing here do not exist
        self.functions = {(domain_name(f.domain), f.name): f for f in model.proto.functions}
        self.origin: dict[Node, tuple[str, ...]] = {}
        self.sizes: dict[Expr, Node] = {}
        self.size_names: set[str] = set()
        self.demands: list[tuple[str, Node]] = []
        self.given: dict[str, Item] = {}
        self.drawn = Drawn({i.name for i in model.proto.graph.input} | {o.name for o in model.proto.graph.output})

    def look_up(self, scope: Scope | None, name: str) -> Item:
        while scope is not None:
            if name not in scope.names and name in scope.tensors:
                scope.names[name] = self.initializer(scope.tensors[name])
            if name in scope.names:
                return scope.names[name]
            scope = scope.outer
        raise ModelError(f"tensor '{printable(name)}' is used but never computed", where=self.model.where)

    def initializer(self, proto: TensorProto | SparseTensorProto) -> Item:
        try:
            if isinstance(proto, TensorProto) and proto.data_type == TensorProto.STRING:
                return strings(proto)
            array = tensor(proto, self.model.folder) if isinstance(proto, TensorProto) else dense(proto)
        except ModelError as error:
            error.where = self.model.where
            raise
        return constant(array)

    def lower_nodes(self, nodes: Iterable[NodeProto], scope: Scope, wanted: set[str]) -> None:
        """Lower the nodes that ``wanted`` names need, in an order in which every operand comes first."""
        for node in in_order(list(nodes), wanted, self.model.where):
            self.lower(node, scope)

    def lower(self, node: NodeProto, scope: Scope) -> None:
        label = scope.prefix + label_of(node)
        where = f"node '{printable(label)}' ({printable(node.op_type)})"
        inputs = tuple(self.look_up(scope, name) if name else None for name in node.input)
        try:
            with limits.at(where):
                limits.node()
                results = self.results(node, scope, label, where, inputs)
        except EdgecError as error:
            error.where = error.where or where
            raise
        except _BROKEN_PROMISE as error:
            extents = (n for v in inputs if isinstance(v, Value) for n in v.shape)
            if isinstance(error, TypeError) and any(isinstance(n, Expr) for n in extents):
                raise ModelError(
                    "what the node computes needs dimensions that are known at build time",
                    hint="build for one shape with --shape instead of --dim",
                    where=where,
                ) from error
            raise ModelError(
                f"the node does not fit its operator: {type(error).__name__}: {printable(str(error))}",
                hint="if other tools accept this model, please report it",
                where=where,
            ) from error
        found = (results,) if isinstance(results, Item) else tuple(results)
        for k, name in enumerate(node.output):
            value = found[k] if k < len(found) else None
            if name and value is None:
                raise ModelError(f"output {k} ('{printable(name)}') is not supported", where=where)
            if name and value is not None:
                scope.names[name] = value

    def results(self, node: NodeProto, scope: Scope, label: str, where: str, inputs: Sequence[Item | None]) -> Results:
        """Results of a node: by a function of the model, a registered lowering, or the standard's own body."""
        domain, place = domain_name(node.domain), scope.place + next((o for o in node.output if o), label)
        opset = scope.opsets.get(domain, 1)
        given = attributes_of(node, scope.attributes)
        function = self.functions.get((domain, node.op_type))
        if function is not None:
            return self.lower_function(function, inputs, given, scope, label, place)
        # An operator newer than the declared operator set is against the letter, but its meaning is clear.
        schema = schema_of(node, opset) or schema_of(node, NEWEST_OPSET if domain == "" else None)
        check_operands(schema, inputs)
        complete = {**default_attributes(schema), **given}
        lowering = registry.lowering(domain, node.op_type, inputs)
        if lowering is None:
            if not has_body(schema):
                raise ModelError("the operator is not supported", hint=hint_for(node, opset))
            check_lengths(node.op_type, inputs)
            body = body_of(schema, node, list(given.values()), opset, inputs)
            return self.lower_function(body, inputs, complete, scope, label, place)
        nested = any(a.type in _SUBGRAPH for a in given.values())
        call = Call(
            node.op_type, domain, opset, where, tuple(inputs),
            {name: self.attribute(a) for name, a in complete.items()}, tuple(node.output),
            lambda count, most: self.new_size(count, most, node.output[0] if node.output else label),
            lambda condition, message: self.demand(condition, f"{where}: {message}"),
            self.rounds.get(label_of(node)), lambda shape, seed: self.drawn.numbers(place, shape, seed),
            self.function_of if scope.outer is None and not scope.calls else None,
            self.inliner(scope, label, place) if nested else None,
        )  # fmt: skip
        self.bounded.add(label_of(node))
        results = lowering(call)
        self.record(results, inputs, label, nested)
        return results

    def function_of(self, y: str, names: Sequence[str], like: Sequence[Value]) -> tuple[Node, list[Node]]:
        """A tensor of the main graph as a function of others: its node, and those of its variables."""
        variables = [placeholder(f"variable {n}", v.type) for n, v in zip(names, like)]
        graph, bound = self.model.proto.graph, dict(zip(names, map(Value, variables)))
        scope = Scope({**self.given, **bound}, self.model.opsets, tensors_of(graph))
        sizes, demands, self.demands = len(self.sizes), self.demands, []
        self.lower_nodes([n for n in graph.node if not bound.keys() & set(n.output)], scope, {y})
        self.demands = demands  # they hold for the values that the model itself computes
        found = self.look_up(scope, y)
        if not isinstance(found, Value) or len(self.sizes) > sizes:
            raise ModelError(f"'{printable(y)}' has no derivative", hint="it is no tensor of a shape that is known")
        return found.node, variables

    def new_size(self, count: Value, most: Extent, name: str) -> Extent:
        """A size that the graph computes, at most ``most``; equal nodes give the same size."""
        node = count.reshape().cast("i64").node
        for size, known in self.sizes.items():
            if known is node:
                return lesser(size, most)
        size = X.size(identifier_of(name, self.size_names), 0, upper(most))
        if size.op == "size":
            self.sizes[size] = node
        return lesser(size, most)  # the bound is part of the formula, as the size's own range may be wider

    def demand(self, condition: Value, message: str) -> None:
        """Add a runtime assertion; raises ModelError when the condition is known to be false."""
        node = condition.reshape().node
        if node.is_const:
            if not node.value:
                raise ModelError(message)
        elif (message, node) not in self.demands:
            self.demands.append((message, node))

    def attribute(self, a: AttributeProto) -> Any:
        """The value of an attribute: a Python value, an array, or a subgraph as its message."""
        if a.type == AttributeProto.TENSOR:
            return strings(a.t) if a.t.data_type == TensorProto.STRING else tensor(a.t, self.model.folder)
        if a.type == AttributeProto.SPARSE_TENSOR:
            return dense(a.sparse_tensor)
        value = onnx.helper.get_attribute_value(a)
        if a.type == AttributeProto.STRING:
            return value.decode("utf-8", "replace")
        if a.type == AttributeProto.STRINGS:
            return tuple(v.decode("utf-8", "replace") for v in value)
        return tuple(value) if a.type in (AttributeProto.INTS, AttributeProto.FLOATS) else value

    def inliner(self, scope: Scope, label: str, place: str) -> Callable[..., list[Item]]:
        def inline(
            graph: GraphProto,
            inputs: Sequence[Item] = (),
            suffix: str = "",
            when: Value | None = None,
            pure: bool = False,
        ) -> list[Item]:
            """Lower a subgraph with ``inputs`` in place of its formal inputs; returns its outputs.

            Its runtime assertions hold only ``when`` it is taken, and are dropped when it cannot be lowered. One that
            has to be ``pure`` cannot be where it has any, sizes of its own, or random numbers.
            """
            others, self.demands = self.demands, []
            sizes, streams = dict(self.sizes), dict(self.drawn.streams)
            try:
                results = lowered(graph, inputs, suffix)
                if pure and (self.demands or self.sizes != sizes or self.drawn.streams != streams):
                    self.sizes, self.drawn.streams = sizes, streams
                    raise ModelError("it is more than a function of its inputs")
                return results
            except ModelError:
                self.demands = []
                raise
            finally:
                found, self.demands = self.demands, others
                for message, node in found:
                    self.demand(Value(node) if when is None else Value(node) | ~when.reshape(), message)

        def lowered(graph: GraphProto, inputs: Sequence[Item], suffix: str) -> list[Item]:
            names = dict(zip((i.name for i in graph.input), inputs))
            inner = replace(
                scope, names=names, tensors=tensors_of(graph), outer=scope, prefix=f"{label}{suffix}/",
                place=f"{place}{suffix}/",
            )  # fmt: skip
            outputs = [o.name for o in graph.output]
            self.lower_nodes(graph.node, inner, set(outputs))
            return [self.look_up(inner, name) for name in outputs]

        return inline

    def lower_function(
        self,
        function: FunctionProto,
        inputs: Sequence[Item | None],
        given: Mapping[str, AttributeProto],
        scope: Scope,
        label: str,
        place: str,
    ) -> list[Item | None]:
        """Lower the body of a function in the place of a call to it; None for outputs it does not compute."""
        if function.name in scope.calls and (domain_name(function.domain), function.name) in self.functions:
            raise ModelError(f"function '{printable(function.name)}' calls itself", hint="ONNX has no recursion")
        names = {name: value for name, value in zip(function.input, inputs) if value is not None}
        absent = {name for name in function.input if name not in names}
        attributes = {**{a.name: a for a in function.attribute_proto}, **given}
        opsets = {**scope.opsets, **opset_versions(function.opset_import)}
        calls = (*scope.calls, function.name)
        inner = Scope(names, opsets, prefix=f"{label}/", place=f"{place}/", attributes=attributes, calls=calls)
        self.lower_nodes([without(node, absent) for node in function.node], inner, set(function.output))
        return [inner.names.get(name) for name in function.output]

    def record(self, results: Results, inputs: Sequence[Item | None], label: str, nested: bool) -> None:
        """Note the origin of every core node between the operands of an ONNX node and its results."""
        stop = {v.node for v in values_of(inputs)}
        pending = [v.node for v in values_of([results] if isinstance(results, Item) else results)]
        seen: set[Node] = set()
        while pending:
            node = pending.pop()
            # Nodes of a subgraph have their origin already, and so have nodes from the outer scope that it reads.
            if node in stop or node in seen or node.op in ("input", "const") or (nested and node in self.origin):
                continue
            seen.add(node)
            names = self.origin.get(node, ())
            if label not in names:
                self.origin[node] = (*names, label)
            pending.extend(node.args)
