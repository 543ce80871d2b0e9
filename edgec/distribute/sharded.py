"""Networks whose blocks have shardings of their own: the choice as an integer program, and the parts that follow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from types import MappingProxyType

from edgec.distribute.blocks import Piece, Shared, shardings
from edgec.distribute.consecutive import Chain
from edgec.distribute.held import metadata
from edgec.distribute.ilp import Solution
from edgec.distribute.links import Links
from edgec.distribute.parts import Division, Part, Read
from edgec.distribute.parts import ports as ports_of
from edgec.distribute.problem import Edge, Problem, Sharding
from edgec.distribute.rows import Span
from edgec.ir.graph import Graph, Node, intern, placeholder, topological
from edgec.ir.types import Type
from edgec.ops import graphs, node

#: With more blocks, a solver finds little in its time.
MOST_BLOCKS = 150
NO_STATES: Mapping[Node, tuple[str, Node]] = MappingProxyType({})


@dataclass(frozen=True)
class Sharded:
    """A chain with the ways to compute each of its values. Blocks are its inputs, its values and its outputs."""

    chain: Chain
    links: Links
    ways: tuple[tuple[Shared, ...], ...]

    @cached_property
    def values(self) -> tuple[Node, ...]:
        """The values of all blocks, in order; an output's is that of another block too."""
        held = self.chain.held
        return (*held.inputs.values(), *self.chain.values, *held.outputs.values())

    @cached_property
    def number(self) -> dict[Node, int]:
        """The block that computes every value."""
        inputs = len(self.chain.held.inputs)
        return {v: k for k, v in enumerate(self.values[: inputs + len(self.chain.values)])}

    def ways_of(self, v: Node) -> tuple[Shared, ...]:
        """The ways to compute a value; of an input there is none, since the coordinator has it."""
        inputs = len(self.chain.held.inputs)
        return self.ways[self.number[v] - inputs] if self.number[v] >= inputs else ()

    def problem(self, limit: int | None = None) -> Problem:
        """The choice among them, with ``limit`` bytes of weights for each worker."""
        workers = len(self.links.wires)
        free = Sharding(0.0, (0,) * workers, 0.0)
        blocks: list[tuple[Sharding, ...]] = [(free,) for _ in self.chain.held.inputs]
        edges: list[Edge] = []
        for v, own in zip(self.chain.values, self.ways):
            reader = len(blocks)
            blocks.append(tuple(self._sharding(v, way) for way in own))
            edges.extend(self._edge(operand, reader, own) for operand in self.chain.operands[v])
        for v in self.chain.held.outputs.values():
            edges.append(self._handed_out(v, len(blocks)))
            blocks.append((free, free))
        return Problem(tuple(blocks), tuple(edges), limit)

    def _sharding(self, v: Node, way: Shared) -> Sharding:
        seconds = max(p.seconds for p in way.pieces if p is not None)
        weights = tuple(p.weights if p is not None else 0 for p in way.pieces)
        moved = {w: _bytes_of(way, w, v) for w in way.givers}
        added = sum(list(moved.values())[1:]) if way.kind == "sums" else 0
        return Sharding(seconds, weights, self._moved(moved, added), way.kind in ("slices", "sums"))

    def _moved(self, moved: Mapping[int, int], added: int = 0) -> float:
        """Seconds of messages of so many bytes to workers, or from them: the coordinator's, and the slowest one's."""
        links = self.links
        slowest = max(links.handled(w, n) + links.latency(w) for w, n in moved.items())
        passed = sum(map(links.passed, moved.values())) + links.passed(0, added) - links.passed(0)
        return passed + slowest + links.carried(moved)

    def _edge(self, operand: Node, reader: int, own: Sequence[Shared]) -> Edge:
        before = self.ways_of(operand)
        fits = frozenset(
            (k, j)
            for (k, a), (j, b) in product(enumerate(before), enumerate(own))
            if all(a.has(w, span) for w, spans in _needs(b, operand).items() for span in spans)
        )
        read = tuple(
            self._moved({w: sum(_size(operand, s) for s in spans) for w, spans in _needs(b, operand).items()})
            for b in own
        )
        return Edge(self.number[operand], reader, read, fits)

    def _handed_out(self, v: Node, reader: int) -> Edge:
        """An output is taken as it is (0), or put together from slices by the first worker (1)."""
        both = self._moved({0: v.type.bytes})
        in_slices = [k for k, way in enumerate(self.ways_of(v)) if way.kind == "slices"]
        others = [k for k, way in enumerate(self.ways_of(v)) if way.kind != "slices"]
        refused = frozenset([*((k, 0) for k in in_slices), *((k, 1) for k in others)])
        return Edge(self.number[v], reader, (0.0, 2 * both), frozenset(), refused)

    def divided(self, problem: Problem, solution: Solution, price: Callable[[int, Graph], float]) -> Division:
        """The division of a solution: a part for every worker and stage."""
        return _Parts(self, problem, solution, price).division()


def sharded(chain: Chain, links: Links, is_spread: bool = False) -> Sharded | None:
    """The ways to shard a chain for workers, where it ``is_spread`` also on each alone.

    None where the chain is too large, or hands out what it does not compute, or one value twice, or reads a state
    where it does not compute its next value.
    """
    results = [n for _, n in chain.graph.outputs]
    if len(chain.values) > MOST_BLOCKS or len(set(results)) < len(results) or not set(results) <= set(chain.values):
        return None
    ways = tuple(map(tuple, shardings(chain, is_spread)))
    return Sharded(chain, links, ways) if all(ways) else None


def _needs(way: Shared, operand: Node) -> dict[int, list[Span | None]]:
    """The need of every worker that reads an operand: slices, or all of it (None)."""
    found: dict[int, list[Span | None]] = {}
    for w, piece in enumerate(way.pieces):
        spans = [s for n, s in piece.leaves.values() if n is operand] if piece is not None else []
        if spans:
            found[w] = spans
    return found


def _size(v: Node, span: Span | None) -> int:
    return int(v.type.bytes) if span is None else int(v.type.bytes) * span.rows // int(v.type.shape[span.axis])


def _bytes_of(way: Shared, worker: int, v: Node) -> int:
    return _size(v, way.spans[worker] if way.kind == "slices" else None)


@dataclass
class _Parts:
    """Parts of a solution in the making: one for each stage and worker, with the ports that it reads."""

    of: Sharded
    problem: Problem
    solution: Solution
    price: Callable[[int, Graph], float]
    parts: list[Part] = field(default_factory=list)
    sums: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def division(self) -> Division:
        graph = self.of.chain.graph
        stages = self.problem.stages(self.solution.crossing)
        assert stages is not None
        self.crossing = {(e.producer, e.reader) for e in self.solution.crossing}
        self.given = {e.producer for e in self.solution.crossing}
        self.names = self._named()
        for stage in sorted(set(stages)):
            own = [v for v in self.of.chain.values if stages[self.of.number[v]] == stage]
            for worker in range(len(self.of.links.wires)):
                self._part(worker, own)
        for name, v in self.of.chain.held.outputs.items():
            if self.way(v).kind == "slices":
                ports: dict[Node, Read] = {}
                self._add(0, [(name, self._read(v, None, ports))], ports)
        return Division("tensor", tuple(self.parts), *ports_of(graph), self.sums)

    def way(self, v: Node) -> Shared:
        """The sharding that was chosen for a value."""
        return self.of.ways_of(v)[self.solution.chosen[self.of.number[v]]]

    def _named(self) -> dict[Node, str]:
        """Names of the tensors of values that cross."""
        graph, held = self.of.chain.graph, self.of.chain.held
        inputs = {n: str(n.attributes["name"]) for n in graph.inputs}
        outputs = {n: name for name, n in held.outputs.items()}
        taken = {*inputs.values(), *(name for name, _ in graph.outputs)}
        prefixes = ("shard", *(f"shard{k}_" for k in range(99)))
        self.prefix = next(p for p in prefixes if not any(n.startswith(p) for n in taken))
        self.others = {v: f"{self.prefix}{k}" for k, v in enumerate(self.of.chain.values)}
        return {**self.others, **inputs, **outputs}

    def _part(self, worker: int, values: Iterable[Node]) -> None:
        """The part of a worker in a stage, which computes its pieces of these values."""
        built: dict[Node, Node] = {}
        ports: dict[Node, Read] = {}
        outputs: list[tuple[str, Node]] = []
        held: dict[Node, tuple[str, Node]] = {}
        pieces = {v: piece for v in values if (piece := self.way(v).pieces[worker]) is not None}
        read = [(n, s) for v, piece in pieces.items() for n, s in piece.leaves.values() if self._crosses(n, v)]
        whole = {n for n, s in read if s is None}
        for v, piece in pieces.items():
            way = self.way(v)
            leaves: dict[Node, Node] = {}
            for leaf, (n, span) in piece.leaves.items():
                if not self._crosses(n, v):
                    leaves[leaf] = self._local(built[n], n, span, worker)
                elif n in whole and span is not None:  # it is there once
                    leaves[leaf] = _cut(self._read(n, None, ports), span)
                else:
                    leaves[leaf] = self._read(n, span, ports)
            built[v] = _substituted(piece, leaves)
            for port, (state, _) in piece.states.items():
                held[port] = self.of.chain.held.loops[state].output, built[v]
            if self.of.number[v] in self.given and worker in way.givers:
                outputs.append((self._tensors(v)[way.givers.index(worker)], built[v]))
                if way.kind == "sums" and len(way.givers) > 1:
                    self.sums[self.names[v]] = tuple(self._tensors(v))
        if outputs or held:
            self._add(worker, outputs, ports, held)

    def _tensors(self, v: Node) -> list[str]:
        """Names of what the workers give of a value, in order."""
        givers = self.way(v).givers
        return [f"{self.others[v]}_{w}" for w in givers] if len(givers) > 1 else [self.names[v]]

    def _crosses(self, v: Node, reader: Node) -> bool:
        return (self.of.number[v], self.of.number[reader]) in self.crossing

    def _local(self, there: Node, v: Node, span: Span | None, worker: int) -> Node:
        """The slice that a piece needs of a value that the same part computes."""
        way = self.way(v)
        begin = way.spans[worker].begin if way.kind == "slices" else 0
        return there if span is None else _cut(there, Span(span.axis, span.begin - begin, span.end - begin))

    def _read(self, v: Node, span: Span | None, ports: dict[Node, Read]) -> Node:
        """A value, or a slice of it, from the coordinator: one port, or some of slices that are put together."""
        ways = self.of.ways_of(v)
        if not ways or self.way(v).kind != "slices":
            return self._port(self.names[v], v.type, span, ports)
        way = self.way(v)
        axis = way.spans[0].axis
        along = span if span is not None and span.axis == axis else Span(axis, 0, int(v.type.shape[axis]))
        found, at = [], along.begin
        for name, own in zip(self._tensors(v), way.spans):
            end = min(own.end, along.end)
            if own.begin <= at < end:
                inside = Span(axis, at - own.begin, end - own.begin)
                found.append(self._port(name, _sliced(v.type, own), inside, ports))
                at = end
        joined = node("concat", *found, axis=axis) if len(found) > 1 else found[0]
        return joined if span is None or span.axis == axis else _cut(joined, span)

    def _port(self, tensor: str, type: Type, span: Span | None, ports: dict[Node, Read]) -> Node:
        """The input of a part that reads a tensor, or a slice of it."""
        if span is None or span.rows == type.shape[span.axis]:
            found = placeholder(tensor, type)
            ports[found] = Read(tensor, tensor)
            return found
        name = f"{self.prefix}_{tensor}_{span.axis}_{span.begin}_{span.end}"
        found = placeholder(name, _sliced(type, span))
        ports[found] = Read(name, tensor, span.axis, span.begin, span.end)
        return found

    def _add(
        self, worker: int, outputs: Sequence[tuple[str, Node]], ports: Mapping[Node, Read],
        held: Mapping[Node, tuple[str, Node]] = NO_STATES,
    ) -> None:  # fmt: skip
        """A part with what it gives and reads, and the states that it holds, each with its next value."""
        outputs = (*outputs, *held.values())
        nodes = list(topological(n for _, n in outputs))
        there = set(nodes)
        whole = self.of.chain.graph
        origin = {n: whole.origin[n] for n in nodes if n in whole.origin}
        read = {port: r for port, r in ports.items() if port in there}
        states = metadata((str(port.attributes["name"]), name) for port, (name, _) in held.items())
        graph = Graph((*read, *held), outputs, whole.name, origin, states)
        self.parts.append(Part(worker, graph, tuple(read.values()), self.price(worker, graph)))


def _sliced(type: Type, span: Span) -> Type:
    return Type(type.dtype, tuple(span.rows if d == span.axis else n for d, n in enumerate(type.shape)))


def _cut(n: Node, span: Span) -> Node:
    """A slice of a node; the node where that is all of it."""
    extents = [int(e) for e in n.type.shape]
    if span.rows == extents[span.axis]:
        return n
    starts = [span.begin if d == span.axis else 0 for d in range(len(extents))]
    return graphs.part(n, starts, [span.rows if d == span.axis else e for d, e in enumerate(extents)])


def _substituted(piece: Piece, leaves: Mapping[Node, Node]) -> Node:
    """The node of a piece, from these leaves."""
    new = dict(leaves)
    for n in topological([piece.node], known=frozenset(leaves)):
        new[n] = n if not n.args else intern(n.op, tuple(new[a] for a in n.args), n.attributes, n.type)
    return new[piece.node]
