"""Tensor parallelism: the workers share the work between cuts of a network, and each keeps its slice of the weights.

The stretches between cuts are chosen by dynamic programming over (seconds, bytes of weights of every worker): of all
ways to reach a cut those stay that no other one beats in both.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from math import inf

from edgec.distribute.cuts import Annotation, Cut, aside, cuts, narrow, wanted_of
from edgec.distribute.held import Held, metadata
from edgec.distribute.links import Links
from edgec.distribute.parts import Division, Part, Read
from edgec.distribute.parts import ports as ports_of
from edgec.distribute.rows import Indivisible
from edgec.distribute.shards import Shards, reduced, work
from edgec.ir.graph import Graph, Node, intern, placeholder, topological
from edgec.ops import node
from edgec.text import printable

#: Cuts before one that a stretch may begin at, and ways to reach a cut that are kept.
REACH, KEPT = 12, 64
#: No slices.
WHOLE = Shards()


@dataclass(frozen=True)
class Stretch:
    """The work from one cut to the next: its seconds, and the bytes of weights of every worker."""

    seconds: float
    weights: tuple[int, ...]


@dataclass(frozen=True)
class Way:
    """Cuts in order, with the seconds until the last of them is there and the bytes of weights of every worker."""

    cuts: tuple[Cut, ...]
    seconds: float
    weights: tuple[int, ...]


#: The stretch from a cut (None: the inputs) to another; None where the other needs something else too.
Lead = Callable[["Cut | None", Cut], "Stretch | None"]


def leads(graph: Graph, operations_per_s: Sequence[float], links: Links) -> Lead:
    """The prices of stretches: the slowest worker counts, and wires carry what is read and given.

    The coordinator handles all messages one after the other, and adds up partial sums.
    """
    held, beside = Held(graph), aside(graph)
    main = frozenset(held.inputs.values()) - beside
    known: dict[tuple[Node | None, Node], tuple[int, int, int] | None] = {}

    def needed(begin: Node | None, piece: Node) -> tuple[int, int, int] | None:
        """Operations, bytes of weights and states, and bytes of inputs aside."""
        if (begin, piece) not in known:
            there = main if begin is None else frozenset((begin,))
            leaves = [n for n in topological([piece], known=there) if n.op == "input"]
            operations, weights = work(piece, there)
            weights += sum(n.type.bytes for n in leaves if n not in beside)
            more = sum(n.type.bytes for n in leaves if n in beside)
            known[begin, piece] = None if any(n in main for n in leaves) else (operations, weights, more)
        return known[begin, piece]

    def lead(begin: Cut | None, end: Cut) -> Stretch | None:
        seconds, passed, weights = 0.0, 0.0, []
        pieces = {w: piece for w, piece in enumerate(end.pieces) if piece is not None}
        entered = sum(n.type.bytes for n in main) if begin is None else handed(begin)
        moved = {}
        for worker, (piece, rate) in enumerate(zip(end.pieces, operations_per_s)):
            found = needed(begin.value if begin is not None else None, piece) if piece is not None else (0, 0, 0)
            if found is None:
                return None
            weights.append(found[1])
            if piece is not None:
                given, read = piece.type.bytes, entered + found[2]
                moved[worker] = read
                passed += links.passed(read) + links.passed(given, given if end.kind == "sums" else 0)
                own = found[0] / rate + links.handled(worker, read) + links.handled(worker, given)
                seconds = max(seconds, own + 2 * links.latency(worker))
        carried = links.carried(moved)
        carried += links.carried({w: piece.type.bytes for w, piece in pieces.items()})
        return Stretch(seconds + passed + carried, tuple(weights))

    return lead


def handed(cut: Cut) -> int:
    """Bytes that a reader of a cut receives: the value, whether it is put together from slices or added up."""
    return cut.value.type.bytes


def ways(
    stages: Sequence[Sequence[Cut]], lead: Lead, required: Collection[int] = (), limit: float | None = None
) -> list[Way]:
    """The ways to the last of the stages, the fastest first.

    At least one cut of each way is shared by workers; none leaves a ``required`` stage out. Under a ``limit`` on the
    bytes of weights of each worker, they are those that no other beats in both seconds and weights: all of them while
    they are no more than `KEPT`.
    """
    reached: list[list[Way]] = []
    for k, stage in enumerate(stages):
        own: list[Way] = []
        earliest = max([r for r in required if r < k], default=0)
        for cut in stage:
            first = lead(None, cut) if not any(r < k for r in required) else None
            if first is not None:
                own.append(Way((cut,), first.seconds, first.weights))
            for before in (w for group in reached[max(earliest, k - REACH) :] for w in group):
                further = lead(before.cuts[-1], cut)
                if further is not None:
                    weights = tuple(a + b for a, b in zip(before.weights, further.weights))
                    own.append(Way((*before.cuts, cut), before.seconds + further.seconds, weights))
        reached.append(_unbeaten(own, limit))
    return sorted((w for w in reached[-1] if is_shared(w)), key=lambda w: w.seconds) if reached else []


def is_shared(way: Way) -> bool:
    """Do several workers share a cut of it?"""
    return any(c.kind != "one" for c in way.cuts)


def _unbeaten(found: Sequence[Way], limit: float | None) -> list[Way]:
    """The ways to each cut that count: the fastest one, or under a limit those that none beats in both."""
    groups: dict[tuple[Cut, bool], list[Way]] = {}
    for way in sorted(found, key=lambda w: (w.seconds, w.weights)):
        if limit is not None and max(way.weights) > limit:
            continue
        kept = groups.setdefault((way.cuts[-1], is_shared(way)), [])
        if not kept or (limit is not None and not any(_is_lighter(k, way) for k in kept)):
            kept.append(way)
    return [w for kept in groups.values() for w in _few(kept)]


def _is_lighter(a: Way, b: Way) -> bool:
    return all(x <= y for x, y in zip(a.weights, b.weights))


def _few(found: list[Way]) -> list[Way]:
    """Half of those that are kept are the fastest, and half the lightest."""
    if len(found) <= KEPT:
        return found
    fast, rest = found[: KEPT // 2], found[KEPT // 2 :]
    return [*fast, *sorted(rest, key=lambda w: max(w.weights))[: KEPT // 2]]


def along(graph: Graph, way: Way, price: Callable[[int, Graph], float]) -> Division:
    """The division: a part for every piece of every cut, and one that puts the outputs together.

    Partial sums are terms that the coordinator adds: a reader has one port for the value. An output that is such a
    value needs no part.
    """
    names = {str(n.attributes["name"]) for n in graph.inputs} | {name for name, _ in graph.outputs}
    outputs = Held(graph).outputs
    prefix = next(p for p in ("shard", *(f"shard{k}" for k in range(99))) if not any(n.startswith(p) for n in names))
    parts: list[Part] = []
    sums: dict[str, tuple[str, ...]] = {}
    begin: tuple[Node, Node, tuple[Node, ...]] | None = None
    shared = way.cuts[:-1] if way.cuts[-1].kind == "one" else way.cuts  # the last part is the first worker's anyway
    for number, cut in enumerate(shared):
        ports = []
        for worker, piece in enumerate(cut.pieces):
            if piece is not None:
                name = f"{prefix}{number}_{worker}"
                own = _graph(graph, ((name, piece),), begin, cut.made)
                parts.append(Part(worker, own, _reads(own), price(worker, own)))
                ports.append(placeholder(name, piece.type))
        if cut.kind == "sums" and len(ports) > 1:
            name = next((name for name, n in outputs.items() if n is cut.value), f"{prefix}{number}")
            sums[name] = tuple(str(port.attributes["name"]) for port in ports)
            ports = [placeholder(name, cut.value.type)]
        whole = node("concat", *ports, axis=cut.axis) if len(ports) > 1 else ports[0]
        begin = (cut.value, whole, tuple(ports))
    rest = tuple((name, n) for name, n in outputs.items() if name not in sums)
    if rest:
        last = _graph(graph, rest, begin)
        parts.append(Part(0, last, _reads(last), price(0, last)))
    return Division("tensor", tuple(parts), *ports_of(graph), sums)


def _reads(graph: Graph) -> tuple[Read, ...]:
    return tuple(Read(name, name) for name in Held(graph).inputs)


def states_of(graph: Graph, value: Node, begin: Node | None, made: Shards) -> dict[Node, tuple[Node, Node]]:
    """The inputs that a piece holds of states, from a cut on: each with its state and its next value."""
    held = Held(graph)
    found: dict[Node, tuple[Node, Node]] = {}
    for n in topological([value], known=frozenset(() if begin is None else (begin,))):
        if n in held.loops or n in made.held:
            state, span = made.held.get(n, (n, None))
            found[n] = state, made.part(held.renewed[state], span)
    return found


def holds(graph: Graph, way: Way) -> bool:
    """Is every state in one stretch alone, and there in one slice of each worker?"""
    held = Held(graph)
    stretches: list[set[Node]] = []
    begin: Node | None = None
    for cut in way.cuts:
        own: set[Node] = set()
        for piece in cut.pieces:
            states = [s for s, _ in states_of(graph, piece, begin, cut.made).values()] if piece is not None else []
            if len(states) > len(set(states)):
                return False
            own.update(states)
        stretches.append(own)
        begin = cut.value
    rest = {s for n in held.outputs.values() for s, _ in states_of(graph, n, begin, Shards()).values()}
    return sorted(map(id, held.loops)) == sorted(id(s) for own in (*stretches, rest) for s in own)


def _graph(
    graph: Graph, outputs: Sequence[tuple[str, Node]], begin: tuple[Node, Node, tuple[Node, ...]] | None,
    made: Shards = WHOLE,
) -> Graph:  # fmt: skip
    """The graph of some values, which begins at a cut that was put together from its pieces, or at the inputs.

    It has the states that these are made of too, of which ``made`` has slices.
    """
    first = begin[0] if begin is not None else None
    states = {port: own for _, n in outputs for port, own in states_of(graph, n, first, made).items()}
    loops = Held(graph).loops
    outputs = (*outputs, *((loops[state].output, n) for state, n in states.values()))
    new: dict[Node, Node] = {begin[0]: begin[1]} if begin is not None else {}
    origin: dict[Node, tuple[str, ...]] = {}
    for n in topological((n for _, n in outputs), known=frozenset(new)):
        new[n] = n if not n.args else intern(n.op, tuple(new[a] for a in n.args), n.attributes, n.type)
        if n in graph.origin:
            origin[new[n]] = tuple(dict.fromkeys((*origin.get(new[n], ()), *graph.origin[n])))
    named = tuple((name, new[n]) for name, n in outputs)
    there = set(topological(n for _, n in named))
    inputs = (n for n in graph.inputs if n not in loops)
    ports = (*inputs, *(begin[2] if begin is not None else ()), *states)
    held = metadata((str(port.attributes["name"]), loops[state].output) for port, (state, _) in states.items())
    return Graph(tuple(p for p in ports if p in there), named, graph.name, origin, held)


def offered(
    graph: Graph, operations_per_s: Sequence[float], links: Links, asked: Sequence[Annotation] = (),
    limit: int | None = None,
) -> list[Way]:  # fmt: skip
    """The ways to divide a graph for workers of these rates, the fastest first; all of them divide what is asked for.

    Their weights are within ``limit`` bytes a worker; where none is, the lightest one is given alone.
    Raises UsageError where something that is asked for cannot be divided.
    """
    stages = cuts(graph, operations_per_s)
    if not stages:
        return []
    wanted, required = wanted_of(stages, asked, len(operations_per_s))
    lead = leads(graph, operations_per_s, links)
    found = [w for w in ways(wanted, lead, required, limit) if holds(graph, w)]
    if found or limit is None:
        return found
    lightest = sorted(ways(wanted, lead, required, inf), key=lambda w: max(w.weights))
    return [w for w in lightest if holds(graph, w)][:1]


def told_why_not(graph: Graph) -> str:
    """The first node of a graph that no worker can compute a part of, and why, in words."""
    for n in graph.operations():
        try:
            reduced(n)
        except Indivisible as error:
            if n in narrow(graph):
                return f"'{printable((graph.names(n) or (n.op,))[0])}': {error.message}"
    return "no value is one that all paths go through"
