"""Definitions in normal form, and how a part of a graph is compared with one.

The normal form is what the shipped rules make of a definition. Compared with a model it has four freedoms: operands of
commutative functions in either order, reductions along any one set of dimensions, the extent of those where the
definition has ``EXTENT`` (or its reciprocal), and any constant where it has ``ANY``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from inspect import signature
from math import isclose, prod

from edgec import ops
from edgec.ir.graph import Graph, Node, placeholder
from edgec.ir.types import Type
from edgec.rewrite.facts import is_static, uniform
from edgec.rewrite.names.definitions import ANY, DEFINITIONS, EXTENT, OTHER, SAMPLE
from edgec.rewrite.shipped import simplify
from edgec.rewrite.term import COMMUTATIVE

#: Constants of a definition are met up to this relative difference: models store them in single precision, or shorter.
CLOSE = 2e-4


@dataclass(frozen=True)
class Pattern:
    """The normal form of one definition."""

    name: str
    root: Node


@dataclass(frozen=True)
class Match:
    """An occurrence of a pattern: the operands by name, the nodes it covers, and the dimensions it reduces."""

    operands: dict[str, Node]
    nodes: frozenset[Node]
    axes: tuple[int, ...] | None = None


@lru_cache(maxsize=1)
def patterns() -> tuple[Pattern, ...]:
    """Every definition in normal form, larger ones first: what is found inside another is not looked for.

    Before a rounding the normal form may be another one, as rules that would change the last place do not apply there.
    """
    found: dict[Node, Pattern] = {}
    for name, definitions in DEFINITIONS.items():
        for definition in definitions:
            operands = [placeholder(p, Type("f32", SAMPLE)) for p in signature(definition).parameters]
            y = definition(*operands)
            for root in dict.fromkeys((_normal(operands, y), *_normal(operands, ops.node("round", y)).args[:1])):
                root = _without_scale(root)
                found.setdefault(root, Pattern(name, root))
    return tuple(sorted(found.values(), key=lambda p: -_size(p.root)))


def _normal(operands: list[Node], y: Node) -> Node:
    return simplify(Graph(tuple(operands), (("y", y),)))[0].outputs[0][1]


def _without_scale(root: Node) -> Node:
    """Rules move a constant factor of a result to where it costs nothing, so a pattern has none."""
    if root.op == "mul" and is_static(root.args[1]) and uniform(root.args[1]) != ANY:
        return root.args[0]
    return root


def _size(root: Node) -> int:
    return len(Graph((), (("y", root),)).operations())


def matches(pattern: Pattern, node: Node) -> Match | None:
    """The first match of ``pattern`` at ``node``; None if there is none."""
    if node.op != pattern.root.op:
        return None
    return next(_match(pattern.root, node, Match({}, frozenset())), None)


def _match(p: Node, n: Node, so_far: Match) -> Iterator[Match]:
    if p.op == "input":
        name = p.attributes["name"]
        bound = so_far.operands.get(name)
        if bound is None and not is_static(n):
            yield Match({**so_far.operands, name: n}, so_far.nodes, so_far.axes)
        elif bound is n:
            yield so_far
    elif p.is_const:
        if _meets(p, n, so_far):
            yield so_far
    elif p.op == n.op and len(p.args) == len(n.args):
        axes = so_far.axes
        if p.op == "reduce":
            found = n.attributes["axes"]
            if p.attributes["combine"] != n.attributes["combine"] or axes not in (None, found):
                return
            axes = found
        elif p.attrs != n.attrs:
            return
        inside = Match(so_far.operands, so_far.nodes | {n}, axes)
        yield from _all(p.args, n.args, inside)
        if p.op in COMMUTATIVE and n.args[0] is not n.args[1]:
            yield from _all(p.args, n.args[::-1], inside)


def _all(ps: tuple[Node, ...], ns: tuple[Node, ...], so_far: Match) -> Iterator[Match]:
    if not ps:
        yield so_far
        return
    # What reduces says along which dimensions, so it is looked at before a constant that depends on their extent.
    order = sorted(range(len(ps)), key=lambda k: ps[k].is_const)
    first = order[0]
    rest = [k for k in range(len(ps)) if k != first]
    for found in _match(ps[first], ns[first], so_far):
        yield from _all(tuple(ps[k] for k in rest), tuple(ns[k] for k in rest), found)


def _meets(p: Node, n: Node, so_far: Match) -> bool:
    wanted = uniform(p)
    if not is_static(n) or wanted is None:
        return False
    if any(isclose(wanted, free, rel_tol=1e-6) for free in (ANY, OTHER)):
        return True
    value = uniform(n)
    if value is None:
        return False
    for power in (1, -1):
        if isclose(wanted, EXTENT**power, rel_tol=1e-6):
            extent = _extent(so_far)
            if not isinstance(extent, int):
                return False  # only run time knows
            wanted = float(extent) ** power
            break
    return isclose(value, wanted, rel_tol=CLOSE, abs_tol=1e-30)


def _extent(so_far: Match) -> int:
    for n in so_far.nodes:
        if n.op == "reduce" and n.attributes["axes"] == so_far.axes:
            return prod(n.args[0].type.shape[a] for a in so_far.axes or ())
    return 0
