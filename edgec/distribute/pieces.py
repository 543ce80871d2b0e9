"""Shardings of a value for ranks that run one program: all of it on each, equal slices, or sums of equal shares.

Every rank computes its piece by the same operators on the same shapes, and nothing but weights depends on the rank. So
slices are equal in length, and what a piece needs of another value is all of it, or the rank's own slice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from edgec.distribute.blocks import Pieces
from edgec.distribute.rows import Indivisible, Span
from edgec.distribute.shards import reduced, work
from edgec.errors import ModelError
from edgec.ir.graph import Node, placeholder, topological
from edgec.ir.types import Type
from edgec.ops import node

#: The kinds of division that one sweep chooses from.
SPLITS = ("auto", "tensor", "rows")


@dataclass
class Equal(Pieces):
    """Slices of the nodes of one block. Where a slice would have to be cut out of a whole value, there is none."""

    def part(self, n: Node, span: Span | None) -> Node:
        if span is None or (span.begin == 0 and span.end == n.type.shape[span.axis]):
            return n
        if (n, span) not in self.made:
            self.made[n, span] = self._divided(n, span)
        return self.made[n, span]


@dataclass
class Sketch(Equal):
    """The same with placeholders for slices of weights, which are cut once a sharding is chosen."""

    weights: dict[Node, tuple[Node, Span]] = field(default_factory=dict)

    def _divided(self, n: Node, span: Span) -> Node:
        if not n.is_const or n in self.operands:
            return super()._divided(n, span)
        shape = tuple(span.rows if d == span.axis else e for d, e in enumerate(n.type.shape))
        found = placeholder(f"{n.key} {span.axis} {span.begin} {span.end}", Type(n.type.dtype, shape))
        self.weights[found] = n, span
        return found


@dataclass(frozen=True)
class Sharding:
    """One way to compute a value: ``kind`` is all, slices (of ``axis``) or sums.

    ``needs`` are the values it is made of, each with the dimension of which a rank has its slice, or None for all of
    it. ``share`` is the part of the value's work that a rank does.
    """

    kind: str
    axis: int | None
    needs: tuple[tuple[Node, int | None], ...]
    share: float


def own(extent: int, axis: int, rank: int, ranks: int) -> Span:
    """The slice of a rank. Raises Indivisible where slices would not be equal."""
    if extent % ranks:
        raise Indivisible(f"{extent} positions of dimension {axis} are not a multiple of {ranks}")
    each = extent // ranks
    return Span(axis, rank * each, (rank + 1) * each)


def shardings(value: Node, operands: Sequence[Node], ranks: int, split: str) -> Iterator[Sharding]:
    """The ways to compute a value from the values before it; all of it on every rank is the first.

    ``split`` restricts those of products by weights: with tensor, each rank has its part of the weights, with rows
    each has all of them.
    """
    yield Sharding("all", None, tuple((n, None) for n in operands), 1.0)
    tried: list[tuple[str, int | None]] = [("slices", axis) for axis in range(value.type.rank)]
    for kind, axis in [*tried, ("sums", None)]:
        try:
            pieces = [_sketched(value, operands, kind, axis, rank, ranks) for rank in range(ranks)]
        except (Indivisible, ModelError):
            continue
        if any(p != pieces[0] for p in pieces):
            continue  # the ranks would need different code
        _, needs, share, cuts_weights, keeps_weights = pieces[0]
        refused = {"tensor": keeps_weights and kind == "slices", "rows": cuts_weights}
        if not refused.get(split, False):
            yield Sharding(kind, axis, needs, share)


#: The form of a piece, which is to be that of all ranks; its needs, its share of the work, and whether products in it
#: have a part of their weights, and all of them.
_Sketched = tuple[tuple[object, ...], tuple[tuple[Node, "int | None"], ...], float, bool, bool]


def _sketched(value: Node, operands: Sequence[Node], kind: str, axis: int | None, rank: int, ranks: int) -> _Sketched:
    made = Sketch(operands=frozenset(operands))
    root = _piece(value, kind, axis, rank, ranks, made)
    needs: dict[tuple[Node, int | None], None] = {}
    places: dict[Node, int] = {}
    form: list[object] = []
    inside = list(topological([root], known=made.operands))
    for n in inside:
        places[n] = len(places)
        if n in made.taken:
            whole, span = made.taken[n]
            if span != own(int(whole.type.shape[span.axis]), span.axis, rank, ranks):
                raise Indivisible("a slice that another rank has")
            needs[whole, span.axis] = None
            form.append((whole.key, span.axis))
        elif n in made.weights:
            form.append((made.weights[n][0].key, made.weights[n][1].axis))
        elif n.is_const:
            form.append(n.key)
        else:
            arguments = tuple(places.get(a, a.key) for a in n.args)
            form.append((n.op, n.attrs, n.type, arguments))
    read = {a for n in inside for a in n.args} | {root}
    needs |= {(n, None): None for n in operands if n in read}
    total, _ = work(value, made.operands)
    mine, _ = work(root, made.operands)
    share = mine / total if total else root.type.bytes / max(value.type.bytes, 1)
    factors = [a for n in inside if _is_product(n) for a in n.args]
    cuts = any(_is_cut(a, made) for a in factors)
    keeps = any(a.is_const and a.type.rank > 1 for a in factors)
    return tuple(form), tuple(needs), share, cuts, keeps


def _is_cut(n: Node, made: Sketch) -> bool:
    return any(a in made.weights and a.type.rank > 1 for a in topological([n], known=made.operands))


def _is_product(n: Node) -> bool:
    try:
        return n.op not in ("input", "const") and reduced(n)[1] > 1
    except Indivisible:
        return False


def is_product(n: Node) -> bool:
    """Does it add up products with weights, so that ranks may share its terms?"""
    return any(a.is_const for a in n.args) and _is_product(n)


def _piece(value: Node, kind: str, axis: int | None, rank: int, ranks: int, made: Equal) -> Node:
    if axis is not None:
        return made.part(value, own(int(value.type.shape[axis]), axis, rank, ranks))
    if kind == "all":
        return value
    if not is_product(value):
        raise Indivisible("adds nothing up")
    axes, extent = reduced(value)
    span = own(extent, 0, rank, ranks)
    parts = [a if d is None else made.part(a, Span(d, span.begin, span.end)) for a, d in zip(value.args, axes)]
    return node(value.op, *parts, **value.attributes)


@dataclass(frozen=True)
class Made:
    """The piece of a rank, its weights cut: the node, and the placeholders in it of slices of other values.

    ``origin`` are the whole values of which nodes in it are slices.
    """

    node: Node
    taken: dict[Node, tuple[Node, Span]]
    origin: dict[Node, Node]


def piece(value: Node, operands: Sequence[Node], chosen: Sharding, rank: int, ranks: int) -> Made:
    """The piece of a value that a rank computes."""
    made = Equal(operands=frozenset(operands))
    found = _piece(value, chosen.kind, chosen.axis, rank, ranks, made)
    return Made(found, made.taken, {found: value, **{part: n for (n, _), part in made.made.items()}})


def sliced(type: Type, axis: int, ranks: int) -> Type:
    """The type of a rank's slice."""
    return Type(type.dtype, tuple(int(e) // ranks if d == axis else e for d, e in enumerate(type.shape)))
