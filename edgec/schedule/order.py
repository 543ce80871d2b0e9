"""The order in which the emitted code adds up the terms of a sum of floats.

A schedule says how it runs through a sum (`Added`): its loops, and which iterations are added to one accumulator. Here
that is told in terms of the formula (`Order`): the terms of a sum are numbered as its formula has them. The two are
matched by the positions in memory that an operand is read at, so that no loop has to be followed through merges.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from edgec.fuse import Block
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.graph import Node
from edgec.ir.nest import coefficient, is_fixed, most, split_formula
from edgec.ir.types import FLOATS
from edgec.schedule.added import Added
from edgec.schedule.contract.contract import Contract
from edgec.schedule.map import Map
from edgec.schedule.program import Kernel, View
from edgec.schedule.row import Row
from edgec.schedule.sweep import Sweep
from edgec.schedule.window import Window


@dataclass(frozen=True, eq=False)
class Order:
    """An order of additions.

    Each of ``chains`` has the numbers of the terms that are added one after another, from zero on (-1 for none). Their
    sums are added one after another too, where they are added ``in_turn``, and in any order elsewhere. Without
    ``is_known`` the lengths of the chains are known, but not which terms they have.
    """

    chains: np.ndarray
    in_turn: bool
    is_known: bool = True

    @property
    def depth(self) -> int:
        """The most roundings that a term goes through: that of its product, and those of additions after the first."""
        longest = int((self.chains >= 0).sum(axis=1).max(initial=0))
        return longest + len(self.chains) - 1


def orders_of(kernels: Iterable[Kernel], views: Mapping[Node, View]) -> dict[Node, Order]:
    """The order of every sum of floats whose order is known, by the node that the sum is."""
    found: dict[Node, Order] = {}
    several: set[Node] = set()
    for kernel in kernels:
        for step in kernel.steps:
            if step.block is None or step.block.is_procedure:
                continue
            made = _orders(step, step.block, views)
            for n in filter(is_sum, step.block.nodes):
                if n in several:  # computed in several kernels, which may have orders of their own
                    found.pop(n, None)
                elif n in made:
                    found[n] = made[n]
                several.add(n)
    return found


def is_sum(n: Node) -> bool:
    """Is it a sum of floats: a matrix product, a convolution, a sum over dimensions or windows?"""
    if n.type.dtype not in FLOATS:
        return False
    return n.op in ("matmul", "conv") or (n.op in ("reduce", "pool") and n.attributes["combine"] == "add")


def _orders(kernel: Kernel, block: Block, views: Mapping[Node, View]) -> dict[Node, Order]:
    schedule = kernel.schedule
    ways = schedule.added if isinstance(schedule, (Contract, Map, Row, Sweep, Window)) else ()
    nodes = [n for n in block.nodes if is_sum(n)]
    body = split_formula(block.formula).body
    sums = [e for e in X.walk(body) if e.op == "reduce" and e.value[0] == "add" and e.dtype in FLOATS]
    if not len(ways) == len(nodes) == len(sums) or not ways:
        return {}
    if len(sums) == 1:
        (n,), (way,) = nodes, ways
        found = _order(sums[0], way, views)
        return {} if found is None else {n: found}
    # Which of several sums is which is not told: all have the same chains, or nothing is known.
    first = ways[0]
    terms = {prod(map(most, X.reduction_variables(e))) for e in sums}
    same = all(w.chains.shape == first.chains.shape and (w.chains == first.chains).all() for w in ways)
    if not same or terms != {first.terms} or not all(w.in_turn == first.in_turn for w in ways):
        return {}
    return dict.fromkeys(nodes, Order(first.chains, first.in_turn, is_known=False))


def _order(total: Expr, way: Added, views: Mapping[Node, View]) -> Order | None:
    """The order of the one sum of a formula; only its chains where its terms are not found again."""
    names, body = X.opened(total)
    if not is_fixed(*names, *(v for v in way.loops if v.op == "var")):
        return None
    count = prod(map(most, names))
    if count != way.terms:
        return None
    mine = {b: _places(loads, way.loops) for b, loads in _by_buffer(body=way.body, views=None).items()}
    theirs = {b: _places(loads, names) for b, loads in _by_buffer(body, views).items()}
    for buffer, places in mine.items():
        other = theirs.get(buffer)
        if places is None or other is None or len(np.unique(other)) != count:
            continue
        order = np.argsort(other)
        if not np.array_equal(np.sort(places), other[order]):
            continue
        number = order[np.searchsorted(other[order], places)]  # of the term of every iteration
        return Order(np.where(way.chains >= 0, number[way.chains], -1), way.in_turn)
    return Order(way.chains, way.in_turn, is_known=False)


def _by_buffer(body: Expr, views: Mapping[Node, View] | None) -> dict[object, list[Expr]]:
    """Positions of loads by the buffer that is read; ``views`` say where the nodes lie that a formula reads."""
    found: dict[object, list[Expr]] = {}
    for e in X.loads(body):
        if views is None:
            if e.args and getattr(e.value, "space", "weights") != "weights":
                found.setdefault(e.value, []).append(e.args[0])
        elif isinstance(e.value, Node) and e.value in views:
            view = views[e.value]
            found.setdefault(view.buffer, []).append(view.address(e.args))
    return found


def _places(addresses: Sequence[Expr], loops: Sequence[Expr]) -> np.ndarray | None:
    """The position that is read in every iteration, from the least on; None where it is not one, or not linear."""
    moving = list(dict.fromkeys(a for a in addresses if X.free_variables(a) & {*loops}))
    if len(moving) != 1:
        return None
    (address,), total = moving, np.zeros(1, np.int64)
    for v in loops:
        if v.op != "var":
            continue
        step = coefficient(address, v)
        if step is None:
            return None
        total = (total[:, None] + step * np.arange(most(v))).reshape(-1)
    return np.asarray(total - total.min())
