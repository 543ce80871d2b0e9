"""Proofs of what a search found in single precision: its slopes and multipliers, with rounding counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from edgec.certify.backward import Backward
from edgec.certify.bounds import Bounds
from edgec.certify.domain import Domain
from edgec.certify.patches import Patch
from edgec.certify.ranges import U64, Array, Range
from edgec.certify.single import Single
from edgec.certify.slopes import State
from edgec.certify.spec import Spec
from edgec.ir.graph import Node


def of_boxes(found: Bounds, boxes: Array) -> Bounds:
    """The facts of some boxes, each of them as often as it is named."""

    def wide(x: Array) -> Array:
        return x[boxes] if len(x) > 1 else np.broadcast_to(x, (len(boxes), *x.shape[1:]))

    def many(r: Range) -> Range:
        parts = r.sum
        if parts is not None:
            parts = replace(parts, carried=wide(parts.carried), mass=wide(parts.mass))
        return replace(r, low=wide(r.low), high=wide(r.high), error=wide(r.error), sum=parts)

    d = found.domain
    center = None if d.center is None else {n: wide(x) for n, x in d.center.items()}
    domain = Domain({n: wide(x) for n, x in d.low.items()}, {n: wide(x) for n, x in d.high.items()}, center, d.radius)
    made = Bounds(domain)
    made.exact, made.seen = ({n: many(r) for n, r in x.items()} for x in (found.exact, found.seen))
    made.noise = {n: wide(x) for n, x in found.noise.items()}
    return made


def proved(
    single: Single,
    spec: Spec,
    found: Bounds,
    state: State,
    taken: Mapping[Node, Array],
    start: tuple[Node, Array] | None = None,
) -> Array:
    """Lower bounds [boxes] of the conditions of one clause, by their weights and less their limits.

    With a ``start`` those of its rows [boxes, elements] of a node before its rounding are added. ``taken`` [boxes or 1,
    elements] says which sides of choices were taken.
    """
    network, weights = single.network, state.weights.astype(np.float64)
    rows = {n: np.einsum("rc,c...->r...", weights, r[0])[:, None] for n, r in spec.rows(network, 1).items()}
    shares = {n: single.whole(n, x) for n, x in state.shares.items()}
    pulls = {
        s.operand: (single.whole(s.node, -state.betas[s.node] * taken[s.node]), s.limit)
        for s in single.sites
        if s.node in state.betas
    }
    run = Backward(network, found, {n: Patch(r) for n, r in rows.items()}, shares)
    if start is not None:
        n, own = start
        run.unrounded[n] = Patch(single.whole(n, own)[:, None])
    least = run.run(noisy=True, watched=None, pulls=pulls)[:, 0]
    terms = weights * spec.limits
    return np.asarray(least - terms.sum(axis=1) - 8 * (terms.shape[1] + 1) * U64 * np.abs(terms).sum(axis=1))
