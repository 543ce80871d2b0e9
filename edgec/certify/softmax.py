"""Classes before a softmax: what is the greatest there is the greatest behind it, in floats too.

Behind a softmax z becomes exp(z - m) / s with one s for all. Where z is greater than another by more than the rounding
of both powers and quotients, what is computed is greater too; bounds of the difference before it are much tighter.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from edgec.certify.bounds import Bounds
from edgec.certify.network import Network
from edgec.certify.properties import Case, Clause
from edgec.certify.ranges import TINY, UNITS, gamma
from edgec.differentiate.composites import softmax_operand
from edgec.ir.functions import FUNCTIONS
from edgec.ir.graph import Node

#: Unit roundoffs of a quotient and of what a power loses beside its own: twice what they are.
_QUOTIENT = 8


def before_softmax(network: Network, case: Case, found: Bounds) -> tuple[Clause, ...]:
    """The clauses of a case that compare elements of a softmax, about its operand; none where one is another clause.

    ``found`` are the bounds of the case.
    """
    if not network.before or not case.clauses:
        return ()
    clauses = []
    for clause in case.clauses:
        used = {name: w for name, w in clause.weights.items() if w.any()}
        (name,) = used if len(used) == 1 else ("",)
        operand = network.before.get(f"before {name}")
        weights = next(iter(used.values()), None)
        if operand is None or weights is None or not _compares(clause, weights):
            return ()
        r = found.seen[operand]
        reach = float(np.max(r.high) - np.min(r.low)) + 2 * float(np.max(r.error, initial=0.0))
        curve = FUNCTIONS["exp"].curve
        assert curve is not None
        unit = UNITS["f32"]
        # z - m is rounded, then its power, the sum (should it be computed again), and the quotient: of both elements.
        slack = 2 * (reach * unit + 2 * curve.ulp * unit + gamma(prod(operand.type.shape), unit) + _QUOTIENT * unit)
        clauses.append(replace(clause, weights={f"before {name}": weights}, limits=clause.limits + 2 * slack))
    return tuple(clauses)


def _compares(clause: Clause, weights: np.ndarray) -> bool:
    """Is it one element being no greater than another?"""
    flat = weights.reshape(len(clause.limits), -1)
    ones = (flat == 1).sum(1) == 1
    return bool((ones & ((flat == -1).sum(1) == 1) & ((flat != 0).sum(1) == 2) & (clause.limits == 0)).all())


def operand_below_maximum(n: Node) -> tuple[Node, tuple[int, ...], float] | None:
    """The operand z of a softmax exp(z - m) / s with m the greatest z, its dimensions, and what the code loses of it.

    With t = z - m <= 0 rounded once, an error of the power is at most u |t| exp(t) <= u / e and that of the function;
    the sum is at least 1, and n powers and n roundings are relative to it. None for any other node.
    """
    found = softmax_operand(n)
    if found is None:
        return None
    (z, axes), power = found, n
    while power.op != "exp":
        power = power.args[0] if power.op != "reduce" and power.args[0].op in ("exp", "reduce") else power.args[-1]
        if not power.args:
            return None
    shifted = power.args[0]
    if shifted.op != "sub" or shifted.args[0] is not z:
        return None
    top = shifted.args[1]
    if top.op != "reduce" or top.args[0] is not z or top.attributes["combine"] != "max":
        return None
    if tuple(top.attributes["axes"]) != tuple(axes) or z.type.shape != n.type.shape or n.type.dtype not in UNITS:
        return None
    unit, terms = UNITS[n.type.dtype], prod(z.type.shape[a] for a in axes)
    curve = FUNCTIONS["exp"].curve
    assert curve is not None
    power_lost = (0.5 + 2 * curve.ulp) * unit + TINY
    total_lost = terms * power_lost + gamma(terms, unit) * (1 + terms * power_lost)
    return z, tuple(axes), (power_lost + total_lost + 8 * unit) / (1 - total_lost) * 1.01
