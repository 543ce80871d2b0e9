"""Losses of the user's own: an ONNX graph from the answers of a network and their targets to one number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnx import TensorProto, ValueInfoProto

from edgec.differentiate.gradient import cut_paths, gradients
from edgec.differentiate.losses import LOSSES, Cost, Loss
from edgec.errors import ModelError, UsageError
from edgec.frontend.onnx.importer import import_model
from edgec.frontend.onnx.model import Model
from edgec.frontend.onnx.trainable import with_batch
from edgec.frontend.values import Value
from edgec.ir.graph import Graph, Node, intern, rewrite
from edgec.ir.types import Type
from edgec.text import listed, printable


def own_loss(model: Model, answers: Type) -> Loss:
    """The loss that a model computes from its two inputs: ``answers``, whose shape the first one takes, and targets.

    An open dimension of the targets has the extent that the answers have for it, by its name.
    Raises UsageError for a model of other inputs or outputs, or one that no derivative passes.
    """
    given = [i for i in model.proto.graph.input if i.name not in {t.name for t in model.proto.graph.initializer}]
    if len(given) != 2:
        names = listed(i.name for i in given)
        raise UsageError(
            f"a loss has two inputs, answers and targets, and this one has {len(given)} ({names})",
            hint="what else it needs are constants of the graph", where=model.where,
        )  # fmt: skip
    extents: dict[str, int] = {}
    shape = [int(n) for n in answers.shape]
    _bound(given[0], shape, extents, model.where)
    wanted = _filled(given[1], extents, model.where)
    shapes = {given[0].name: shape, given[1].name: wanted}
    graph = import_model(with_batch(model, shapes), shapes=shapes)
    ((_, loss), *others) = graph.outputs
    asked, target = (_input(graph, g.name) for g in given)
    if others or loss.type.dtype != "f32" or loss.type.elements != 1 or graph.sizes:
        told = ", ".join(str(n.type) for _, n in graph.outputs)
        raise UsageError(f"a loss is one float of 32 bits, and this one {told}", hint="reduce it", where=model.where)
    if asked.type != answers:
        hint = "the first input of a loss are the answers"
        raise UsageError(f"a loss of {asked.type} for answers of {answers}", hint=hint, where=model.where)
    try:
        (slope,) = gradients(loss, [asked], origin=graph.origin)
    except ModelError as error:
        where = f"{model.where}, {error.where}" if error.where else model.where
        raise UsageError(error.message, hint="write the loss with other operators", where=where) from None
    if slope is None:
        hint = "; ".join(f"{listed(graph.names(c.node))}: {c.reason}" for c in cut_paths(loss, [asked])[:3])
        raise UsageError("the loss does not follow its answers", hint=hint or "use the first input", where=model.where)
    whole = Graph(graph.inputs, (("loss", loss), ("slope", slope), *graph.demands), origin=graph.origin)

    def compute(x: Value, t: Value, axis: int) -> Cost:
        placed = {asked: x.node, target: t.node}
        made = rewrite(whole, lambda n, args: placed.get(n) or _again(n, args))
        (_, number), (_, by), *demands = made.outputs
        valid = None
        for _, holds in demands:
            valid = Value(holds) if valid is None else valid & Value(holds)
        return Cost(Value(number).reshape(), Value(by), valid)

    return Loss(compute, target_type=target.type)


def _again(n: Node, args: Sequence[Node]) -> Node:
    return n if tuple(args) == n.args else intern(n.op, tuple(args), n.attributes, n.type)


def _input(graph: Graph, name: str) -> Node:
    return next(n for n in graph.inputs if n.attributes["name"] == name)


def _dimensions(given: ValueInfoProto) -> Sequence[Any] | None:
    """The declared dimensions; None where not even their number is."""
    kind = given.type.tensor_type
    return kind.shape.dim if kind.HasField("shape") else None


def _bound(given: ValueInfoProto, shape: Sequence[int], extents: dict[str, int], where: str) -> None:
    """Add what the names of open dimensions mean, those of answers of ``shape``."""
    declared = _dimensions(given)
    if declared is None:
        return
    pairs = list(zip(declared, shape))
    fits = len(declared) == len(shape) and all(not d.HasField("dim_value") or d.dim_value == n for d, n in pairs)
    for d, n in pairs:
        if d.dim_param and extents.setdefault(d.dim_param, n) != n:
            fits = False
    if not fits:
        told = ", ".join(d.dim_param or str(d.dim_value) for d in declared)
        raise UsageError(
            f"answers of shape {list(shape)} for the input '{printable(given.name)}' of shape [{told}]",
            hint="export the loss with open dimensions, or with those of the answers", where=where,
        )  # fmt: skip


def _filled(given: ValueInfoProto, extents: dict[str, int], where: str) -> list[int]:
    """The shape of the targets."""
    name, declared = printable(given.name), _dimensions(given)
    if given.type.tensor_type.elem_type not in (TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32):
        hint = "targets are floats of 32 bits, or integers of 32 or 64"
        raise UsageError(f"'{name}' is of another type", hint=hint, where=where)
    shape = [d.dim_value if d.HasField("dim_value") else extents.get(d.dim_param) for d in declared or ()]
    if declared is None or None in shape:
        hint = "give its open dimensions the names that those of the answers have, or fix them"
        raise UsageError(f"the shape of '{name}' does not follow from the answers", hint=hint, where=where)
    return [n for n in shape if n is not None]


def loss_for(name: str, answers: Type, own: Model | None) -> Loss:
    """The loss called ``name``, or the one that a model of the user's computes from ``answers``."""
    return LOSSES[name] if own is None else own_loss(own, answers)
