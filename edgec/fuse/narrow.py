"""Narrow integers in memory: quantized networks compute in wide integers, but only narrow ones should be stored."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from edgec.fuse import classify
from edgec.ir.graph import Node
from edgec.ir.types import DTYPES, is_float
from edgec.rewrite.few_bits import is_kept


def is_widening(node: Node) -> bool:
    """Is a node only a cast of integers to wider ones, which a load can do?"""
    if node.op != "cast":
        return False
    source, target = DTYPES[node.args[0].type.dtype], DTYPES[node.type.dtype]
    return source.kind in "iu" and target.kind in "iu" and target.itemsize > source.itemsize


def is_widened_number(node: Node) -> bool:
    """Is a node a cast of stored integers of at most 16 bits, or of floats of 16, to f32?"""
    return node.op == "cast" and node.type.dtype == "f32" and DTYPES[node.args[0].type.dtype].itemsize <= 2


def is_read_wide(node: Node) -> bool:
    """Do its readers compute a node when they load: widened integers, weights minus a zero point, or of few bits?

    Magnitudes of weights are too, which bounds multiply beside the weights.
    """
    if is_widening(node) or is_kept(node) or is_magnitude(node):
        return True
    known = node.args and all(a.is_const or (is_widening(a) and a.args[0].is_const) for a in node.args)
    return bool(known) and not is_float(node.type.dtype) and classify.is_elementwise(node)


def is_magnitude(node: Node) -> bool:
    """Is it the magnitudes of constant weights, or a choice between the weights and their magnitudes?"""
    if node.op == "abs":
        return bool(node.args[0].is_const)
    if node.op != "select" or not (node.args[0].is_const and node.args[1].is_const):
        return False
    return node.args[2].op == "abs" and node.args[2].args[0] is node.args[1]


def narrowest(ends: Sequence[Node]) -> int:
    """Index of the best end of a block: the last one, unless an earlier one has narrower integers."""
    sizes = [DTYPES[end.type.dtype].itemsize for end in ends]
    least = min(sizes)
    if least == sizes[-1] or DTYPES[ends[sizes.index(least)].type.dtype].kind not in "iu":
        return len(ends) - 1
    return len(sizes) - 1 - sizes[::-1].index(least)


def follows_sums(
    node: Node, members: Collection[Node], users: Mapping[Node, Sequence[Node]], inlined: Collection[Node]
) -> bool:
    """Is ``node`` element-wise work on narrow integers for operators after the sums of a block with ``members``?

    Its result has a wide type (for example, a dequantized residual). Computed in the block, it is not stored, and only
    its narrow operand is read.
    """
    if is_float(node.type.dtype) and not _is_dequantized(node):
        return False
    return all(
        (user in members and classify.is_elementwise(user) and user.type.shape == node.type.shape)
        or (user in inlined and is_widening(user) and follows_sums(user, members, users, inlined))
        for user in users[node]
    )


def _is_dequantized(node: Node) -> bool:
    """Are these floats computed from 8-bit integers and constants alone, a few operators before?"""
    operands = [a for a in node.args if not (a.is_const and a.type.elements <= max(a.type.shape, default=1))]
    if len(operands) != 1 or not classify.is_elementwise(node):
        return False
    (source,) = operands
    if node.op == "cast":
        return DTYPES[source.type.dtype].kind in "iu" and DTYPES[source.type.dtype].itemsize == 1
    return source.type.shape == node.type.shape and _is_dequantized(source)
