"""Shardings of the blocks of a network: the piece of every worker, and what it needs of the blocks before it.

A block is a value that a plan keeps in memory, with all that is fused into it. It is computed by one worker, by all of
them, or shared: in slices of a dimension, or as partial sums. Slices that readers need are tried too, so that heads are
cut between heads, and halos are computed twice instead of sent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from edgec.distribute.consecutive import Chain
from edgec.distribute.cuts import sums_of
from edgec.distribute.row_split import cuts_of
from edgec.distribute.rows import Span
from edgec.distribute.shards import Shards, work
from edgec.ir.graph import Node, placeholder, topological
from edgec.ir.types import Type

#: Slices of one value that are tried.
MOST_SLICES = 6
#: The part of a block's time that a slice may take at most, to be worth trying.
WORTH = 0.95


@dataclass
class Pieces(Shards):
    """Slices of the nodes of one block: of what it begins with, they are placeholders."""

    operands: frozenset[Node] = frozenset()
    taken: dict[Node, tuple[Node, Span]] = field(default_factory=dict)

    def _divided(self, n: Node, span: Span) -> Node:
        if n not in self.operands:
            return super()._divided(n, span)
        shape = tuple(span.rows if d == span.axis else e for d, e in enumerate(n.type.shape))
        name = f"{n.key} {span.axis} {span.begin} {span.end}"
        found = placeholder(name, Type(n.type.dtype, shape))
        self.taken[found] = n, span
        return found


@dataclass(frozen=True)
class Piece:
    """A worker's part of a block: a node from leaves, each of which is a value before it or a slice of that.

    ``states`` are inputs that the worker holds: each with the state that it is a slice of, or all of (None).
    """

    node: Node
    leaves: dict[Node, tuple[Node, Span | None]]
    seconds: float
    weights: int
    states: Mapping[Node, tuple[Node, Span | None]]


@dataclass(frozen=True)
class Shared:
    """A sharding of a block: one, all, slices or sums, with a piece of each worker (None: it has none of it).

    ``spans`` are those of the slices.
    """

    kind: str
    pieces: tuple[Piece | None, ...]
    spans: tuple[Span, ...] = ()

    @property
    def givers(self) -> list[int]:
        """The workers that give the value to the coordinator, in order."""
        there = [w for w, p in enumerate(self.pieces) if p is not None]
        return there[:1] if self.kind == "all" else there

    def has(self, worker: int, needed: Span | None) -> bool:
        """Does a worker have a slice of the value, or all of it (None)?"""
        if self.pieces[worker] is None or self.kind == "sums":
            return False
        if self.kind != "slices":
            return True
        own = self.spans[worker]
        return needed is not None and needed.axis == own.axis and own.begin <= needed.begin and needed.end <= own.end


def shardings(chain: Chain, is_spread: bool) -> list[list[Shared]]:
    """The ways to compute every value of a chain, in order; views that take no time are values too.

    What one worker computes alone is the fastest one's, unless it ``is_spread``, for memory.
    """
    seconds = [sum(s) for s in chain.seconds]
    alone = range(len(seconds)) if is_spread else [seconds.index(min(seconds))]
    shares = [1 / max(s, 1e-9) for s in seconds]
    asked: dict[Node, dict[tuple[Span, ...], None]] = {v: {} for v in chain.values}
    found: list[list[Shared]] = []
    for k in reversed(range(len(chain.values))):
        value = chain.values[k]
        own = [s[k] for s in chain.seconds]
        ways = [*_by_one(chain, value, own, alone), *_in_slices(chain, value, own, shares, asked[value])]
        ways.extend(_as_sums(chain, value, own, shares))
        ways = [way for way in ways if _holds(chain, value, way)]
        for way in ways:
            for operand, spans in _needed(way).items():
                if operand in asked:
                    asked[operand].setdefault(spans)
        found.append(ways)
    return found[::-1]


def _holds(chain: Chain, value: Node, way: Shared) -> bool:
    """Does every worker compute the next values of those elements of states that it reads?"""
    if not chain.states[value]:
        return True
    own = [*way.spans] if way.kind == "slices" else [None] * len(way.pieces)
    return way.kind != "sums" and all(
        chain.held.renewed[old] is value and span == mine
        for piece, mine in zip(way.pieces, own)
        if piece is not None
        for old, span in piece.states.values()
    )


def _needed(way: Shared) -> dict[Node, tuple[Span, ...]]:
    """Operands of which every worker needs a slice, with these."""
    found: dict[Node, list[Span]] = {}
    for piece in way.pieces:
        for operand, span in piece.leaves.values() if piece is not None else ():
            if span is not None:
                found.setdefault(operand, []).append(span)
    return {n: tuple(spans) for n, spans in found.items() if len(spans) == len(way.pieces)}


def _begun(chain: Chain, value: Node, whole: bool = False) -> Pieces:
    """Pieces of a value, of which none is made yet; of a ``whole`` one, no operand is taken in slices."""
    operands = frozenset() if whole else frozenset(chain.operands[value])
    return Pieces(states=frozenset(chain.states[value]), operands=operands)


def _by_one(chain: Chain, value: Node, seconds: Sequence[float], alone: Sequence[int]) -> Iterator[Shared]:
    """All of it on one worker, of those that compute ``alone``, or on every one."""
    whole = [_piece(chain, value, value, _begun(chain, value, whole=True), s) for s in seconds]
    for worker in alone:
        yield Shared("one", tuple(p if w == worker else None for w, p in enumerate(whole)))
    yield Shared("all", tuple(whole))


def _in_slices(
    chain: Chain, value: Node, seconds: Sequence[float], shares: Sequence[float], asked: Collection[tuple[Span, ...]]
) -> Iterator[Shared]:
    tried: dict[tuple[Span, ...], None] = {}
    for axis, extent in enumerate(value.type.shape):
        if int(extent) >= len(shares):
            tried.setdefault(tuple(Span(axis, a, b) for a, b in pairwise(cuts_of(int(extent), shares))))
    for spans in asked:
        if len({s.axis for s in spans}) == 1:
            tried.setdefault(_filled(spans, int(value.type.shape[spans[0].axis])))
    given = 0
    for spans in tried:
        made = _begun(chain, value)
        pieces = [_piece(chain, value, made.part(value, s), made, own) for s, own in zip(spans, seconds)]
        if given < MOST_SLICES and all(p.seconds <= WORTH * own for p, own in zip(pieces, seconds)):
            given += 1
            yield Shared("slices", tuple(pieces), spans)


def _filled(spans: Sequence[Span], extent: int) -> tuple[Span, ...]:
    """Slices that cover these, and together all of a dimension: a stride may leave some positions out."""
    begins, ends = [0, *(s.begin for s in spans[1:])], [*(s.end for s in spans[:-1]), extent]
    begins = [min(b, *ends[:k]) if k else b for k, b in enumerate(begins)]
    return tuple(Span(spans[0].axis, b, e) for b, e in zip(begins, ends))


def _as_sums(chain: Chain, value: Node, seconds: Sequence[float], shares: Sequence[float]) -> Iterator[Shared]:
    operands = frozenset(chain.operands[value])
    inside = {*topological([value], known=operands), *operands}
    for made, nodes in sums_of(value, operands, shares, lambda: _begun(chain, value)):
        assert isinstance(made, Pieces)
        there = topological((n for n in nodes if n is not None), known=operands)
        # a bias alone is no reason to divide what was there before the block
        if all(n in inside for n, _ in made.made) and all(n.op != "input" or n in made.taken for n in there):
            pieces = [_piece(chain, value, n, made, s) if n is not None else None for n, s in zip(nodes, seconds)]
            yield Shared("sums", tuple(pieces))


def _piece(chain: Chain, value: Node, n: Node, made: Pieces, seconds: float) -> Piece:
    """A piece with its share of the block's seconds: that of its operations, or of its bytes where there are none."""
    operands = frozenset(chain.operands[value])
    whole, _ = work(value, operands)
    own, weights = work(n, operands)
    share = own / whole if whole else n.type.bytes / max(value.type.bytes, 1)
    if n in made.taken or n in operands:
        leaves = [n]
    else:
        leaves = [m for m in topological([n], known=operands) if m in made.taken]
        leaves += [a for a in chain.operands[value] if a in _arguments(n, operands)]
    inside = {n, *topological([n], known=operands)}
    held = {m: made.held.get(m, (m, None)) for m in inside if m in made.held or m in made.states}
    weights += sum(m.type.bytes for m in held)
    return Piece(n, {m: made.taken.get(m, (m, None)) for m in leaves}, min(share, 1.0) * seconds, weights, held)


def _arguments(n: Node, operands: frozenset[Node]) -> set[Node]:
    """All nodes that those of a piece read."""
    return {a for m in topological([n], known=operands) for a in m.args}
