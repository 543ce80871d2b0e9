"""Guards: under which conditions a block's result is wanted at all.

A value that is read only inside one side of branches need not be computed when they go the other way. The readers of a
value say where: its guards are what all of them have in common, the choices around the read included.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from edgec.fuse.block import Block
from edgec.ir.expr import Expr
from edgec.ir.graph import Node

#: A scalar truth value, and what it must be.
Guard = tuple[Node, bool]
Guards = frozenset[Guard]


def conditions(nodes: Iterable[Node]) -> set[Node]:
    """The conditions of branches among ``nodes``."""
    return {n.args[0] for n in nodes if n.op == "branch"}


def guards_of(
    blocks: Iterable[Block], wanted: Iterable[Node], owners: Mapping[Node, Iterable[Node]], chosen: set[Node]
) -> dict[Node, Guards]:
    """The guards of every block, by its output.

    ``blocks`` come readers last; ``wanted`` values are needed in any case, ``owners`` of a value are others whose
    readers read it too: what it is a part of, and itself with padding around it; ``chosen`` are the conditions of
    branches.
    """
    if not chosen:
        return {}
    needs: dict[Node, Guards] = dict.fromkeys(wanted, frozenset())
    found: dict[Node, Guards] = {}

    def read(node: Node, where: Guards) -> None:
        needs[node] = needs[node] & where if node in needs else where

    def needed(node: Node) -> Guards:
        """Guards under which a value is needed: by its readers, or by the value that contains it."""
        sides = [needs[node]] if node in needs else []
        sides += [needed(owner) for owner in owners.get(node, ())]
        return frozenset.intersection(*sides) if sides else frozenset()

    for block in reversed(list(blocks)):
        mine = needed(block.output)
        found[block.output] = mine
        if block.is_procedure:
            for node in block.inputs:
                read(node, mine)
        else:
            for node, inside in _reads(block.formula.body, chosen).items():
                read(node, mine | inside)
        for condition, _ in mine:
            read(condition, mine - {(condition, True), (condition, False)})
    return {output: guards for output, guards in found.items() if guards}


def _reads(body: Expr, chosen: set[Node]) -> dict[Node, Guards]:
    """Values that a formula loads, each with the selects that contain all its loads."""
    found: dict[Node, Guards] = {}
    seen: set[tuple[Expr, Guards]] = set()
    stack: list[tuple[Expr, Guards]] = [(body, frozenset())]
    while stack:
        e, inside = stack.pop()
        if (e, inside) in seen:
            continue
        seen.add((e, inside))
        if e.op == "load":
            found[e.value] = found[e.value] & inside if e.value in found else inside
        if e.op == "select" and e.args[0].op == "load" and e.args[0].value in chosen:
            condition = e.args[0]
            stack += [(condition, inside)]
            stack += [(side, inside | {(condition.value, is_then)}) for side, is_then in zip(e.args[1:], (True, False))]
        else:
            stack += [(a, inside) for a in e.args]
    return found
