"""The head of a network stripe by stripe, so that its large values are never stored in memory as a whole.

Convolutions, pools and what lies between them make a row of their result from a few rows of their operands. So a value
that everything passes through can be made some rows at a time, each stripe from its own rows of the inputs: what is in
memory then is a stripe of every value, and the whole of the one they end in. Rows that two stripes need are computed
twice; that is the price, and it is paid where memory asks for it alone (patch-based inference: Lin et al., MCUNetV2,
2021). It is an ordinary graph: slices, the same operators on fewer rows, and a concatenation, whose parts are written
where they belong.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

from edgec import ops
from edgec.ir.functions import FUNCTIONS
from edgec.ir.graph import Graph, Node, constant, rewrite, topological
from edgec.rewrite.facts import is_static
from edgec.rewrite.measure import measure

#: The dimension of rows: the first that windows walk along.
ROWS = 2
#: How many stripes are tried.
COUNTS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32)
#: How many ways are scheduled, the cheapest first, until one fits.
TRIALS = 8
#: How many counts of stripes are offered of one value, from the least that may fit.
MORE = 2


@dataclass(frozen=True)
class Rows:
    """Elements from ``first`` to before ``end`` along dimension ``dim``."""

    dim: int
    first: int
    end: int

    def hull(self, other: Rows) -> Rows:
        return Rows(self.dim, min(self.first, other.first), max(self.end, other.end))

    def share(self, node: Node) -> float:
        """The fraction of a node that they are."""
        return (self.end - self.first) / max(int(node.type.shape[self.dim]), 1)


@dataclass(frozen=True)
class Stripes:
    """The head of a network, up to the value called ``cut``, computed in ``count`` stripes.

    ``shape`` is that of the value, ``ram_bytes`` what it all needs, ``whole_bytes`` what it needs without stripes;
    ``work`` is its arithmetic over that without.
    """

    cut: tuple[str, ...]
    shape: tuple[int, ...]
    count: int
    ram_bytes: int
    whole_bytes: int
    work: float


def fitting(
    graph: Graph, standing: Collection[Node], room: int, whole_bytes: int, ram: Callable[[Graph], int]
) -> tuple[Graph, Stripes] | None:
    """The graph in stripes with the least work added that fits into ``room`` bytes; None where none does.

    ``standing`` are the values that lie in memory; ``ram`` schedules a graph and says what it needs.
    """
    before = sum(measure(n).flops for n in graph.nodes())
    for work, cut, count in sorted(_ways(graph, set(standing), room), key=lambda way: way[0])[:TRIALS]:
        striped = in_stripes(graph, cut, count)
        needed = ram(striped)
        if needed <= room:
            share = 1 + work / max(before, 1)
            return striped, Stripes(graph.names(cut), cut.type.shape, count, needed, whole_bytes, share)
    return None


def _ways(graph: Graph, standing: set[Node], room: int) -> Iterator[tuple[float, Node, int]]:
    """(arithmetic added, where stripes end, how many there are) of what may fit."""
    lives = Lives(graph, standing)
    for cut in _cuts(graph, standing):
        found = 0
        if lives.after(cut) > room:
            continue
        for count in COUNTS:
            stripes = _stripes(cut, count)
            if stripes is None:
                break
            if max(lives.during(cut, wanted) for wanted in stripes) <= room:
                yield sum(map(_work, stripes)) - _work({n: _all(r, n) for n, r in stripes[0].items()}), cut, count
                found += 1
            if found == MORE:
                break


def _all(rows: Rows, node: Node) -> Rows:
    return Rows(rows.dim, 0, node.type.shape[rows.dim])


def _work(wanted: Mapping[Node, Rows]) -> float:
    """Arithmetic of these rows of these nodes."""
    return sum(measure(n).flops * r.share(n) for n, r in wanted.items())


def _cuts(graph: Graph, standing: set[Node]) -> Iterator[Node]:
    """Values in memory that everything before them passes through, and that have rows."""
    users, results = graph.users(), {n for _, n in (*graph.outputs, *graph.demands)}
    inside: dict[Node, frozenset[Node]] = {}
    for node in graph.nodes():
        own = [inside[a] for a in node.args]
        moving = node.op not in ("input", "const") and not is_static(node)
        inside[node] = frozenset().union(*own, {node} if moving else ())
        if node not in standing or node in results or node.type.rank <= ROWS or not node.type.is_fixed:
            continue
        earlier = inside[node] - {node}
        if earlier.isdisjoint(results) and all(u in inside[node] for n in earlier for u in users[n]):
            yield node


class Lives:
    """Lifetimes of values in memory, from the first write to the last read, and their bytes."""

    def __init__(self, graph: Graph, standing: Collection[Node]) -> None:
        order, users = graph.nodes(), graph.users()
        results = {n for _, n in graph.outputs}
        self.ports = sum(n.type.bytes for n in (*graph.inputs, *results))
        self.at = {n: k for k, n in enumerate(order)}
        self.last: dict[Node, int] = {}
        self.bytes: dict[Node, int] = {}
        sources: dict[Node, frozenset[Node]] = {}
        for k, node in enumerate(order):
            sources[node] = frozenset().union(*({a} if a in self.bytes else sources[a] for a in node.args))
            if node in standing:
                for value in sources[node]:
                    self.last[value] = k
                if node not in results:  # with the border that its readers want around it
                    around = (u.type.bytes for u in users[node] if u.op == "pad")
                    self.bytes[node], self.last[node] = max(node.type.bytes, *around, 0), k

    @property
    def peak(self) -> int:
        """The most bytes at once, inputs and outputs among them."""
        return self._peak(self.bytes)

    def after(self, cut: Node) -> int:
        """The most bytes at once from when a value is there."""
        return self._peak({n: size for n, size in self.bytes.items() if self.last[n] > self.at[cut]}, self.at[cut] + 1)

    def during(self, cut: Node, wanted: Mapping[Node, Rows]) -> int:
        """The most bytes at once while these rows are computed on the way to rows of ``cut``, all of which stands."""
        rows = {n: int(self.bytes[n] * r.share(n)) for n, r in wanted.items() if n in self.bytes and n is not cut}
        return self._peak(rows) + self.bytes[cut]

    def _peak(self, sizes: Mapping[Node, int], begin: int = 0) -> int:
        change = [0] * (len(self.at) + 1)
        for node, size in sizes.items():
            change[max(self.at[node], begin)] += size
            change[self.last[node] + 1] -= size
        return max(accumulate(change)) + self.ports


def in_stripes(graph: Graph, cut: Node, count: int) -> Graph:
    """The graph with ``cut`` made in ``count`` stripes."""
    stripes = _stripes(cut, count)
    assert stripes is not None, "these stripes were not offered"
    origin, parts = dict(graph.origin), []
    for wanted in stripes:
        made = _made(graph, wanted)
        for old, new in made.items():
            origin[new] = tuple(dict.fromkeys((*origin.get(new, ()), *graph.names(old))))
        parts.append(made[cut])
    whole = ops.node("concat", *parts, axis=ROWS)

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        if old is cut:
            return whole
        return old if args == old.args else ops.node(old.op, *args, **old.attributes)

    changed = rewrite(graph, change)
    return replace(changed, origin={**origin, **changed.origin})


def _stripes(cut: Node, count: int) -> list[dict[Node, Rows]] | None:
    """For each of ``count`` stripes of ``cut``, the rows of every node it is made from; None where it cannot be."""
    extent = cut.type.shape[ROWS]
    if extent < count:
        return None
    bounds = [extent * k // count for k in range(count + 1)]
    order = list(topological([cut]))
    found = [_wanted(order, cut, Rows(ROWS, first, end)) for first, end in pairwise(bounds)]
    return None if None in found else [wanted for wanted in found if wanted is not None]


def _wanted(order: Sequence[Node], cut: Node, rows: Rows) -> dict[Node, Rows] | None:
    """The rows of all nodes in ``order`` that make these rows of ``cut``; None where something is needed as a whole."""
    wanted = {cut: rows}
    for node in reversed(order):
        if node not in wanted or node.op in ("input", "const"):
            continue
        needed = _needed(node, wanted[node])
        if needed is None:
            return None
        for operand, need in zip(node.args, needed):
            if need is None:
                if not is_static(operand):
                    return None
                continue
            known = wanted.setdefault(operand, need)
            if known.dim != need.dim:
                return None
            wanted[operand] = known.hull(need)
    return wanted


def _made(graph: Graph, wanted: Mapping[Node, Rows]) -> dict[Node, Node]:
    """By the node whose rows they are, the nodes that make the rows that are wanted."""
    made: dict[Node, Node] = {}
    for node in graph.nodes():
        if node not in wanted:
            continue
        if node.op in ("input", "const"):
            made[node] = _sliced(node, wanted[node], 0)
            continue
        needed = _needed(node, wanted[node])
        assert needed is not None
        args = [a if r is None else _sliced(made[a], r, wanted[a].first) for a, r in zip(node.args, needed)]
        made[node] = _on_rows(node, args, wanted[node])
    return made


def _needed(node: Node, rows: Rows) -> list[Rows | None] | None:
    """Rows of each operand that these rows of a node need (None: all of it); None if that is not known."""
    dim, first, end = rows.dim, rows.first, rows.end
    attributes = node.attributes
    if node.op in FUNCTIONS or node.op in ("cast", "bitcast"):
        found: list[Rows | None] = []
        for a in node.args:
            own = dim - node.type.rank + a.type.rank
            found.append(None if own < 0 or a.type.shape[own] == 1 else Rows(own, first, end))
        return found
    if node.op in ("conv", "pool"):
        kernel = node.args[1].type.shape[2:] if node.op == "conv" else attributes["kernel"]
        lead = node.type.rank - len(kernel)
        if dim < lead:
            return None
        stride, dilation = attributes["strides"][dim - lead], attributes["dilations"][dim - lead]
        reach = (kernel[dim - lead] - 1) * dilation
        return [Rows(dim, first * stride, (end - 1) * stride + reach + 1), *([None] * (len(node.args) - 1))]
    if node.op == "transpose":
        return [Rows(attributes["perm"][dim], first, end)]
    if node.op == "pad":
        before, extent = attributes["before"][dim], node.args[0].type.shape[dim]
        low, high = max(first - before, 0), min(end - before, extent)
        return [Rows(dim, low, high)] if low < high else None
    if node.op == "slice" and attributes["steps"][dim] == 1:
        start = attributes["starts"][dim]
        return [Rows(dim, first + start, end + start)]
    if node.op == "concat" and attributes["axis"] != dim:
        return [Rows(dim, first, end)] * len(node.args)
    return None


def _on_rows(node: Node, args: list[Node], rows: Rows) -> Node:
    """The operator on operands that are cut down to what these rows need."""
    dim, attributes = rows.dim, node.attributes

    def at_rows(name: str, value: int) -> tuple[int, ...]:
        return (*attributes[name][:dim], value, *attributes[name][dim + 1 :])

    if node.op == "pad":
        before, extent = attributes["before"][dim], node.args[0].type.shape[dim]
        attributes["after"] = at_rows("after", max(rows.end - before - extent, 0))
        attributes["before"] = at_rows("before", max(before - rows.first, 0))
    elif node.op == "slice":
        attributes["starts"] = at_rows("starts", 0)
        attributes["shape"] = at_rows("shape", rows.end - rows.first)
    return ops.node(node.op, *args, **attributes)


def _sliced(node: Node, rows: Rows, begin: int) -> Node:
    """The rows of a node that begins with row ``begin``."""
    shape = node.type.shape
    first, size = rows.first - begin, rows.end - rows.first
    if (first, size) == (0, shape[rows.dim]):
        return node
    if node.is_const:
        return constant(node.value[(*[slice(None)] * rows.dim, slice(first, first + size))])
    starts = tuple(first if d == rows.dim else 0 for d in range(len(shape)))
    sizes = tuple(size if d == rows.dim else n for d, n in enumerate(shape))
    return ops.node("slice", node, starts=starts, steps=(1,) * len(shape), shape=sizes)
