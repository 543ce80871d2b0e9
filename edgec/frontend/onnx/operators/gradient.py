"""Gradient: derivatives of one tensor of a model by others, at the values that the node is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edgec.frontend.onnx.call import Call, onnx
from edgec.frontend.values import Value, emit, full
from edgec.ir.graph import Node, topological

#: From a result and the nodes it is differentiated by to the gradients, None where nothing depends on one.
Gradients = Callable[[Node, Sequence[Node]], Sequence[Node | None]]
_installed: list[Gradients] = []


def install(gradients: Gradients) -> None:
    """Let a later stage, which knows derivatives, take those of models too."""
    _installed[:] = [gradients]


@onnx("Gradient", domain="ai.onnx.preview.training")
def gradient(call: Call) -> tuple[Value, ...]:
    """The part of the model between the tensors ``xs`` and ``zs`` and the tensor ``y`` is a function, differentiated
    by ``xs``; as ``y`` may be a tensor, its sum."""
    by = (*call.required("xs"), *call.attribute("zs", ()))
    at = [call[k] for k in range(len(by))]
    if len(call.inputs) != len(by) or len(set(by)) < len(by):
        raise call.error(f"{len(call.inputs)} operands for {len(by)} names", "xs and zs name each operand once")
    if call.function is None or not _installed:
        raise call.error("a gradient inside a subgraph is not supported", "move the node to the main graph")
    y, variables = call.function(call.required("y"), by, at)
    found = _installed[0](y, variables[: len(call.required("xs"))])
    placed = dict(zip(variables, at))
    given = [full(x.shape, 0, x.dtype) if g is None else _at(g, placed) for g, x in zip(found, at)]
    return tuple(given)


def _at(result: Node, placed: dict[Node, Value]) -> Value:
    """The result with values in the place of variables."""
    new = dict(placed)
    for n in topological([result]):
        if n not in new:
            new[n] = emit(n.op, *(new[a] for a in n.args), **n.attributes) if n.args else Value(n)
    return new[result]
