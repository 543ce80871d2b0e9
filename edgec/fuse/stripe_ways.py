"""The ways to compute parts of a network in stripes that may fit into memory, the least arithmetic added first.

What a way needs is estimated by the lifetimes of values; then it is planned and scheduled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from edgec.frontend.states import states
from edgec.fuse.stripe_rows import Rows
from edgec.fuse.stripes import Region, Stripes, Users, heads, in_stripes
from edgec.ir.graph import Graph, Node
from edgec.rewrite.measure import measure

#: How many stripes are tried.
COUNTS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32)
#: How many ways are scheduled, the cheapest first, until one fits.
TRIALS = 8
#: How many counts of stripes are offered of one value, from the least that may fit.
MORE = 2


@dataclass(frozen=True)
class Way:
    """A region in ``count`` stripes, the arithmetic that these add, and what may be in memory at once."""

    work: float
    bytes: int
    region: Region
    count: int


def fitting(
    graph: Graph, standing: Sequence[Node], room: int, whole_bytes: int, ram: Callable[[Graph], int]
) -> tuple[Graph, Stripes] | None:
    """The graph in stripes with the least work added that fits into ``room`` bytes; None where none does.

    ``standing`` are the values that lie in memory, in the order in which they are computed; ``ram`` schedules a graph
    and says what it needs.
    """
    before = sum(measure(n).flops for n in graph.nodes())
    for way in ways(graph, heads(graph, standing), standing, room)[:TRIALS]:
        if way.bytes > room:
            break
        striped = in_stripes(graph, way.region, way.count)
        needed = ram(striped)
        if needed <= room:
            cut, share = way.region.cut, 1 + way.work / max(before, 1)
            return striped, Stripes(graph.names(cut), cut.type.shape, way.count, needed, whole_bytes, share)
    return None


def ways(
    graph: Graph, regions: Iterable[Region], standing: Sequence[Node], room: int, loss: Node | None = None
) -> list[Way]:
    """Ways that may fit, the least arithmetic added first, and then what exceeds the ``room``, the least bytes first.
    Of a step, what lies between a region and the ``loss`` counts: behind a head, and before a tail."""
    lives, found = Lives(graph, standing), []
    for region in regions:
        between = lives.between(*((region.cut, loss) if region.placed else (loss, region.cut)))
        summed = sum(n.type.bytes for n in region.added)
        fit = 0
        for count in COUNTS:
            stripes = [wanted for k in range(count) if (wanted := region.stripe(k, count)) is not None]
            if len(stripes) < count:
                break
            whole = {n: Rows(r.dim, 0, n.type.shape[r.dim]) for n, r in stripes[0].items()}
            work = sum(_work(region, wanted) for wanted in stripes) - _work(region, whole)
            during = count * summed + max(lives.during(region, wanted) for wanted in stripes)
            found.append(Way(work, max(between, during), region, count))
            fit += found[-1].bytes <= room
            if fit == MORE or between > max(during, room):
                break
    return sorted(found, key=lambda way: (max(way.bytes - room, 0), way.work))


def _work(region: Region, wanted: Mapping[Node, Rows]) -> float:
    """Arithmetic of these rows of these nodes."""
    return sum(measure(n).flops * r.share(n) for n, r in wanted.items() if n not in region.given)


class Lives:
    """Lifetimes of values in memory, from the first write to the last read, and their bytes; ``standing`` are in the
    order in which they are computed."""

    def __init__(self, graph: Graph, standing: Sequence[Node]) -> None:
        users, results = graph.users(), {n for _, n in graph.outputs}
        kept = {loop.output for loop in states(graph)}
        self.ports = sum(n.type.bytes for n in graph.inputs)
        self.ports += sum(n.type.bytes for n in {n for name, n in graph.outputs if name not in kept})
        self.at = {n: k for k, n in enumerate(standing)}
        self.last: dict[Node, int] = {}
        self.bytes: dict[Node, int] = {}
        sources: dict[Node, frozenset[Node]] = {}
        for node in graph.nodes():
            sources[node] = frozenset().union(*({a} if a in self.bytes else sources[a] for a in node.args))
            if node not in self.at:
                continue
            for value in sources[node]:
                self.last[value] = max(self.last[value], self.at[node])
            if node not in results:  # with the border that its readers want around it
                around = (_bordered(u, users) for u in users[node] if u.op == "pad")
                self.bytes[node], self.last[node] = max(node.type.bytes, *around, 0), self.at[node]

    @property
    def peak(self) -> int:
        """The most bytes at once, inputs and outputs among them."""
        return self._peak(self.bytes)

    def between(self, first: Node | None, last: Node | None) -> int:
        """The most bytes at once from when a value is there, until another is."""
        begin = self.at[first] if first is not None else -1
        end = self.at[last] if last is not None else len(self.at)
        of = {n: size for n, size in self.bytes.items() if self.last[n] > begin and self.at[n] <= end}
        return self._peak(of, begin + 1, end)

    def during(self, region: Region, wanted: Mapping[Node, Rows]) -> int:
        """The most bytes at once while these rows are computed beside all that a region reads and stores."""
        whole = {*(n for n, _ in region.placed), *region.given.intersection(wanted)}
        rows = {n: int(self.bytes[n] * r.share(n)) for n, r in wanted.items() if n in self.bytes and n not in whole}
        return self._peak(rows) + sum(self.bytes.get(n, 0) for n in whole)

    def _peak(self, sizes: Mapping[Node, int], begin: int = 0, end: int | None = None) -> int:
        change = [0] * (len(self.at) + 1)
        for node, size in sizes.items():
            change[max(self.at[node], begin)] += size
            change[self.last[node] + 1] -= size
        return max(accumulate(change[: None if end is None else end + 1]), default=0) + self.ports


def _bordered(pad: Node, users: Users) -> int:
    """Bytes of a value with as much of its border as is read."""
    if users[pad] and all(u.op == "slice" for u in users[pad]):
        return max(u.type.bytes for u in users[pad])
    return pad.type.bytes
