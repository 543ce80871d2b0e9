"""Decisions of the forward pass kept for the backward pass as bits, where nothing else of a value is read again.

The gradient of a ReLU needs of each element which side of 0 it was on. Where weights are not trained, that is all that
the backward pass reads of most activations: a bit in place of a float (Chen et al., "ActNN", 2021, keep it so). A
word of bits is a sum, and so a kernel of the planner's that comes right after the activation.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from edgec.frontend.values import Value, constant, emit
from edgec.fuse.recompute import LEAST_BYTES
from edgec.ir.functions import FUNCTIONS
from edgec.ir.graph import Graph, Node, rewrite, topological

#: Bits of a word, by the type that holds it.
WORDS = {32: "i32", 16: "u16", 8: "u8"}
#: Most operators of a decision.
LONGEST = 8


def with_packed_masks(graph: Graph, results: Iterable[Node]) -> tuple[Graph, tuple[Node, ...]]:
    """The graph whose backward pass reads decisions about values on the way to ``results`` as bits, where these values
    need then not be kept, and the words of bits; the same graph and none where there are no such values."""
    forward = {n for n in topological(results) if n.op not in ("input", "const")}
    order = graph.nodes()
    found: dict[Node, set[Node]] = {}
    users: dict[Node, list[Node]] = {}
    for n in order:
        for a in n.args:
            users.setdefault(a, []).append(n)
    for n in order:
        if _is_decision(n, forward) and not all(_is_decision(u, forward) for u in users.get(n, ())):
            inside = _inside(n, forward)
            if len(inside) <= LONGEST and _axis(n) is not None:
                found[n] = inside
    inside = set().union(*found.values()) if found else set()
    # operators of decisions that others read as well keep their operands alive
    open_ = {m for m in inside if m not in found and any(u not in inside for u in users[m])}
    spared = {
        v for v in forward
        if v.type.bytes >= LEAST_BYTES and any(u in inside for u in users[v])
        and all(u in forward or (u in inside and u not in open_) for u in users[v])
    }  # fmt: skip
    packed = {n: _packed(n) for n, parts in found.items() if any(a in spared for p in parts for a in p.args)}
    made = {n: read for n, (read, _) in packed.items()}
    if not made:
        return graph, ()

    def change(n: Node, args: tuple[Node, ...]) -> Node:
        if n in forward or n.op in ("input", "const"):
            return n
        args = tuple(made.get(old, new) for old, new in zip(n.args, args))
        return n if args == n.args else emit(n.op, *map(Value, args), **n.attributes).node

    changed = rewrite(graph, change)
    origin = {new: graph.names(old) for old, new in made.items() if graph.names(old)}
    return replace(changed, origin={**origin, **changed.origin}), tuple(words for _, words in packed.values())


def _is_decision(n: Node, forward: set[Node]) -> bool:
    """Tells whether a node of the backward pass is a truth value that follows from the forward pass element by
    element."""
    if n in forward or n.type.dtype != "bool" or n.op not in FUNCTIONS:
        return False
    return all(a.is_const or a in forward or _is_decision(a, forward) for a in n.args)


def _inside(n: Node, forward: set[Node]) -> set[Node]:
    """The operators of a decision."""
    return {n}.union(*(_inside(a, forward) for a in n.args if not a.is_const and a not in forward))


def _axis(n: Node) -> tuple[int, int] | None:
    """The dimension whose elements share words, and how many share one: channels, or the last dimension; None where
    there is none."""
    shape = n.type.shape
    if not n.type.is_fixed:
        return None
    for axis in (1, len(shape) - 1) if len(shape) > 2 else range(len(shape))[-1:]:
        for bits in WORDS:
            if shape[axis] and shape[axis] % bits == 0:
                return axis, bits
    return None


def _packed(n: Node) -> tuple[Node, Node]:
    """A truth value as it is read from words of bits, and these."""
    found = _axis(n)
    assert found is not None
    (axis, bits), shape = found, n.type.shape
    split = (*shape[:axis], shape[axis] // bits, bits, *shape[axis + 1 :])
    powers = _powers(bits, axis + 1, len(split))
    words = emit("select", Value(n).reshape(*split), powers, constant(np.int32(0))).sum([axis + 1])
    stored = words.cast(WORDS[bits]) if bits < 32 else words
    read = stored.cast("i32") if bits < 32 else stored
    return (~emit("bitand", read.broadcast(*split), powers).equals(0)).reshape(*shape).node, stored.node


def _powers(bits: int, axis: int, rank: int) -> Value:
    """1, 2, 4, .. along an axis."""
    values = (np.uint32(1) << np.arange(bits, dtype=np.uint32)).view(np.int32)
    return constant(values.reshape([bits if d == axis else 1 for d in range(rank)]))
