"""Cuts of a network for tensor parallelism: values that all its paths go through, and how workers share each of them.

A value is shared as *sums* (every worker adds up some of the terms), as a *gather* (every worker gives a slice) or by
*one* worker, which gives all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise

from edgec.distribute.held import Held
from edgec.distribute.row_split import cuts_of
from edgec.distribute.rows import Indivisible, Span
from edgec.distribute.shards import Shards, needs, reduced, work
from edgec.errors import UsageError
from edgec.ir.graph import Graph, Node, topological
from edgec.ops import graphs, node
from edgec.text import did_you_mean, printable

#: The part of a network's operations that may depend on the inputs aside alone.
ASIDE = 0.02


@dataclass(frozen=True)
class Cut:
    """A value and its pieces, one a worker; ``kind`` is sums, gather (along ``axis``) or one. None: no piece.

    ``divided`` are the nodes of which each worker computes a slice, with the dimension; ``made`` has their slices.
    """

    value: Node
    kind: str
    pieces: tuple[Node | None, ...]
    axis: int = 0
    divided: frozenset[tuple[Node, int]] = frozenset()
    made: Shards = field(default_factory=Shards, compare=False, repr=False)


@dataclass(frozen=True)
class Annotation:
    """A node of the model whose dimension is to be divided: its name, and the nodes that it became."""

    name: str
    axis: int
    nodes: frozenset[Node]

    def is_met(self, cut: Cut) -> bool:
        """Does a cut divide it?"""
        return any((n, self.axis) in cut.divided for n in self.nodes)


def annotations_of(graph: Graph, texts: Sequence[str], workers: int) -> tuple[Annotation, ...]:
    """Annotations of texts ``NODE=DIM``. Raises UsageError for a node that is not there, or a wrong dimension."""
    last = {name: n for n in graph.operations() for name in graph.names(n)}
    last |= dict(graph.outputs)
    found = []
    for text in texts:
        name, is_given, dim = text.rpartition("=")
        if not is_given or not name or not dim.lstrip("-").isdecimal():
            raise UsageError(f"'{text}' is no NODE=DIM", hint="write --shard NODE=1", where="--shard")
        if name not in last:
            hint = did_you_mean(name, last, "edgec inspect MODEL lists its nodes")
            raise UsageError(f"there is no node '{printable(name)}'", hint=hint, where="--shard")
        shape = last[name].type.shape
        axis = int(dim) + (len(shape) if int(dim) < 0 else 0)
        if not 0 <= axis < len(shape):
            hint = f"it has the dimensions 0 to {len(shape) - 1}" if shape else "it has none"
            raise UsageError(f"'{name}' has no dimension {dim}", hint=hint, where="--shard")
        if int(shape[axis]) < workers:
            what = f"dimension {dim} of '{name}' has {shape[axis]} positions, fewer than the {workers} workers"
            raise UsageError(what, hint="name another dimension, or fewer workers", where="--shard")
        nodes = {n for n in graph.operations() if n is last[name] or name in graph.names(n)}
        found.append(Annotation(name, axis, frozenset(nodes)))
    return tuple(found)


def aside(graph: Graph) -> frozenset[Node]:
    """Inputs such as a mask or a position: what is computed of them alone is so little that each part may repeat it."""
    inputs = list(Held(graph).inputs.values())
    if len(inputs) < 2:
        return frozenset()
    made: dict[Node, frozenset[Node]] = {}
    operations: dict[frozenset[Node], int] = {}
    for n in graph.nodes():
        made[n] = frozenset((n,)) if n in inputs else frozenset().union(*(made[a] for a in n.args))
        if n.args:
            operations[made[n]] = operations.get(made[n], 0) + work(n, n.args)[0]
    reached = {i: sum(c for sources, c in operations.items() if i in sources) for i in inputs}
    main = max(inputs, key=lambda i: reached[i])
    alone = sum(c for sources, c in operations.items() if main not in sources)
    return frozenset(inputs) - {main} if alone <= ASIDE * sum(operations.values()) else frozenset()


def narrow(graph: Graph) -> list[Node]:
    """The computed values through which every path from the main inputs to the outputs goes, in order.

    Inputs aside, and states, are there for every part.
    """
    fed: dict[Node, None] = {}
    apart = {*aside(graph), *Held(graph).loops}
    for n in graph.nodes():
        if (n.op == "input" and n not in apart) or any(a in fed for a in n.args):
            fed[n] = None
    order = [*(n for n in fed if n.op == "input"), *(n for n in fed if n.op != "input")]
    last = {a: place for place, n in enumerate(order) for a in n.args}
    last |= dict.fromkeys(Held(graph).outputs.values(), len(order))
    found, reach = [], 0
    for place, n in enumerate(order):
        if n.op != "input" and reach <= place:
            found.append(n)
        reach = max(reach, last.get(n, 0))
    return found


def cuts(graph: Graph, shares: Sequence[float]) -> list[list[Cut]]:
    """The ways to share every value that is worth it, in order, for workers with these shares of the work."""
    values = narrow(graph)
    between = frozenset(values)
    following = dict(pairwise(values))
    found = []
    held = Held(graph)
    begun = partial(Shards, states=frozenset(held.loops))
    for value in values:
        ways = list(_sums(value, between, shares, begun))
        after = following.get(value)
        if ways and after is not None and _is_added(after, value):
            continue  # the same sums with a bias are a cut too
        if not ways and value not in held.outputs.values():
            continue
        found.append(
            [*ways, *_gathers(value, shares, begun()), Cut(value, "one", (value, *(None,) * (len(shares) - 1)))]
        )
    return found


def wanted_of(
    stages: Sequence[Sequence[Cut]], asked: Sequence[Annotation], workers: int
) -> tuple[list[list[Cut]], set[int]]:
    """The stages with those cuts alone that divide what is asked for, and the places of these stages.

    Raises UsageError for what none of them divides.
    """
    found, places = [list(stage) for stage in stages], set()
    for a in asked:
        place = next((k for k, s in enumerate(found) if any(map(a.is_met, s))), None)
        if place is None:
            what = f"dimension {a.axis} of '{printable(a.name)}' cannot be divided between {workers} workers"
            hint = "name columns, heads or channels of a product, in as many pieces as there are workers"
            raise UsageError(what, hint=hint, where="--shard")
        found[place] = [c for c in found[place] if a.is_met(c)]
        places.add(place)
    return found, places


def _is_added(n: Node, value: Node) -> bool:
    """Is a node the value with something added that was not made from it?"""
    others = [a for a in n.args if a is not value]
    return n.op == "add" and value in n.args and n.type == value.type and value not in topological(others)


def _sums(
    value: Node, between: Collection[Node], shares: Sequence[float], begun: Callable[[], Shards]
) -> Iterator[Cut]:
    """The value as partial sums."""
    for made, pieces in sums_of(value, between, shares, begun):
        yield Cut(value, "sums", pieces, divided=made.divided, made=made)


def sums_of(
    value: Node, between: Collection[Node], shares: Sequence[float], begun: Callable[[], Shards]
) -> Iterator[tuple[Shards, tuple[Node | None, ...]]]:
    """Pieces of a value as partial sums: products at its end are divided, what is added to them is the first worker's.

    ``begun`` makes the shards that every way begins with, which is given with its pieces.
    """
    products = [n for n in _terms(value, between) if _adds_up(n)]
    if not products:
        return
    total = sum(shares)
    ends = [sum(shares[: k + 1]) / total for k in range(len(shares))]
    for unit in _units(products):
        made = begun()
        try:
            pieces = tuple(_piece(value, between, made, share, unit) for share in pairwise((0.0, *ends)))
        except Indivisible:
            continue
        yield made, pieces


def _terms(value: Node, between: Collection[Node]) -> list[Node]:
    """The products whose sums the value is, but for what is added to them."""
    found, stack = [], [(value, True)]
    while stack:
        n, is_open = stack.pop()
        if is_open and n.op == "add":
            stack.extend((a, _is_open(a, n, between)) for a in n.args)
        elif is_open:
            found.append(n)
    return found


def _is_open(n: Node, reader: Node, between: Collection[Node]) -> bool:
    """Are the terms of an operand divided too? A value that may be a cut itself is taken whole, but under a bias."""
    return n not in between or all(a is n or a.is_const for a in reader.args)


def _adds_up(n: Node) -> bool:
    try:
        return n.op not in ("input", "const") and reduced(n)[1] > 1 and any(a.is_const for a in n.args)
    except Indivisible:
        return False


def _units(products: Sequence[Node]) -> list[int]:
    """Multiples at which terms may be cut: one, and the width of what reshapes before the products join."""
    extents = [reduced(n)[1] for n in products]
    found = {1}
    for product in products:
        for n in topological([product]):
            if n.op == "reshape" and n.args[0].type.rank > 1:
                found.add(int(n.args[0].type.shape[-1]))
    return sorted(u for u in found if all(e % u == 0 and u < e for e in extents))


def _piece(
    n: Node, between: Collection[Node], made: Shards, share: tuple[float, float], unit: int, is_open: bool = True
) -> Node | None:
    """A worker's part of the sums. What is no product is the part of the first worker, whose share begins at 0."""
    if is_open and _adds_up(n):
        return made.sums(n, *share, unit)
    if is_open and n.op == "add":
        parts = [_piece(a, between, made, share, unit, _is_open(a, n, between)) for a in n.args]
        there = [p for p in parts if p is not None]
        if len(there) == 2:
            return node("add", *there)
        return graphs.broadcast(there[0], n.type.shape) if there else None
    return n if share[0] == 0 else None


def _divides_weights(value: Node, axis: int) -> bool:
    """Is a slice of the value computed with a slice of some weight? Looks back to the weights of each path alone."""
    stack: list[tuple[Node, Span]] = [(value, Span(axis, 0, int(value.type.shape[axis]) // 2 or 1))]
    seen = set(stack)
    while stack:
        n, span = stack.pop()
        try:
            wanted = needs(n, span)
        except Indivisible:
            continue
        weights = [w for a, w in zip(n.args, wanted) if a.is_const and a.type.rank > 1]
        if any(w is not None for w in weights):
            return True
        if weights and _adds_up(n):
            continue  # positions of its operand are those of its result, and so on
        further = {(a, w) for a, w in zip(n.args, wanted) if w is not None and a.op not in ("const", "input")} - seen
        stack.extend(further)
        seen |= further
    return False


def _gathers(value: Node, shares: Sequence[float], empty: Shards) -> Iterator[Cut]:
    """The value in slices of each dimension that is long enough, where that divides weights too."""
    for axis, extent in enumerate(value.type.shape):
        if int(extent) < len(shares) or not _divides_weights(value, axis):
            continue
        made = replace(empty, made={}, held={})
        edges = cuts_of(int(extent), shares)
        pieces = [made.part(value, Span(axis, a, b)) for a, b in pairwise(edges)]
        if any(n.is_const and n.type.rank > 1 for n, _ in made.made):  # otherwise each worker would keep all weights
            yield Cut(value, "gather", tuple(pieces), axis, made.divided, made)
