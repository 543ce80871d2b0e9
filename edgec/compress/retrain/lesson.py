"""The step of a retraining: the dense network and the one that learns side by side, the distance between their answers,
and the next values of the parameters.

The distance is, of every output and of the result of every layer, the mean square of the difference over the mean
square of what the dense network has there; outputs count as much as all layers together. No labels are needed (Hinton
et al., "Distilling the knowledge in a neural network", 2015; results of layers as in Romero et al., "FitNets", 2015).
Weights under a mask have no gradient, and so stay zero. Where layers are to be int8, their weights and operands are
rounded in every step, and gradients pass the rounding as if it were not there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from edgec import ops
from edgec.compress.calibration import Calibration, weight_scale
from edgec.compress.layers import Layer, layers_of
from edgec.compress.quantize import quantized
from edgec.compress.retrain.parameters import Parameter, parameters, result
from edgec.differentiate.gradient import gradients
from edgec.differentiate.optimizers import Optimizer
from edgec.differentiate.updates import Names, updated
from edgec.errors import UsageError
from edgec.frontend.values import Value, constant, emit, select
from edgec.ir.graph import Graph, Node, placeholder, rewrite
from edgec.ir.types import Type

Array = np.ndarray
#: Names of the outputs and the input that a step has beside those of the network.
LOSS, BROKEN, RATE = "loss", "broken_gradients", "learning_rate"
#: The share of the layers in the loss, beside that of the outputs.
OF_LAYERS = 1.0
#: What a mean square is held to be at least, so that what is always 0 is nothing to divide by.
LEAST = 1e-12
#: The least size of a parameter, as a factor of its learning rate.
SMALLEST = 1e-2


@dataclass(frozen=True)
class Lesson:
    """The graph of a step; ``states`` are the inputs that it renews, by the names of the outputs.

    ``initial`` holds the values of all inputs but those of the network and the learning rate; ``learned`` the input
    of each parameter.
    """

    graph: Graph
    states: Mapping[str, str]
    initial: Mapping[str, Array]
    learned: Mapping[str, str]


def lesson(
    dense: Graph,
    student: Graph,
    optimizer: Optimizer,
    masks: Mapping[str, Array],
    rounding: tuple[Collection[Layer], Calibration] | None = None,
) -> Lesson:
    """The step by which ``student`` learns the answers of ``dense``; both have the same inputs, outputs and layers.

    ``masks`` are those of weights, by layer; ``rounding`` names layers of the student that are to be int8, and what
    their operands are rounded to. The learning rate counts for every parameter as a part of its root mean square.
    Raises UsageError for networks without a parameter or without an answer in floats, ModelError for an operator
    without a derivative.
    """
    learnable = parameters(student)
    names = Names(str(n.attributes["name"]) for n in student.inputs)
    inputs = {name: placeholder(names.fresh(f"weight_{k}"), p.node.type) for k, (name, p) in _numbered(learnable)}
    known = {p.name: p for p in layers_of(dense)}
    both = [layer for layer in layers_of(student) if layer.name in known]
    pairs = [(result(dense, known[x.name]), result(student, x)) for x in both]
    pairs = [(a, b) for a, b in pairs if a.type == b.type]
    wanted = [n for _, n in dense.outputs] + [a for a, _ in pairs]
    opened = replace(student, outputs=(*student.outputs, *((f"layer {k}", b) for k, (_, b) in enumerate(pairs))))
    made = _opened(opened, {p.node: inputs[name] for name, p in learnable.items()}, rounding)
    outputs = len(student.outputs)
    distances = [
        _distance(Value(got), Value(want)) if got.type.dtype == "f32" else None
        for (_, got), want in zip(made.outputs, wanted)
    ]
    own, inner = _present(distances[:outputs]), _present(distances[outputs:])
    if not own or not learnable:
        hint = "it learns the answers of a network with layers of constant weights, in floats of 32 bits"
        raise UsageError("there is nothing to retrain", hint=hint, where="--retrain")
    loss = _mean(own)
    judged = loss + _mean(inner) * OF_LAYERS if inner else loss
    found = gradients(judged.node, list(inputs.values()), origin=made.origin, through=("round",))
    kept = [(name, Value(g)) for name, g in zip(inputs, found) if g is not None]
    held: dict[str, Array] = {}
    slopes = []
    masked: list[Node] = []
    for name, g in kept:
        if name in masks:
            mask = placeholder(names.fresh(f"mask_{inputs[name].attributes['name']}"), inputs[name].type)
            held[str(mask.attributes["name"])] = np.asarray(masks[name], np.float32).reshape(inputs[name].type.shape)
            masked.append(mask)
            g = g * Value(mask)
        slopes.append(g)
    rate = placeholder(names.fresh(RATE), Type("f32", ()))
    fine = emit("abs", judged) < float("inf")
    sizes = [_size(learnable[name].value) for name, _ in kept]
    trained = [inputs[name] for name, _ in kept]
    after, broken = updated(trained, slopes, optimizer, Value(rate), fine, names, sizes)
    graph = Graph(
        (*student.inputs, rate, *masked, *trained, *after.begun),
        ((names.fresh(LOSS), judged.node), (names.fresh(BROKEN), broken.node), *after.outputs),
        origin={**dense.origin, **made.origin},
        metadata=dict(after.described),
    )
    held |= {str(inputs[name].attributes["name"]): learnable[name].value for name, _ in kept}
    held |= {str(n.attributes["name"]): np.zeros(n.type.shape, np.float32) for n in after.begun}
    return Lesson(graph, after.states, held, {name: str(inputs[name].attributes["name"]) for name, _ in kept})


def _numbered(learnable: Mapping[str, Parameter]) -> list[tuple[int, tuple[str, Parameter]]]:
    return list(enumerate(learnable.items()))


def _present(values: Sequence[Value | None]) -> list[Value]:
    return [v for v in values if v is not None]


def _mean(values: Sequence[Value]) -> Value:
    total = values[0]
    for value in values[1:]:
        total = total + value
    return total * (1.0 / len(values))


def _distance(got: Value, want: Value) -> Value:
    off, axes = got - want, range(got.rank)
    return (off * off).sum(axes, keep=False) / ((want * want).sum(axes, keep=False) + LEAST)


def _size(value: Array) -> float:
    """The root mean square of what is not 0."""
    own = value[value != 0].astype(np.float64)
    return max(float(np.sqrt(np.square(own).mean())) if own.size else 0.0, SMALLEST)


def _opened(graph: Graph, inputs: Mapping[Node, Node], rounding: tuple[Collection[Layer], Calibration] | None) -> Graph:
    """The graph with inputs in place of its parameters, rounded where that is wanted."""
    if rounding is not None:
        chosen, found = rounding
        graph = quantized(graph, chosen, found, pair=_rounded, weights=lambda x, _: _rounded_weights(x, inputs))

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        if old in inputs:
            return inputs[old]
        return old if args == old.args else ops.node(old.op, *args, **old.attributes)

    return rewrite(graph, change)


def _rounded(x: Node, scale: float, zero: int) -> Node:
    """x rounded to one of 256 levels; what is cut off has no gradient."""
    s, z = np.float32(scale), float(zero)
    level = Value(x) / float(s)
    inside = select(level < -z, -z, select(level > 255.0 - z, 255.0 - z, level))
    return (emit("round", inside) * float(s)).node


def _rounded_weights(layer: Layer, inputs: Mapping[Node, Node]) -> Node:
    """Weights rounded to steps of what they were at the start."""
    own = Value(inputs[layer.node.args[layer.side]])
    scale = constant(weight_scale(layer))
    level = own / scale
    inside = select(level < -127.0, -127.0, select(level > 127.0, 127.0, level))
    return (emit("round", inside) * scale).node
