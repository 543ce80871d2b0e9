"""Rows of a value alone: the part of every value before it that they need, and the graph that computes only that.

One rule serves all operators, and their formulas are its only source. Where the loop over rows goes from ``begin`` to
before ``end``, every index of every load goes over a range too. An index that is the loop itself splits without
overlap, a window adds a halo, and an index that does not depend on the loop needs the whole operand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from edgec.errors import ModelError
from edgec.ir import expr as X
from edgec.ir.graph import Graph, Node, constant, intern, placeholder, topological
from edgec.ir.index import bounds
from edgec.ir.loads import replace_loads
from edgec.ops import formula, graphs, is_procedure, node


@dataclass(frozen=True)
class Span:
    """Positions of a dimension from ``begin`` to before ``end``."""

    axis: int
    begin: int
    end: int

    @property
    def rows(self) -> int:
        return self.end - self.begin


class Indivisible(ModelError):
    """A value whose rows cannot be computed alone."""


#: What is needed of every value; None is all of it.
Spans = Mapping[Node, "Span | None"]


def needed(value: Node, span: Span) -> tuple[Span | None, ...]:
    """What rows of a value need of each operand: a range of one dimension, or None for all of it."""
    derived = formula(value)
    loop = derived.variables[span.axis]
    rows = X.var("rows", span.rows) + span.begin if span.rows > 1 else X.const(span.begin)
    found: list[Span | None] = []
    loads: dict[Any, list[X.Expr]] = {}
    for load in X.loads(derived.body):
        loads.setdefault(load.value, []).append(load)
    for slot, operand in enumerate(value.args):
        ranges = _ranges(operand, loads.get(slot, []), loop, rows)
        found.append(ranges[0] if len(ranges) == 1 else None)
    return tuple(found)


def _ranges(operand: Node, loads: list[X.Expr], loop: X.Expr, rows: X.Expr) -> list[Span]:
    """The dimensions of an operand of which less is needed than all, each with what is."""
    found = []
    for d, extent in enumerate(operand.type.shape):
        low: float = inf
        high: float = -inf
        for load in loads:
            a, b = bounds(X.substitute(load.args[d], {loop: rows}))
            low, high = min(low, a), max(high, b)
        begin, end = max(low, 0), min(high + 1, extent)
        if begin < end and (begin > 0 or end < extent):
            found.append(Span(d, int(begin), int(end)))
    return found


def is_divisible(value: Node, axis: int) -> bool:
    """Can rows along ``axis`` be computed alone: does no element depend on where it stands, but by what it loads?"""
    if is_procedure(value.op):
        return False
    if value.op == "pad":
        return True
    derived = formula(value)
    rest = replace_loads(derived.body, lambda slot, place: X.const(0, value.args[slot].type.dtype))
    return derived.variables[axis] not in X.free_variables(rest)


def spans_for(graph: Graph, value: Node, span: Span) -> dict[Node, Span | None]:
    """What rows of ``value`` need of every node before it."""
    order = list(topological([value]))
    found: dict[Node, Span | None] = {value: span}
    for n in reversed(order):
        own = found[n]
        if n.op in ("input", "const"):
            continue
        if own is not None and not is_divisible(n, own.axis):
            own = found[n] = None
        for operand, wanted in zip(n.args, needed(n, own) if own is not None else [None] * len(n.args)):
            found[operand] = _together(found[operand], wanted) if operand in found else wanted
    return found


def _together(a: Span | None, b: Span | None) -> Span | None:
    if a is None or b is None or a.axis != b.axis:
        return None
    return Span(a.axis, min(a.begin, b.begin), max(a.end, b.end))


def rows_of(graph: Graph, value: Node, span: Span, name: str) -> tuple[Graph, dict[str, Span | None]]:
    """The graph that gives rows of ``value`` as the output ``name``, and what it takes of every input.

    Raises Indivisible where an operator of the network cannot be computed for a part of its rows.
    """
    spans = spans_for(graph, value, span)
    if spans[value] is None:
        raise Indivisible(f"rows of '{value.op}' depend on where they stand")
    new: dict[Node, Node] = {}
    origin: dict[Node, tuple[str, ...]] = {}
    taken: dict[str, Span | None] = {}
    for n in topological([value]):
        own = spans[n]
        if n.op == "input":
            named = str(n.attributes["name"])
            taken[named] = own
            new[n] = n if own is None else placeholder(named, _typed(n, own))
        elif n.is_const:
            new[n] = n if own is None else constant(_cut(n, own))
        else:
            new[n] = _again(n, own, new, spans)
        if n in graph.origin:
            origin[new[n]] = tuple(dict.fromkeys((*origin.get(new[n], ()), *graph.origin[n])))
    inputs = tuple(new[n] for n in graph.inputs if n in new)
    return Graph(inputs, ((name, new[value]),), graph.name, origin), taken


def _again(n: Node, own: Span | None, new: Mapping[Node, Node], spans: Spans) -> Node:
    """A node on operands of which a part is there."""
    wanted = needed(n, own) if own is not None else (None,) * len(n.args)
    operands = tuple(_part(new[a], spans[a], w) for a, w in zip(n.args, wanted))
    if own is None:
        return intern(n.op, operands, n.attributes, n.type)
    try:
        found = node(n.op, *operands, **_attributes(n, own, wanted))
    except ModelError as error:
        raise Indivisible(f"rows of '{n.op}': {error.message}") from None
    if found.type != _typed(n, own):
        raise Indivisible(f"rows of '{n.op}' would be {found.type}")
    return found


def _part(operand: Node, there: Span | None, wanted: Span | None) -> Node:
    """The rows that a reader wants, out of those that are there."""
    if wanted is None or there == wanted:
        return operand
    starts = [0] * operand.type.rank
    starts[wanted.axis] = wanted.begin - (there.begin if there is not None else 0)
    shape = [wanted.rows if d == wanted.axis else n for d, n in enumerate(operand.type.shape)]
    return graphs.part(operand, starts, shape)


def _attributes(n: Node, own: Span, wanted: tuple[Span | None, ...]) -> dict[str, Any]:
    """The attributes of a node for some of its rows: amounts and shapes are about these."""
    found = n.attributes
    axis, source = own.axis, wanted[0] if wanted else None
    if n.op == "pad":
        extent = n.args[0].type.shape[axis]
        low, high = (source.begin, source.end) if source is not None else (0, extent)
        before = low + found["before"][axis] - own.begin
        found["before"] = _with(found["before"], axis, before)
        found["after"] = _with(found["after"], axis, own.rows - before - (high - low))
        if min(*found["before"], *found["after"]) < 0:
            raise Indivisible("rows of padding alone")
        return found
    if n.op == "slice":
        first = found["starts"][axis] + found["steps"][axis] * own.begin
        low = source.begin if source is not None and source.axis == axis else 0
        found["starts"] = _with(found["starts"], axis, first - low)
    if isinstance(found.get("shape"), tuple):
        found["shape"] = _with(found["shape"], axis, own.rows)
    return found


def _with(values: tuple[int, ...], place: int, value: int) -> tuple[int, ...]:
    return (*values[:place], value, *values[place + 1 :])


def _typed(n: Node, span: Span) -> Any:
    return type(n.type)(n.type.dtype, _with(n.type.shape, span.axis, span.rows))


def _cut(n: Node, span: Span) -> Any:
    return n.value[(slice(None),) * span.axis + (slice(span.begin, span.end),)]
