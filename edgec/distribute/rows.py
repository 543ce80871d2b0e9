"""Rows of a value alone: the part of every value before it that they need, and the graph that computes only that.

One rule serves all operators, and their formulas are its only source. Where the loop over rows goes from ``begin`` to
before ``end``, every index of every load goes over a range too. An index that is the loop itself splits without
overlap, a window adds a halo, and an index that does not depend on the loop needs the whole operand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from edgec.errors import ModelError
from edgec.ir import expr as X
from edgec.ir.graph import Graph, Node, constant, intern, placeholder, topological
from edgec.ir.index import bounds
from edgec.ir.loads import replace_loads
from edgec.ir.memory import remembered
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
NO_TILES: Mapping[Node, int] = MappingProxyType({})


@remembered(100_000)
def needed(value: Node, span: Span) -> tuple[Span | None, ...]:
    """The need of rows of a value, for each operand: a range of the dimension that the loop over rows walks along.

    None is all of an operand, in which the loop chooses nothing.
    """
    derived = formula(value)
    loop = derived.variables[span.axis]
    rows = X.var("rows", span.rows) + span.begin if span.rows > 1 else X.const(span.begin)
    loads: dict[Any, list[X.Expr]] = {}
    for load in X.loads(derived.body):
        loads.setdefault(load.value, []).append(load)
    return tuple(_range(operand, loads.get(slot, []), loop, rows) for slot, operand in enumerate(value.args))


def _range(operand: Node, loads: list[X.Expr], loop: X.Expr, rows: X.Expr) -> Span | None:
    axes = {d for load in loads for d in _walked(load, loop)}
    found = []
    for axis in axes:
        limits = [bounds(X.substitute(load.args[axis], {loop: rows})) for load in loads]
        extent = operand.type.shape[axis]
        begin, end = max(min(a for a, _ in limits), 0), min(max(b for _, b in limits) + 1, extent)
        if len(axes) == 1 or (begin, end) != (0, extent):  # of several, those that are needed whole count for nothing
            found.append(Span(axis, int(begin), int(end)))
    return found[0] if len(found) == 1 and found[0].rows > 0 else None


def _walked(load: X.Expr, loop: X.Expr) -> list[int]:
    """The dimensions of an operand that a loop walks along in a load."""
    return [d for d, i in enumerate(load.args) if loop in X.free_variables(i)]


@remembered(20_000)
def is_divisible(value: Node, axis: int) -> bool:
    """Can rows along ``axis`` be computed alone?

    No element may depend on where it stands, but by what it loads, and the loop walks along one dimension of each
    operand, which is the same in all loads of it.
    """
    if is_procedure(value.op):
        return False
    derived = formula(value)
    loop = derived.variables[axis]
    walked: dict[Any, set[int]] = {}
    for load in X.loads(derived.body):
        walked.setdefault(load.value, set()).update(_walked(load, loop))
    if any(len(axes) > 1 for axes in walked.values()):
        return False
    rest = replace_loads(derived.body, lambda slot, place: X.const(0, value.args[slot].type.dtype))
    return value.op == "pad" or loop not in X.free_variables(rest)


def _is_regrouped(value: Node, span: Span) -> bool:
    """Tells whether a reshape makes rows of a value from as many elements, those of rows of its operand."""
    (source, *_) = needed(value, span) if value.op == "reshape" else (None,)
    if source is None:
        return False
    made, there = (n.type.elements // max(n.type.shape[s.axis], 1) for n, s in ((value, span), (value.args[0], source)))
    return bool(made * span.rows == there * source.rows)


def spans_for(graph: Graph, value: Node, span: Span, tiles: Mapping[Node, int] = NO_TILES) -> dict[Node, Span | None]:
    """The need of rows of ``value``, for every node before it; rows of those in ``tiles`` are computed in multiples."""
    order = list(topological([value]))
    found: dict[Node, Span | None] = {value: span}
    for n in reversed(order):
        own = found[n]
        if n.op in ("input", "const"):
            continue
        if own is not None and not (is_divisible(n, own.axis) or _is_regrouped(n, own)):
            own = found[n] = None
        if own is not None and n in tiles:
            own = found[n] = whole_tiles(own, tiles[n], n.type.shape[own.axis])
        for operand, wanted in zip(n.args, needed(n, own) if own is not None else [None] * len(n.args)):
            found[operand] = _together(found[operand], wanted) if operand in found else wanted
    return found


def whole_tiles(span: Span, rows: int, extent: int) -> Span:
    """The rows of the tiles that a span lies in, of so many rows each.

    A last tile that is cut off begins earlier, so that it ends where the rows do.
    """
    end = min(-(-span.end // rows) * rows, extent)
    begin = min(span.begin, max(extent - rows, 0)) if end == extent else span.begin
    return Span(span.axis, begin // rows * rows, end)


def _together(a: Span | None, b: Span | None) -> Span | None:
    if a is None or b is None or a.axis != b.axis:
        return None
    return Span(a.axis, min(a.begin, b.begin), max(a.end, b.end))


def rows_of(
    graph: Graph, value: Node, span: Span, name: str, tiles: Mapping[Node, int] = NO_TILES
) -> tuple[Graph, dict[str, Span | None]]:
    """The graph that gives rows of ``value`` as the output ``name``, and what it takes of every input.

    Raises Indivisible where an operator of the network cannot be computed for a part of its rows.
    """
    spans = spans_for(graph, value, span, tiles)
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
            new[n] = n if own is None else constant(cut(n, own))
        else:
            new[n] = _again(n, own, new, spans)
        if n in graph.origin:
            origin[new[n]] = tuple(dict.fromkeys((*origin.get(new[n], ()), *graph.origin[n])))
    inputs = tuple(new[n] for n in graph.inputs if n in new)
    return Graph(inputs, ((name, _part(new[value], spans[value], span)),), graph.name, origin), taken


def _again(n: Node, own: Span | None, new: Mapping[Node, Node], spans: Spans) -> Node:
    """A node on operands of which a part is there."""
    wanted = needed(n, own) if own is not None else (None,) * len(n.args)
    operands = tuple(_part(new[a], spans[a], w) for a, w in zip(n.args, wanted))
    if own is None:
        return intern(n.op, operands, n.attributes, n.type)
    try:
        found = node(n.op, *operands, **attributes_of(n, own, wanted))
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


def attributes_of(n: Node, own: Span, wanted: tuple[Span | None, ...]) -> dict[str, Any]:
    """The attributes of a node for some of its rows: amounts and shapes are about these."""
    found = n.attributes
    axis, source = own.axis, wanted[0] if wanted else None
    if n.op == "pad":
        if source is None:
            raise Indivisible("rows of padding alone")
        low, high = source.begin, source.end
        before = low + found["before"][axis] - own.begin
        found["before"] = _with(found["before"], axis, before)
        found["after"] = _with(found["after"], axis, own.rows - before - (high - low))
        return found
    if n.op == "slice":
        first = found["starts"][axis] + found["steps"][axis] * own.begin
        low = source.begin if source is not None else 0
        found["starts"] = _with(found["starts"], axis, first - low)
    if isinstance(found.get("shape"), tuple):
        found["shape"] = _with(found["shape"], axis, own.rows)
    return found


def _with(values: tuple[int, ...], place: int, value: int) -> tuple[int, ...]:
    return (*values[:place], value, *values[place + 1 :])


def _typed(n: Node, span: Span) -> Any:
    return type(n.type)(n.type.dtype, _with(n.type.shape, span.axis, span.rows))


def cut(n: Node, span: Span) -> Any:
    """The elements of a constant in a span."""
    return n.value[(slice(None),) * span.axis + (slice(span.begin, span.end),)]
