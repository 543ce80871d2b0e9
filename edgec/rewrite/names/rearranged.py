"""Names for movements in a row: channel shuffle, space to depth and back, repetition, interpolation."""

from __future__ import annotations

from edgec.ir.graph import Node
from edgec.rewrite.facts import is_static


def rearrangement(n: Node) -> tuple[str, frozenset[Node]] | None:
    """A reshape, a transpose and a reshape that together shuffle channels, or trade positions for channels."""
    if n.op != "reshape" or n.args[0].op != "transpose" or n.args[0].args[0].op != "reshape":
        return None
    turned = n.args[0]
    parted = turned.args[0]
    x, perm = parted.args[0], turned.attributes["perm"]
    nodes = frozenset({n, turned, parted})
    shape, cut = x.type.shape, parted.type.shape
    if n.type.shape == shape and len(cut) >= 3 and perm[:3] == (0, 2, 1) and perm[3:] == tuple(range(3, len(cut))):
        if cut[0] == shape[0] and cut[1] * cut[2] == shape[1]:
            return "channel shuffle", nodes
        return None
    if len(shape) != 4 or len(cut) != 6 or n.type.rank != 4 or cut[0] != shape[0]:
        return None
    height, width = shape[2:]
    if n.type.shape[2] > height and n.type.shape[3] > width:
        return "depth to space", nodes
    if n.type.shape[2] < height and n.type.shape[3] < width:
        return "space to depth", nodes
    return None


def repetition(n: Node) -> tuple[str, frozenset[Node]] | None:
    """Elements repeated in place: what enlarges a picture to the nearest element, or tiles."""
    if n.op != "reshape" or n.args[0].op != "broadcast" or n.args[0].args[0].op != "reshape":
        return None
    spread = n.args[0]
    x = spread.args[0].args[0]
    if n.type.rank < x.type.rank or n.type.elements == x.type.elements:
        return None
    return "repeat", frozenset({n, spread, spread.args[0]})


def interpolation(n: Node) -> frozenset[Node] | None:
    """Each element a weighted sum of two along a dimension, at constant positions; one dimension after the other."""
    nodes: set[Node] = set()
    while (found := _between_two(n)) is not None:
        n, inside = found
        nodes |= inside
    return frozenset(nodes) or None


def _between_two(n: Node) -> tuple[Node, frozenset[Node]] | None:
    if n.op != "add" or any(a.op != "mul" for a in n.args):
        return None
    taken = [next((f for f in a.args if f.op == "gather"), None) for a in n.args]
    weights = [[f for f in a.args if is_static(f)] for a in n.args]
    first, second = taken
    if first is None or second is None or not all(weights):
        return None
    if first.args[0] is not second.args[0] or first.attrs != second.attrs:
        return None
    if not (first.args[1].is_const and second.args[1].is_const):
        return None
    return first.args[0], frozenset({n, *n.args, first, second})
