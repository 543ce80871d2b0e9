"""Dropout in training: nodes Dropout of a model as random choices that follow from the number of the step."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from edgec.errors import UsageError
from edgec.frontend.onnx.model import Model, tensor
from edgec.frontend.onnx.operators.dropping import COUNTED, DOMAIN
from edgec.frontend.onnx.support import label_of
from edgec.text import printable

#: The input that numbers the steps.
COUNTER = "dropout_steps"


@dataclass(frozen=True)
class Dropping:
    """The choice of ``--dropout``: the part of the elements that is dropped, None for what the model says of each
    node; and the seed of the random numbers."""

    ratio: float | None = None
    seed: int = 0

    def __str__(self) -> str:
        ratio = "model" if self.ratio is None else f"{self.ratio:g}"
        return f"{ratio},seed={self.seed}" if self.seed else ratio


def dropping_of(text: str) -> Dropping:
    """The choice that a text such as model, 0.1 or 0.1,seed=7 means. Raises UsageError for one that means none."""
    found = re.fullmatch(r"(model|\d*\.?\d+|\d+\.)(?:,seed=(\d{1,9}))?", text.strip())
    ratio = None if found is None or found[1] == "model" else float(found[1])
    if found is None or (ratio is not None and ratio >= 1):
        hint = "write model, or a number from 0 to below 1; a seed may follow, as in 0.1,seed=7"
        raise UsageError(f"'{printable(text)}' is no part to drop", hint=hint, where="--dropout")
    return Dropping(ratio, int(found[2] or 0))


def with_dropout(model: Model, dropping: Dropping) -> tuple[Model, str | None]:
    """The model with its nodes Dropout as random choices, and the input that numbers the steps; None where nothing is
    dropped, and the model as it does inference.

    Raises UsageError for a ratio that is no constant.
    """
    model = without_dropout(model)
    ratios = [_ratio(model, n) if dropping.ratio is None else dropping.ratio for n in _nodes(model.proto)]
    if not any(ratios):
        return model, None
    proto = ModelProto()
    proto.CopyFrom(model.proto)
    taken = {i.name for i in proto.graph.input} | {name for n in proto.graph.node for name in n.output}
    counter = next(
        name for k in range(1, len(taken) + 2) if (name := f"{COUNTER}_{k}" if k > 1 else COUNTER) not in taken
    )
    for stream, (node, ratio) in enumerate(zip(_nodes(proto), ratios)):
        if ratio:
            made = helper.make_node(
                COUNTED, [node.input[0], counter], list(node.output), node.name, domain=DOMAIN, ratio=ratio,
                stream=stream, seed=dropping.seed,
            )  # fmt: skip
            node.CopyFrom(made)
    proto.graph.input.append(helper.make_tensor_value_info(counter, TensorProto.INT32, []))
    proto.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return replace(model, proto=proto, path=None), counter


def without_dropout(model: Model) -> Model:
    """The model with its nodes Dropout as they are at inference, whatever it was exported for."""
    if not any(len(n.input) > 2 and n.input[2] for n in _nodes(model.proto)):
        return model
    proto = ModelProto()
    proto.CopyFrom(model.proto)
    for node in _nodes(proto):
        del node.input[2:]
    return replace(model, proto=proto, path=None)


def _nodes(proto: ModelProto) -> list[NodeProto]:
    return [n for n in proto.graph.node if n.op_type == "Dropout" and n.domain in ("", "ai.onnx")]


def _ratio(model: Model, node: NodeProto) -> float:
    """The part that a node drops."""
    if len(node.input) < 2 or not node.input[1]:
        return float(next((a.f for a in node.attribute if a.name == "ratio"), 0.5))
    graph = model.proto.graph
    held = {t.name: t for t in graph.initializer}
    for n in graph.node:
        if n.op_type == "Constant" and n.output[0] == node.input[1]:
            a = n.attribute[0]
            held[n.output[0]] = a.t if a.name == "value" else numpy_helper.from_array(np.array(a.f, np.float32))
    if node.input[1] not in held:
        hint = "give all nodes one: --dropout 0.1, or 0 for none"
        raise UsageError("the ratio of a dropout is no constant", hint=hint, where=label_of(node))
    found = float(tensor(held[node.input[1]], model.folder).reshape(-1)[0])
    if not 0 <= found < 1:
        hint = "give all nodes another: --dropout 0.1, or 0 for none"
        raise UsageError(f"a dropout of {found:g} of the elements", hint=hint, where=label_of(node))
    return found
