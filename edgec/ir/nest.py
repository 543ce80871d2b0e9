"""Loop nests: splitting loops until indices are linear, and merging loops that walk memory as one.

Composed reorganizations leave ``i // c`` and ``i % c`` in indices. Writing i as ``i' * c + i''`` makes both linear;
where two neighboring loops step through every buffer as one longer loop would, they are merged again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from edgec.ir import expr as X
from edgec.ir import index
from edgec.ir.expr import Expr, Extent
from edgec.ir.graph import Formula
from edgec.ir.memory import remembered
from edgec.ir.types import Type


@dataclass(frozen=True)
class Split:
    """A formula whose output index is ``position`` (one expression a dimension) over the loops ``variables``."""

    type: Type
    variables: tuple[Expr, ...]
    position: tuple[Expr, ...]
    body: Expr


def _cuts(body: Expr, variable: Expr) -> set[Extent]:
    """Useful split points of ``variable``: c for each v // c and v % c."""
    found: set[Extent] = set()
    for e in X.walk(body):
        if e.op == "floordiv" and e.args[0] is variable:
            found.add(X.plain(e.args[1]))
        elif e.op == "floormod":
            inner, c = e.args
            if inner is variable:
                found.add(X.plain(c))
            elif inner.op == "floordiv" and inner.args[0] is variable:
                found.add(X.plain(inner.args[1] * c))
    return found


def _chain(cuts: Iterable[Extent], extent: Extent) -> list[Extent]:
    """The cuts that divide one another and the extent, smallest first."""
    chain: list[Extent] = []
    for c in sorted(cuts, key=lambda c: (index.upper(c), str(c))):
        if c in (1, extent) or index.exact(extent, c) is None:
            continue
        if not chain or index.exact(c, chain[-1]) is not None:
            chain.append(c)
    return chain


def _digits(variable: Expr, chain: Sequence[Extent]) -> tuple[list[Expr], Expr]:
    """Fresh loops, outermost first, and the variable as their mixed-radix number."""
    weights = [*reversed(chain), 1]
    extents: list[Extent] = []
    above = variable.value.extent
    for w in weights:
        count = index.exact(above, w)
        assert count is not None
        extents.append(count)
        above = w
    digits = [X.fresh(n) for n in extents]
    total = X.const(0)
    for digit, w in zip(digits, weights):
        total = total + digit * w
    return digits, total


def _split_inside(body: Expr) -> Expr:
    """Split the variables of every reduction inside."""
    sums = [e for e in X.walk(body) if e.op == "reduce"]
    if not any(_chain(_cuts(e.args[0], v), v.value.extent) for e in sums for v in X.reduction_variables(e)):
        return body

    def change(e: Expr) -> Expr | None:
        if e.op != "reduce":
            return None
        opened, inner = X.opened(e)
        inner = X.transform(inner, change)
        names = list(opened)
        again = True
        while again:
            again = False
            for k, v in enumerate(names):
                chain = _chain(_cuts(inner, v), v.value.extent)
                if chain:
                    digits, total = _digits(v, chain)
                    inner = X.substitute(inner, {v: total})
                    names[k : k + 1] = [d for d in digits if d.op == "var"]
                    again = True
                    break
        return X.reduce(e.value[0], names, inner)

    return X.transform(body, change)


@remembered(4096)  # the planner asks several questions about one block, and the scheduler again
def split_formula(derived: Formula) -> Split:
    """Split output loops and reduction loops until no cut is left that divides them."""
    variables = [v for v in derived.variables if v.op == "var"]
    position = list(derived.variables)
    body = _split_inside(derived.body)
    again = True
    while again:
        again = False
        for k, v in enumerate(variables):
            chain = _chain(_cuts(body, v), v.value.extent)
            if chain:
                digits, total = _digits(v, chain)
                body = X.substitute(body, {v: total})
                position = [X.substitute(p, {v: total}) for p in position]
                variables[k : k + 1] = [d for d in digits if d.op == "var"]
                body = _split_inside(body)
                again = True
                break
    return Split(derived.type, tuple(variables), tuple(position), body)


def most(variable: Expr) -> int:
    """Largest number of iterations of a loop; 1 for a constant in its place."""
    return index.upper(variable.value.extent) if variable.op == "var" else 1


def extent(variable: Expr) -> Extent:
    """Number of iterations of a loop; 1 for a constant in its place."""
    found: Extent = variable.value.extent if variable.op == "var" else 1
    return found


def is_fixed(*variables: Expr) -> bool:
    """Is it known at build time how often these loops run?"""
    return all(isinstance(extent(v), int) for v in variables)


def coefficient(address: Expr, variable: Expr) -> int | None:
    """Change of an address for one step of ``variable``; None when it is not linear in it."""
    terms, _ = index.linear(address)
    for atom in terms:
        if atom is not variable and variable in X.free_variables(atom):
            return None
    return terms.get(variable, 0)


@dataclass(frozen=True)
class Group:
    """Element ``element`` of the group of ``size`` neighbors that a variable is in; ``first`` is the address of its own
    neighbor, so that consecutive values of the variable have consecutive ones."""

    size: int
    element: int
    first: Expr


def group_of(address: Expr, variable: Expr) -> Group | None:
    """The group of an address ``size * (variable // size) + element`` and whole groups; None where it is none."""
    terms, constant = index.linear(address)
    for atom, size in terms.items():
        if atom.op == "floordiv" and atom.args == (variable, X.const(size)):
            if any(variable in X.free_variables(a) or step % size for a, step in terms.items() if a is not atom):
                return None
            return Group(size, constant % size, address - atom * size + variable - constant % size)
    return None


@dataclass(frozen=True)
class Repeats:
    """So many ``times`` have consecutive values of a variable one address, and as many the next one.

    Value 0 is the one numbered ``phase`` of those that share its address, and ``first`` is the address for values that
    are multiples of ``times``.
    """

    times: int
    phase: int
    first: Expr


def repeats_of(address: Expr, variable: Expr) -> Repeats | None:
    """The repeats of an address ``(variable + phase) // times`` and what ``variable`` is not in; None elsewhere."""
    terms, _ = index.linear(address)
    along = [a for a in terms if variable in X.free_variables(a)]
    if len(along) != 1 or terms[along[0]] != 1 or along[0].op != "floordiv" or along[0].args[1].op != "const":
        return None
    inner, phase = index.linear(along[0].args[0])
    times = int(along[0].args[1].value)
    if inner != {variable: 1} or not 0 <= phase < times:
        return None
    return Repeats(times, phase, address - along[0] + variable // times)


def mergeable(outer: Expr, inner: Expr, addresses: Iterable[Expr]) -> bool:
    """Do all addresses step through (outer, inner) as through one loop of the product of their extents?"""
    for a in addresses:
        o, i = coefficient(a, outer), coefficient(a, inner)
        if o is None or i is None or o != X.plain(i * inner.value.extent):
            return False
    return True


def used_as_values(e: Expr) -> frozenset[Expr]:
    """Loop variables that ``e`` uses elsewhere than in positions of loads: in conditions, or as numbers."""

    found: dict[Expr, frozenset[Expr]] = {}
    stack = [e]
    while stack:
        top = stack[-1]
        missing = [] if top.op == "load" else [a for a in top.args if a not in found]
        if missing:
            stack += missing
            continue
        stack.pop()
        inside = [found[a] for a in top.args] if top.op != "load" else []
        used = frozenset((top,)) if top.op == "var" else frozenset().union(*inside)
        found[top] = used.difference(X.reduction_variables(top)) if top.op == "reduce" else used
    return found[e]
