"""Operations that a kernel executes, counted from its loops, and those that its operators ask for one by one.

An operation is a scalar function, at its price (`edgec.ir.functions`), a step of a reduction, or a load that data
choose the place of. Casts, integers that only choose a place (whatever their width) and other loads are free. What does
not depend on a loop counts as often as the template computes it: once before that loop, except inside a choice, of
which nothing is computed earlier.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import prod

import numpy as np

from edgec.fuse.block import Block
from edgec.fuse.cost_model import operations
from edgec.ir import expr as X
from edgec.ir.evaluate import Grid
from edgec.ir.expr import Expr
from edgec.ir.functions import FUNCTIONS
from edgec.ir.graph import Node
from edgec.ir.memory import remembered
from edgec.ir.nest import most
from edgec.ir.vector import LANES, parts_beyond_choice
from edgec.ops import formula, is_operator
from edgec.schedule.program import BlockSchedule, Kernel, Nest

#: Positions of a condition are counted where there are no more than these.
COUNTED_POSITIONS = 1 << 16


@dataclass
class _Scope:
    """A level of loops: its variables and those outside, and how often it is entered."""

    variables: frozenset[Expr]
    times: float
    known: set[Expr] = field(default_factory=set)


class _Counter:
    """Counts as the printer of C prints: each value once, in the outermost loop that has its variables."""

    def __init__(self, nest: Nest) -> None:
        self.lane = nest.lane
        self.total = 0.0
        self.scopes: list[_Scope] = []
        self.guards: tuple[tuple[Expr, bool], ...] = ()
        self.share = 1.0  # of all iterations, those in which the guards hold
        self.is_place = False  # inside the index of a load
        variables, times = frozenset[Expr](), 1.0
        for level in nest.levels:
            variables, times = variables | {*level.loops}, times * level.times
            self.scopes.append(_Scope(variables, times, {*nest.known}))
        for body in nest.bodies:
            self.value(body)
        if nest.accumulates:
            self.total += self.scopes[-1].times * len(nest.bodies)

    def value(self, e: Expr) -> None:
        if e.op in ("const", "var", "size") or any(e in s.known for s in self.scopes):
            return
        home = self._home(e)
        if e.op == "reduce":
            self._reduce(e, home)
        elif e.op == "select" and not self._is_on_lanes(e.args[0]):
            self._choice(e, home)
            self.total += home.times if X.loads(e.args[0]) else 0.0
        else:
            outside, self.is_place = self.is_place, self.is_place or e.op == "load"
            for a in e.args:
                self.value(a)
            self.is_place = outside
            self.total += 0 if outside and e.op != "load" and e.dtype in ("i32", "i64") else home.times * _price(e)
        home.known.add(e)

    def _home(self, e: Expr) -> _Scope:
        return next((s for s in self.scopes if X.free_variables(e) <= s.variables), self.scopes[-1])

    def _is_on_lanes(self, e: Expr) -> bool:
        return self.lane is not None and self.lane in X.free_variables(e) and e.dtype in LANES

    def _reduce(self, e: Expr, home: _Scope) -> None:
        names = X.reduction_variables(e)
        inner = _Scope(home.variables | {*names}, home.times * prod(map(most, names)))
        everything = self.scopes
        self.scopes = [*everything[: everything.index(home) + 1], inner]
        self.value(e.args[0])
        self.scopes = everything
        self.total += inner.times

    def _choice(self, e: Expr, home: _Scope) -> None:
        condition, *branches = e.args
        self.value(condition)
        for part in parts_beyond_choice(e):
            self.value(part)
        everything, guards, share = self.scopes, self.guards, self.share
        outside = everything[: everything.index(home) + 1]
        known = {k for s in outside for k in s.known}
        for branch, truth in zip(branches, (True, False)):
            if not X.loads(condition):
                self.guards = (*guards, (condition, truth))
                self.share = _share(self.guards)
            times = home.times / share * self.share if share else 0.0
            self.scopes = [_Scope(home.variables, times, {*known})]
            self.value(branch)
            self.guards, self.share = guards, share
        self.scopes = everything


def _price(e: Expr) -> int:
    if e.op == "load":  # a table chooses where nothing but loops did
        return int(any(getattr(i.value, "space", "") != "weights" for a in e.args for i in X.loads(a)))
    if e.op not in FUNCTIONS or e.dtype == "i64" or all(a.dtype == "i64" for a in e.args):
        return 0
    return 0 if e.dtype == "bool" and not X.loads(e) else FUNCTIONS[e.op].flops


@remembered(256)
def _share(guards: tuple[tuple[Expr, bool], ...]) -> float:
    """The part of all iterations in which conditions on positions hold."""
    variables = tuple(
        sorted(frozenset().union(*(X.free_variables(c) for c, _ in guards)), key=lambda v: str(v.value.name))
    )
    extents = [v.value.extent for v in variables]
    if not all(isinstance(n, int) for n in extents) or prod(extents) > COUNTED_POSITIONS:
        return 1.0
    if any(e.op == "size" for c, _ in guards for e in X.walk(c)):
        return 1.0
    grid = Grid(variables, lambda slot: np.zeros(0))
    holds = np.ones(extents, bool)
    for condition, truth in guards:
        holds &= np.broadcast_to(grid.value(condition), holds.shape) == truth
    return float(holds.mean())


def count(nests: Iterable[Nest]) -> float:
    """Operations of loops with expressions in them."""
    return sum(_Counter(nest).total for nest in nests)


def executed(kernel: Kernel) -> float:
    """Operations of one step of a kernel; of sums of products, those of their formula.

    Where lanes are those of several groups, those that one group alone would leave empty cost nothing.
    """
    assert kernel.block is not None
    schedule = kernel.schedule
    if not isinstance(schedule, BlockSchedule):
        return operations(kernel.block)
    return (count(schedule.nests) if schedule.nests else operations(kernel.block)) * schedule.repeats


def operators_of(block: Block) -> list[Node]:
    """The operators that a block computes, those that other blocks compute as well included."""
    inputs, found, stack = {*block.inputs}, dict[Node, None](), [block.output]
    while stack:
        node = stack.pop()
        if node not in found:
            found[node] = None
            stack += [a for a in node.args if a not in inputs and a.op not in ("input", "const")]
    return [*found]


def asked(block: Block) -> float:
    """Operations of the operators of a block, were each of them alone."""
    return sum(map(_alone, operators_of(block)))


@remembered(1024)
def _alone(node: Node) -> float:
    if not is_operator(node.op):  # a copy
        return 0.0
    derived = formula(node)
    loops = tuple(v for v in derived.variables if v.op == "var")
    return count([Nest.over([loops], (derived.body,))])
