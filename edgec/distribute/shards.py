"""Shards of a value: the slice of one of its dimensions, or a part of its sums, and the graph that computes only that.

One rule serves all operators, and their formulas are its only source: a sharding is a part of a loop. An independent
loop splits without communication, and what the formula loads of each operand is a slice of it or all of it. Of a
reduced loop every part gives partial sums, which are to be added.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from math import prod

from edgec.distribute.rows import Indivisible, Span, attributes_of, cut
from edgec.errors import ModelError
from edgec.fuse.classify import flops
from edgec.ir import expr as X
from edgec.ir.graph import Formula, Node, constant, placeholder, topological
from edgec.ir.index import bounds
from edgec.ir.loads import replace_loads
from edgec.ir.memory import remembered
from edgec.ir.types import Type
from edgec.ops import formula, graphs, is_procedure, node


@remembered(100_000)
def needs(value: Node, span: Span) -> tuple[Span | None, ...]:
    """The need of a slice of a value, for each operand: a slice of it, or None for all of it.

    Raises Indivisible where a slice of several dimensions at once would be needed.
    """
    derived = _formula(value)
    loop = derived.variables[span.axis]
    if loop.op != "var":
        raise Indivisible(f"'{value.op}' has one element there")
    part = X.var("part", span.rows) + span.begin if span.rows > 1 else X.const(span.begin)
    found: list[dict[int, tuple[int, int]]] = [{} for _ in value.args]
    for load in X.loads(derived.body):
        for axis, index in enumerate(load.args):
            if loop not in X.free_variables(index):
                continue
            low, high = (int(b) for b in bounds(X.substitute(index, {loop: part})))
            before = found[load.value].get(axis, (low, high))
            found[load.value][axis] = (min(low, before[0]), max(high, before[1]))
    return tuple(_span(operand, ranges) for operand, ranges in zip(value.args, found))


def _span(operand: Node, ranges: dict[int, tuple[int, int]]) -> Span | None:
    cut = [
        Span(axis, max(low, 0), min(high + 1, operand.type.shape[axis]))
        for axis, (low, high) in ranges.items()
        if low > 0 or high + 1 < operand.type.shape[axis]
    ]
    if len(cut) > 1:
        raise Indivisible("a slice of several dimensions at once")
    return cut[0] if cut else None


def _formula(value: Node) -> Formula:
    if is_procedure(value.op):
        raise Indivisible(f"'{value.op}' is an algorithm, and not a formula that can be divided")
    return formula(value)


@dataclass
class Shards:
    """Slices of nodes of one graph, each computed once. What is needed whole stays a node of that graph.

    Of ``states`` each worker holds its slice, which ``held`` has by the input that it is.
    """

    made: dict[tuple[Node, Span], Node] = field(default_factory=dict)
    states: frozenset[Node] = frozenset()
    held: dict[Node, tuple[Node, Span]] = field(default_factory=dict)

    @property
    def divided(self) -> frozenset[tuple[Node, int]]:
        """The nodes that are computed in slices, with the dimension."""
        return frozenset((n, s.axis) for (n, s), made in self.made.items() if made.op != "slice" or n.op == "slice")

    def part(self, n: Node, span: Span | None) -> Node:
        """The node that is a slice of ``n``; a slice of all of it, where its formula cannot be divided."""
        if span is None or (span.begin == 0 and span.end == n.type.shape[span.axis]):
            return n
        if (n, span) not in self.made:
            try:
                self.made[n, span] = self._divided(n, span)
            except Indivisible:
                self.made[n, span] = _slice(n, span)
        return self.made[n, span]

    def _divided(self, n: Node, span: Span) -> Node:
        if n.is_const:
            return constant(cut(n, span))
        if n in self.states:
            return self._held(n, span)
        if n.op == "input":
            raise Indivisible("an input is there as a whole")
        wanted = needs(n, span)
        operands = [self.part(a, w) for a, w in zip(n.args, wanted)]
        try:
            found = node(n.op, *operands, **_attributes(n, span, wanted))
        except ModelError as error:
            raise Indivisible(f"a slice of '{n.op}': {error.message}") from None
        if not _is_slice(n, span, wanted, found):
            raise Indivisible(f"a slice of '{n.op}' depends on where it stands")
        return found

    def _held(self, n: Node, span: Span) -> Node:
        """The input for a worker's slice of a state."""
        shape = tuple(span.rows if d == span.axis else e for d, e in enumerate(n.type.shape))
        name = f"{n.attributes['name']} {span.axis} {span.begin} {span.end}"
        found = placeholder(name, Type(n.type.dtype, shape))
        self.held[found] = n, span
        return found

    def sums(self, n: Node, begin: float, end: float, unit: int) -> Node:
        """The part of the sums of a product whose terms lie in a share (0 to 1) of its reduced loop.

        The loop is cut at multiples of ``unit``. Raises Indivisible where there is no such loop, or no such multiple.
        """
        axes, extent = reduced(n)
        if extent % unit:
            raise Indivisible(f"{extent} terms are not a multiple of {unit}")
        first, last = (round(share * (extent // unit)) * unit for share in (begin, end))
        if first >= last:
            raise Indivisible(f"{extent // unit} pieces are too few")
        parts = [a if d is None else self.part(a, Span(d, first, last)) for a, d in zip(n.args, axes)]
        return node(n.op, *parts, **n.attributes)


@remembered(20_000)
def reduced(n: Node) -> tuple[tuple[int | None, ...], int]:
    """The dimension of each operand that the longest reduced loop of a sum walks along, and its extent.

    Raises Indivisible where no loop adds up terms, each of one position of an operand.
    """
    body = _formula(n).body
    if body.op != "reduce" or body.value[0] != "add" or n.op == "reduce":
        raise Indivisible(f"'{n.op}' adds nothing up")
    best: tuple[tuple[int | None, ...], int] | None = None
    terms = body.args[0]
    own = {v for v in X.free_variables(terms) if v not in formula(n).variables}
    rest = replace_loads(terms, lambda slot, place: X.const(0, n.args[slot].type.dtype))
    for loop in own - set(X.free_variables(rest)):
        axes: list[set[int]] = [set() for _ in n.args]
        plain = True
        for load in X.loads(terms):
            for axis, index in enumerate(load.args):
                if loop in X.free_variables(index):
                    axes[load.value].add(axis)
                    plain = plain and index is loop
        if not plain or any(len(a) != 1 for a in axes):
            continue
        places = tuple(next(iter(a)) for a in axes)
        extents = {int(a.type.shape[d]) for a, d in zip(n.args, places)}
        if len(extents) == 1 and (best is None or max(extents) > best[1]):
            best = places, max(extents)
    if best is None:
        raise Indivisible(f"no loop of '{n.op}' adds up what can be divided")
    return best


def _slice(n: Node, span: Span) -> Node:
    starts = [span.begin if d == span.axis else 0 for d in range(n.type.rank)]
    return graphs.part(n, starts, [span.rows if d == span.axis else int(e) for d, e in enumerate(n.type.shape)])


def _attributes(n: Node, span: Span, wanted: tuple[Span | None, ...]) -> dict[str, object]:
    """Those of rows, and the groups of a convolution of which some channels are computed."""
    found = attributes_of(n, span, wanted)
    if found.get("groups", 1) != 1 and span.axis == 1:
        groups, rest = divmod(found["groups"] * span.rows, int(n.type.shape[1]))
        if rest == 0 and groups:
            found["groups"] = groups
    return found


def _is_slice(n: Node, span: Span, wanted: Sequence[Span | None], found: Node) -> bool:
    """Is the formula of ``found`` that of ``n``, moved to where the slices of its operands begin?"""
    shape = (*n.type.shape[: span.axis], span.rows, *n.type.shape[span.axis + 1 :])
    if tuple(found.type.shape) != tuple(shape) or found.type.dtype != n.type.dtype:
        return False
    whole, part = formula(n), formula(found)
    there = X.substitute(whole.body, {whole.variables[span.axis]: part.variables[span.axis] + span.begin})

    def moved(slot: int, place: tuple[X.Expr, ...]) -> X.Expr:
        own = wanted[slot]
        if own is not None:
            place = (*place[: own.axis], place[own.axis] - own.begin, *place[own.axis + 1 :])
        return X.load(slot, place, n.args[slot].type.dtype)

    return replace_loads(there, moved) is part.body


def work(result: Node, known: Collection[Node]) -> tuple[int, int]:
    """Operations and bytes of constants of a node, from the nodes in ``known``, which are there."""
    operations = size = 0
    for n in topological([result], known=known):
        if n.is_const:
            size += n.type.bytes
        elif n.op != "input":
            operations += _operations(n)
    return operations, size


@remembered(100_000)
def _operations(n: Node) -> int:
    return int(flops(formula(n))) if not is_procedure(n.op) else prod(map(int, n.type.shape))
