"""Branch and bound over choices: the sides of maxima and minima are taken one by one until bounds decide.

A ReLU whose side is known is linear. Each part fixes the sides of some elements; the parts of an element are two, and
one of them has every input. The element whose bend costs the bound most is taken first (the intercept score of Bunel et
al., "Branch and Bound for Piecewise Linear Neural Network Verification", 2020).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from edgec.certify.bounds import Bounds
from edgec.certify.domain import Domain
from edgec.certify.network import Network
from edgec.certify.ranges import Array
from edgec.certify.rules import Elementwise
from edgec.certify.slopes import Site, optimized
from edgec.certify.spec import Spec
from edgec.ir.graph import Node

#: Parts that are bounded together.
BATCH = 32


@dataclass(frozen=True)
class Part:
    """Inputs for which some sides are taken: ``sides`` by node, 1 above the limit and -1 below, with multipliers."""

    sides: Mapping[Node, Array]
    betas: Mapping[Node, Array]


class Choices:
    """The search for a proof that one clause is met by no input of a box.

    Ranges are those of the whole box (``root``), narrowed by the sides that were taken. After `refute`, ``parts`` is
    the number of parts that were bounded, ``nearest`` the least margin of those refuted, ``reason`` why it ended.
    """

    def __init__(self, network: Network, spec: Spec, root: Bounds) -> None:
        self.network, self.spec, self.root = network, spec, root
        self.sites = sites_of(network)
        self.parts, self.nearest, self.reason = 0, np.inf, ""

    def refute(self, end: float, tell: Callable[[str], None]) -> bool:
        """True where the clause is refuted before the time is ``end``."""
        none = {s.node: np.zeros(s.node.type.shape) for s in self.sites}
        waiting = [Part(none, none)]
        while waiting:
            if time.perf_counter() > end:
                self.reason = f"time is up with {len(waiting):,} combinations of choices open"
                return False
            taken, waiting = waiting[-BATCH:], waiting[:-BATCH]
            margins, chosen, taken = self._bounded(taken)
            self.parts += len(taken)
            tell(f"{self.parts:,} combinations of choices, {len(waiting):,} wait")
            for part, margin, choice in zip(taken, margins, chosen):
                if margin > 0:
                    self.nearest = min(self.nearest, float(margin))
                elif choice is None:
                    self.reason = "all choices are taken, and the bounds do not decide it"
                    return False
                else:
                    waiting += _both_sides(part, *choice)
        return True

    def _bounded(self, taken: list[Part]) -> tuple[Array, list[tuple[Node, int] | None], list[Part]]:
        """The margin of each part, the choice that costs it most, and the part with its multipliers."""
        count, domain = len(taken), self.root.domain

        def many(values: Mapping[Node, Array]) -> dict[Node, Array]:
            return {n: np.repeat(v, count, 0) for n, v in values.items()}

        center = many(domain.center) if domain.center is not None else None
        boxes = Domain(many(domain.low), many(domain.high), center, domain.radius)
        sides = {s.node: np.stack([t.sides[s.node] for t in taken]) for s in self.sites}
        betas = {s.node: np.stack([t.betas[s.node] for t in taken]) for s in self.sites}
        found = self.network.bounds(boxes, self._known(sides, count), tighten=False)
        best = optimized(self.network, self.spec, found, self.sites, sides, betas)
        condition = np.nan_to_num(best.least - self.spec.limits, nan=-np.inf).argmax(axis=1)
        costs = {s.node: _costs(s, found, best.rows, condition) for s in self.sites}
        chosen: list[tuple[Node, int] | None] = []
        for k in range(count):
            most = max(costs, key=lambda n: float(costs[n][k].max()), default=None)
            is_open = most is not None and costs[most][k].max() > 0
            chosen.append((most, int(costs[most][k].argmax())) if most is not None and is_open else None)
        parts = [replace(t, betas={n: b[k] for n, b in best.betas.items()}) for k, t in enumerate(taken)]
        return self.spec.margins(best.least)[:, 0], chosen, parts

    def _known(self, sides: Mapping[Node, Array], count: int) -> dict[Node, tuple[Array, Array]]:
        """The ranges of the whole box, and of operands those of the sides that were taken."""
        nodes = (n for n in self.root.exact if n in self.network.rules and n not in self.network.stored)
        known = {
            n: (np.repeat(r.low, count, 0), np.repeat(r.high, count, 0)) for n in nodes for r in [self.root.exact[n]]
        }
        for s in self.sites:
            low, high = known[s.operand]
            low = np.where(sides[s.node] > 0, np.maximum(low, s.limit), low)
            known[s.operand] = low, np.where(sides[s.node] < 0, np.minimum(high, s.limit), high)
        return known


def sites_of(network: Network) -> list[Site]:
    """Choices between a value that its kernel computes and a constant."""
    found = []
    for n, rule in network.rules.items():
        if n.op not in ("max", "min") or not isinstance(rule, Elementwise) or rule.operands != (0,):
            continue
        operand, limit = n.args[0], np.asarray(network.fixed[n.args[1]], np.float64)
        if operand.type.shape == n.type.shape and operand not in network.stored and operand in network.rules:
            found.append(Site(n, operand, np.broadcast_to(limit, n.type.shape)))
    return found


def bend_costs(s: Site, low: Array, high: Array, row: Array) -> Array:
    """The cost of the bend of every element, [parts, elements], for a ``row`` [parts, ...] of what the choice gives.

    The operand is ``low`` to ``high`` above its limit. Elements whose side is known cost nothing, all others something.
    """
    with np.errstate(all="ignore"):
        triangle, other = -low * high / (high - low), np.minimum(-low, high)
    secant = row < 0 if s.node.op == "max" else row > 0
    cost = np.nan_to_num(np.abs(row) * np.where(secant, triangle, other)) + 1e-300
    return np.asarray(np.where((low < 0) & (high > 0), cost, 0.0).reshape(len(row), -1))


def _costs(s: Site, found: Bounds, rows: Mapping[Node, Array], condition: Array) -> Array:
    """The cost of the bend of every element for the condition of each part, [parts, elements]; 0 where it has none."""
    if s.node not in rows:
        return np.zeros((len(condition), int(s.node.type.elements)))
    seen, row = found.seen[s.operand], rows[s.node][np.arange(len(condition)), condition]
    return bend_costs(s, seen.low - s.limit, seen.high - s.limit, row)


def _both_sides(part: Part, node: Node, element: int) -> list[Part]:
    """The part with one side of a choice, and with the other."""
    found = []
    for side in (1.0, -1.0):
        sides = part.sides[node].copy()
        sides.reshape(-1)[element] = side
        found.append(replace(part, sides={**part.sides, node: sides}))
    return found
