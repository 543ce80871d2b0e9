"""Rows of linear bounds on their way back through a network, from nodes to its inputs.

What roundings take from a bound is of one form: magnitudes of rows times sizes of values. So the sizes of operators
that hand the same rows on are added up first.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Protocol

import numpy as np

from edgec.certify.bounds import Bounds, Passed, Shares
from edgec.certify.patches import Patch, Region, Window, cut, embedded, united
from edgec.certify.ranges import U64, Array, exact
from edgec.certify.rules import Rule, dot
from edgec.ir.graph import Node


class Passing(Protocol):
    """A network that rows pass back through."""

    order: list[Node]
    fixed: dict[Node, Array]
    rules: dict[Node, Rule]

    def is_odd(self, n: Node) -> bool: ...

    def input_of(self, n: Node) -> Node: ...

    def _passed(self, n: Node, here: Patch, run: Backward) -> Passed: ...


class Backward:
    """One pass of rows through a network.

    With ``mirrored`` every row stands for itself and its negative too, which come apart where the network bends.
    Each group of rows is of one of the ``boxes``, which are all of them in turn if they are not given. ``reached`` are
    the rows of inputs.
    """

    def __init__(
        self,
        network: Passing,
        found: Bounds,
        rows: Mapping[Node, Patch],
        shares: Shares | None = None,
        mirrored: bool = False,
        boxes: Array | None = None,
    ) -> None:
        self.boxes = boxes
        self.network, self.found, self.shares, self.mirrored = network, found, shares or {}, mirrored
        self.waiting: dict[Node, Patch] = dict(rows)
        #: Rows of what nodes are before their rounding.
        self.unrounded: dict[Node, Patch] = {}
        self.reached: dict[Node, Patch] = {}
        #: Sizes that the magnitudes of waiting rows are still to be multiplied with.
        self.sizes: dict[Node, Array] = {}
        self.given = frozenset(rows)
        self.shape = next(iter(rows.values())).rows.shape[:2]
        self.constant, self.slack, self.mass = (np.zeros(self.shape) for _ in range(3))

    def run(
        self, noisy: bool, watched: dict[Node, Array] | None, pulls: Mapping[Node, tuple[Array, Array]] | None
    ) -> Array:
        """Lower bounds [boxes, rows]; see `Network.back`."""
        network, found = self.network, self.found
        with np.errstate(all="ignore"):
            for n in reversed(network.order):
                if n not in self.waiting and n not in self.unrounded:
                    continue
                here = self._taken(n)
                if pulls is not None and n in pulls:
                    here = self._pulled(n, here, *pulls[n])
                if watched is not None:
                    watched[n] = embedded(here, n.type.shape)
                if n in network.fixed:
                    self._add(dot(here.rows, self.part(exact(network.fixed[n]).low, here)))
                    self._flush(n, here)
                    continue
                if noisy or n not in self.given:
                    error = found.noise.get(n)
                    if error is None and n in self.given and n in network.rules:
                        error = found.exact[n].error
                    if error is not None and error.any():
                        self._widen(n, self.part(error, here))
                if n in self.unrounded:
                    here = self._joined(n, here, self.unrounded.pop(n))
                if n.op == "input":
                    self._reach(n, here)
                else:
                    self._pass(n, here)
            if self.mirrored:
                self._unfold()
            least = self._least()
        total = self.constant + least - self.slack
        return np.asarray(total - 8 * U64 * len(network.order) * (self.mass + self.slack + np.abs(least)))

    def _taken(self, n: Node) -> Patch:
        if n in self.waiting:
            return self.waiting.pop(n)
        p = self.unrounded[n]
        return Patch(np.zeros_like(p.rows), p.window)

    def _pulled(self, n: Node, here: Patch, pull: Array, limit: Array) -> Patch:
        here = Patch(embedded(here, n.type.shape))
        self._flush(n, here)
        moved = dot(pull[:, None], exact(limit).low)
        self._add(np.broadcast_to(-moved, self.shape))
        self._widen(n, 18 * U64 * self.found.seen[n].magnitude)
        return Patch(here.rows + pull[:, None])

    def part(self, x: Array, here: Patch) -> Array:
        """Of an array [boxes, elements...] what rows are about."""
        return cut(x, here.window, self.boxes)

    def _pass(self, n: Node, here: Patch) -> None:
        """The rows of a node become those of its operands."""
        if self.mirrored and not self.network.is_odd(n):
            here = self._unfold(n, here)
        passed = self.network._passed(n, here, self)
        self._add(passed.constant)
        if passed.sizes is not None:
            self._widen(n, passed.sizes)
        own = [a for a, part in passed.seen if part.rows is here.rows and a.type.shape == n.type.shape]
        if len(own) == 1 and own[0] not in self.waiting and not passed.unrounded:
            sizes = self.sizes.pop(n, None)
            if sizes is not None:
                self.sizes[own[0]] = sizes
        else:
            self._flush(n, here)
        for a, part in passed.seen:
            self.waiting[a] = self._joined(a, self.waiting.pop(a), part) if a in self.waiting else part
        for a, part in passed.unrounded:
            if a in self.unrounded:
                part = self._joined(a, self.unrounded.pop(a), part)
            self.unrounded[a] = part

    def _reach(self, n: Node, here: Patch) -> None:
        into = self.network.input_of(n)
        if into in self.reached:
            self._flush(n, here)
            here = self._joined(n, self.reached[into], here)
        self._flush(n, here)
        self.reached[into] = here

    def _joined(self, n: Node, a: Patch, b: Patch) -> Patch:
        """The sum of two rows of a node, of which the first may have sizes."""
        self._flush(n, a)
        a, b = united(a, b, n.type.shape)
        here = Patch(a.rows + b.rows, a.window)
        self._widen(n, 18 * U64 * self.part(self.found.seen[n].magnitude, here))
        return here

    def _add(self, term: Array) -> None:
        self.constant = self.constant + term
        self.mass = self.mass + np.abs(term)

    def _widen(self, n: Node, sizes: Array) -> None:
        self.sizes[n] = self.sizes[n] + sizes if n in self.sizes else sizes

    def _flush(self, n: Node, here: Patch) -> None:
        """The sizes of a node go into the bound."""
        sizes = self.sizes.pop(n, None)
        if sizes is not None:
            grown = 1 + (4 * prod(here.rows.shape[2:]) + 8) * U64
            self.slack = self.slack + dot(np.abs(here.rows), sizes) * grown

    def _unfold(self, n: Node | None = None, here: Patch | None = None) -> Patch:
        """Rows and their negatives become rows of their own; those of ``n`` as well, which are given back."""
        self.mirrored = False

        def both(p: Patch) -> Patch:
            return Patch(np.concatenate([p.rows, -p.rows], 1), p.window)

        self.waiting, self.unrounded, self.reached = (
            {a: both(p) for a, p in rows.items()} for rows in (self.waiting, self.unrounded, self.reached)
        )
        self.constant = np.concatenate([self.constant, -self.constant], 1)
        self.slack, self.mass = (np.concatenate([x, x], 1) for x in (self.slack, self.mass))
        self.shape = self.constant.shape
        return both(here) if here is not None else Patch(self.constant)

    def _least(self) -> Array:
        domain, rows = self.found.domain, self.reached
        if self.boxes is not None:
            domain = domain.within({n: p.window for n, p in rows.items()}, self.boxes)
        return domain.least({n: p.rows for n, p in rows.items()}, self.shape)


def windows(network: Passing, n: Node, window: Window | None) -> dict[Node, Region]:
    """The parts of values that rows of a part of a node read, by node."""
    found: dict[Node, Region] = {n: window}
    for m in reversed(network.order):
        if m not in found or m not in network.rules:
            continue
        rule = network.rules[m]
        parts = rule.windows(found[m])
        for k in rule.operands:
            found[m.args[k]] = parts[k] if parts is not None else None
    return found


def size_of(n: Node, window: Region) -> int:
    """Numbers of one row."""
    return prod(window.extents if isinstance(window, Window) else n.type.shape)
