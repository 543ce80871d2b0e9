"""Channels of a network that are tied together: atoms along one axis of every tensor, joined where they meet.

An operator that only moves elements moves their labels as it moves elements: it is evaluated on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from edgec import ops
from edgec.ir.evaluate import evaluate_node
from edgec.ir.functions import FUNCTIONS
from edgec.ir.graph import Graph, Node
from edgec.rewrite.facts import is_static

Array = np.ndarray
_MOVING = frozenset({"reshape", "transpose", "broadcast", "slice", "pad", "concat"})
#: The atom of what belongs to no channel; it is never removed.
NONE = 0


@dataclass
class Groups:
    """Disjoint sets of atoms; a frozen one stays in the network."""

    parents: list[int] = field(default_factory=lambda: [NONE])
    frozen: set[int] = field(default_factory=lambda: {NONE})

    def more(self, count: int) -> Array:
        start = len(self.parents)
        self.parents += range(start, start + count)
        return np.arange(start, start + count)

    def find(self, atom: int) -> int:
        while self.parents[atom] != atom:
            self.parents[atom] = self.parents[self.parents[atom]]
            atom = self.parents[atom]
        return atom

    def join(self, a: int, b: int) -> None:
        a, b = self.find(a), self.find(b)
        if a == b:
            return
        low, high = min(a, b), max(a, b)
        self.parents[high] = low
        if high in self.frozen:
            self.frozen.add(low)

    def freeze(self, atoms: Array) -> None:
        self.frozen.update(self.find(int(a)) for a in np.unique(atoms))

    def is_frozen(self, atom: int) -> bool:
        return self.find(atom) in self.frozen


@dataclass(frozen=True)
class Along:
    """The atoms along ``axis`` of a tensor."""

    axis: int
    atoms: Array


@dataclass
class Labels:
    """The channels of a graph and their ties."""

    groups: Groups = field(default_factory=Groups)
    known: dict[Node, Along] = field(default_factory=dict)

    def of(self, n: Node) -> Along | None:
        return self.known.get(n)

    def kept(self, atoms: Array, stays: Mapping[int, bool]) -> Array:
        return np.array([stays.get(self.groups.find(int(a)), True) for a in atoms])

    def freeze(self, n: Node) -> None:
        found = self.known.get(n)
        if found is not None:
            self.groups.freeze(found.atoms)


def labelled(graph: Graph) -> Labels:
    """Follow the channels of a graph of fixed sizes."""
    labels = Labels()
    for n in graph.nodes():
        if n.op == "input" or is_static(n):
            continue
        found = _label(labels, n)
        if found is None:
            for a in n.args:
                labels.freeze(a)
        else:
            labels.known[n] = found
    for _, n in (*graph.outputs, *graph.demands, *graph.sizes):
        labels.freeze(n)
    return labels


def _label(labels: Labels, n: Node) -> Along | None:
    """The atoms of a result; None where they are not followed."""
    if n.op == "conv":
        return _convolved(labels, n)
    if n.op == "matmul":
        return _multiplied(labels, n)
    if n.op in ("pool", "reduce"):
        source = labels.of(n.args[0])
        summed = (
            n.attributes["axes"] if n.op == "reduce" else range(n.type.rank - len(n.attributes["kernel"]), n.type.rank)
        )
        return source if source is not None and source.axis not in summed else None
    if n.op in _MOVING:
        return _moved(labels, n)
    if n.op in FUNCTIONS or n.op == "cast":
        return _met(labels, n)
    return None


def _convolved(labels: Labels, n: Node) -> Along | None:
    x, w = n.args
    outputs, per_group = w.type.shape[:2]
    groups = n.attributes["groups"]
    source = labels.of(x)
    if source is not None and source.axis != 1:
        return None
    if groups == 1 and is_static(w):
        return Along(1, labels.groups.more(outputs))
    if per_group == 1 and groups == outputs and source is not None and is_static(w):
        return source
    return None


def _multiplied(labels: Labels, n: Node) -> Along | None:
    x, w = n.args
    source = labels.of(x)
    if w.type.rank != 2 or not is_static(w) or (source is not None and source.axis != x.type.rank - 1):
        return None
    return Along(n.type.rank - 1, labels.groups.more(w.type.shape[1]))


def _full(n: Node, along: Along | None) -> Array:
    """A label for every element."""
    if along is None:
        return np.zeros(n.type.shape)
    shape = [1] * n.type.rank
    shape[along.axis] = -1
    return np.broadcast_to(along.atoms.reshape(shape), n.type.shape)


def _moved(labels: Labels, n: Node) -> Along | None:
    if all(labels.of(a) is None for a in n.args):
        return None
    if any(labels.of(a) is None for a in n.args):  # what comes beside it has no channels: this one keeps all of its own
        for a in n.args:
            labels.freeze(a)
    # Labels go through as positions in a list, which a float of any size of network holds exactly.
    numbers = np.unique(np.concatenate([[NONE], *(a.atoms for a in map(labels.of, n.args) if a is not None)]))
    if len(numbers) >= 1 << 24:
        return None
    args = [np.searchsorted(numbers, _full(a, labels.of(a))).astype(np.float32) for a in n.args]
    moving = ops.node("pad", *n.args, **{**n.attributes, "value": 0.0}) if n.op == "pad" else n
    values = numbers[evaluate_node(moving, args).astype(np.int64)]
    return _compact(labels, values)


def _compact(labels: Labels, values: Array) -> Along | None:
    """Labels of all elements as atoms along the one axis that tells the most of them apart; others are joined.

    Elements without a label (a border) are none that anything is joined to.
    """
    lines_of = {d: np.moveaxis(values, d, 0).reshape(n, -1) for d, n in enumerate(values.shape) if n > 1}
    if not lines_of:
        labels.groups.freeze(values)
        return None
    axis = max(lines_of, key=lambda d: len(np.unique(lines_of[d].max(axis=1))))
    lines = lines_of[axis]
    for line in lines:
        atoms = [int(a) for a in np.unique(line) if a != NONE]
        for other in atoms[1:]:
            labels.groups.join(atoms[0], other)
    return Along(axis, lines.max(axis=1).astype(np.int64))


def _met(labels: Labels, n: Node) -> Along | None:
    """Operands of an element-wise operator: their channels at one place are one."""
    rank = n.type.rank
    found: Along | None = None
    for a in n.args:
        own = labels.of(a)
        if own is None:
            continue
        axis = own.axis + rank - a.type.rank
        atoms = own.atoms
        if len(atoms) != n.type.shape[axis]:  # one channel for all
            labels.groups.freeze(atoms)
            continue
        if found is None:
            found = Along(axis, atoms)
        elif found.axis != axis:
            labels.groups.freeze(atoms)
            labels.groups.freeze(found.atoms)
            return None
        else:
            for one, other in zip(found.atoms, atoms):
                labels.groups.join(int(one), int(other))
    if found is None:
        return None
    for a in n.args:  # what has no channels but spans them would have to be cut at run time
        place = found.axis - (rank - a.type.rank)
        if labels.of(a) is None and not is_static(a) and place >= 0 and a.type.shape[place] != 1:
            labels.groups.freeze(found.atoms)
    return found
