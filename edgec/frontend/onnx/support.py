"""Unsupported operators of a model: all of them at once, before any work is done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from onnx import NodeProto

from edgec.errors import ModelError
from edgec.frontend.onnx import call as registry
from edgec.frontend.onnx import operators as _operators  # noqa: F401  (they register)
from edgec.frontend.onnx.call import load_operators
from edgec.frontend.onnx.model import (
    FIRST_COMPLETE_OPSET,
    NEWEST_OPSET,
    Model,
    Source,
    domain_name,
    opset_versions,
    read,
)
from edgec.frontend.onnx.schema import has_body, schema_of
from edgec.text import listed, printable


def label_of(node: NodeProto) -> str:
    """The name of a node in messages and origins: its own, or that of its first output."""
    return printable(node.name or next((o for o in node.output if o), "") or node.op_type)


def unsupported(source: Source | Model, ops_folders: Iterable[str | Path] = ()) -> list[tuple[str, str, str]]:
    """(node, operator, hint) for every operator that cannot be lowered, wherever it stands in the model."""
    for folder in ops_folders:
        load_operators(folder)
    model = source if isinstance(source, Model) else read(source)
    local = {(domain_name(f.domain), f.name) for f in model.proto.functions}
    found: list[tuple[str, str, str]] = []

    def visit(nodes: Iterable[NodeProto], opsets: Mapping[str, int]) -> None:
        for node in nodes:
            key = domain_name(node.domain), node.op_type
            opset = opsets.get(key[0])
            if key not in local and _is_ancient(node, opset):
                found.append((label_of(node), printable(node.op_type), _UPGRADE.format(opset)))
                continue
            for attribute in node.attribute:
                for graph in (attribute.g, *attribute.graphs):
                    visit(graph.node, opsets)
            if key in local or registry.lowering(*key):
                continue
            if registry.reason(*key) is None and has_body(schema_of(node, opset)):
                continue
            spelled = printable(f"{key[0]}::{key[1]}" if key[0] else key[1])
            found.append((label_of(node), spelled, hint_for(node, opset)))

    visit(model.proto.graph.node, model.opsets)
    for function in model.proto.functions:
        visit(function.node, {**model.opsets, **opset_versions(function.opset_import)})
    return found


_UPGRADE = "it meant something else in operator set {}; upgrade with onnx.version_converter.convert_version(model, 17)"


def _is_ancient(node: NodeProto, opset: int | None) -> bool:
    """An operator of a version before the first complete operator set, which changed up to there."""
    if domain_name(node.domain) or opset is None or opset >= FIRST_COMPLETE_OPSET:
        return False
    then, later = schema_of(node, opset), schema_of(node, FIRST_COMPLETE_OPSET)
    return then is not None and (later is None or then.since_version != later.since_version)


def hint_for(node: NodeProto, opset: int | None) -> str:
    """Hint for an operator that is not supported."""
    domain, operator = domain_name(node.domain), printable(node.op_type)
    reason = registry.reason(domain, node.op_type)
    if reason:
        return reason
    if domain:
        spelled = f'"{operator}", domain="{printable(domain)}"'
        return f"lower it yourself: @onnx({spelled}) in a Python file, its folder by --ops"
    if schema_of(node, NEWEST_OPSET) is None:
        return "ONNX has no such operator"
    if schema_of(node, opset) is None:
        return f"operator set {opset} of ONNX has no such operator; export with a newer opset_version"
    return f'lower it yourself: @onnx("{operator}") in a Python file, its folder by --ops'


def unsupported_error(missing: list[tuple[str, str, str]], where: str) -> ModelError:
    """One error that names them all."""
    users: dict[tuple[str, str], list[str]] = {}
    for label, operator, hint in missing:
        users.setdefault((operator, hint), []).append(label)
    lines = [f"  {operator}, used by {listed(labels, 3)}: {hint}" for (operator, hint), labels in users.items()]
    count = f"{len(users)} operators of the model are" if len(users) > 1 else "1 operator of the model is"
    return ModelError(f"{count} not supported\n" + "\n".join(lines), where=where)
