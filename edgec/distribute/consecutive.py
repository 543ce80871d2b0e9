"""Consecutive parts of a plan: a pipeline in which each worker hands on what the next one reads."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from math import inf

from edgec.distribute.held import Held, metadata
from edgec.distribute.intervals import Cost, best_intervals
from edgec.distribute.links import Links
from edgec.distribute.parts import Division, Part, Read
from edgec.distribute.parts import ports as ports_of
from edgec.fuse import Plan
from edgec.ir.graph import Graph, Node, topological
from edgec.partition.assign import readers_of
from edgec.partition.divide import operands_of, part_of

#: With more values, all intervals would take minutes to try: no pipeline is offered.
MOST_VALUES = 400
#: Places between parts that are left out for others where parts do not give the bits of one device.
TRIED = 4


@dataclass(frozen=True)
class Chain:
    """The values that a plan keeps in memory, in an order in which each comes after what it is made of.

    ``seconds`` holds for every worker the time of each value; those that others are stored in take none.
    """

    graph: Graph
    values: tuple[Node, ...]
    seconds: tuple[tuple[float, ...], ...]

    @cached_property
    def held(self) -> Held:
        return Held(self.graph)

    @cached_property
    def states(self) -> dict[Node, tuple[Node, ...]]:
        """The states that each value is made of."""
        known = frozenset(self.values)
        return {v: tuple(o for o in operands_of(v, known) if o in self.held.loops) for v in self.values}

    @cached_property
    def operands(self) -> dict[Node, tuple[Node, ...]]:
        """The values and inputs that each value is made of, but for states."""
        known = frozenset(self.values)
        return {v: tuple(o for o in operands_of(v, known) if o not in self.held.loops) for v in self.values}

    @cached_property
    def inseparable(self) -> frozenset[int]:
        """Places where no part begins: those who read a state, or its next value, are in one part with it."""
        found: set[int] = set()
        for old, new in self.held.renewed.items():
            readers = [k for k, v in enumerate(self.values) if old in self.states[v] or new in self.operands[v]]
            own = [*readers, self.place[new]]
            found.update(range(min(own) + 1, max(own) + 1))
        return frozenset(found)

    @cached_property
    def place(self) -> dict[Node, int]:
        return {v: k for k, v in enumerate(self.values)}

    @cached_property
    def last(self) -> dict[Node, float]:
        """The place where every value is read last; infinite for outputs."""
        found: dict[Node, float] = {}
        for k, v in enumerate(self.values):
            found.update(dict.fromkeys(self.operands[v], k))
        return {**found, **dict.fromkeys(self.held.outputs.values(), inf)}

    def reads(self, begin: int, end: int) -> tuple[Node, ...]:
        """The values from before an interval that it reads."""
        outside = (o for v in self.values[begin:end] for o in self.operands[v] if self.place.get(o, -1) < begin)
        return tuple(dict.fromkeys(outside))

    def writes(self, begin: int, end: int) -> tuple[Node, ...]:
        """The values of an interval that are read behind it, or returned."""
        return tuple(v for v in self.values[begin:end] if self.last.get(v, -1) >= end)

    @cached_property
    def moved(self) -> tuple[list[list[int]], list[list[int]]]:
        """Bytes that every interval reads and writes, by its begin and end."""
        n = len(self.values)
        reads, writes = [[0] * (n + 1) for _ in range(n)], [[0] * (n + 1) for _ in range(n)]
        for i in range(n):
            seen: set[Node] = set()
            total = 0
            for j in range(i, n):
                new = {o for o in self.operands[self.values[j]] if self.place.get(o, -1) < i} - seen
                seen |= new
                total += sum(o.type.bytes for o in new)
                reads[i][j + 1] = total
        for j in range(1, n + 1):
            total = 0
            for i in range(j - 1, -1, -1):
                v = self.values[i]
                total += v.type.bytes if self.last.get(v, -1) >= j else 0
                writes[i][j] = total
        return reads, writes

    @cached_property
    def weights(self) -> list[list[int]]:
        """Bytes of the constants of every interval, by its begin and end."""
        n, stored = len(self.values), frozenset(self.values)
        own = [{c for c in topological([v], known=stored - {v}) if c.is_const and c not in stored} for v in self.values]
        found = [[0] * (n + 1) for _ in range(n)]
        for i in range(n):
            seen: set[Node] = set()
            total = 0
            for j in range(i, n):
                new = own[j] - seen
                seen |= new
                total += sum(c.type.bytes for c in new)
                found[i][j + 1] = total
        return found


def chain_of(plan: Plan, prices: Sequence[Mapping[Node, float]]) -> Chain:
    """The chain of a plan. ``prices`` are the seconds of blocks by their outputs, for each worker."""
    stored = {n for n in readers_of(plan) if n.op not in ("input", "const")}
    values = tuple(n for n in plan.graph.operations() if n in stored)
    return Chain(plan.graph, values, tuple(tuple(p.get(v, 0.0) for v in values) for p in prices))


def stage_cost(chain: Chain, links: Links) -> Cost:
    """Seconds between two frames of an interval on a worker: those of what takes longest of computing and the link."""
    sums = [[0.0] for _ in chain.seconds]
    for own, times in zip(sums, chain.seconds):
        for s in times:
            own.append(own[-1] + s)
    reads, writes = chain.moved

    def cost(worker: int, begin: int, end: int) -> float:
        taken, given = reads[begin][end], writes[begin][end]
        computed = sums[worker][end] - sums[worker][begin]
        computed += links.handled(worker, taken) + links.handled(worker, given)
        return max(computed, links.wire(worker, taken), links.wire(worker, given))

    return cost


def within(chain: Chain, cost: Cost, limit: int | None) -> Cost:
    """A cost that is infinite for intervals with more than ``limit`` bytes of weights."""
    if limit is None:
        return cost
    weights, most = chain.weights, limit
    return lambda worker, begin, end: cost(worker, begin, end) if weights[begin][end] <= most else inf


def in_sequence(
    chain: Chain, links: Links, workers: int, limit: int | None = None,
    kept: Callable[[Division], Division] = lambda division: division,
) -> Division | None:  # fmt: skip
    """The division into consecutive parts on exactly ``workers`` with the least time between frames.

    Weights of each are within ``limit`` bytes, where any division's are; else those of its largest are the least.
    ``kept`` gives a division with the bits of one device, or says what differs (`Division.other`): others are tried.

    None where there are fewer values than workers, or more than `MOST_VALUES`, whose intervals would take long to try.
    """
    if not workers <= len(chain.values) <= MOST_VALUES:
        return None
    cost = within(chain, _without(stage_cost(chain, links), chain.inseparable), limit)
    least, ends = best_intervals(len(chain.values), workers, cost)
    if least == inf:
        lightest = _without(lambda _, begin, end: chain.weights[begin][end], chain.inseparable)
        least, ends = best_intervals(len(chain.values), workers, lightest)
        return kept(along(chain, ends)) if least < inf else None
    first = found = kept(along(chain, ends))
    refused: set[int] = set()
    while found.other and len(refused) < TRIED:
        refused |= {*ends[:-1]}
        least, ends = best_intervals(len(chain.values), workers, _without(cost, refused))
        if least == inf:
            break
        found = kept(along(chain, ends))
    return first if found.other else found


def _without(cost: Cost, refused: Collection[int]) -> Cost:
    """A cost that is infinite for intervals that begin at these places."""
    return lambda worker, begin, end: inf if begin in refused else cost(worker, begin, end)


def along(chain: Chain, ends: Sequence[int]) -> Division:
    """The division at these ends of intervals, on workers in order."""
    graph = chain.graph
    names = {n: name for name, n in graph.outputs} | {n: str(n.attributes["name"]) for n in graph.inputs}
    taken = set(names.values())
    free = (name for number in count() if (name := f"value_{number}") not in taken)
    parts, begin = [], 0
    for worker, end in enumerate(ends):
        reads, writes = chain.reads(begin, end), chain.writes(begin, end)
        for n in (*reads, *writes):
            if n not in names:
                names[n] = next(free)
        part = with_states(chain, part_of(graph, *held_by(chain, begin, end, reads, writes), names))
        ports = tuple(Read(names[n], names[n]) for n in reads)
        parts.append(Part(worker, part, ports, sum(chain.seconds[worker][begin:end])))
        begin = end
    return Division("pipeline", tuple(parts), *ports_of(graph))


def held_by(
    chain: Chain, begin: int, end: int, reads: tuple[Node, ...], writes: tuple[Node, ...]
) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    """Inputs and outputs of an interval, with the states that it holds."""
    own = dict.fromkeys(o for v in chain.values[begin:end] for o in chain.states[v])
    return (*reads, *own), (*writes, *(chain.held.renewed[n] for n in own))


def with_states(chain: Chain, part: Graph) -> Graph:
    """A part whose graph says which of its inputs and outputs are states."""
    there = {str(n.attributes["name"]) for n in part.inputs}
    return replace(part, metadata=metadata((s.input, s.output) for s in chain.held.loops.values() if s.input in there))
