"""Constants of few bits: the bytes that they are stored in, and the formulas that keep them so.

A constant computed by ``dequantize`` is stored as its codes and scales, one that a ``cast`` widens in 16 bits. It stays
so as long as nothing but movement is between it and the product that reads it; any other formula of it would be
computed when weights are packed, and stored as floats.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from edgec.ir.graph import Node
from edgec.ir.types import bits
from edgec.rewrite.facts import is_static, memoized

#: Operators that leave codes what they are, in other places.
_MOVEMENT = frozenset({"reshape", "transpose", "slice"})

_within: WeakKeyDictionary[Node, bool] = WeakKeyDictionary()


def has_few_bits(node: Node) -> bool:
    """Is it static, and computed from codes of few bits?"""
    return is_static(node) and memoized(
        node, _within, lambda n: n.op == "dequantize" or is_widened(n) or any(_within[a] for a in n.args)
    )


def is_widened(node: Node) -> bool:
    """Is it a constant matrix of floats in 16 bits, widened?"""
    if node.op != "cast" or node.type.dtype != "f32" or node.type.rank < 2:
        return False
    return node.args[0].is_const and node.args[0].type.dtype in ("f16", "bf16")


def is_kept(node: Node) -> bool:
    """Is it static, and stored as codes and scales or in 16 bits: a constant, decoded, moved or not?"""
    node = _source(node)
    if is_widened(node):
        return True
    if node.op != "dequantize" or not is_static(node) or not node.args[0].is_const:
        return False
    return all(is_kept(a) or not has_few_bits(a) for a in node.args[1:])


def kept_bytes(node: Node) -> int:
    """The bytes of what `is_kept`: those of codes and scales, as many bits an element as their types have."""
    node = _source(node)
    if node.op != "dequantize" and not is_widened(node):
        return -(-node.type.elements * bits(node.type.dtype) // 8)
    return sum(map(kept_bytes, node.args))


def _source(node: Node) -> Node:
    """The operand of static movement."""
    while node.op in _MOVEMENT:
        node = node.args[0]
    return node


def unpacked_bytes(node: Node) -> int:
    """The bytes in which what `has_few_bits` is stored as floats; 0 where it is kept."""
    return 0 if is_kept(node) or not has_few_bits(node) else node.type.bytes
