"""Rotary embeddings (Su et al. 2021): pairs of features turned by an angle, in the spellings that exporters use.

A pair is a feature of the first half and its partner in the second, or two neighbors. Either the whole is turned,
``x cos + turned(x) sin``, or the parts are, ``(a cos - b sin, a sin + b cos)``, and put together again.
"""

from __future__ import annotations

from collections.abc import Iterator

from edgec.ir.graph import Node
from edgec.rewrite.facts import is_static

_Nodes = set[Node]


def rotary(n: Node) -> Iterator[frozenset[Node]]:
    """The nodes of a rotary embedding whose result is ``n``; a view that its parts are taken from may belong to it."""
    found = _whole(n) or _parts(n)
    if found is not None:
        nodes, x = found
        if x.op == "reshape":
            yield frozenset({*nodes, x})
        yield frozenset(nodes)


def _viewed(n: Node, nodes: _Nodes) -> Node:
    """The value that ``n`` is a view of."""
    while n.op == "reshape":
        nodes.add(n)
        n = n.args[0]
    return n


def _whole(n: Node) -> tuple[_Nodes, Node] | None:
    if n.op != "add":
        return None
    for straight, turned in (n.args, n.args[::-1]):
        if straight.op == turned.op == "mul":
            for x in straight.args:
                for half in turned.args:
                    inside = _turned(half, x)
                    if inside is not None:
                        return {n, straight, turned, *inside}, x
    return None


def _turned(n: Node, x: Node) -> _Nodes | None:
    """``n`` is x with the second of each pair, negated, in the place of the first, and the first behind it."""
    nodes: _Nodes = set()
    joined = _viewed(n, nodes)
    if joined.op != "concat" or len(joined.args) != 2 or joined.attributes["axis"] != joined.type.rank - 1:
        return None
    nodes.add(joined)
    second, first = (_viewed(a, nodes) for a in joined.args)
    if second.op == "neg":
        nodes.add(second)
        second = _viewed(second.args[0], nodes)
    return {*nodes, first, second} if _are_pairs(first, second) and first.args[0] is x else None


def _are_pairs(first: Node, second: Node) -> bool:
    """Two slices of one tensor: halves of its last dimension, or every other element."""
    if first.op != "slice" or second.op != "slice" or first.args != second.args or is_static(first):
        return False
    whole, pairs = first.args[0].type.shape[-1], first.type.shape[-1]
    a, b = first.attributes, second.attributes
    if first.type.shape != second.type.shape or whole != 2 * pairs or a["steps"] != b["steps"]:
        return False
    starts = (a["starts"][-1], b["starts"][-1])
    return starts == ((0, 1) if a["steps"][-1] == 2 else (0, pairs)) and a["steps"][-1] in (1, 2)


def _parts(n: Node) -> tuple[_Nodes, Node] | None:
    nodes: _Nodes = set()
    joined = _viewed(n, nodes)
    if joined.op != "concat" or len(joined.args) != 2 or joined.attributes["axis"] != joined.type.rank - 1:
        return None
    real, imaginary = (_viewed(a, nodes) for a in joined.args)
    if real.op != "sub" or imaginary.op != "add" or any(m.op != "mul" for m in (*real.args, *imaginary.args)):
        return None
    nodes |= {joined, real, imaginary, *real.args, *imaginary.args}
    for a, cos in (real.args[0].args, real.args[0].args[::-1]):
        for b, sin in (real.args[1].args, real.args[1].args[::-1]):
            wanted = {frozenset((a, sin)), frozenset((b, cos))}
            inside: _Nodes = set()
            first, second = _viewed(a, inside), _viewed(b, inside)
            if {frozenset(m.args) for m in imaginary.args} == wanted and _are_pairs(first, second):
                return {*nodes, *inside, first, second}, first.args[0]
    return None
