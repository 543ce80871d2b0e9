"""Updates of weights by their gradients: the next value of each weight, and of what the optimizer keeps for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from edgec.differentiate.optimizers import Optimizer, advanced, clipped, stepped
from edgec.frontend.states import describe
from edgec.frontend.values import Value, select
from edgec.ir.graph import Node, placeholder
from edgec.ir.types import Type


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
    is the one before unless ``fine``. ``broken`` is the number of gradients that are no finite numbers."""

    names: Names
    fine: Value
    broken: Value
    begun: list[Node] = field(default_factory=list)
    renewed: dict[Node, tuple[str, Node]] = field(default_factory=dict)

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

    def renew(self, old: Value, new: Value) -> None:
        name = self.names.fresh(f"{old.node.attributes['name']}_next")
        self.renewed[old.node] = name, select(self.fine, new, old).node


def updated(
    weights: Sequence[Node],
    slopes: Sequence[Value],
    o: Optimizer,
    rate: Value,
    fine: Value,
    names: Names,
    sizes: Sequence[float] | None = None,
) -> Updates:
    """The weights, which are inputs, a step later, where ``fine`` and all gradients are finite.

    ``sizes`` are factors of the learning rate, one a weight.
    """
    slopes, broken = clipped(slopes, o)
    made = Updates(names, fine & broken.equals(0.0), broken)
    powers = {p: made.begin(p, Type("f32", ())) for p in o.powers}
    now = advanced(o, powers)
    for k, (node, slope) in enumerate(zip(weights, slopes)):
        weight, name = Value(node), str(node.attributes["name"])
        moments = {m: made.begin(f"{name}_{m}", weight.type) for m in o.moments}
        own = rate if sizes is None else rate * sizes[k]
        after, later = stepped(o, weight, slope, moments, now, own)
        made.renew(weight, after)
        for m, value in later.items():
            made.renew(moments[m], value)
    for p, value in now.items():
        made.renew(powers[p], value)
    return made
