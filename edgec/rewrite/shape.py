"""Shapes under broadcasting and reshaping, as rules need them."""

from __future__ import annotations

from math import prod

import numpy as np

from edgec import ops
from edgec.ir import expr as X
from edgec.ir.expr import Expr, Extent
from edgec.ir.graph import Node, constant
from edgec.ir.types import DTYPES
from edgec.rewrite.facts import SMALL_BYTES, is_static

Shape = tuple[int, ...]
Block = tuple[slice, slice]


def blocks(source: Shape, target: Shape) -> list[Block] | None:
    """The finest runs of dimensions of ``source`` and ``target`` that hold the same elements in the same order.

    (2, 3, 4, 5) and (6, 4, 5) fall into (2, 3 | 6), (4 | 4), (5 | 5). None for tensors without elements.
    """
    if prod(source) != prod(target) or not prod(source):
        return None
    found: list[Block] = []
    i = j = 0
    while i < len(source) or j < len(target):
        first, second = i, j
        p = q = 1
        if i < len(source):
            p, i = source[i], i + 1
        if j < len(target):
            q, j = target[j], j + 1
        while p != q:
            if p < q:
                p, i = p * source[i], i + 1
            else:
                q, j = q * target[j], j + 1
        found.append((slice(first, i), slice(second, j)))
    return found


def aligned(node: Node, rank: int) -> Node:
    """The node with leading dimensions of extent 1 up to ``rank``."""
    return reshaped(node, (1,) * (rank - node.type.rank) + node.type.shape)


def reshaped(node: Node, shape: Shape) -> Node:
    return node if node.type.shape == shape else ops.node("reshape", node, shape=shape)


def through_reshape(node: Node, source: Shape, target: Shape) -> Node | None:
    """``node``, which broadcasts to ``source``, so that it broadcasts in the same way to its reshape ``target``.

    Where it varies along a part of a block only it has to be repeated along the rest; None where that makes more than
    a small constant of it.
    """
    parts = blocks(source, target)
    if parts is None or node.type.rank > len(source):
        return None
    if node.type.elements == 1:
        return reshaped(node, ())
    node = aligned(node, len(source))
    repeated: Shape = ()
    shape: Shape = ()
    for one, other in parts:
        along = node.type.shape[one]
        is_same = prod(along) == 1
        repeated += along if is_same else source[one]
        shape += (1,) * len(target[other]) if is_same else target[other]
    if repeated != node.type.shape:
        if prod(repeated) * DTYPES[node.type.dtype].itemsize > SMALL_BYTES or not is_static(node):
            return None
        node = ops.node("broadcast", node, shape=repeated)
    return reshaped(node, shape)


def aligned_shape(shape: Shape, rank: int) -> Shape:
    return (1,) * (rank - len(shape)) + shape


def varies_only(node: Node, rank: int, *dims: int) -> bool:
    """Aligned to ``rank``, the node has extent 1 along every other dimension."""
    if node.type.rank > rank:
        return False
    shape = aligned_shape(node.type.shape, rank)
    return all(extent == 1 or d in dims for d, extent in enumerate(shape))


def inverse(perm: Shape) -> Shape:
    return tuple(perm.index(d) for d in range(len(perm)))


def as_number(extent: Extent, dtype: str) -> Node:
    """An extent as a scalar."""
    extent = X.plain(extent)
    if not isinstance(extent, Expr):
        return constant(np.array(extent, DTYPES[dtype]))
    return ops.node("cast", ops.node("size", value=extent), to=dtype)
