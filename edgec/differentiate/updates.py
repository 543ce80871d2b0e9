"""Updates of weights by their gradients: the next value of each weight, and of what the optimizer keeps for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from edgec.differentiate.micro_batch import MicroBatches
from edgec.differentiate.optimizers import (
    Optimizer,
    advanced,
    clipped,
    count_broken,
    is_added_up,
    is_finite,
    moments_after,
    total,
    velocity_before,
    weight_after,
)
from edgec.frontend.states import describe
from edgec.frontend.values import Value, emit, select
from edgec.ir.graph import Node, placeholder
from edgec.ir.types import Type
from edgec.ops.graphs import added

#: What the names of sums of gradients end in.
GRADIENT = "gradient"


class Names:
    """Names of inputs and outputs, none twice."""

    def __init__(self, taken: Iterable[str]) -> None:
        self.taken = set(taken)

    def fresh(self, wanted: str) -> str:
        """``wanted``, with a number behind it where it is taken."""
        name, k = wanted, 2
        while name in self.taken:
            name, k = f"{wanted}_{k}", k + 1
        self.taken.add(name)
        return name


@dataclass
class Updates:
    """States in the making: inputs that ``begun`` as zero beside the weights, and the next value of each state, which
    is the one before unless ``fine``. The states called ``early`` change with every micro-batch, not with the last."""

    names: Names
    fine: Value
    begun: list[Node] = field(default_factory=list)
    renewed: dict[Node, tuple[str, Node]] = field(default_factory=dict)
    early: set[str] = field(default_factory=set)

    @property
    def outputs(self) -> list[tuple[str, Node]]:
        """The next values by name, weights first."""
        begun = set(self.begun)
        return [*(o for n, o in self.renewed.items() if n not in begun), *(self.renewed[n] for n in self.begun)]

    @property
    def states(self) -> dict[str, str]:
        """By the name of each state, weights first, the output that renews it."""
        begun = set(self.begun)
        order = [*(n for n in self.renewed if n not in begun), *self.begun]
        return {str(n.attributes["name"]): self.renewed[n][0] for n in order}

    @property
    def described(self) -> Mapping[str, str]:
        """The states as metadata of the graph."""
        return describe({name: (new, np.zeros(1, np.float32)) for name, new in self.states.items()})

    def begin(self, name: str, type: Type) -> Value:
        node = placeholder(self.names.fresh(name), type)
        self.begun.append(node)
        return Value(node)

    def count(self, counter: Node) -> None:
        """Have an input, which begins as zero, count the steps."""
        self.begun.append(counter)
        self.renew(Value(counter), Value(counter) + 1)

    def renew(self, old: Value, new: Value) -> Value:
        """The next value, which later ones may be computed from: it is stored in any case."""
        return self.renew_always(old, select(self.fine, new, old))

    def renew_always(self, old: Value, new: Value) -> Value:
        """The next value, also of a step that is not ``fine``."""
        assert old.node not in self.renewed
        self.renewed[old.node] = self.names.fresh(f"{old.node.attributes['name']}_next"), new.node
        return new


def updated(
    weights: Sequence[Node],
    slopes: Iterable[Value],
    o: Optimizer,
    rate: Value,
    fine: Value,
    names: Names,
    sizes: Sequence[float] | None = None,
    accumulate: int = 1,
    at_once: bool = False,
    micro: MicroBatches | None = None,
) -> tuple[Updates, Value]:
    """The weights, which are inputs, a step later, where ``fine`` and all gradients are finite; and how many are not.

    ``sizes`` are factors of the learning rate, one a weight. With ``accumulate`` gradients are added up, and weights
    change by their mean in every step of that number. ``at_once`` lets moments take in a gradient as soon as it is
    there, where neither sums nor a norm of gradients need it later (see `_at_once`). Gradients of ``micro`` batches are
    added up, by moments of `is_added_up` at once, and weights change with the last.
    """
    if at_once and (is_added_up(o) or micro is None) and o.moments and accumulate == 1 and not o.clip:
        return _at_once(weights, [*slopes], o, rate, fine, names, micro)
    made, slopes = Updates(names, fine), [*slopes]
    sums: list[Value] = []
    due = None
    if micro is not None:
        assert accumulate == 1
        due = micro.is_last
        for k, (w, slope) in enumerate(zip(weights, slopes)):
            before = made.begin(f"{w.attributes['name']}_{GRADIENT}", w.type)
            slopes[k] = made.renew_always(before, select(micro.is_first, 0.0, before) + slope)
        made.early.update(str(n.attributes["name"]) for n in made.begun)
    if accumulate > 1:
        count = made.begin("accumulated", Type("f32", ()))
        due = (count + 1.0).equals(float(accumulate))
        sums = [made.begin(f"{w.attributes['name']}_{GRADIENT}", w.type) for w in weights]
        slopes = [before + slope * (1.0 / accumulate) for before, slope in zip(sums, slopes)]
    clean, broken = clipped(slopes, o)
    made.fine = fine & broken.equals(0.0)
    if accumulate > 1:
        assert due is not None
        made.renew(count, select(due, 0.0, count + 1.0))
        for before, slope in zip(sums, slopes):
            made.renew(before, select(due, 0.0, slope))

    def renew(old: Value, new: Value) -> Value:
        return made.renew(old, new if due is None else select(due, new, old))

    powers = {p: made.begin(p, Type("f32", ())) for p in o.powers}
    now = advanced(o, powers)
    for k, (node, slope) in enumerate(zip(weights, clean)):
        weight, name = Value(node), str(node.attributes["name"])
        moments = {m: made.begin(f"{name}_{m}", weight.type) for m in o.moments}
        own = rate if sizes is None else rate * sizes[k]
        later = {m: renew(moments[m], new) for m, new in moments_after(o, weight, slope, moments).items()}
        renew(weight, weight_after(o, weight, slope, later, now, own))
    for p, value in now.items():
        renew(powers[p], value)
    return made, broken


def _at_once(
    weights: Sequence[Node],
    slopes: Sequence[Value],
    o: Optimizer,
    rate: Value,
    fine: Value,
    names: Names,
    micro: MicroBatches | None = None,
) -> tuple[Updates, Value]:
    """The weights a step later, and the number of moments that are not finite: no gradient is kept until all are known.

    Moments are written over as gradients come, where ``fine``, and weights at the end, from the moments, where these
    are finite. Where they are not, weights stay as they were, moments that are finite have taken in their gradient, and
    the others begin at zero with the next step. Of ``micro`` batches, the first lets moments decay, all add their
    gradients, and weights change with the last.
    """
    made = Updates(names, fine)
    powers = {p: made.begin(p, Type("f32", ())) for p in o.powers}
    every: list[dict[str, Value]] = []
    for node, slope in zip(weights, slopes):
        weight, name = Value(node), str(node.attributes["name"])
        moments = {m: made.begin(f"{name}_{m}", weight.type) for m in o.moments}
        clean = {m: select(is_finite(old), old, 0.0) for m, old in moments.items()}
        if o.name == "sgd":
            begun = velocity_before(o, weight, clean["velocity"])
            if micro is not None:
                begun = select(micro.is_first, begun, moments["velocity"])
            made.early.add(str(moments["velocity"].node.attributes["name"]))
            every.append({"velocity": _with_gradient(made, moments["velocity"], begun, slope)})
        else:
            later = moments_after(o, weight, slope, clean)
            every.append({m: made.renew(moments[m], new) for m, new in later.items()})
    broken = total([count_broken(later[o.moments[-1]]) for later in every])
    made.fine = fine & broken.equals(0.0)
    now = advanced(o, powers)
    for node, later in zip(weights, every):
        new = weight_after(o, Value(node), later[o.moments[0]], later, now, rate)
        made.renew(Value(node), new if micro is None else select(micro.is_last, new, Value(node)))
    for p, value in now.items():
        made.renew(powers[p], value)
    return made, broken


def _with_gradient(made: Updates, old: Value, begun: Value, slope: Value) -> Value:
    """The sum that ``old`` becomes where it ``begun`` so: rows that few samples read are added where they lie, and the
    gradient of a table is never there as a whole."""
    scattered, rest = _scattered(slope.node)
    if not scattered:
        return made.renew(old, begun + slope)
    kept = begun if rest is None else begun + Value(rest)
    found = select(made.fine, kept, old)
    for positions, rows in scattered:
        new = select(made.fine, Value(rows), 0.0)
        found = emit("scatter_nd", found, Value(positions), new, combine="add")
    return made.renew_always(old, found)


def _scattered(slope: Node) -> tuple[list[tuple[Node, Node]], Node | None]:
    """The (positions, rows) that are added up in a gradient from zero, and the sum of its other terms."""
    if slope.op == "add" and all(a.type == slope.type for a in slope.args):
        found, rest = [], []
        for scattered, others in map(_scattered, slope.args):
            found += scattered
            rest += [others] if others is not None else []
        return found, added(rest) if rest else None
    if slope.op == "scatter_nd" and slope.attributes["combine"] == "add" and _is_zero(slope.args[0]):
        return [(slope.args[1], slope.args[2])], None
    return [], slope


def _is_zero(n: Node) -> bool:
    return _is_zero(n.args[0]) if n.op == "broadcast" else n.is_const and not n.value.any()
