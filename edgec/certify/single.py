"""The linear operators of a network in single precision, for searches: rows pass back, values forward."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from edgec.certify.bounds import Bounds
from edgec.certify.descent import facts_of
from edgec.certify.network import Network
from edgec.certify.ranges import Array
from edgec.certify.rules import Elementwise, Moved, Weighted
from edgec.ir.graph import Node

SINGLE = np.float32
#: Rows [rows, elements] by the number of the operand, and what is added to bounds [rows].
Parts = tuple[dict[int, Array], Array | float]


@dataclass(frozen=True)
class Site:
    """A choice between an operand, which is the first of a maximum or a minimum, and a constant ``limit``."""

    node: Node
    operand: Node
    limit: Array

    @cached_property
    def level(self) -> Array | None:
        """The limit in single precision, [elements]; None where it is zero."""
        flat = self.limit.reshape(-1).astype(SINGLE)
        return flat if flat.any() else None

    @property
    def sign(self) -> int:
        """1 where the free plane is below, -1 where it is above."""
        return 1 if self.node.op == "max" else -1


@dataclass(frozen=True)
class _Line:
    """The slope of each operand [1, elements], None where it is 1, and a bias."""

    slopes: Mapping[int, Array | None]
    bias: Array | None


class Single:
    """Steps through linear operators, for points in the box of ``found``.

    A choice between products with matrices, of which some elements are shut in all of the box, has the others alone:
    ``kept`` are their numbers, by the choice and all nodes from the product before it on.
    """

    def __init__(self, network: Network, sites: Sequence[Site], found: Bounds) -> None:
        self.network, self.sites = network, list(sites)
        self.lines: dict[Node, _Line] = {}
        for n, rule in network.rules.items():
            if isinstance(rule, Elementwise) and rule.is_linear:
                line = self._line(n, rule, found)
                if line is not None:
                    self.lines[n] = line
        self.kept: dict[Node, Array] = {}
        users = network.graph.users()
        for s in sites:
            self._keep(s, found, users)
        self.matrices = {n: self._matrix(n) for n in network.rules if self._is_matrix(n)}

    def _is_matrix(self, n: Node) -> bool:
        rule = self.network.rules.get(n)
        return isinstance(rule, Weighted) and rule.map.is_matrix

    def _matrix(self, n: Node) -> tuple[Array, Array]:
        rule = self.network.rules[n]
        assert isinstance(rule, Weighted)
        w = rule.map.node.args[1].value.astype(SINGLE)
        into, out = self.kept.get(n.args[rule.operands[0]]), self.kept.get(n)
        w = w if into is None else w[into]
        w = w if out is None else w[:, out]
        return np.ascontiguousarray(w), np.ascontiguousarray(w.T)

    def _keep(self, s: Site, found: Bounds, users: Mapping[Node, Sequence[Node]]) -> None:
        shape, seen = s.node.type.shape, found.seen[s.operand]
        is_shut = (seen.high <= s.limit) if s.sign > 0 else (seen.low >= s.limit)
        if not is_shut.any() or s.limit.any() or max(shape) != prod(shape) or len(shape) > 2 or shape[-1] == 1:
            return
        chain = [s.node, s.operand]
        while chain[-1] in self.lines and len(self.lines[chain[-1]].slopes) == 1:
            (k,) = self.lines[chain[-1]].slopes
            chain.append(chain[-1].args[k])
        outputs = set(self.network.outputs.values()) | set(self.network.before.values())
        is_alone = all(len(users[n]) == 1 for n in chain[1:]) and not outputs & set(chain)
        if not (self._is_matrix(chain[-1]) and is_alone and all(self._is_matrix(u) for u in users[s.node])):
            return
        kept = np.flatnonzero(~is_shut.all(axis=0).reshape(-1))
        for n in chain:
            self.kept[n] = kept
            if n in self.lines:
                line = self.lines[n]
                cut = {k: x if x is None or x.shape[1] == 1 else x[:, kept] for k, x in line.slopes.items()}
                self.lines[n] = _Line(cut, None if line.bias is None else line.bias[:, kept])

    def size(self, n: Node) -> int:
        """Elements of a node."""
        return len(self.kept[n]) if n in self.kept else prod(n.type.shape)

    def part(self, n: Node, x: Array) -> Array:
        """The elements of arrays [n, ...] of a node that it has here, [n, elements]."""
        wide = x.reshape(len(x), -1)
        return wide[:, self.kept[n]] if n in self.kept else wide

    def whole(self, n: Node, x: Array) -> Array:
        """All elements of arrays [n, elements] of a node, as [n, ...] in double precision, with zeros for others."""
        if n not in self.kept:
            return x.astype(np.float64).reshape(len(x), *n.type.shape)
        found = np.zeros((len(x), prod(n.type.shape)))
        found[:, self.kept[n]] = x
        return found.reshape(len(x), *n.type.shape)

    @staticmethod
    def _line(n: Node, rule: Elementwise, found: Bounds) -> _Line | None:
        facts = facts_of(rule, n, found)
        if not facts.is_exact or any(n.args[k].type.shape != n.type.shape for k in rule.operands):
            return None
        slopes: dict[int, Array | None] = {}
        bias = np.zeros(n.type.shape)
        for k, slope, _, value in facts.slopes:
            if value is None:
                slopes[k] = None if slope.ndim == 0 and slope == 1 else flat(_wide(slope, n))
            else:
                bias = bias + _wide(slope * value, n)[0]
        return _Line(slopes, flat(bias[None]) if bias.any() else None)

    def is_step(self, n: Node) -> bool:
        rule = self.network.rules[n]
        return n in self.matrices or n in self.lines or isinstance(rule, (Weighted, Moved))

    def back(self, n: Node, rows: Array) -> Parts:
        """The rows that those of a step become."""
        rule, count = self.network.rules[n], len(rows)
        if n in self.matrices:
            turned = self.matrices[n][1]
            return {rule.operands[0]: (rows.reshape(-1, turned.shape[0]) @ turned).reshape(count, -1)}, 0.0
        if n in self.lines:
            line = self.lines[n]
            parts = {k: rows if slope is None else rows * slope for k, slope in line.slopes.items()}
            return parts, rows @ line.bias[0] if line.bias is not None else 0.0
        wide = rows.reshape(count, 1, *n.type.shape)
        if isinstance(rule, Weighted):
            return {rule.operands[0]: flat(rule.map.transposed_rows(wide))}, 0.0
        assert isinstance(rule, Moved)
        offset = rule.move.offset
        parts = {k: flat(rule.move.maps[k].transposed_rows(wide)) for k in rule.operands}
        return parts, 0.0 if offset is None else rows @ offset.reshape(-1).astype(SINGLE)

    def value(self, n: Node, args: Sequence[Array]) -> Array:
        """The value [points, elements] of a step from those of its operands."""
        rule, count = self.network.rules[n], len(args[0])
        if n in self.matrices:
            w = self.matrices[n][0]
            return np.asarray(args[0].reshape(-1, w.shape[0]) @ w).reshape(count, -1)
        if n in self.lines:
            line, total = self.lines[n], self.lines[n].bias
            for x, slope in zip(args, line.slopes.values()):
                part = x if slope is None else x * slope
                total = part if total is None else total + part
            assert total is not None
            return total
        wide = [x.reshape(count, *n.args[k].type.shape) for k, x in zip(rule.operands, args)]
        if isinstance(rule, Weighted):
            return flat(rule.map(wide[0]))
        assert isinstance(rule, Moved)
        return flat(rule.move(wide))


def flat(x: Array) -> Array:
    """Arrays [n, ...] as [n, elements] in single precision."""
    return np.ascontiguousarray(x.reshape(len(x), -1), SINGLE)


def _wide(x: Array, n: Node) -> Array:
    return np.broadcast_to(x, (x.shape[0] if x.ndim else 1, *n.type.shape))
