"""Indices that are data: a run ends with a status where one is outside of its dimension.

A kernel never leaves its buffers, whatever the indices are: those of gathers are moved inside, and updates of scatters
that are outside are left out. But another element than the one asked for is no answer, so the run says so. Indices
whose range is known (places of maxima, clipped values, constants) need no check.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from edgec.frontend.onnx.call import Call
from edgec.frontend.values import Value, computed, size
from edgec.ir.expr import Extent
from edgec.ir.graph import Graph, Node
from edgec.ir.index import least
from edgec.ir.types import DTYPES, FLOATS

#: How the message of such a runtime assertion ends.
OUTSIDE = "an index is outside of its dimension"
Range = tuple[float, float]
_ALL = (-float("inf"), float("inf"))
#: Operators whose results are elements of their first operand, or of all.
_FIRST = {"reshape", "transpose", "broadcast", "slice", "gather", "gather_elements", "gather_nd"}
_EACH = {"concat"}


def require_inside(call: Call, indices: Value, extent: Extent, first: int | None = None) -> None:
    """Demand that all are from ``first`` (by default from -extent, which counts from the end) to extent - 1.

    Raises ModelError for constants that are not.
    """
    low, high = _range(indices.node, {})
    fewest = least(extent)
    if high < fewest and (0 if first is None else first) <= low:
        return
    if first is None and high < fewest and low >= -fewest:
        return
    known, wide = computed(indices), indices.cast("i64")
    start = -size(extent) if first is None else first
    inside = (wide >= start) & (wide < size(extent))
    met = inside.reduce("and", range(inside.rank), keep=False) if inside.rank else inside
    decided = computed(met) if known is not None else None
    if known is not None and decided is not None and not bool(decided):
        raise call.error(f"an index of {int(known.min())} .. {int(known.max())} is outside a dimension of {extent}")
    assert call.demand is not None
    call.demand(met, OUTSIDE)


def without_checks(graph: Graph) -> Graph:
    """The graph for devices that get all kernels of a run at once, so that nobody would see a status in time."""
    return replace(graph, demands=tuple(d for d in graph.demands if not d[0].endswith(OUTSIDE)))


def _range(node: Node, known: dict[Node, Range]) -> Range:
    """The least and greatest value that elements may have, as far as that is easy to say."""
    if node not in known:
        known[node] = _ALL  # a value that is not asked again
        known[node] = _ranged(node, lambda k: _range(node.args[k], known))
    return known[node]


def _ranged(node: Node, of: Callable[[int], Range]) -> Range:
    if node.op == "const":
        return (float(node.value.min()), float(node.value.max())) if node.value.size else (0.0, 0.0)
    if node.op in _FIRST:
        return of(0)
    if node.op == "cast" and node.type.dtype not in FLOATS and node.args[0].type.dtype not in FLOATS:
        limits, (low, high) = _limits(node), of(0)
        return (low, high) if limits[0] <= low and high <= limits[1] else limits
    if node.op in _EACH or node.op == "select":
        parts = [of(k) for k in range(node.op == "select", len(node.args))]
        return min(low for low, _ in parts), max(high for _, high in parts)
    if node.op == "min":
        (a, b), (c, d) = of(0), of(1)
        return min(a, c), min(b, d)
    if node.op == "max":
        (a, b), (c, d) = of(0), of(1)
        return max(a, c), max(b, d)
    if node.op == "reduce" and node.attributes["combine"] in ("min", "max"):
        return of(0)
    if node.op in ("argsort", "iota"):
        taken = node.args[0] if node.args else node
        extent = taken.type.shape[node.attributes["axis"]]
        return (0.0, float(extent) - 1) if isinstance(extent, int) and extent else _limits(node)
    return _limits(node)


def _limits(node: Node) -> Range:
    dtype = DTYPES[node.type.dtype]
    if dtype.kind not in "iu":
        return _ALL
    bits = 8 * dtype.itemsize
    return (0.0, 2.0**bits - 1) if dtype.kind == "u" else (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1) - 1)
