"""Dimensions of inputs that the operators imply: the model is lowered with sizes in their place.

Where an operator needs two extents to be equal and they are not, the equation is solved for a dimension that the user
has not given, and the model is lowered again. What no equation decides is left to the user.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from edgec.errors import EdgecError, Unequal
from edgec.ir import expr as X
from edgec.ir import index
from edgec.ir.expr import Expr, Extent
from edgec.ir.extent import sizes

#: Bounds of an unknown dimension: more than one, so that it never broadcasts, and few enough for small tensors.
_RANGE = (2, 500)
#: How the sizes begin that stand for them; the blank keeps them apart from all others.
_FREE = "dimension "
#: Equations of a model before the search is given up.
_MOST = 100

Dims = tuple["int | str | None", ...]
#: Lowers the model: given shapes of inputs, and extents of open dimensions by name.
Lower = Callable[[Mapping[str, Sequence[int]], Mapping[str, Extent]], object]


def name_of(tensor: str, axis: int, dim: str | None) -> str:
    """The name of an open dimension: the model's own, or INPUT.AXIS."""
    return dim or f"{tensor}.{axis}"


def implied(
    declared: Mapping[str, Dims | None], shapes: Mapping[str, Sequence[int]], ranged: Iterable[str], lower: Lower
) -> dict[str, Extent]:
    """Extents of open dimensions by name, as far as equations decide them; they may mention dimensions that are free.

    ``declared`` has the dimensions of every input that is no constant, ``shapes`` those that are given, ``ranged`` the
    names of dimensions with a range.
    """
    given: dict[str, int] = {}
    names: dict[str, None] = {}
    for tensor, dims in declared.items():
        for axis, dim in enumerate(dims or ()):
            if isinstance(dim, int) or name_of(tensor, axis, dim) in ranged:
                continue
            if tensor not in shapes:
                names[name_of(tensor, axis, dim)] = None
            elif dim:
                given[dim] = int(shapes[tensor][axis])
    # Later dimensions follow from earlier ones, and those without a name from those that have one.
    own = {d for dims in declared.values() for d in dims or () if isinstance(d, str)}
    search = _Search(lower, sorted((n for n in reversed(names) if n not in given), key=lambda n: n in own))
    # First with sizes in the place of given numbers too: `past + 1` tells more than 17 does.
    named = {t for t in shapes if all(d is not None for d in declared[t] or (None,))}
    search.run({t: s for t, s in shapes.items() if t not in named}, given)
    search.run(shapes, {})
    numbers = {search.size(name): X.const(n) for name, n in given.items()}
    return {n: X.plain(X.substitute(_lifted(e), numbers)) for n, e in search.found().items()}


def is_sought(extent: Extent) -> bool:
    """Does a dimension occur in it that the operators may still decide?"""
    return any(s.value.name.startswith(_FREE) for s in sizes(extent))


def example(extent: Extent) -> int:
    """A number for an extent: its largest, where dimensions that are still free are 1."""
    free = {s: X.const(1) for s in sizes(extent) if s.value.name.startswith(_FREE)}
    return index.upper(X.plain(X.substitute(_lifted(extent), free)))


def lone_batch(
    declared: Mapping[str, Dims | None], shapes: Mapping[str, Sequence[int]], decided: Container[str]
) -> list[str]:
    """Names of the dimensions that are not decided, where they are the first of inputs alone and share their name."""
    left: dict[str, str | None] = {}
    ranks = []
    for tensor, dims in declared.items():
        if tensor in shapes:
            continue
        if dims is None:
            return []
        for axis, dim in enumerate(dims):
            name = name_of(tensor, axis, dim if isinstance(dim, str) else None)
            if isinstance(dim, int) or name in decided:
                continue
            if axis > 0:
                return []
            left[name] = dim
            ranks.append(len(dims))
    if max(ranks, default=0) < 2:  # the length of a list, and no batch of anything
        return []
    own = {dim for dim in left.values() if dim is not None}
    return list(left) if len(own) <= 1 else []


def as_one(found: Mapping[str, Extent], names: Iterable[str]) -> dict[str, Extent]:
    """The extents that were found, and 1 for the dimensions of these names, also where others follow from them."""
    ones = {X.size(_FREE + name, *_RANGE): X.const(1) for name in names}
    if not ones:
        return dict(found)
    filled = {n: X.plain(X.substitute(_lifted(e), ones)) for n, e in found.items()}
    return {**filled, **dict.fromkeys(names, 1)}


@dataclass
class _Search:
    """The dimensions that are known so far, as formulas of sizes that stand for the others."""

    lower: Lower
    unknown: list[str]
    known: dict[str, Extent] = field(default_factory=dict)
    #: Dimensions that may as well be 1, whose extents are only assumed in order to go on.
    assumed: set[str] = field(default_factory=set)

    def size(self, name: str) -> Expr:
        return X.size(_FREE + name, *_RANGE)

    def found(self) -> dict[str, Extent]:
        """Facts that are certain."""
        doubtful = {self.size(n) for n in self.assumed}
        certain = {n: e for n, e in self.known.items() if n not in self.assumed and n in self.unknown}
        return {n: e for n, e in certain.items() if not isinstance(e, Expr) or not doubtful.intersection(sizes(e))}

    def run(self, shapes: Mapping[str, Sequence[int]], given: Mapping[str, int]) -> None:
        """Lower the model until every equation holds, or one cannot be solved."""
        for _ in range(_MOST):
            extents = {n: self.known.get(n, self.size(n)) for n in (*self.unknown, *given)}
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    self.lower(shapes, extents)
                return
            except Unequal as found:
                if not any(self.solved(a, b, found.may_be_one, given) for a, b in found.pairs):
                    return
            except EdgecError:
                return

    def solved(self, a: Extent, b: Extent, may_be_one: bool, given: Mapping[str, int]) -> bool:
        """Solve ``a == b`` for an unknown dimension, or else for one that is given and has that number."""
        terms, constant = index.linear(_lifted(a) - _lifted(b))
        for name in (*self.unknown, *given):
            size = self.size(name)
            factor = terms.get(size)
            if factor is None or name in self.known:
                continue
            rest = X.plain(index.build({t: -factor * k for t, k in terms.items() if t is not size}, -factor * constant))
            value = _quotient(rest, factor * factor)
            if value is None or index.bounds(_lifted(value))[0] < 0 or size in sizes(_lifted(value)):
                continue
            if name in given and value != given[name]:
                continue
            if may_be_one and not isinstance(value, Expr):
                self.assumed.add(name)
            self.known = {n: X.plain(X.substitute(_lifted(e), {size: _lifted(value)})) for n, e in self.known.items()}
            self.known[name] = value
            return True
        return False


def _lifted(extent: Extent) -> Expr:
    return X.lift(extent, "i64")


def _quotient(value: Extent, divisor: int) -> Extent | None:
    if divisor == 1:
        return value
    return value // divisor if isinstance(value, int) and value % divisor == 0 else None
