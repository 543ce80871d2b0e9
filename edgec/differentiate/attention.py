"""Attention as one rule of differentiation: its scores are computed again, a block at a time, and kept nowhere."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import prod

import numpy as np

from edgec.differentiate.composites import is_number, number_of, softmax_operand, unguarded
from edgec.frontend.values import Value, constant, emit
from edgec.ir.graph import Node
from edgec.ops.attention import parts_of_queries
from edgec.ops.graphs import added, part, reshape, transpose

#: Scores of a head from which on they are worth a kernel of their own.
LEAST_SCORES = 1024


@dataclass(frozen=True)
class Blocks:
    """The kernels that a device has for attention backwards in blocks: of heads of ``largest`` features at most, where
    that is limited, and with the statistics of rows as an operand, by a kernel of their own."""

    largest: int | None = None
    has_statistics: bool = False


@dataclass(frozen=True)
class Attention:
    """softmax(query @ key + mask) @ value: the operands, ``scale`` a constant factor of scores before the mask."""

    query: Node
    key: Node
    value: Node
    mask: Node | None
    scale: Value | None


def attention_of(n: Node, reached: Collection[Node], blocks: Blocks) -> Attention | None:
    """The parts of attention that ends in the product ``n`` and that ``blocks`` take; None for any other node.

    Heads have the same number of queries, keys and values, of fixed shapes in floats of 32 bits, and no gradient passes
    the mask. Shares that are not a number may be replaced by 0, as exporters of PyTorch write it.
    """
    if n.op != "matmul" or not n.type.is_fixed or n.type.dtype != "f32":
        return None
    shares, value = unguarded(n.args[0]), n.args[1]
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
    if blocks.largest is not None and max(query.type.shape[-1], value.type.shape[-1]) > blocks.largest:
        return None
    return Attention(query, key, value, mask, scale)


def attention_back(n: Node, g: Node, parts: Attention, blocks: Blocks) -> list[tuple[Node, Node]]:
    """The operands of attention that ends in ``n``, each with its gradient, where ``g`` is that of the result."""
    turned = [*range(n.type.rank - 2), n.type.rank - 1, n.type.rank - 2]
    pull = (Value(g) * Value(n)).sum([n.type.rank - 1], keep=False)
    masks = [] if parts.mask is None else [Value(parts.mask)]
    (query, of_query), (key, of_key) = (parts.query, 1.0), (parts.key, 1.0)
    operands = [Value(query), Value(transpose(key, turned))]
    count = 1
    if blocks.has_statistics:  # constant factors are the kernel's: gradients are by what lies before them
        (query, of_query), (key, of_key) = map(_unscaled, (query, key))
        scale = {} if parts.scale is None else {"scale": float(parts.scale.node.value.reshape(()))}
        statistics = emit("attention_statistics", *operands, *masks, **scale)
        operands += [Value(parts.value), Value(g), pull, statistics, *masks]
        every = emit("attention_gradients", *operands, **scale, of_query=of_query, of_key=of_key).node
    else:
        if parts.scale is not None:
            operands[0] = operands[0] * parts.scale
        count = parts_of_queries(prod(n.type.shape[:-2]), n.type.shape[-2])
        apart = {"parts": count} if count > 1 else {}
        every = emit("attention_gradients", *operands, Value(parts.value), Value(g), pull, *masks, **apart).node
    found, start = [], 0
    for operand, pieces in zip((*operands[:2], Value(parts.value)), (1, count, count)):
        size = prod(operand.shape)
        each = [reshape(part(every, (start + p * size,), (size,)), operand.shape) for p in range(pieces)]
        found.append(added(each))
        start += pieces * size
    if parts.scale is not None and not blocks.has_statistics:
        found[0] = (Value(found[0]) * parts.scale).node
    return [(query, found[0]), (key, transpose(found[1], turned)), (parts.value, found[2])]


def _unscaled(n: Node) -> tuple[Node, float]:
    """The node without a constant factor, and that factor."""
    if n.op in ("mul", "div"):
        for x, c in (n.args, *([n.args[::-1]] if n.op == "mul" else [])):
            if x.type == n.type and is_number(c) and number_of(c).size == 1 and number_of(c).all():
                factor = float(number_of(c).reshape(()))
                return x, factor if n.op == "mul" else 1.0 / factor
    return n, 1.0


def _unmasked(x: Node, reached: Collection[Node]) -> tuple[Node, Node | None]:
    """Scores without what is added to them, or hides some of them, and that as a mask to add."""
    if x.op == "add":
        for scores, mask in (x.args, x.args[::-1]):
            if scores.type == x.type and mask not in reached:
                return scores, _of_rank(mask, x.type.rank)
    if x.op == "select" and x.args[0] not in reached:
        condition, *sides = x.args
        for k, (scores, hidden) in enumerate((sides, sides[::-1])):
            if scores.type == x.type and is_number(hidden) and np.all(number_of(hidden) == -np.inf):
                pair = (constant(0.0, "f32"), Value(hidden))
                return scores, _of_rank(emit("select", Value(condition), *pair[:: 1 - 2 * k]).node, x.type.rank)
    return x, None


def _of_rank(mask: Node, rank: int) -> Node:
    return reshape(mask, (1,) * (rank - mask.type.rank) + mask.type.shape)
