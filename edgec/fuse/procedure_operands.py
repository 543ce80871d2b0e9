"""Operands of procedures that other kernels read in another order of dimensions: they read them where they are stored.

A procedure reads whole values from memory, row after row. Keys of attention, for one, go into the product of scores
with their features first: one of the two orders would be a copy.
"""

from __future__ import annotations

from edgec import ops
from edgec.ir.graph import Graph, Node, rewrite
from edgec.ops import is_procedure

#: A value by what it is made of: the node that is moved, the order of its dimensions, and constant factors.
_Made = tuple[Node, tuple[int, ...], tuple[Node, ...]]


def read_where_stored(graph: Graph) -> Graph:
    """The graph in which a value that a procedure reads is read from there by those who read it transposed; the same
    graph where there is none."""
    stored: dict[tuple[Node, tuple[Node, ...]], tuple[int, ...]] = {}
    for n in graph.nodes():
        for a in n.args if is_procedure(n.op) else ():
            base, order, factors = _made(a)
            if base is not a:
                stored.setdefault((base, factors), order)
    if not stored:
        return graph
    renewed: dict[Node, Node] = {}

    def change(n: Node, args: tuple[Node, ...]) -> Node:
        base, order, factors = _made(n)
        own = stored.get((base, factors)) if base is not n else None
        if own is None:
            renewed[n] = n if args == n.args else ops.node(n.op, *args, **n.attributes)
            return renewed[n]
        found = renewed[base]
        for c in factors:
            found = ops.node("mul", found, c)
        return _moved(_moved(found, own), tuple(own.index(d) for d in order))

    return rewrite(graph, change)


def _moved(n: Node, order: tuple[int, ...]) -> Node:
    return n if order == tuple(range(n.type.rank)) else ops.node("transpose", n, perm=order)


def _made(n: Node) -> _Made:
    order = tuple(range(n.type.rank))
    factors: list[Node] = []
    while n.op == "transpose" or _constant_factor(n) is not None:
        if n.op == "transpose":
            perm: tuple[int, ...] = n.attributes["perm"]
            order = tuple(perm[d] for d in order)
            n = n.args[0]
        else:
            k = _constant_factor(n)
            assert k is not None
            factors.append(n.args[k])
            n = n.args[1 - k]
    return n, order, tuple(factors)


def _constant_factor(n: Node) -> int | None:
    """The operand of a product that is one constant number, by its place; None where there is none."""
    if n.op != "mul":
        return None
    return next(
        (k for k, a in enumerate(n.args) if a.is_const and a.type.elements == 1 and n.args[1 - k].type == n.type), None
    )
