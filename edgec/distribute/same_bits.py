"""Parts that compute the bits of one device: their kernels add up in the order of the whole network's.

A part has other shapes or other neighbors, for which another schedule may be cheaper. Its products take the variants of
the whole network's where they would add up otherwise. Tiles of Winograd's method are transformed as a whole: rows of
such a value begin and end with a tile of the whole network.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import lcm

from edgec.distribute.panel_parts import named
from edgec.distribute.parts import Division, Part
from edgec.distribute.prices import Prices, own
from edgec.distribute.rows import NO_TILES
from edgec.ir.graph import Graph, Node
from edgec.ir.nest import most
from edgec.options import Options
from edgec.pipeline.context import Context
from edgec.pipeline.run import run
from edgec.schedule.contract.contract import Contract
from edgec.schedule.contract.winograd import Winograd
from edgec.schedule.order import is_sum, orders_of
from edgec.schedule.program import Kernel, Program
from edgec.schedule.variants import Variants
from edgec.tune.known import variants_for

#: The kernel of a sum as far as bits depend on it, by the names of the sum's node; several sums may share names.
Ways = Mapping[tuple[str, ...], frozenset[tuple[object, ...]]]


@dataclass(frozen=True)
class Kernels:
    """Kernels of the whole network as far as bits depend on them; its program, with all weights, need not be kept.

    ``taken`` are the variants of products by the names of their sums, ``tiles`` rows that belong together.
    """

    ways: Ways
    taken: Mapping[tuple[str, ...], str]
    tiles: Mapping[Node, int]


@dataclass(frozen=True)
class Scheduled:
    """A graph as a worker's device would compute it alone, and the variants of its products by their keys."""

    graph: Graph
    program: Program
    variants: Variants

    @cached_property
    def steps(self) -> list[Kernel]:
        """The kernels of blocks with sums of floats."""
        steps = (s for k in self.program.kernels for s in k.steps)
        return [s for s in steps if s.block is not None and any(map(is_sum, s.block.nodes))]

    @cached_property
    def ways(self) -> Ways:
        """The order of every sum."""
        orders = orders_of(self.program.kernels, self.program.views)
        found: dict[tuple[str, ...], set[tuple[object, ...]]] = {}
        for step in self.steps:
            assert step.block is not None
            for n in filter(is_sum, step.block.nodes):
                order = orders.get(n)
                told = (order.chains.shape, order.chains.tobytes(), order.is_known) if order is not None else ()
                names = self.program.graph.names(n) or step.names
                found.setdefault(names, set()).add((*_way(step), *told))
        return {names: frozenset(ways) for names, ways in found.items()}

    @cached_property
    def taken(self) -> dict[tuple[str, ...], str]:
        """The variants of products, by the names of their sums."""
        return {s.names: v for s in self.steps if (v := getattr(s.schedule, "variant", None)) is not None}

    @cached_property
    def tiles(self) -> dict[Node, int]:
        """Rows that belong together, of the values whose kernels transform tiles of them."""
        found: dict[Node, int] = {}
        for step in self.steps:
            if isinstance(step.schedule, Winograd) and step.block is not None:
                rows = lcm(*(s.toom.outputs // s.step for s in step.schedule.sides))
                names, type = set(step.names), step.block.output.type
                alike = (n for n in self.graph.operations() if n.type == type and names & {*self.graph.names(n)})
                found.update(dict.fromkeys(alike, rows))
        return found

    def keys(self) -> dict[str, tuple[str, ...]]:
        """The key of every product in the program, with the names of its kernel."""
        names = {s.block.output: s.names for s in self.steps if s.block is not None}
        return {key: names[p.block.output] for key, p in self.variants.seen.items() if p.block.output in names}


def _way(step: Kernel) -> tuple[object, ...]:
    """The method of a kernel: what its template adds up together."""
    s = step.schedule
    if isinstance(s, Winograd):
        return s.template, s.variant, tuple(map(most, s.k)), s.at_run.part if s.at_run is not None else 0
    if isinstance(s, Contract):
        return s.template, s.micro_kernel, tuple(map(most, s.k)), s.dots is None, s.fp16 is None
    return (s.template,)


def scheduled(graph: Graph, options: Options, pinned: Mapping[str, str] | None = None) -> Scheduled:
    """A graph as a part of these options is built, where products of the keys in ``pinned`` take these variants."""
    known = variants_for(options)
    variants = Variants(known.measured, pinned or {})
    program: Program = run(graph, Context(own(options, graph), variants=variants), "fuse", "schedule").result
    return Scheduled(graph, program, variants)


def differing(part: Scheduled, whole: Kernels) -> list[tuple[str, ...]]:
    """The sums of a part that the whole network adds up otherwise."""
    return [names for names, ways in part.ways.items() if not ways <= whole.ways.get(names, frozenset())]


def alike(part: Part, options: Options, whole: Kernels) -> tuple[Part, set[str]]:
    """The part with products in the variants that give the bits of the whole network.

    Beside it are the names of sums that have no such variant; the part is as it was then.
    """
    found = scheduled(part.graph, options)
    wrong = {n for names in differing(found, whole) for n in names}
    if not wrong:
        return part, wrong
    pinned = {k: whole.taken[own] for k, own in found.keys().items() if wrong & {*own} and own in whole.taken}
    found = scheduled(part.graph, options, pinned)
    wrong = {n for names in differing(found, whole) for n in names}
    taken = {k: found.program.choices.get(k, p.usual) for k, p in found.variants.seen.items()}
    return (part if wrong else replace(part, variants=taken)), wrong


def as_before(division: Division, before: Division, prices: Prices) -> Division | None:
    """A division with the bits of another one, of whose parts it has some in other shapes.

    None where a sum has no kernel with the same order.
    """
    parts = []
    for new, old in zip(division.parts, before.parts):
        if new is not old:
            options = prices.options[new.worker]
            whole = scheduled(named(old.graph), options, old.variants)
            new, wrong = alike(new, options, Kernels(whole.ways, whole.taken, whole.tiles))
            if wrong:
                return None
        parts.append(new)
    return replace(division, parts=tuple(parts))


@dataclass
class SameBits:
    """The bits of one device for divisions between workers of one kind; others have no kernels in common."""

    prices: Prices
    graph: Graph

    @cached_property
    def whole(self) -> Kernels | None:
        """Those of the undivided network; None where workers differ."""
        options = self.prices.options
        if any(o != options[0] for o in options):
            return None
        found = scheduled(self.graph, options[0])
        return Kernels(found.ways, found.taken, found.tiles)

    @property
    def tiles(self) -> Mapping[Node, int]:
        return self.whole.tiles if self.whole is not None else NO_TILES

    def of(self, division: Division) -> Division:
        """The division with the variants of the whole network; ``other`` names the sums that differ even so."""
        if self.whole is None:
            return division
        parts = [alike(p, self.prices.options[p.worker], self.whole) for p in division.parts]
        other = sorted({n for _, wrong in parts for n in wrong})
        return replace(division, parts=tuple(p for p, _ in parts), other=tuple(other))
