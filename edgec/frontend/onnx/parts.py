"""Parts of a model: what can be built of one that has operators that cannot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import onnx
from onnx import ModelProto, NodeProto, ValueInfoProto

from edgec.frontend.onnx.model import Model, Part
from edgec.frontend.onnx.support import label_of, unsupported
from edgec.text import listed, printable

#: Results that are others in each run, whatever their operands are.
_RANDOM = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")


def parts(
    model: Model,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    ops_folders: Iterable[str | Path] = (),
) -> tuple[list[Model], str]:
    """The parts of a model between operators that cannot be built, the largest first, and why they end there.

    ``shapes`` of inputs and ``dims`` by name are fixed in them. No path leads out of a part and back into it. What
    depends on constants alone is in every part that needs it. Shapes of values between parts are those that onnx
    infers: where it finds none, the part has inputs of unknown shape, and its import tells so.
    """
    ops_folders = tuple(ops_folders)
    known = _inferred(_fixed(model.proto, shapes or {}, dims or {}))
    graph = model.proto.graph
    missing = [unsupported(_alone(model, node), ops_folders) for node in graph.node]
    constants = {t.name for t in graph.initializer} | {s.values.name for s in graph.sparse_initializer}
    folded: dict[str, NodeProto] = {}  # nodes of constants, by their results
    level: dict[str, int] = {}  # refused operators on the longest path to a value
    groups: dict[int, list[NodeProto]] = {}
    rest: list[NodeProto] = []
    for node, refused in zip(graph.node, missing):
        operands = _operands(node)
        if not refused and node.op_type not in _RANDOM and all(o in constants for o in operands):
            folded |= {o: node for o in node.output if o}
            constants |= {o for o in node.output if o}
            continue
        own = max((level.get(o, 0) for o in operands), default=0)
        level |= {o: own + (1 if refused else 0) for o in node.output if o}
        if refused:
            rest.append(node)
        else:
            groups.setdefault(own, []).append(node)
    users: dict[str, list[int]] = {}  # levels of the nodes that read a value; -1 for those that are refused
    for at, nodes in (*groups.items(), (-1, rest)):
        for node in nodes:
            for operand in _operands(node):
                users.setdefault(operand, []).append(at)
    results = {o.name for o in graph.output}
    found = []
    for at, nodes in groups.items():
        made = {o for n in nodes for o in n.output if o}
        wanted = [o for n in nodes for o in n.output if o in results or any(u != at for u in users.get(o, ()))]
        if wanted:
            found.append(_part(model, nodes, made, wanted, constants, folded, known))
    why: dict[tuple[str, str], list[str]] = {}
    for label, operator, hint in (entry for entries in missing for entry in entries):
        why.setdefault((operator, hint), []).append(label)
    told = "; ".join(f"{operator}, used by {listed(labels, 3)}: {hint}" for (operator, hint), labels in why.items())
    return sorted(found, key=lambda part: -len(part.proto.graph.node)), told


def _fixed(proto: ModelProto, shapes: Mapping[str, Sequence[int]], dims: Mapping[str, int]) -> ModelProto:
    """A copy in which dimensions of inputs are numbers where these are given."""
    copy = ModelProto()
    copy.CopyFrom(proto)
    extents, is_other = dict(dims), False
    for value in copy.graph.input:
        for at, dimension in enumerate(value.type.tensor_type.shape.dim):
            given = shapes.get(value.name, ())
            if at < len(given):
                is_other |= dimension.HasField("dim_value") and dimension.dim_value != given[at]
                if dimension.dim_param:
                    extents[dimension.dim_param] = given[at]
                dimension.dim_value = given[at]
            elif dimension.dim_param in dims:
                dimension.dim_value = dims[dimension.dim_param]
    if dims or shapes:  # what was found for open dimensions holds where they have names
        declared = [_with_extents(v, extents) for v in copy.graph.value_info] if not is_other else []
        del copy.graph.value_info[:]
        copy.graph.value_info.extend(v for v in declared if v is not None)
    return copy


def _with_extents(value: ValueInfoProto, extents: Mapping[str, int]) -> ValueInfoProto | None:
    """A declared value with numbers for dimensions with names; None where one has neither."""
    found = ValueInfoProto()
    found.CopyFrom(value)
    for dimension in found.type.tensor_type.shape.dim:
        if dimension.dim_param in extents:
            dimension.dim_value = extents[dimension.dim_param]
        if not dimension.HasField("dim_value"):
            return None
    return found


def _inferred(proto: ModelProto) -> dict[str, ValueInfoProto]:
    """Types and shapes of values by name."""
    with suppress(Exception):  # its errors share no base class; and a model may be too large for it
        proto = onnx.shape_inference.infer_shapes(proto, data_prop=True)
    graph = proto.graph
    return {v.name: v for v in (*graph.value_info, *graph.output, *graph.input)}


def _alone(model: Model, node: NodeProto) -> Model:
    """A model of one node."""
    proto = ModelProto(ir_version=model.proto.ir_version)
    proto.opset_import.extend(model.proto.opset_import)
    proto.functions.extend(model.proto.functions)
    proto.graph.node.append(node)
    return replace(model, proto=proto)


def _operands(node: NodeProto) -> list[str]:
    """Names of the values that a node reads, those of its bodies included."""
    found = [name for name in node.input if name]
    for attribute in node.attribute:
        for body in (attribute.g, *attribute.graphs):
            inside = {v.name for v in body.input} | {t.name for t in body.initializer}
            inside |= {o for n in body.node for o in n.output}
            found += [o for n in body.node for o in _operands(n) if o not in inside]
            found += [v.name for v in body.output if v.name not in inside]
    return found


def _part(
    model: Model,
    nodes: Sequence[NodeProto],
    made: set[str],
    wanted: Sequence[str],
    constants: set[str],
    folded: Mapping[str, NodeProto],
    known: Mapping[str, ValueInfoProto],
) -> Model:
    """The nodes as a model, with what it takes of constants."""
    whole = model.proto
    needed: set[str] = set()
    stack = [o for n in nodes for o in _operands(n) if o in constants]
    while stack:
        name = stack.pop()
        if name not in needed:
            needed.add(name)
            stack += _operands(folded[name]) if name in folded else []
    before = [n for n in whole.graph.node if any(o in needed and folded.get(o) is n for o in n.output)]
    read = dict.fromkeys(o for n in nodes for o in _operands(n) if o not in made and o not in constants)
    proto = ModelProto(ir_version=whole.ir_version)
    proto.opset_import.extend(whole.opset_import)
    proto.functions.extend(whole.functions)
    graph = proto.graph
    graph.name = whole.graph.name
    graph.node.extend([*before, *nodes])
    graph.initializer.extend(t for t in whole.graph.initializer if t.name in needed)
    graph.sparse_initializer.extend(s for s in whole.graph.sparse_initializer if s.values.name in needed)
    graph.input.extend(known.get(name, ValueInfoProto(name=name)) for name in read)
    graph.output.extend(known.get(name, ValueInfoProto(name=name)) for name in dict.fromkeys(wanted))
    return replace(model, proto=proto, part=Part(model))


def told_of(part: Model) -> str:
    """A part in words: its nodes, from the first to the last."""
    nodes = [label_of(n) for n in part.proto.graph.node]
    return printable(f"{len(nodes)} nodes, from {nodes[0]} to {nodes[-1]}" if len(nodes) > 1 else nodes[0])
