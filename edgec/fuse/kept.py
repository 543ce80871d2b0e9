"""Bytes of the forward pass that a backward pass keeps, whatever the planner decides: known from the graph alone.

A convolution, a matmul or a procedure does not compute its operands: each is stored, once, before any of its readers.
What these read of the forward pass behind it, as the gradients of weights do, so is in memory when the first of them is
computed, as far as all of them follow from it.
"""

from __future__ import annotations

from collections.abc import Iterable

from edgec.fuse import classify
from edgec.ir.graph import Graph, Node, topological
from edgec.ops import is_procedure

#: Operators whose operands are stored, beside procedures.
READING = ("conv", "matmul")


def least_kept(graph: Graph, results: Iterable[Node]) -> int:
    """Bytes of floats on the way to ``results`` that are alive at once at least, each in its own type."""
    forward = {n for n in topological(results) if n.op not in ("input", "const")}
    order = graph.nodes()
    sums = [n for n in order if n not in forward and (n.op in READING or is_procedure(n.op))]
    read = dict.fromkeys(x for n in sums for a in n.args if (x := _stored(a)) is not None and x in forward)
    bit = {x: 1 << k for k, x in enumerate(read)}
    before: dict[Node, int] = {}
    for n in order:
        mask = bit.get(n, 0)
        for a in n.args:
            mask |= before[a]
        before[n] = mask
    common = (1 << len(bit)) - 1
    for n in sums:
        if any(_stored(a) in bit for a in n.args):
            common &= before[n]
    return sum(x.type.bytes for x in read if bit[x] & common)


def _stored(node: Node) -> Node | None:
    """The float value whose elements all lie in memory where ``node`` is read; None where that is not known."""
    while node.op in ("reshape", "transpose", "broadcast", "pad"):
        node = node.args[0]
    is_float = node.type.dtype == "f32" and node.type.is_fixed and node.op not in ("input", "const")
    return node if is_float and not classify.is_movement(node) else None
