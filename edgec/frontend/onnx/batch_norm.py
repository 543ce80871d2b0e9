"""Batch normalization in training: by the statistics of each batch, which the statistics of the file follow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from onnx import ModelProto, NodeProto, ValueInfoProto, helper

from edgec.errors import UsageError
from edgec.frontend.onnx.model import Model, tensor
from edgec.frontend.onnx.support import label_of
from edgec.frontend.onnx.trainable import Weight
from edgec.text import printable

#: The choices of ``--batch-norm``: the statistics of the file, or those of each batch.
FILE, BATCH = "file", "batch"
#: The first operator set whose nodes say that they train, and what a statistic is as a `Weight`.
_OPSET, STATISTIC = 14, "statistic"


def batch_norm_of(text: str) -> str:
    """The choice that a text means. Raises UsageError for one that means none."""
    if text not in (FILE, BATCH):
        hint = "write file (statistics are those of the file, and stay) or batch (those of each batch)"
        raise UsageError(f"'{printable(text)}' is no source of statistics", hint=hint, where="--batch-norm")
    return text


def statistics_of(model: Model) -> list[Weight]:
    """The means and variances of the batch normalizations of a model.

    Raises UsageError for a model without any, for those that are computed or belong to two nodes, and for an operator
    set that is too old.
    """
    held = {t.name: t for t in model.proto.graph.initializer}
    found: dict[str, Weight] = {}
    for node in _nodes(model.proto):
        for name in node.input[3:5]:
            if name not in held or name in found:
                why = "belongs to two nodes" if name in found else "is no constant of the file"
                hint = "leave out --batch-norm: the statistics are those of the file then"
                raise UsageError(f"the statistic '{printable(name)}' {why}", hint=hint, where=label_of(node))
            found[name] = Weight(name, label_of(node), STATISTIC, 0, tensor(held[name], model.folder))
    if not found:
        hint = "leave out --batch-norm"
        raise UsageError("the model has no batch normalization", hint=hint, where=model.where)
    if (opset := model.opsets.get("", 0)) < _OPSET:
        hint = f"export it with operator set {_OPSET} or later"
        raise UsageError(f"batch normalization of operator set {opset} has no training", hint=hint, where=model.where)
    return list(found.values())


def with_batch_statistics(model: Model) -> tuple[Model, Mapping[str, str]]:
    """The model whose batch normalizations use the statistics of the batch, and by the name of each statistic the
    output that it is after a step."""
    proto = ModelProto()
    proto.CopyFrom(model.proto)
    later: dict[str, str] = {}
    taken = {name for n in proto.graph.node for name in (*n.input, *n.output)} | {i.name for i in proto.graph.input}
    for node in _nodes(proto):
        del node.output[1:]
        kept = [a for a in node.attribute if a.name != "training_mode"]
        del node.attribute[:]
        node.attribute.extend([*kept, helper.make_attribute("training_mode", 1)])
        for name in node.input[3:5]:
            later[name] = next(made for k in range(len(taken) + 1) if (made := f"{name}_after{k or ''}") not in taken)
            taken.add(later[name])
            node.output.append(later[name])
    proto.graph.output.extend(ValueInfoProto(name=name) for name in later.values())
    return replace(model, proto=proto, path=None), later


def _nodes(proto: ModelProto) -> list[NodeProto]:
    return [n for n in proto.graph.node if n.op_type == "BatchNormalization" and n.domain in ("", "ai.onnx")]
