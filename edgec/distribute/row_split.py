"""Division of the leading stretch of a network by rows: every worker computes some rows of a late value.

The halos that neighbors have in common are computed by both. The rest of the network runs on the first worker, which
may get fewer rows for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from edgec.distribute.consecutive import Chain
from edgec.distribute.parts import Division, Part, Read
from edgec.distribute.rows import NO_TILES, Indivisible, Span, rows_of, spans_for
from edgec.ir.graph import Graph, Node, intern, placeholder, rewrite
from edgec.ir.types import Type
from edgec.ops import node

#: Values behind which the remainder may begin: so many are tried, evenly over the network.
TRIED = 16
#: Part of the whole network's time that its leading stretch must take, to be worth dividing.
LEADS = 0.2
#: Shares of the first worker that are tried, of an even one.
SHARES = (1.0, 0.75, 0.5, 0.25)


@dataclass(frozen=True)
class RowSplit:
    """A value, the dimension of its rows, and the row at which the share of each worker begins and ends."""

    value: Node
    axis: int
    cuts: tuple[int, ...]

    def spans(self) -> Iterator[Span]:
        for begin, end in zip(self.cuts, self.cuts[1:]):
            yield Span(self.axis, begin, end)


def narrow_places(chain: Chain) -> list[int]:
    """Ends of stretches that hand on one value alone, and no input."""
    found = []
    for k in range(1, len(chain.values)):
        if len(chain.writes(0, k)) == 1 and all(chain.place.get(o, -1) >= 0 for o in chain.reads(k, len(chain.values))):
            found.append(k)
    return found


def cuts_of(rows: int, shares: Sequence[float], tile: int = 1) -> tuple[int, ...]:
    """Rows divided by shares: none gets less than one row, and whole tiles of rows where there are enough."""
    tiles = -(-rows // tile)
    if tile > 1 and tiles >= len(shares):
        return tuple(min(tile * c, rows) for c in cuts_of(tiles, shares))
    total, passed = sum(shares), 0.0
    cuts = [0]
    for k, share in enumerate(shares):
        passed += share
        least, most = cuts[-1] + 1, rows - (len(shares) - 1 - k)
        cuts.append(min(max(round(rows * passed / total), least), most))
    return tuple(cuts)


def head_seconds(
    chain: Chain, split: RowSplit, worker_of: Sequence[int], tiles: Mapping[Node, int] = NO_TILES
) -> list[float]:
    """Predicted seconds of every share: those of each value, for the part of its rows that is computed."""
    found = []
    for worker, span in zip(worker_of, split.spans()):
        spans = spans_for(chain.graph, split.value, span, tiles)
        found.append(
            sum(
                seconds * _fraction(v, spans[v])
                for v, seconds in zip(chain.values, chain.seconds[worker])
                if seconds and v in spans
            )
        )
    return found


def _fraction(v: Node, span: Span | None) -> float:
    return 1.0 if span is None else span.rows / v.type.shape[span.axis]


def candidates(
    chain: Chain, workers: int, speeds: Sequence[float], tiles: Mapping[Node, int] = NO_TILES
) -> Iterator[tuple[int, RowSplit]]:
    """Places and divisions that are worth pricing; ``speeds`` are those of the workers, beside one another."""
    total = sum(chain.seconds[0])
    places = [
        k
        for k in narrow_places(chain)
        if _is_plain(_handed_on(chain, k)) and sum(chain.seconds[0][:k]) >= LEADS * total
    ]
    step = max(1, len(places) // TRIED)
    for k in places[::-1][::step]:
        value = _handed_on(chain, k)
        for axis in _axes(value, workers):
            for less in SHARES:
                shares = [s * (less if w == 0 else 1.0) for w, s in enumerate(speeds[:workers])]
                yield k, RowSplit(value, axis, cuts_of(value.type.shape[axis], shares, tiles.get(value, 1)))


def _handed_on(chain: Chain, k: int) -> Node:
    (value,) = chain.writes(0, k)
    return value


def _is_plain(value: Node) -> bool:
    """Has a value dimensions of positions, and no rows of padding, which would only be carried around?"""
    return value.type.rank > 2 and value.op != "pad"


def _axes(value: Node, workers: int) -> list[int]:
    """The first of the last two dimensions that has a row for every worker; none where neither has."""
    fit = [d for d in range(1, value.type.rank) if value.type.shape[d] >= workers]
    return [d for d in fit if d >= value.type.rank - 2][:1]


def by_rows(
    chain: Chain, place: int, split: RowSplit, price: Callable[[int, Graph], float],
    tiles: Mapping[Node, int] = NO_TILES,
) -> Division:  # fmt: skip
    """The division: a part for the rows of every worker, and the remainder on the first one.

    ``price`` gives the seconds of a graph on a worker. Raises Indivisible where the rows cannot be computed alone.
    """
    graph = chain.graph
    names = {str(n.attributes["name"]) for n in graph.inputs} | {name for name, _ in graph.outputs}
    prefix = next(p for p in ("rows", "rows_of", *(f"rows{k}" for k in range(99))) if not _used(p, names))
    parts, pieces = [], []
    for worker, span in enumerate(split.spans()):
        name = f"{prefix}_{worker}"
        part, taken = rows_of(graph, split.value, span, name, tiles)
        reads = tuple(_read(n, taken[str(n.attributes["name"])]) for n in part.inputs)
        parts.append(Part(worker, part, reads, price(worker, part)))
        pieces.append((name, span))
    rest = remainder(graph, split, pieces)
    ports = tuple(Read(str(n.attributes["name"]), str(n.attributes["name"])) for n in rest.inputs)
    parts.append(Part(0, rest, ports, sum(chain.seconds[0][place:])))
    inputs = {str(n.attributes["name"]): n.type for n in graph.inputs}
    return Division("rows", tuple(parts), inputs, {name: n.type for name, n in graph.outputs})


def _used(prefix: str, names: set[str]) -> bool:
    return any(name.startswith(f"{prefix}_") for name in names)


def _read(n: Node, span: Span | None) -> Read:
    name = str(n.attributes["name"])
    return Read(name, name) if span is None else Read(name, name, span.axis, span.begin, span.end)


def remainder(graph: Graph, split: RowSplit, pieces: Sequence[tuple[str, Span]]) -> Graph:
    """The network behind the value, which is put together from its rows."""
    value = split.value
    ports = []
    for name, span in pieces:
        shape = tuple(span.rows if d == split.axis else n for d, n in enumerate(value.type.shape))
        ports.append(placeholder(name, Type(value.type.dtype, shape)))
    joined = node("concat", *ports, axis=split.axis) if len(ports) > 1 else ports[0]

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        if old is value:
            return joined
        return old if args == old.args else intern(old.op, args, old.attributes, old.type)

    rest = rewrite(graph, change)
    known = set(rest.nodes())
    origin: Mapping[Node, tuple[str, ...]] = {n: names for n, names in rest.origin.items() if n in known}
    inputs = (*ports, *(n for n in rest.inputs if n in known and n not in ports))
    return Graph(inputs, rest.outputs, graph.name, origin)


__all__ = ["Indivisible", "RowSplit", "by_rows", "candidates", "cuts_of", "head_seconds", "narrow_places", "remainder"]
