"""Rows that both directions of a step work on: each direction computes their statistics for itself.

A normalization, a softmax or a cross-entropy is one kernel, in which the maximum, the mean or the sum of a row is a
number that passes over the row in cache share. Planned together with the gradients, which read the same numbers, none
of these kernels could be one: their values would have readers that do not come together again, and would be stored in
between. So the backward pass computes what lies within such a kernel again, from the row as it is stored in any case:
a pass over a row in cache more, and neither statistics nor rows beside it in memory.

Sums across rows, such as the gradient of a normalization's weights, are no part of a row's kernel. What they add up is
computed in a kernel of rows of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from edgec import ops
from edgec.ir.functions import FUNCTIONS
from edgec.ir.graph import Graph, Node, rewrite, topological

#: Operators within the kernel of a row, beside reductions of it.
WITHIN = frozenset((*FUNCTIONS, "reshape", "broadcast", "cast"))
#: Most operators that are computed again for one value.
LONGEST = 24


def in_one_pass(graph: Graph, results: Iterable[Node]) -> Graph:
    """The graph in which what follows from rows on the way to ``results`` is computed again where others read it; the
    same graph where there are no such rows."""
    users = graph.users()
    inner = within_rows(users, topological(results), set(results))
    if not inner:
        return graph
    forward = {n for n in topological(results) if n.op not in ("input", "const")}
    across = _going_across(list(graph.nodes()), users)
    stored = {a for n in inner for a in n.args} - inner
    made: dict[tuple[Node, int], Node] = {}

    def change(n: Node, args: tuple[Node, ...]) -> Node:
        if n in forward or n.op in ("input", "const"):
            return n
        copies = 2 if n in across else 1
        new = tuple(
            _copied(a, inner, copies, made) if a in inner and _length(a, inner, stored) <= LONGEST else b
            for a, b in zip(n.args, args)
        )
        return n if new == n.args else ops.node(n.op, *new, **n.attributes)

    changed = rewrite(graph, change)
    origin = {new: graph.names(old) for (old, _), new in made.items() if graph.names(old)}
    return replace(changed, origin={**origin, **changed.origin})


def within_rows(users: Mapping[Node, Sequence[Node]], order: Iterable[Node], results: set[Node]) -> set[Node]:
    """The values of an ``order`` that follow from statistics of rows, and are stored only if others than the kernel of
    these rows read them."""
    order = list(order)
    forward = {n for n in order if n.op not in ("input", "const")}
    found: set[Node] = set()
    for n in order:
        if n not in forward or n in results or not (reduces_rows(n) or (n.op in WITHIN and found.intersection(n.args))):
            continue
        if all(u.op in WITHIN or reduces_rows(u) for u in users.get(n, ()) if u in forward):
            found.add(n)
    return found


def reduces_rows(n: Node) -> bool:
    """Is a node the reduction of rows that lie in memory one after the other?"""
    if n.op != "reduce" or not n.type.is_fixed or not n.args[0].type.rank:
        return False
    rank = n.args[0].type.rank
    axes = sorted(n.attributes["axes"])
    return bool(axes) and axes == list(range(rank - len(axes), rank))


def _going_across(order: Sequence[Node], users: Mapping[Node, Sequence[Node]]) -> set[Node]:
    """The nodes of an ``order`` of which all that follows, element by element, ends in sums across rows."""
    found: set[Node] = set()
    for n in reversed(order):
        below = users.get(n, ())
        if n.op == "reduce":
            goes = not reduces_rows(n)
        else:
            goes = bool(below) and all((u.op == "reduce" or u.op in WITHIN) and u in found for u in below)
        if goes:
            found.add(n)
    return found


def _length(value: Node, inner: set[Node], stored: set[Node]) -> int:
    """The number of operators from what is ``stored`` to a value within rows."""
    return sum(n in inner for n in topological([value], known=stored))


def _copied(n: Node, inner: set[Node], copies: int, made: dict[tuple[Node, int], Node]) -> Node:
    """A value within rows, computed again. Equal nodes are one, so that the copy reads what is stored through as many
    broadcasts to its own shape, which are an index and no work."""
    if (n, copies) not in made:
        args = [_copied(a, inner, copies, made) if a in inner else a for a in n.args]
        if not inner.intersection(n.args):
            args = [again(a, copies) for a in args]
        made[n, copies] = ops.node(n.op, *args, **n.attributes)
    return made[n, copies]


def again(n: Node, copies: int = 1) -> Node:
    """The same value as another node."""
    for _ in range(0 if n.is_const else copies):
        n = ops.node("broadcast", n, shape=n.type.shape)
    return n
