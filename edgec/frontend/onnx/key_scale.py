"""Scales of keys, moved to the queries: exporters scale both, and a scaled cache would be a copy of it."""

from __future__ import annotations

from edgec import ops
from edgec.ir.graph import Node

_MOVEMENT = frozenset({"reshape", "transpose", "broadcast", "slice"})


def on_queries(product: Node) -> Node:
    """A product ``q @ (k * c)`` as ``(q * c) @ k``, for a constant number c, with any movement around the scaling."""
    queries, keys = product.args
    found = _unscaled(keys)
    if found is None:
        return product
    factor, plain = found
    return ops.node("matmul", ops.node("mul", queries, factor), plain, **product.attributes)


def _unscaled(node: Node) -> tuple[Node, Node] | None:
    """The number that a value is scaled by, as a constant, and the value without it; None where there is none."""
    if node.op in _MOVEMENT:
        found = _unscaled(node.args[0])
        return None if found is None else (found[0], ops.node(node.op, found[1], **node.attributes))
    if node.op != "mul":
        return None
    for factor, value in (node.args, node.args[::-1]):
        if factor.is_const and factor.type.rank == 0 and value.type == node.type:
            return factor, value
    return None
