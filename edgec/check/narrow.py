"""The tolerance of a build in 16 bits: from the rounding of its own values, where that is less than any network's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from edgec import ops
from edgec.check.compare import TOLERANCES, compare
from edgec.check.judge import in_both_precisions
from edgec.device.device import Precision
from edgec.frontend.language.facts import facts_of
from edgec.ir.graph import Graph, Node, rewrite

#: Types that values are rounded to, and the least tolerance: four times the rounding of one number.
_ROUNDED: dict[Precision, tuple[str, float]] = {"fp16": ("f16", 2.0**-9), "bf16": ("bf16", 2.0**-6)}
#: Multiple of the network's own rounding that passes: kernels round other values, and sum in another order.
SLACK = 4.0


def tightened(
    graph: Graph, precision: Precision, tolerance: float, sets: Sequence[Mapping[str, np.ndarray]]
) -> float:
    """The tolerance on these inputs: at most ``tolerance``, which has to be one of a narrow type to change.

    Every value of the graph is rounded to the narrow type, once in numpy, and held against double precision.
    """
    narrow = precision if precision in _ROUNDED else next((p for p in _ROUNDED if TOLERANCES[p] == tolerance), "fp32")
    if narrow not in _ROUNDED or tolerance < TOLERANCES[narrow] or facts_of(graph) is not None:
        return tolerance
    dtype, least = _ROUNDED[narrow]
    small = rounded(graph, dtype)
    worst = least / SLACK
    for arrays in sets:
        found = in_both_precisions(small, arrays)
        errors = [compare(n, v.astype(np.float64), exact).max_rel for n, (v, exact) in found.items()]
        if not errors or not np.isfinite(errors).all():
            return tolerance
        worst = max(worst, *errors)
    return min(tolerance, SLACK * worst)


def rounded(graph: Graph, dtype: str) -> Graph:
    """The graph with every value of f32 that it computes rounded to ``dtype``."""

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        if old.op in ("input", "const"):
            return old
        node = ops.node(old.op, *args, **old.attributes)
        return node if node.type.dtype != "f32" else ops.node("cast", ops.node("cast", node, to=dtype), to="f32")

    return rewrite(graph, change)
