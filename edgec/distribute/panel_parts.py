"""Parts that give values in panels, and parts that read them: the graphs of a division whose tensors are cut up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

from edgec.distribute.held import Held
from edgec.distribute.parts import Division, Part, Read
from edgec.distribute.prices import Prices
from edgec.distribute.rows import Span
from edgec.distribute.shards import Shards, work
from edgec.emit.finals import KEY
from edgec.frontend.states import states
from edgec.fuse import Plan
from edgec.ir.graph import Graph, Node, intern, placeholder, rewrite, topological
from edgec.ir.types import Type
from edgec.ops import graphs, node


@dataclass(frozen=True)
class Cut:
    """Panels of what a part gives: their bounds along a dimension, and the nodes that are computed in panels for it.

    The part takes ``lost_s`` seconds longer with them.
    """

    axis: int
    bounds: tuple[int, ...]
    divided: frozenset[Node]
    lost_s: float = 0.0

    @property
    def spans(self) -> list[Span]:
        return [Span(self.axis, begin, end) for begin, end in pairwise(self.bounds)]


class _Panels(Shards):
    """Slices of the values of a part, of which those that are not ``divided`` are computed once and cut."""

    def __init__(self, divided: frozenset[Node]) -> None:
        super().__init__()
        self._divided_values = divided

    def part(self, n: Node, span: Span | None) -> Node:
        is_stored = n not in self._divided_values and n.op not in ("input", "const")
        if is_stored and span is not None and span.rows < n.type.shape[span.axis]:
            return self.made.setdefault((n, span), sliced(n, span))
        return super().part(n, span)


def sliced(n: Node, span: Span) -> Node:
    """A slice of a node."""
    extents = [int(e) for e in n.type.shape]
    starts = [span.begin if d == span.axis else 0 for d in range(len(extents))]
    return graphs.part(n, starts, [span.rows if d == span.axis else e for d, e in enumerate(extents)])


def is_once(graph: Graph, value: Node, cut: Cut) -> bool:
    """Is every operation of a graph done once where one of its values is computed in panels?"""
    made = _Panels(cut.divided)
    pieces = [made.part(value, span) for span in cut.spans]
    if any(p.op == "slice" and p.args[0] is value for p in pieces):
        return False
    there = frozenset(graph.inputs)
    others = [n for _, n in graph.outputs if n is not value]
    return _operations([*others, *pieces], there) <= _operations([*others, value], there)


def _operations(values: Sequence[Node], there: frozenset[Node]) -> int:
    """Operations of some values together, slices apart."""
    nodes = [n for n in topological(values, known=there) if n.op not in ("input", "const", "slice", "concat")]
    return sum(work(n, {*n.args, *there})[0] for n in nodes)


def cut_up(division: Division, cuts: Mapping[str, Cut], prices: Prices) -> Division:
    """The division whose tensors are cut up so."""
    taken = {*division.tensors, *(r.port for p in division.parts for r in p.reads)}
    prefix = next(p for p in ("panel", *(f"panel{k}_" for k in range(99))) if not any(n.startswith(p) for n in taken))
    pieces = {name: [(f"{prefix}{k}_{name}", span) for k, span in enumerate(cut.spans)] for name, cut in cuts.items()}
    sums: dict[str, tuple[str, ...]] = {}
    for whole, terms in division.sums.items():
        if terms[0] not in cuts:
            sums[whole] = terms
            continue
        pieces[whole] = [(f"{prefix}{k}_{whole}", span) for k, span in enumerate(cuts[terms[0]].spans)]
        sums |= {piece: tuple(pieces[term][k][0] for term in terms) for k, (piece, _) in enumerate(pieces[whole])}
    parts = tuple(_part(p, division, cuts, pieces, prices) for p in division.parts)
    panels = {name: tuple(n for n, _ in own) for name, own in pieces.items()}
    return replace(division, parts=parts, sums=sums, panels=panels)


#: The panels of tensors by name: their own names and bounds, in order.
_Pieces = Mapping[str, Sequence[tuple[str, Span]]]


def _part(part: Part, division: Division, cuts: Mapping[str, Cut], pieces: _Pieces, prices: Prices) -> Part:
    cut = next((cuts[name] for name in part.writes if name in cuts), None)
    if cut is None and not any(r.tensor in pieces for r in part.reads):
        return part
    graph = _with_panels(named(part.graph), cuts, pieces)
    graph, reads = _reading(graph, part.reads, division, pieces)
    plan = prices.planned(graph, part.worker)
    seconds = prices.of_blocks(plan)[part.worker]
    lost = cut.lost_s if cut is not None else 0.0
    finals = _finals(plan, seconds, Held(graph).outputs.values()) if cut is not None else ()
    return replace(part, graph=graph, reads=reads, seconds=sum(seconds.values()) + lost, finals=finals)


def named(graph: Graph) -> Graph:
    """The graph with a name for every node that has none, by its number."""
    numbered = {n: (f"{n.op}_{k}",) for k, n in enumerate(graph.operations())}
    return replace(graph, origin={**numbered, **graph.origin})


def _with_panels(graph: Graph, cuts: Mapping[str, Cut], pieces: _Pieces) -> Graph:
    """A graph that gives panels in place of a value, and tells of outputs as they become final.

    Outputs are in the order in which they are computed; next values of states stay behind them.
    """
    held = {loop.output for loop in states(graph)}
    cut = [(name, n) for name, n in graph.outputs if name in cuts]
    if not cut:
        return graph
    order = {n: k for k, n in enumerate(graph.operations())}
    others = [(name, n) for name, n in graph.outputs if name not in cuts and name not in held]
    outputs = sorted(others, key=lambda o: order.get(o[1], -1))
    origin = dict(graph.origin)
    for name, value in cut:
        made = _Panels(cuts[name].divided)
        outputs += [(piece, made.part(value, span)) for piece, span in pieces[name]]
        for (n, _), new in made.made.items():
            if n in graph.origin:
                origin.setdefault(new, graph.origin[n])
    outputs += [(name, n) for name, n in graph.outputs if name in held]
    return replace(graph, outputs=tuple(outputs), origin=origin, metadata={**graph.metadata, KEY: "1"})


def _reading(
    graph: Graph, reads: Sequence[Read], division: Division, pieces: _Pieces
) -> tuple[Graph, tuple[Read, ...]]:
    """A graph that puts together what was cut up; its inputs are in the order in which they come."""
    inputs = {str(n.attributes["name"]): n for n in graph.inputs}
    new: dict[Node, Node] = {}
    found: list[tuple[int, int, Read, Node]] = []
    types = division.tensors
    for number, r in enumerate(reads):
        port = inputs[r.port]
        if r.tensor not in pieces:
            found.append((-1, number, r, port))
            continue
        own = []
        for turn, (name, span) in enumerate(pieces[r.tensor]):
            piece = _of_panel(r, name, span)
            if piece is not None:
                shape = piece.shape(_cut_shape(types[r.tensor], span))
                own.append(placeholder(piece.port, Type(types[r.tensor].dtype, shape)))
                found.append((turn, number, piece, own[-1]))
        axis = pieces[r.tensor][0][1].axis
        new[port] = node("concat", *own, axis=axis) if len(own) > 1 else own[0]

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        if old in new:
            return new[old]
        return old if args == old.args else intern(old.op, args, old.attributes, old.type)

    known = {r.port for r in reads}
    held = [n for name, n in inputs.items() if name not in known]
    found.sort(key=lambda f: f[:2])
    changed = rewrite(replace(graph, inputs=()), change)
    return replace(changed, inputs=(*(f[3] for f in found), *held)), tuple(f[2] for f in found)


def _cut_shape(type: Type, span: Span) -> tuple[int, ...]:
    return tuple(span.rows if d == span.axis else int(e) for d, e in enumerate(type.shape))


def _of_panel(r: Read, name: str, span: Span) -> Read | None:
    """The part of a panel that is read where the whole was; None where that is nothing."""
    port = f"{name}_of_{r.port}"
    if r.axis is None:
        return Read(port, name)
    if r.axis != span.axis:
        return Read(port, name, r.axis, r.begin, r.end)
    begin, end = max(r.begin, span.begin) - span.begin, min(r.end, span.end) - span.begin
    if begin >= end:
        return None
    return Read(port, name) if end - begin == span.rows else Read(port, name, r.axis, begin, end)


def _finals(plan: Plan, seconds: Mapping[Node, float], outputs: Iterable[Node]) -> tuple[float, ...]:
    """The share of a part's seconds after which each of its outputs is final, and those before it."""
    spent = dict(zip((b.output for b in plan.blocks), accumulate(seconds[b.output] for b in plan.blocks)))
    total = sum(seconds.values()) or 1.0
    return tuple(accumulate((spent.get(n, total) / total for n in outputs), max))
