"""Normalized rows that int8 products read, and others in floats: a kernel for each, in one launch.

A kernel has one result. What rounds a normalized row to bytes would be a kernel behind that of the normalization, whose
floats a residual reads too. It is the kernel of a normalization of its own instead, which reads the same row: neither
waits for the other, and a launch costs a GPU more than the arithmetic of a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from edgec import ops
from edgec.fuse.aliasing import Plan
from edgec.fuse.block import Block
from edgec.fuse.one_pass import LONGEST, WITHIN, again, reduces_rows
from edgec.ir.functions import FUNCTIONS
from edgec.ir.graph import Graph, Node, rewrite, topological

_BYTES = ("u8", "i8")


def with_rows_in_bytes(graph: Graph) -> Graph:
    """The graph in which each chain of steps from a normalized row to bytes has a normalization of its own, where
    others read the row too; the same graph where there is none."""
    users, results = graph.users(), graph.results()
    starts: dict[Node, Node] = {}  # the first step of a chain -> the row that it reads
    rows: dict[Node, list[Node]] = {}
    for value in graph.operations():
        readers = users[value]
        if value.op not in FUNCTIONS or len(readers) < 2 or value in results:
            continue
        rounding = [u for u in readers if _ends_in_bytes(u, users, results)]
        inside = _row(value, users, results) if 0 < len(rounding) < len(readers) else []
        if inside:
            rows[value] = inside
            starts.update(dict.fromkeys(rounding, value))
    if not starts:
        return graph
    new: dict[Node, Node] = {}
    origin: dict[Node, tuple[str, ...]] = {}

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        row = starts.get(old)
        if row is not None:
            own = _copied(rows[row], new, graph, origin)
            args = tuple(own if a is row else b for a, b in zip(old.args, args))
        new[old] = old if args == old.args else ops.node(old.op, *args, **old.attributes)
        return new[old]

    changed = rewrite(graph, change)
    return replace(changed, origin={**origin, **changed.origin})


def _ends_in_bytes(step: Node, users: Mapping[Node, Sequence[Node]], results: set[Node]) -> bool:
    """Do steps of one value and constants, with no other readers, lead from ``step`` to bytes?"""
    while step.op in FUNCTIONS or step.op == "cast":
        if sum(not a.is_const for a in step.args) != 1 or step in results:
            return False
        if step.type.dtype in _BYTES:
            return True
        if len(users[step]) != 1:
            return False
        (step,) = users[step]
    return False


def _row(value: Node, users: Mapping[Node, Sequence[Node]], results: set[Node]) -> list[Node]:
    """The nodes that follow from statistics of a row and that ``value`` alone needs, in order; none where there is no
    such row."""
    closed, grows = {value}, True
    while grows and len(closed) <= 2 * LONGEST:
        found = {a for n in closed for a in n.args if a.op in WITHIN or reduces_rows(a)} - closed - results
        found = {a for a in found if closed.issuperset(users[a])}
        closed |= found
        grows = bool(found)
    around = {a for n in closed for a in n.args} - closed
    following: dict[Node, None] = {}
    for n in topological([value], known=around):
        if n in closed and (reduces_rows(n) or not following.keys().isdisjoint(n.args)):
            following[n] = None
    return list(following) if value in following and len(following) <= LONGEST else []


def _copied(
    inside: Sequence[Node], new: Mapping[Node, Node], graph: Graph, origin: dict[Node, tuple[str, ...]]
) -> Node:
    """The last of the nodes ``inside`` a row, computed again."""
    made: dict[Node, Node] = {}
    for n in inside:
        made[n] = ops.node(n.op, *(made.get(a) or again(new.get(a, a)) for a in n.args), **n.attributes)
        if graph.names(n):
            origin[made[n]] = graph.names(n)
    return made[inside[-1]]


def side_by_side(plan: Plan) -> Plan:
    """The plan with each row that is computed of the same values as one before it right after that one."""
    groups: dict[object, list[Block]] = {}
    for block in plan.blocks:
        is_row = block.kind == "row" and block.output not in plan.guards
        read = frozenset(n for n in block.inputs if not n.is_const) if is_row else block
        groups.setdefault(read, []).append(block)
    return replace(plan, blocks=tuple(b for group in groups.values() for b in group))
