"""Free slopes of planes and multipliers of sides, optimized by the gradient of the bound.

A bound is that of a linear function of the inputs, at the corner where it is least. So the gradient by a free slope is
the row times the operand's value, and that by a multiplier the operand's distance from its limit, both at this corner
and along the planes that the bound is made of (alpha-CROWN: Xu et al., 2021; beta-CROWN: Wang et al., 2021).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from edgec.certify.bounds import Bounds
from edgec.certify.elementwise import aligned
from edgec.certify.network import Network
from edgec.certify.ranges import Array, exact
from edgec.certify.rules import Elementwise, Moved, Weighted
from edgec.certify.spec import Spec
from edgec.ir.graph import Node

#: Steps of the optimizer, the length of the first, and what each is shorter by.
STEPS, RATE, DECAY = 12, 0.15, 0.9


@dataclass(frozen=True)
class Site:
    """A choice between an operand, which is the first of a maximum or a minimum, and a constant ``limit``."""

    node: Node
    operand: Node
    limit: Array


@dataclass(frozen=True)
class Optimized:
    """The best bounds that were found, [boxes, conditions], with the rows, slopes and multipliers that gave them."""

    least: Array
    rows: Mapping[Node, Array]
    shares: Mapping[Node, Array]
    betas: Mapping[Node, Array]


def optimized(
    network: Network,
    spec: Spec,
    found: Bounds,
    sites: Sequence[Site],
    taken: Mapping[Node, Array],
    betas: Mapping[Node, Array],
    steps: int = STEPS,
) -> Optimized:
    """Bounds of the conditions of one clause, by ``steps`` of the optimizer Adam.

    ``taken`` says by node which sides were taken: 1 for the operand above its limit, -1 below, 0 for neither;
    ``betas`` are multipliers to begin with, none of them below zero.
    """
    boxes = found.domain.boxes
    shares = {s.node: _usual(s, found) for s in sites}
    betas = {s.node: betas[s.node] for s in sites}
    open = {s.node: _is_open(s, found) for s in sites}
    moments = {key: (np.zeros_like(x), np.zeros_like(x)) for key, x in _named(shares, betas).items()}
    best: Optimized | None = None
    for step in range(steps + 1):
        pulls = {s.operand: (-taken[s.node] * betas[s.node], s.limit) for s in sites}
        rows: dict[Node, Array] = {}
        least, reached = network.back(spec.rows(network, boxes), found, shares, watched=rows, pulls=pulls)
        best = _better(best, Optimized(least, rows, dict(shares), dict(betas)), spec)
        if step == steps:
            break
        condition = np.nan_to_num(least - spec.limits, nan=-np.inf).argmax(axis=1)
        own = {n: r[np.arange(boxes), condition] for n, r in rows.items()}
        corner = found.domain.corner(reached)
        values = followed(network, found, own, {n: x[np.arange(boxes), condition] for n, x in corner.items()}, shares)
        if values is None:
            break
        for s in sites:
            away = values[s.operand] - s.limit
            row = own.get(s.node, np.zeros_like(away))
            free = row > 0 if s.node.op == "max" else row < 0
            slopes = {("share", s.node): row * away * free * open[s.node], ("beta", s.node): -taken[s.node] * away}
            for key, slope in slopes.items():
                first, second = moments[key]
                first, second = 0.9 * first + 0.1 * slope, 0.999 * second + 0.001 * slope**2
                moments[key] = first, second
                size = np.sqrt(second / (1 - 0.999 ** (step + 1))) + 1e-12
                move = RATE * DECAY**step * first / (1 - 0.9 ** (step + 1)) / size
                if key[0] == "share":
                    shares[s.node] = np.clip(shares[s.node] + move, 0, 1)
                else:
                    betas[s.node] = np.maximum(betas[s.node] + move * (taken[s.node] != 0), 0)
    assert best is not None
    return best


def _named(shares: Mapping[Node, Array], betas: Mapping[Node, Array]) -> dict[tuple[str, Node], Array]:
    return {**{("share", n): x for n, x in shares.items()}, **{("beta", n): x for n, x in betas.items()}}


def _ends(s: Site, found: Bounds) -> tuple[Array, Array]:
    seen = found.seen[s.operand]
    return seen.low - s.limit, seen.high - s.limit


def _is_open(s: Site, found: Bounds) -> Array:
    low, high = _ends(s, found)
    return np.asarray((low < 0) & (high > 0))


def _usual(s: Site, found: Bounds) -> Array:
    """The slope that makes the smaller area, as where nothing is optimized."""
    low, high = _ends(s, found)
    return np.where(high > -low, 1.0, 0.0) if s.node.op == "max" else np.where(-low > high, 1.0, 0.0)


def _better(a: Optimized | None, b: Optimized, spec: Spec) -> Optimized:
    """The better one of both, box by box."""
    if a is None:
        return b
    is_better = spec.margins(b.least)[:, 0] > spec.margins(a.least)[:, 0]

    def chosen(x: Array, y: Array) -> Array:
        return np.where(is_better.reshape(-1, *(1,) * (x.ndim - 1)), y, x)

    rows = {n: chosen(r, b.rows[n]) for n, r in a.rows.items() if n in b.rows}
    shares = {n: chosen(x, b.shares[n]) for n, x in a.shares.items()}
    betas = {n: chosen(x, b.betas[n]) for n, x in a.betas.items()}
    return Optimized(chosen(a.least, b.least), rows, shares, betas)


def followed(
    network: Network,
    found: Bounds,
    rows: Mapping[Node, Array],
    inputs: Mapping[Node, Array],
    shares: Mapping[Node, Array],
) -> dict[Node, Array] | None:
    """The values [boxes, elements...] along the planes that rows take; None where an operator has none to follow."""
    values: dict[Node, Array] = {}
    boxes = found.domain.boxes
    for n in network.order:
        if n in network.fixed:
            values[n] = exact(network.fixed[n]).low
        elif n.op == "input":
            values[n] = inputs[n] if n in inputs else (found.domain.low[n] + found.domain.high[n]) / 2
        else:
            rule, args = network.rules[n], [found.seen[a] for a in n.args]
            if isinstance(rule, Elementwise):
                p, row = rule.planes(args, shares.get(n)), rows.get(n)
                is_low = np.ones((boxes, *n.type.shape), bool) if row is None else row > 0
                total = np.where(is_low, p.offset_low, p.offset_high)
                for low, high, a in zip(p.low, p.high, n.args):
                    total = total + np.where(is_low, low, high) * aligned(values[a], n.type.rank)
                values[n] = total
            elif isinstance(rule, Weighted):
                values[n] = rule.map(values[n.args[rule.operands[0]]])
            elif isinstance(rule, Moved):
                values[n] = rule.move([values[n.args[k]] for k in rule.operands])
            else:
                return None
    return values
