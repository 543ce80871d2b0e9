"""Attention as one rule of differentiation: its scores are computed again, a block at a time, and kept nowhere."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import prod

import numpy as np

from edgec.differentiate.composites import softmax_operand
from edgec.frontend.values import Value, constant, emit
from edgec.ir.graph import Node
from edgec.ops.graphs import part, reshape, transpose

#: Scores of a head from which on they are worth a kernel of their own.
LEAST_SCORES = 1024


@dataclass(frozen=True)
class Attention:
    """softmax(query @ key + mask) @ value: the operands, ``scale`` a constant factor of scores before the mask."""

    query: Node
    key: Node
    value: Node
    mask: Node | None
    scale: Value | None


def attention_of(n: Node, reached: Collection[Node]) -> Attention | None:
    """The parts of attention that ends in the product ``n``; None for any other node.

    Heads have the same number of queries, keys and values, of fixed shapes in floats of 32 bits, and no gradient passes
    the mask. Shares that are not a number may be replaced by 0, as exporters of PyTorch write it.
    """
    if n.op != "matmul" or not n.type.is_fixed or n.type.dtype != "f32":
        return None
    shares, value = _unguarded(n.args[0]), n.args[1]
    softmax = softmax_operand(shares)
    if softmax is None or softmax[1] != (shares.type.rank - 1,):
        return None
    scores, mask = _unmasked(softmax[0], reached)
    scale: Value | None = None
    if scores.op in ("mul", "div"):
        for x, c in (scores.args, *([scores.args[::-1]] if scores.op == "mul" else [])):
            if c.is_const and c.type.elements == 1 and x.type == scores.type:
                scale = Value(c) if scores.op == "mul" else 1.0 / Value(c)
                scores = x
                break
    if scores.op != "matmul" or scores.type != shares.type or prod(scores.type.shape[-2:]) < LEAST_SCORES:
        return None
    query, key = scores.args
    outer = scores.type.shape[:-2]
    if any(a.type.shape[:-2] != outer for a in (query, key, value)):
        return None
    return Attention(query, key, value, mask, scale)


def attention_back(n: Node, g: Node, parts: Attention) -> list[tuple[Node, Node]]:
    """The operands of attention that ends in ``n``, each with its gradient, where ``g`` is that of the result."""
    query = Value(parts.query) if parts.scale is None else Value(parts.query) * parts.scale
    rank = n.type.rank
    turned = [*range(rank - 2), rank - 1, rank - 2]
    key = transpose(parts.key, turned)
    pull = (Value(g) * Value(n)).sum([rank - 1], keep=False)
    masks = [] if parts.mask is None else [parts.mask]
    every = emit("attention_gradients", query, Value(key), Value(parts.value), Value(g), pull, *map(Value, masks)).node
    found, start = [], 0
    for shape in (query.shape, key.type.shape, parts.value.type.shape):
        found.append(reshape(part(every, (start,), (prod(shape),)), shape))
        start += prod(shape)
    of_query = found[0] if parts.scale is None else (Value(found[0]) * parts.scale).node
    return [(parts.query, of_query), (parts.key, transpose(found[1], turned)), (parts.value, found[2])]


def _unguarded(n: Node) -> Node:
    """The node without its guard, which puts 0 in the place of elements that are not a number."""
    if n.op == "select":
        condition, zero, x = n.args
        is_zero = _is_number(zero) and not _number(zero).any()
        if condition.op == "isnan" and condition.args[0] is x and is_zero:
            return x
    return n


def _number(n: Node) -> np.ndarray:
    return _number(n.args[0]) if n.op == "broadcast" else n.value


def _is_number(n: Node) -> bool:
    """Is it a constant, or one repeated?"""
    return _is_number(n.args[0]) if n.op == "broadcast" else n.is_const


def _unmasked(x: Node, reached: Collection[Node]) -> tuple[Node, Node | None]:
    """Scores without what is added to them, or hides some of them, and that as a mask to add."""
    if x.op == "add":
        for scores, mask in (x.args, x.args[::-1]):
            if scores.type == x.type and mask not in reached:
                return scores, _of_rank(mask, x.type.rank)
    if x.op == "select" and x.args[0] not in reached:
        condition, *sides = x.args
        for k, (scores, hidden) in enumerate((sides, sides[::-1])):
            if scores.type == x.type and _is_number(hidden) and np.all(_number(hidden) == -np.inf):
                pair = (constant(0.0, "f32"), Value(hidden))
                return scores, _of_rank(emit("select", Value(condition), *pair[:: 1 - 2 * k]).node, x.type.rank)
    return x, None


def _of_rank(mask: Node, rank: int) -> Node:
    return reshape(mask, (1,) * (rank - mask.type.rank) + mask.type.shape)
