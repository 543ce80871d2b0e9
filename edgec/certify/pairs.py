"""Pairs of bends: a maximum, a minimum or a scalar function of a program, and the one of its reference that it is.

A program computes what its reference does, in other numbers: in integers with a scale, with constants that were folded
and rounded. Where both bend, one value is a multiple of the other but for an error, which `edgec.certify.joint` bounds.
A pair is a guess from values at samples: bounds hold whatever is paired, and are narrow where the guess is right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from edgec.certify.curves import scalar
from edgec.certify.ranges import Array
from edgec.certify.rules import Leaky, Rule
from edgec.ir.evaluate import evaluate_node
from edgec.ir.functions import FUNCTIONS
from edgec.ir.graph import Node

#: The part of a value that may be missed by a multiple of another one, where the two are paired; and most dimensions
#: that are tried in every order.
FAR, RANK = 0.3, 4
#: A multiple this near to 1 is 1.
SAME = 1e-5
#: A multiple for each index of a dimension is taken where it misses less than this part of what one for all does.
BETTER = 0.7


@dataclass(frozen=True)
class Bend:
    """An operator of one operand that varies, which is linear but for a bend.

    ``limit`` is the constant of a maximum or minimum (it broadcasts to the result), zero for a leaky choice.
    """

    node: Node
    operand: Node
    kind: str
    limit: Array


@dataclass(frozen=True)
class Pair:
    """A bend of a program and one of its reference: ``reference`` is near scale * ``program`` + shift.

    Both are arrays of the program's shape. The dimensions of the program's value are those of the reference's in this
    ``order``.
    """

    program: Bend
    reference: Bend
    scale: Array
    shift: Array
    order: tuple[int, ...]


def bend(n: Node, rules: Mapping[Node, Rule], fixed: Mapping[Node, Array]) -> Bend | None:
    """A node as a bend, or None where it is none."""
    rule = rules.get(n)
    if rule is None or len(rule.operands) != 1:
        return None
    operand = n.args[rule.operands[0]]
    if operand.type.shape != n.type.shape:
        return None
    if isinstance(rule, Leaky):
        return Bend(n, operand, "leaky", np.zeros(()))
    if n.op in ("max", "min"):
        return Bend(n, operand, n.op, np.asarray(fixed[n.args[1 - rule.operands[0]]], np.float64))
    function = FUNCTIONS.get(n.op)
    if function is not None and function.curve is not None and not function.curve.steps and scalar(n.op) is not None:
        return Bend(n, operand, n.op, np.zeros(()))
    return None


def values(order: Sequence[Node], inputs: Mapping[str, Array], wanted: set[Node]) -> dict[Node, Array]:
    """The values of some nodes, for inputs by name."""
    left = dict.fromkeys(order, 0)
    for n in order:
        for a in n.args:
            left[a] = left.get(a, 0) + 1
    here: dict[Node, Array] = {}
    kept: dict[Node, Array] = {}
    for n in order:
        if n.is_const:
            here[n] = n.value
        elif n.op == "input":
            here[n] = inputs[str(n.attributes["name"])]
        else:
            here[n] = evaluate_node(n, [here[a] for a in n.args])
        if n in wanted:
            kept[n] = here[n]
        for a in n.args:
            left[a] -= 1
            if not left[a]:
                here.pop(a, None)
    return kept


def pairs(
    program: Sequence[Bend],
    reference: Sequence[Bend],
    found: Sequence[Mapping[Node, Array]],
    others: Sequence[Mapping[Node, Array]],
) -> list[Pair]:
    """Pairs in the order of both lists, none of which crosses another one.

    ``found`` and ``others`` are the values of the bends and of their operands, one mapping for each sample. Of all such
    lists of pairs it is the one with the most, and among those the nearest.
    """
    if not found:
        return []
    best: list[list[tuple[float, list[Pair]]]] = [[(0.0, [])] * (len(reference) + 1) for _ in range(len(program) + 1)]
    for i, p in enumerate(program):
        for k, r in enumerate(reference):
            best[i + 1][k + 1] = max(best[i][k + 1], best[i + 1][k], key=lambda x: x[0])
            made = _pair(p, r, found, others)
            if made is not None:
                score, before = best[i][k]
                score += 1 - made[0]
                if score > best[i + 1][k + 1][0]:
                    best[i + 1][k + 1] = score, [*before, made[1]]
    return best[-1][-1][1]


def _orders(p: Bend, r: Bend) -> Iterator[tuple[int, ...]]:
    """Orders of the dimensions of the reference that give the program's shape, each extent of 1 in its place."""
    rank, shape = r.node.type.rank, r.node.type.shape
    if rank != p.node.type.rank:
        return
    if rank > RANK:
        if shape == p.node.type.shape:
            yield tuple(range(rank))
        return
    for order in permutations(range(rank)):
        if tuple(shape[d] for d in order) == p.node.type.shape:
            yield order


def _pair(
    p: Bend, r: Bend, found: Sequence[Mapping[Node, Array]], others: Sequence[Mapping[Node, Array]]
) -> tuple[float, Pair] | None:
    """The distance between the values of two bends, and their pair; None where they are no pair."""
    if p.kind != r.kind or sorted(p.node.type.shape) != sorted(r.node.type.shape):
        return None
    if p.limit.size != 1 or r.limit.size != 1:
        return None
    low, high = float(p.limit.reshape(())), float(r.limit.reshape(()))
    x, m = _samples(found, (p.node, p.operand), low, range(p.node.type.rank))
    best: tuple[float, Pair] | None = None
    for order in _orders(p, r):
        y, v = _samples(others, (r.node, r.operand), high, order)
        if any(not np.linalg.norm(z) or not np.isfinite(z).all() for z in (x, y, m, v)):
            return None
        # Of operands: values are at the limit for one side, of which they say no multiple.
        scale = _scale(m, v) if p.kind in ("max", "min", "leaky") else np.ones_like(x[0])
        if _apart(scale * x, y) >= FAR:
            continue
        score = (_apart(scale * x, y) + min(1.0, _apart(scale * m, v))) / 4
        if best is None or score < best[0]:
            best = score, Pair(p, r, scale, high - scale * low, order)
    return best


def _samples(
    found: Sequence[Mapping[Node, Array]], nodes: Sequence[Node], limit: float, order: Sequence[int]
) -> list[Array]:
    """Values [samples, elements...] of nodes, less a limit, with their dimensions in an ``order``."""
    return [np.stack([np.transpose(np.asarray(f[n], np.float64), order) - limit for f in found]) for n in nodes]


def _apart(x: Array, y: Array) -> float:
    """The distance of two arrays, as a part of the size of the second."""
    return float(np.linalg.norm(y - x) / np.linalg.norm(y))


def _scale(x: Array, y: Array) -> Array:
    """The multiples of x [samples, elements...] that are nearest to y: one for all elements, or by one dimension."""
    one = _ratio(x, y, None)
    best = np.broadcast_to(np.where(one > 0, one, 1.0), x.shape[1:])
    if abs(one.item() - 1) < SAME:
        return np.ones_like(best)
    least = np.linalg.norm(y - best * x)
    for d in range(1, x.ndim):
        ratio = _ratio(x, y, d)
        found = np.broadcast_to(np.where(ratio > 0, ratio, best), best.shape)
        missed = np.linalg.norm(y - found * x)
        if missed < BETTER * least:
            best, least = found, missed
    return best


def _ratio(x: Array, y: Array, d: int | None) -> Array:
    axes = tuple(k for k in range(x.ndim) if k != d)
    with np.errstate(all="ignore"):
        return np.asarray(np.nan_to_num((x * y).sum(axes, keepdims=True) / (x * x).sum(axes, keepdims=True))[0])
