"""Parts of a network stripe by stripe, so that their large values are never stored in memory as a whole.

Convolutions, pools and what lies between them make a row of their result from a few rows of their operands. So a value
that everything passes through can be made some rows at a time, each stripe from its own rows of the inputs: what is in
memory then is a stripe of every value, and the whole of the one they end in. Rows that two stripes need are computed
twice; that is the price, and it is paid where memory asks for it alone (patch-based inference: Lin et al., MCUNetV2,
2021). It is an ordinary graph: slices, the same operators on fewer rows, and a concatenation, whose parts are written
where they belong.

A training step has two such parts. Its head stores beside the value that it ends in what the backward pass reads of the
values before, as bits of masks. Its tail begins with the gradient of a value and ends in gradients of weights, which
are sums over rows: those of the stripes are added up.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from edgec import ops
from edgec.fuse.stripe_rows import ROWS, Rows, needed, on_rows, part, sliced, summed, total
from edgec.ir.functions import FUNCTIONS
from edgec.ir.graph import Graph, Node, rewrite, topological
from edgec.rewrite.facts import is_static

#: Operators that compute a value that stripes need as a whole.
LIGHT = frozenset((*FUNCTIONS, "input", "const", "reshape", "transpose", "broadcast", "cast", "slice"))
Users = Mapping[Node, Sequence[Node]]


@dataclass(frozen=True)
class Region:
    """Values that are computed in stripes: up to those that are ``placed``, whose rows lie along a dimension each and
    are stored one stripe after the other, and to sums over rows, to which each stripe is ``added``.

    Values that are ``given`` are in memory before; ``cut`` is where it ends, or begins.
    """

    cut: Node
    placed: tuple[tuple[Node, int], ...] = ()
    added: tuple[Node, ...] = ()
    given: frozenset[Node] = frozenset()

    def stripe(self, k: int, count: int) -> dict[Node, Rows] | None:
        """The rows of every node that stripe ``k`` of ``count`` is made from; None where it cannot be."""
        wanted: dict[Node, Rows] = {}
        for node, dim in self.placed:
            if node.type.shape[dim] < count:
                return None
            wanted[node] = part(node, dim, k, count)
        for node in self.added:
            for operand, rows in zip(node.args, summed(node, k, count) or ()):
                if rows is None or rows.first >= rows.end or not _with(wanted, operand, rows):
                    return None
        return _walked(wanted, self.given)


def head_of(cut: Node) -> Region:
    """All that one value is computed from."""
    return Region(cut, ((cut, ROWS),))


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


def heads(graph: Graph, standing: Sequence[Node], loss: Node | None = None) -> Iterator[Region]:
    """Regions that end in a value that everything before it passes through, but for what stands of it beside; of a step
    before the ``loss``."""
    users, results, stand = graph.users(), {n for _, n in (*graph.outputs, *graph.demands)}, set(standing)
    for cut in standing[: None if loss is None else standing.index(loss)]:
        if cut in results or cut.type.rank <= ROWS or not cut.type.is_fixed:
            continue
        inside = head_of(cut).stripe(0, 1)
        if inside is None:
            continue
        placed = [(cut, ROWS)]
        for side in _beside(inside, cut, users, stand):
            dim = _dim_of(side, inside, cut)
            if dim is None:
                break
            placed.append((side, dim))
        else:
            region = Region(cut, tuple(placed))
            if _is_closed(region, users, results):
                yield region


def _beside(inside: Mapping[Node, Rows], cut: Node, users: Users, stand: set[Node]) -> list[Node]:
    """The values in memory that others read of what is computed from the inside of a region."""
    stack = [u for n in inside if n is not cut and n.op not in ("input", "const") for u in users[n] if u not in inside]
    found: dict[Node, None] = {}
    seen = set(stack)
    while stack:
        n = stack.pop()
        if n in stand:
            found[n] = None
            continue
        further = [u for u in users[n] if u not in seen]
        seen.update(further)
        stack += further
    return list(found)


def _dim_of(side: Node, inside: Mapping[Node, Rows], cut: Node) -> int | None:
    """The dimension along which rows of a value lie that follows from the inside of a region; None where there is
    none."""
    for dim in range(side.type.rank if side.type.is_fixed else 0):
        if side.type.shape[dim] == 1:
            continue
        own = _walked({side: part(side, dim, 0, 1)}, frozenset(inside))
        if own is not None and cut not in own and all(own[n].dim == inside[n].dim for n in own.keys() & inside.keys()):
            return dim
    return None


def _is_closed(region: Region, users: Users, results: set[Node]) -> bool:
    """Is all that is computed in a region read there alone, but for what is stored or summed up?"""
    inside = region.stripe(0, 1)
    if inside is None:
        return False
    ends = {*(n for n, _ in region.placed), *region.added}
    computed = {n for n in inside if n.op not in ("input", "const") and n not in region.given} - ends
    return computed.isdisjoint(results) and all(u in inside or u in ends for n in computed for u in users[n])


def tails(graph: Graph, standing: Sequence[Node], loss: Node) -> Iterator[Region]:
    """Regions between a value behind the loss and sums over rows, in which all that follows from it ends."""
    users, results = graph.users(), {n for _, n in (*graph.outputs, *graph.demands)}
    order, begin = graph.nodes(), standing.index(loss)
    for k, cut in enumerate(standing[begin + 1 :], begin + 1):
        if cut in results or cut.type.rank <= ROWS or not cut.type.is_fixed:
            continue
        after, within, ends = {cut}, {cut}, []
        for n in order:
            if after.isdisjoint(n.args):
                continue
            after.add(n)
            if within.isdisjoint(n.args):
                continue
            if summed(n, 0, 1) is None or (n.op == "conv" and n.args[1] not in within):
                within.add(n)
            elif within.intersection(n.args) != {cut}:
                ends.append(n)
        if not ends or any(u not in within and u not in ends for n in within - {cut} for u in users[n]):
            continue
        given = frozenset(standing[: k + 1])
        region = Region(cut, (), tuple(ends), given)
        inside = region.stripe(0, 1)
        if inside is not None and within <= {*inside} and within.isdisjoint(results):
            yield region


def in_stripes(graph: Graph, region: Region, count: int) -> Graph:
    """The graph with a region computed in ``count`` stripes."""
    origin, order = dict(graph.origin), graph.nodes()
    parts: dict[Node, list[Node]] = {n: [] for n in (*dict(region.placed), *region.added)}
    for k in range(count):
        wanted = region.stripe(k, count)
        assert wanted is not None, "these stripes were not offered"
        made = _made(order, wanted, region.given)
        for old, new in made.items():
            origin[new] = tuple(dict.fromkeys((*origin.get(new, ()), *graph.names(old))))
        for node, dim in region.placed:
            parts[node].append(sliced(made[node], part(node, dim, k, count), wanted[node].first))
        for node in region.added:
            terms = zip(node.args, summed(node, k, count) or ())
            args = [a if r is None else sliced(made[a], r, wanted[a].first) for a, r in terms]
            parts[node].append(ops.node(node.op, *args, **node.attributes))
    whole = {node: ops.node("concat", *parts[node], axis=dim) for node, dim in region.placed}
    whole |= {node: total(parts[node]) for node in region.added}

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        if old in whole:
            return whole[old]
        return old if args == old.args else ops.node(old.op, *args, **old.attributes)

    changed = rewrite(graph, change)
    return replace(changed, origin={**origin, **changed.origin})


def _with(wanted: dict[Node, Rows], node: Node, rows: Rows) -> bool:
    """Adds rows of a node to those that are wanted; tells whether all lie along one dimension."""
    known = wanted.setdefault(node, rows)
    wanted[node] = known.hull(rows)
    return known.dim == rows.dim


def _walked(wanted: Mapping[Node, Rows], given: Collection[Node]) -> dict[Node, Rows] | None:
    """The rows of all nodes that rows which are wanted are made from, back to what is given; None where something is
    needed as a whole."""
    wanted = dict(wanted)
    for node in reversed(list(topological(wanted, known=given))):
        if node not in wanted or node.op in ("input", "const"):
            continue
        found = needed(node, wanted[node])
        if found is None:
            return None
        for operand, rows in zip(node.args, found):
            if rows is None:
                if not all(is_static(n) or n.op in LIGHT for n in topological([operand], known=given)):
                    return None
            elif not _with(wanted, operand, rows):
                return None
    return wanted


def _made(order: Sequence[Node], wanted: Mapping[Node, Rows], given: Collection[Node]) -> dict[Node, Node]:
    """By the node whose rows they are, the nodes that make the rows that are wanted."""
    made: dict[Node, Node] = {}
    for node in order:
        if node not in wanted:
            continue
        if node.op in ("input", "const") or node in given:
            made[node] = sliced(node, wanted[node], 0)
            continue
        found = needed(node, wanted[node])
        assert found is not None
        args = [a if r is None else sliced(made[a], r, wanted[a].first) for a, r in zip(node.args, found)]
        made[node] = on_rows(node, args, wanted[node])
    return made
