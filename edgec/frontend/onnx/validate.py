"""Validation of a graph: every tensor defined once and before its use, every node as its operator requires.

onnx.checker is asked node by node, so that its complaint comes with the name of the node and no weights are
copied. Nodes in the wrong order are accepted, since their meaning is clear.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import onnx
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto

from edgec.errors import ModelError
from edgec.frontend.onnx.model import Model, domain_name, element_type, opset_versions
from edgec.frontend.onnx.schema import schema_of
from edgec.frontend.onnx.sequences import Item
from edgec.frontend.onnx.strings import Strings
from edgec.frontend.values import Value
from edgec.text import listed, printable


def validate(model: Model) -> None:
    """Raises ModelError for a model whose meaning is not defined."""
    _check_graph(model.proto.graph, set(), model)
    for function in model.proto.functions:
        known = set(function.input)
        _check_names(function.node, known, model.where)
        for node in function.node:
            _check_node(node, {**model.opsets, **opset_versions(function.opset_import)}, model, in_function=True)


def check_declared(model: Model, outputs: Mapping[str, Item]) -> None:
    """Raises ModelError where an output is of another element type than the model declares."""
    for declared in model.proto.graph.output:
        value, kind = outputs[declared.name], declared.type.WhichOneof("value")
        if isinstance(value, Strings) and declared.type.tensor_type.elem_type == TensorProto.STRING:
            continue
        value = value.rows if isinstance(value, Strings) else value
        if isinstance(value, Value) and kind == "tensor_type" and declared.type.tensor_type.elem_type:
            if declared.type.tensor_type.elem_type == TensorProto.STRING and value.dtype == "i64":
                continue  # a label, of which the import has told that it is a number
            wanted = element_type(declared.type.tensor_type.elem_type)
            if wanted != value.dtype:
                raise ModelError(
                    f"output '{printable(declared.name)}' is declared as {wanted}, and is {value.dtype}",
                    hint="export the model again",
                    where=model.where,
                )


def needs(node: NodeProto) -> list[str]:
    """Names a node reads, with those its subgraphs take from outside."""
    names = [n for n in node.input if n]
    for a in node.attribute:
        for graph in (a.g, *a.graphs):
            inside = {i.name for i in graph.input} | {t.name for t in graph.initializer}
            inside |= {o for n in graph.node for o in n.output}
            free = [name for n in graph.node for name in needs(n)] + [o.name for o in graph.output]
            names.extend(n for n in free if n not in inside)
    return names


def in_order(nodes: list[NodeProto], wanted: set[str], where: str) -> list[NodeProto]:
    """The nodes ``wanted`` names need, operands before users; raises ModelError where they run in a circle."""
    producer = {name: k for k, node in enumerate(nodes) for name in node.output if name}
    operands = [sorted({producer[n] for n in needs(node) if n in producer}) for node in nodes]
    done: list[int] = []
    state = dict.fromkeys(range(len(nodes)), "new")
    for root in sorted({producer[n] for n in wanted if n in producer}):
        path: list[tuple[int, int]] = [(root, 0)] if state[root] == "new" else []
        while path:
            k, position = path.pop()
            state[k] = "open"
            if position == len(operands[k]):
                state[k] = "done"
                done.append(k)
                continue
            path.append((k, position + 1))
            operand = operands[k][position]
            if state[operand] == "open":
                names = [nodes[p].name or nodes[p].output[0] for p, _ in path]
                start = [p for p, _ in path].index(operand)
                raise ModelError(f"the nodes {listed(names[start:])} run in a circle", where=where)
            if state[operand] == "new":
                path.append((operand, 0))
    # The file's own order is kept, for it is the one the user knows, unless it is wrong.
    in_file = sorted(done)
    earlier: set[int] = set()
    for k in in_file:
        if not earlier.issuperset(operands[k]):
            return [nodes[p] for p in done]
        earlier.add(k)
    return [nodes[p] for p in in_file]


def _check_graph(graph: GraphProto, outer: set[str], model: Model) -> None:
    known = set(outer)
    own: set[str] = set()
    for name in (i.name for i in graph.input):
        if name in own:
            raise ModelError(f"two inputs are called '{printable(name)}'", where=model.where)
        own.add(name)
    initializers = [t.name for t in graph.initializer] + [s.values.name for s in graph.sparse_initializer]
    if len(set(initializers)) < len(initializers):
        twice = next(n for n in initializers if initializers.count(n) > 1)
        raise ModelError(f"two initializers are called '{printable(twice)}'", where=model.where)
    known |= own | set(initializers)
    inner = _check_names(graph.node, known, model.where)
    for o in graph.output:
        if o.name not in inner:
            raise ModelError(
                f"output '{printable(o.name)}' is computed by no node",
                hint="the file is damaged",
                where=model.where,
            )
    for node in graph.node:
        _check_node(node, model.opsets, model)
        for a in node.attribute:
            for subgraph in (a.g, *a.graphs) if a.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS) else ():
                _check_graph(subgraph, inner, model)


def _check_names(nodes: Iterable[NodeProto], known: set[str], where: str) -> set[str]:
    """Every name the nodes may use; each tensor must have one producer, each operand must have any."""
    nodes = list(nodes)
    produced: set[str] = set()
    for node in nodes:
        for name in filter(None, node.output):
            if name in produced or name in known:
                raise ModelError(
                    f"tensor '{printable(name)}' is computed twice",
                    hint="every tensor of an ONNX graph has one origin",
                    where=_where(node),
                )
            produced.add(name)
    everything = known | produced
    for node in nodes:
        for name in needs(node):
            if name not in everything:
                raise ModelError(
                    f"operand '{printable(name)}' is neither an input nor a weight, and computed by no node",
                    hint="the file is damaged, or was cut out of a larger model",
                    where=_where(node),
                )
    in_order(nodes, {o for n in nodes for o in n.output if o}, where)
    return everything


def _check_node(node: NodeProto, opsets: dict[str, int], model: Model, in_function: bool = False) -> None:
    """onnx.checker's verdict on a node by itself."""
    domain = domain_name(node.domain)
    if domain not in opsets:
        raise ModelError(
            f"the model does not say which version of operator set '{printable(domain or 'ai.onnx')}' it uses",
            hint="add it to opset_import",
            where=_where(node),
        )
    schema = schema_of(node, opsets[domain])
    if schema is None or schema.deprecated:
        # A function of the model, an operator of the user's own, or unsupported: found out later. What a later operator
        # has replaced, which the checker refuses, keeps its meaning: onnxruntime runs GroupNormalization of 18.
        return
    nested = any(a.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS) for a in node.attribute)
    if nested or in_function:
        return  # the checker wants to know the names around a subgraph; they are checked above
    context = onnx.checker.C.CheckerContext()
    context.ir_version = model.proto.ir_version
    try:
        context.opset_imports = opsets
        onnx.checker.check_node(node, context)
    except (UnicodeError, TypeError):
        raise ModelError(
            "its names or versions are no text and no numbers", hint="the file is damaged", where=_where(node)
        ) from None
    except onnx.checker.ValidationError as error:
        text = re.sub(r"\s*==> Context:.*", "", str(error), flags=re.DOTALL).strip()
        raise ModelError(
            f"not a valid ONNX node: {printable(text, 300)}",
            hint="export the model again",
            where=_where(node),
        ) from None


def _where(node: NodeProto) -> str:
    name = node.name or next((o for o in node.output if o), "")
    return f"node '{printable(name)}' ({printable(node.op_type)})"
