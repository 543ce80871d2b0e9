"""Panels of values that cross: computed in the order in which they are sent, so that transfer hides behind computation.

A part gives such a value as several tensors, slices of one dimension. What its last blocks compute is divided, each
operation once; what they read is computed once as before. Readers put the panels together, and partial sums are added
panel by panel. All products add up in the order of the undivided part, so that bits stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from edgec.distribute.links import Links
from edgec.distribute.panel_parts import Cut, cut_up, is_once
from edgec.distribute.parts import Division, Part
from edgec.distribute.prices import Prices
from edgec.fuse import Plan
from edgec.ir.graph import Node
from edgec.partition.assign import readers_of

#: Panels of a value, at most, and blocks that are divided for them.
MOST_PANELS, MOST_BLOCKS = 4, 6
#: The part of the divided blocks' seconds that each panel but the first costs, as products read their weights again: in
#: parts of BERT-base on one core with AVX-512, 8 % of a product in panels of 16 rows, and 9 % of six blocks.
LOST = 0.08


@dataclass(frozen=True)
class Chain:
    """The last blocks of a part that lead to one value alone, from the last one back: seconds, and nodes of each."""

    value: Node
    seconds: tuple[float, ...]
    nodes: tuple[frozenset[Node], ...]
    total: float

    def divided(self, blocks: int) -> frozenset[Node]:
        return frozenset().union(*self.nodes[:blocks])


def chain_of(plan: Plan, seconds: Mapping[Node, float], value: Node) -> Chain:
    """The blocks before a value that nothing else needs."""
    readers = readers_of(plan)
    results = {n for _, n in plan.graph.outputs}
    inside: list[Node] = []
    nodes: list[frozenset[Node]] = []
    for block in reversed(plan.blocks):
        n = block.output
        own = {*readers.get(n, ())}
        is_one = n is value or (n not in results and bool(own) and own <= {*inside})
        if is_one and not block.is_procedure:
            inside.append(n)
            nodes.append(frozenset(block.nodes))
        if len(inside) == MOST_BLOCKS:
            break
    return Chain(value, tuple(seconds[n] for n in inside), tuple(nodes), sum(seconds.values()))


def cuts_of(division: Division, prices: Prices, links: Links) -> dict[str, Cut]:
    """Cuts of what parts give, by the names of tensors, where they are estimated to make a frame shorter."""
    found = _Cuts(division, prices, links)
    found.choose()
    return found.cuts


def panelled(division: Division, prices: Prices, links: Links) -> Division | None:
    """The division with panels where these are estimated to make a frame shorter; None where they are not."""
    cuts = cuts_of(division, prices, links)
    return cut_up(division, cuts, prices) if cuts else None


@dataclass
class _Cuts:
    """Cuts of the tensors of a division in the making."""

    division: Division
    prices: Prices
    links: Links
    cuts: dict[str, Cut] = field(default_factory=dict)

    def choose(self) -> None:
        """Find the cuts of what every part computes last; terms of one sum are cut alike."""
        parts = self.division.parts
        terms = {name: whole for whole, names in self.division.sums.items() for name in names}
        read = {r.tensor for p in parts for r in p.reads} - {*self.division.outputs}
        alike: dict[str, Cut | None] = {}
        for part in parts:
            own = [name for name in part.writes if terms.get(name, name) in read]
            if not own or self.prices.options[part.worker].device.is_gpu:
                continue
            plan = self.prices.planned(part.graph, part.worker)
            places = {b.output: k for k, b in enumerate(plan.blocks)}
            name = max(own, key=lambda n: places.get(part.writes[n], -1))
            chain = chain_of(plan, self.prices.of_blocks(plan)[part.worker], part.writes[name])
            asked = alike.get(terms.get(name, ""))
            if name in terms and terms[name] in alike and asked is None:
                continue
            cut = self._cut(part, terms.get(name, name), chain, asked)
            if name in terms:
                alike[terms[name]] = cut
            if cut is not None:
                self.cuts[name] = cut
        for names in self.division.sums.values():
            if any(n in self.cuts for n in names) and not all(n in self.cuts for n in names):
                for n in names:
                    self.cuts.pop(n, None)

    def _cut(self, part: Part, tensor: str, chain: Chain, asked: Cut | None) -> Cut | None:
        """The cut of a value with the least estimated seconds; None where none is shorter than the whole."""
        value, best = chain.value, self._seconds(part, tensor, chain, 0, 1)
        found: Cut | None = None
        shape = [int(e) for e in value.type.shape]
        axes = [asked.axis] if asked is not None else [d for d, e in enumerate(shape) if e > 1]
        for blocks in range(1, len(chain.nodes) + 1):
            for axis in axes:
                counts = range(2, min(MOST_PANELS, shape[axis]) + 1)
                own = Cut(axis, _bounds(shape[axis], 2), chain.divided(blocks))
                if not is_once(part.graph, value, own):
                    continue
                for count in [len(asked.bounds) - 1] if asked is not None else counts:
                    seconds = self._seconds(part, tensor, chain, blocks, count)
                    if seconds < best:
                        lost = LOST * (count - 1) * sum(chain.seconds[:blocks])
                        best, found = seconds, replace(own, bounds=_bounds(shape[axis], count), lost_s=lost)
                break
        return found

    def _seconds(self, part: Part, tensor: str, chain: Chain, blocks: int, count: int) -> float:
        """Estimated seconds of a part until all panels of a value are where they are read."""
        own = sum(chain.seconds[:blocks])
        before, divided = chain.total - own, own * (1 + LOST * (count - 1))
        moved = chain.value.type.bytes // count
        readers = [p for p in self.division.parts if any(r.tensor == tensor for r in p.reads)]
        types = self.division.tensors
        given = went = 0.0
        reads = [
            (p.worker, sum(r.bytes(types[r.tensor].dtype, types[r.tensor].shape) for r in p.reads)) for p in readers
        ]
        passed = self.links.passed(moved) + sum(self.links.passed(n // count) for _, n in reads)
        entered = max(self.links.wire(w, n // count) for w, n in reads)
        for k in range(count):
            made = before + divided * (k + 1) / count + (k + 1) * self.links.handled(part.worker, moved)
            given = max(given, made) + self.links.wire(part.worker, moved)
            went = max(went, given) + max(passed, entered)
        return went + max(self.links.handled(w, n) for w, n in reads) + self.links.latency(part.worker)


def _bounds(extent: int, count: int) -> tuple[int, ...]:
    """The bounds of so many slices, as even as can be."""
    return tuple(extent * k // count for k in range(count + 1))
