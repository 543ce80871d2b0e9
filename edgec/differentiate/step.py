"""The training step: one graph of loss, gradients and updates, whose trained weights and moments are states in place.

Where the loss is no finite number, or a target no class, the step leaves every state as it was; where a gradient is
none, all weights, and in steps that keep gradients until all are known all states.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from edgec.differentiate.attention import Blocks
from edgec.differentiate.gradient import cut_paths, gradients
from edgec.differentiate.joined import Joined, joined, vector
from edgec.differentiate.losses import Loss
from edgec.differentiate.micro_batch import FIRST, LAST, MicroBatches
from edgec.differentiate.optimizers import Optimizer, is_finite
from edgec.differentiate.scaling import Scaling
from edgec.differentiate.unrolled import unrolled
from edgec.differentiate.updates import Names, updated
from edgec.errors import UsageError
from edgec.frontend.values import Value, select
from edgec.ir.graph import Graph, placeholder
from edgec.ir.types import Type
from edgec.text import listed, printable

#: Names of the inputs and the outputs that a step has beside those of the network: the second output is the number of
#: gradients, or of moments that took them in, that are no finite numbers, as a float, or `BAD_TARGET` where a target is
#: no class of the network.
TARGET, RATE, LOSS, BROKEN = "target", "learning_rate", "loss", "broken_gradients"
BAD_TARGET = -1.0
#: The name of all trained weights as one vector.
WEIGHTS = "weights"


@dataclass(frozen=True)
class Choices:
    """The making of a step: the loss along ``axis`` of the answers, the optimizer, the inputs that are trained, the
    number of steps whose gradients change weights together, the input that counts the steps, if there is one, whether
    the optimizer takes weights as one vector, whether the loss is scaled for gradients in halves, whether moments take
    in gradients at once, by the names of other inputs the outputs that renew them, the kernels that take attention
    backwards in blocks, if there are any, and the number of micro-batches, of which the graph takes one."""

    loss: Loss
    optimizer: Optimizer
    trained: tuple[str, ...]
    axis: int = 1
    accumulate: int = 1
    counter: str | None = None
    joins: bool = False
    scales: bool = False
    at_once: bool = False
    running: Mapping[str, str] = field(default_factory=dict)
    blocks: Blocks | None = None
    micro_batches: int = 1


@dataclass(frozen=True)
class Step:
    """The graph of a step; ``states`` are trained weights and what the optimizer keeps, each with its next value.

    Where weights are ``joined``, the states are of the one vector of them; ``micro`` are the micro-batches, of which
    the graph takes one: the states called ``early`` change with each of them, others with the last.
    """

    graph: Graph
    states: Mapping[str, str]
    classes: int | None
    trained: tuple[str, ...] = ()
    joined: Joined | None = None
    micro: MicroBatches | None = None
    early: frozenset[str] = frozenset()


def training_step(graph: Graph, choices: Choices) -> Step:
    """The step of a network whose first output are the answers that the loss judges, and others what renews inputs.

    Raises UsageError where the answers do not fit the loss or no trained weight changes them, and ModelError for an
    operator without a derivative.
    """
    loss, o, graph = choices.loss, choices.optimizer, unrolled(graph)
    inputs = {str(n.attributes["name"]): n for n in graph.inputs}
    (name, node), *_ = graph.outputs
    answers = Value(node)
    axis = _axis(answers, choices.axis, loss.has_classes, name)
    names = Names(inputs)
    target = placeholder(names.fresh(TARGET), loss.target(node.type, axis))
    rate = placeholder(names.fresh(RATE), Type("f32", ()))
    cost = loss.compute(answers, Value(target), axis)
    weights = [inputs[w] for w in choices.trained]
    scaling = Scaling.of(names) if choices.scales else None
    slope = cost.slope if scaling is None else cost.slope * scaling.factor
    micro = None
    if choices.micro_batches > 1:
        micro = MicroBatches.of(choices.micro_batches, names.fresh(FIRST), names.fresh(LAST))
    slope = slope if micro is None else slope * (1.0 / micro.count)
    found = gradients(node, weights, seed=slope.node, origin=graph.origin, blocks=choices.blocks)
    lost = [w for w, s in zip(choices.trained, found) if s is None]
    if len(lost) == len(weights):
        told = (f"{listed(graph.names(c.node))}: {c.reason}" for c in cut_paths(node, weights))
        cuts = list(dict.fromkeys(told))[:3]
        hint = "; ".join(cuts) if cuts else "choose weights on the way to the output that the loss judges"
        raise UsageError(f"no trained weight changes the output '{printable(name)}'", hint=hint, where="--update")
    kept = [(w, Value(s)) for w, s in zip(choices.trained, found) if s is not None]
    if scaling is not None:  # before they are joined: it is the last that each one's kernel does
        kept = [(w, s * (1.0 / scaling.factor)) for w, s in kept]
    fine = is_finite(cost.loss) if cost.valid is None else is_finite(cost.loss) & cost.valid
    for _, holds in graph.demands:
        fine = fine & Value(holds)
    trained = [inputs[w] for w, _ in kept]
    where = joined(trained) if choices.joins else None
    if where is None:
        states, slopes = trained, [g for _, g in kept]
    else:
        states = [placeholder(names.fresh(WEIGHTS), Type("f32", (where.size,)))]
        slopes = [vector(where, dict(kept))]
    at_once = choices.at_once and scaling is None
    made, broken = updated(
        states, slopes, o, Value(rate), fine, names, accumulate=choices.accumulate, at_once=at_once, micro=micro
    )
    if scaling is not None:
        broken = scaling.renewed(made, broken, fine)
    status = broken if cost.valid is None else select(cost.valid, broken, BAD_TARGET)
    if choices.counter is not None:
        made.count(inputs[choices.counter])
    running = [inputs[old] for old in choices.running]
    for old, new in choices.running.items():
        before, after = Value(inputs[old]), Value(dict(graph.outputs)[new])
        made.renew(before, select(is_finite(after), after, before))
    flags = () if micro is None else (micro.first, micro.last)
    left_out = {*choices.trained, *choices.running, choices.counter}
    untrained = [n for n in graph.inputs if str(n.attributes["name"]) not in left_out]
    learned = (*trained, *(n for n in states if n not in trained))
    step = replace(
        graph,
        inputs=(*untrained, target, rate, *flags, *learned, *running, *made.begun),
        outputs=((names.fresh(LOSS), cost.loss.node), (names.fresh(BROKEN), status.node), *made.outputs),
        metadata={**graph.metadata, **made.described},
    )
    classes = int(answers.shape[axis]) if loss.has_classes else None
    return Step(step, made.states, classes, tuple(w for w, _ in kept), where, micro, frozenset(made.early))


def _axis(answers: Value, axis: int, has_classes: bool, name: str) -> int:
    """The axis of the classes; raises UsageError where the answers have none, or are no floats of fixed size."""
    where = f"output '{printable(name)}'"
    if answers.dtype != "f32" or not answers.type.is_fixed or not answers.type.elements:
        raise UsageError(f"a loss of {answers.type}", hint="it needs floats of 32 bits and a fixed shape", where=where)
    if not has_classes:
        return 0
    if not -answers.rank <= axis < answers.rank:
        hint = "choose another loss, or another output, as in cross_entropy:logits"
        raise UsageError(f"{answers.type} has no axis of classes", hint=hint, where=where)
    return axis % answers.rank
