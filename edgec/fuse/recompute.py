"""Values of the forward pass that the backward pass computes again, so that they are not kept in between.

A gradient reads values of the forward pass: the operand of a convolution for the gradient of its weights, a sum for the
mask of its ReLU. A value that follows from others that are kept anyway in a few steps is computed again just before it
is read (Chen et al., 2016): with ``CHEAP`` element by element, with ``WIDE`` also through convolutions of few terms
that make more of what they read, as those do that widen an inverted bottleneck, with ``ALL`` through windows and
matmuls too.

What is compared for equality is kept: the gradient of a maximum goes to the element that equals it, and a kernel of
another shape may round the same formula to its neighbor.

Equal nodes are one, so that what is computed again reads the values that are kept through broadcasts to their own
shape: an index in the kernel that reads it, and no work.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod

from edgec import ops
from edgec.fuse.one_pass import LONGEST, again, within_rows
from edgec.ir.functions import FUNCTIONS
from edgec.ir.graph import Graph, Node, rewrite, topological

_MOVED = ("reshape", "transpose", "broadcast", "cast", "pad", "slice")
CHEAP = frozenset((*FUNCTIONS, *_MOVED, "random"))
WIDE = CHEAP | {"conv"}
ALL = CHEAP | {"conv", "pool", "concat", "reduce", "matmul"}
#: Values smaller than this are kept: they take no memory to speak of.
LEAST_BYTES = 1024
#: A value that takes this many times less than another is small beside it.
SMALL = 8
#: Terms up to which a convolution is computed again where its result is no smaller than what it reads, and where it is
#: ``WIDER`` times as large.
FEW, MANY, WIDER = 16, 64, 2
#: Broadcasts that stand for another computation of a value: those of rows (`one_pass`) have fewer.
COPIES = 3


@dataclass(frozen=True)
class Recomputing:
    """Bounds of computing again: the operators, and the most of them for a value, beside those within its row."""

    operators: frozenset[str] = CHEAP
    longest: int = 8


def recomputed(graph: Graph, results: Iterable[Node], limits: Recomputing) -> Graph:
    """The graph with values on the way to ``results`` computed again where others read them; the same graph where
    nothing is."""
    results = set(results)
    way = list(topological(results))
    forward = {n for n in way if n.op not in ("input", "const")}
    rows = within_rows(graph.users(), way, results)
    order = graph.nodes()
    read = {a for n in order if n not in forward for a in n.args if a in forward}
    kept, compared = set(read), _compared(order)
    made: dict[Node, Node] = {}
    copies: dict[Node, Node] = {}
    for value in (n for n in order if n in read - compared - results and n.type.bytes >= LEAST_BYTES):
        chain = _chain(value, kept, forward, rows, limits)
        if chain is None:
            continue
        kept.discard(value)
        for n in chain:
            args = [copies[a] if a in chain else again(a, COPIES) if a in forward else a for a in n.args]
            if args and not forward.intersection(n.args):
                args[0] = again(args[0], COPIES)
            copies[n] = ops.node(n.op, *args, **n.attributes)
        made[value] = copies[value]
    if not made:
        return graph
    origin = {**graph.origin, **{new: graph.names(old) for old, new in copies.items() if graph.names(old)}}

    def change(n: Node, args: tuple[Node, ...]) -> Node:
        if n in forward or n.op in ("input", "const"):
            return n
        args = tuple(made.get(old, new) for old, new in zip(n.args, args))
        return n if args == n.args else ops.node(n.op, *args, **n.attributes)

    changed = rewrite(graph, change)
    return replace(changed, origin={**origin, **changed.origin})


def _compared(order: Sequence[Node]) -> set[Node]:
    """Values that are compared for equality with others that are computed, wherever they are moved in between."""
    found: set[Node] = set()
    for n in reversed(order):
        if (n.op == "eq" and not any(a.is_const for a in n.args)) or (n in found and n.op in _MOVED):
            found.update(n.args)
    return found


def _chain(value: Node, kept: set[Node], forward: set[Node], rows: set[Node], limits: Recomputing) -> list[Node] | None:
    """The nodes that compute a value from what is kept, in order; None where they are too many or of other kinds.

    What is small beside the value is kept, too, but what lies within a kernel of ``rows`` is computed there.
    """

    def is_small(n: Node) -> bool:
        return n not in rows and n.type.bytes * SMALL <= value.type.bytes

    inside, stack, alone, within = {value}, [value], 0, 0
    while stack:
        n = stack.pop()
        if n in rows:
            within += 1
        elif n.op in limits.operators:
            alone += 1
        else:
            return None
        if alone > limits.longest or within > LONGEST:
            return None
        for a in n.args:
            if a in forward and a not in inside and a not in kept and not is_small(a):
                inside.add(a)
                stack.append(a)
    around = {a for n in inside for a in n.args} - inside
    if limits.operators == WIDE:
        sources = {a for a in around if a in forward and not is_small(a)}
        terms = max((prod(n.args[1].type.shape[1:]) for n in inside if n.op == "conv"), default=0)
        wider = 0 if not terms else 1 if terms <= FEW else WIDER
        if terms > MANY or wider * sum(s.type.bytes for s in sources) > value.type.bytes:
            return None
    return list(topological([value], known=around))
