"""Element formulas: a small interned expression language.

An expression says how one element of a tensor is computed. Its leaves are constants, loop variables and
loads from the operator's arguments; its inner nodes are scalar functions, casts and reductions. Expressions
are interned: structurally equal ones are the same object, so equality is identity and sharing survives every
rewriting. Reductions are kept in a canonical naming of their variables, so alpha-equivalent ones are equal too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Union, get_args
from weakref import WeakValueDictionary

from edgec.errors import Undecided
from edgec.ir.comparison import OF_EQUALS, decided
from edgec.ir.dtypes import FLOATS
from edgec.ir.fresh import fresh_name
from edgec.ir.functions import FUNCTIONS
from edgec.ir.traverse import show as show
from edgec.ir.traverse import walk as walk

Scalar = Union[int, float, bool]
ExprLike = Union["Expr", Scalar]


#: How many elements a dimension has, or how often a loop runs: a number, or a formula of sizes known at run time.
Extent = Union[int, "Expr"]


@dataclass(frozen=True, slots=True)
class Var:
    """A loop variable that runs over 0 .. extent-1."""

    name: str
    extent: Extent


@dataclass(frozen=True, slots=True)
class Size:
    """A whole number from ``low`` to ``high`` that is known only at run time."""

    name: str
    low: int
    high: int

    @property
    def range(self) -> tuple[int, int]:
        return self.low, self.high


class Expr:
    """One interned expression; build it with the functions of this module, never directly.

    ``op`` is ``const``, ``var``, ``size``, ``load``, ``cast``, ``bitcast``, ``reduce`` or a scalar function;
    ``value`` is the constant, the Var, the Size, the slot that is loaded from, or ``(combine, variables)``.
    """

    __slots__ = ("__weakref__", "args", "dtype", "free", "height", "inner_loads", "op", "value")

    op: str
    args: tuple[Expr, ...]
    value: Any
    dtype: str
    height: int  # how deeply reductions nest in it; names their variables canonically
    free: frozenset[Expr]  # its free variables; empty for a variable, which would never be forgotten if it kept itself
    inner_loads: tuple[Expr, ...] | None  # the loads inside it, but not itself, once they were asked for

    def __repr__(self) -> str:
        return show(self)

    # Arithmetic reads as mathematics in the definitions of operators.
    def __add__(self, other: ExprLike) -> Expr:
        return call("add", self, lift(other, self.dtype))

    def __radd__(self, other: ExprLike) -> Expr:
        return call("add", lift(other, self.dtype), self)

    def __sub__(self, other: ExprLike) -> Expr:
        return call("sub", self, lift(other, self.dtype))

    def __rsub__(self, other: ExprLike) -> Expr:
        return call("sub", lift(other, self.dtype), self)

    def __mul__(self, other: ExprLike) -> Expr:
        return call("mul", self, lift(other, self.dtype))

    def __rmul__(self, other: ExprLike) -> Expr:
        return call("mul", lift(other, self.dtype), self)

    def __truediv__(self, other: ExprLike) -> Expr:
        return call("div", self, lift(other, self.dtype))

    def __rtruediv__(self, other: ExprLike) -> Expr:
        return call("div", lift(other, self.dtype), self)

    def __floordiv__(self, other: ExprLike) -> Expr:
        return call("floordiv", self, lift(other, self.dtype))

    def __rfloordiv__(self, other: ExprLike) -> Expr:
        return call("floordiv", lift(other, self.dtype), self)

    def __rmod__(self, other: ExprLike) -> Expr:
        return call("floormod", lift(other, self.dtype), self)

    def __mod__(self, other: ExprLike) -> Expr:
        return call("floormod", self, lift(other, self.dtype))

    def __neg__(self) -> Expr:
        return call("neg", self)

    def __lt__(self, other: ExprLike) -> Expr:
        return call("lt", self, lift(other, self.dtype))

    def __le__(self, other: ExprLike) -> Expr:
        return call("le", self, lift(other, self.dtype))

    def __gt__(self, other: ExprLike) -> Expr:
        return call("gt", self, lift(other, self.dtype))

    def __ge__(self, other: ExprLike) -> Expr:
        return call("ge", self, lift(other, self.dtype))

    def __and__(self, other: Expr) -> Expr:
        return call("and", self, other)

    def __or__(self, other: Expr) -> Expr:
        return call("or", self, other)

    def __invert__(self) -> Expr:
        return call("not", self)

    def __int__(self) -> int:
        """A constant as a number; raises Undecided for what only run time decides."""
        if self.op != "const":
            raise Undecided(f"{show(self)} is needed as a number", hint="build for one shape with --shape")
        return int(self.value)

    def __bool__(self) -> bool:
        """Truth of a comparison of sizes, or of a size being nonzero; raises Undecided where ranges leave it open."""
        from edgec.ir import index

        if self.op == "const":
            return bool(self.value)
        if self.dtype == "i64" and index.is_static(self):
            low, high = index.bounds(self)
            if low > 0 or high < 0:
                return True
        elif self.dtype != "bool":
            return True
        raise Undecided(
            f"it depends on whether {show(self)}, which the range of the dimensions does not decide",
            hint="narrow the range with --dim, or build for one shape with --shape",
        )


_TABLE: WeakValueDictionary[tuple[Any, ...], Expr] = WeakValueDictionary()


def _intern(op: str, args: tuple[Expr, ...], value: Any, dtype: str) -> Expr:
    # 0.0 and -0.0, or True and 1, are equal but not the same constant: the representation tells them apart.
    key = (op, args, repr(value) if op == "const" else value, dtype)
    found = _TABLE.get(key)
    if found is None:
        found = Expr()
        found.op, found.args, found.value, found.dtype = op, args, value, dtype
        found.free, found.height = free_in(args), 0
        for a in args:
            if a.height > found.height:
                found.height = a.height
        if op == "reduce":
            found.free -= {*reduction_variables(found)}
            found.height += 1
        found.inner_loads = None
        _TABLE[key] = found
    return found


_NONE: frozenset[Expr] = frozenset()


def free_in(args: tuple[Expr, ...]) -> frozenset[Expr]:
    """The free variables of all of them: that of one of them where it has all, since most expressions share it."""
    found = _NONE
    for a in args:
        more = free_variables(a)
        if more is found or more <= found:
            continue
        found = found | more if found else more
    return found


def const(value: Scalar, dtype: str = "i64") -> Expr:
    if dtype in FLOATS:
        value = float(value)
    elif dtype == "bool":
        value = bool(value)
    else:
        value = int(value)
        if dtype == "i64":  # folding wraps around as the arithmetic does
            value = (value + 2**63) % 2**64 - 2**63
    return _intern("const", (), value, dtype)


def lift(value: ExprLike, dtype: str) -> Expr:
    return value if isinstance(value, Expr) else const(value, dtype)


def var(name: str, extent: Extent) -> Expr:
    """A loop variable as an expression; one of extent 1 is simply 0."""
    extent = plain(extent)
    return const(0) if extent == 1 else _intern("var", (), Var(name, extent), "i64")


def size(name: str, low: int, high: int) -> Expr:
    """A number of elements that is known only at run time, but stays inside a range."""
    return const(low) if low == high else _intern("size", (), Size(name, low, high), "i64")


def plain(extent: Extent) -> Extent:
    """A constant as Python's own number; what is not constant as it is."""
    return int(extent.value) if isinstance(extent, Expr) and extent.op == "const" else extent


def fresh(extent: Extent) -> Expr:
    """A variable no other expression has."""
    return var(fresh_name(), extent)


def load(slot: Any, index: Iterable[ExprLike], dtype: str) -> Expr:
    """The element of ``slot`` (any hashable: an argument number, a graph node, a buffer) at ``index``."""
    return _intern("load", tuple(lift(i, "i64") for i in index), slot, dtype)


def call(name: str, *args: Expr) -> Expr:
    """Apply a scalar function; integer arithmetic on indices is simplified on the way in."""
    function = FUNCTIONS[name]
    if name == "select":
        dtype = args[1].dtype
        if args[0].op == "const":
            return args[1] if args[0].value else args[2]
        if args[1] is args[2]:
            return args[1]
    else:
        dtype = function.result or args[0].dtype
        if args[0].dtype == "i64":
            from edgec.ir import index  # the simplifier is written in terms of this module

            simpler = index.simplify_call(name, args)
            if simpler is not None:
                return simpler
        if name in OF_EQUALS:
            known = decided(name, *args)
            if known is not None:
                return const(known, "bool")
        if name == "and":
            kept = [a for a in args if not (a.op == "const" and a.value)]
            if any(a.op == "const" and not a.value for a in args):
                return const(False, "bool")
            if len(kept) < 2 or kept[0] is kept[1]:
                return kept[0] if kept else const(True, "bool")
    return _intern(name, args, None, dtype)


def raw_call(name: str, args: tuple[Expr, ...], dtype: str) -> Expr:
    """Intern a call as it stands; for the simplifier alone."""
    return _intern(name, args, None, dtype)


def select(condition: Expr, then: ExprLike, otherwise: ExprLike) -> Expr:
    dtype = then.dtype if isinstance(then, Expr) else otherwise.dtype if isinstance(otherwise, Expr) else "f32"
    return call("select", condition, lift(then, dtype), lift(otherwise, dtype))


def cast(value: Expr, dtype: str) -> Expr:
    if value.dtype == dtype:
        return value
    is_number = value.op == "const" and value.dtype != "bool"
    if is_number and (dtype in ("f32", "f64") or (dtype in ("i64", "i32") and isinstance(value.value, int))):
        return const(value.value, dtype)
    return _intern("cast", (value,), None, dtype)


def bitcast(value: Expr, dtype: str) -> Expr:
    """The same bits as an element of another type, which has as many."""
    return value if value.dtype == dtype else _intern("bitcast", (value,), None, dtype)


#: Combining functions of reductions and their neutral elements (for floats; integers take their own limits).
Combine = Literal["add", "mul", "max", "min", "and", "or"]
COMBINES: tuple[Combine, ...] = get_args(Combine)


def reduce(combine: str, variables: Sequence[Expr], body: Expr) -> Expr:
    """Combine ``body`` over all values of ``variables``.

    The variables are renamed ``r<height>_<k>``: inner reductions have smaller heights, so no name is captured,
    and two reductions that differ only in the names of their variables become one object.
    """
    bound = [v for v in variables if v.op == "var"]
    if any(plain(v.value.extent) == 0 for v in bound):
        from edgec.ir.dtypes import neutral

        return const(neutral(combine, body.dtype), body.dtype)
    height = body.height + 1
    renamed = [var(f"r{height}_{k}", v.value.extent) for k, v in enumerate(bound)]
    body = substitute(body, dict(zip(bound, renamed)))
    return raw_reduce((combine, tuple(v.value for v in renamed)), body)


def raw_reduce(value: tuple[str, tuple[Var, ...]], body: Expr) -> Expr:
    """Intern a reduction whose variables have their canonical names."""
    return _intern("reduce", (body,), value, body.dtype)


def reduction_variables(expr: Expr) -> tuple[Expr, ...]:
    """The bound variables under their canonical names; to take a reduction apart, use ``opened``.

    The names mean something inside this one reduction alone: free in another expression they would be captured.
    """
    return tuple(var(v.name, v.extent) for v in expr.value[1])


def opened(expr: Expr) -> tuple[tuple[Expr, ...], Expr]:
    """The variables (renamed so that nothing else uses them) and the body of a reduction."""
    bound = reduction_variables(expr)
    names = tuple(fresh(v.value.extent) for v in bound)
    return names, substitute(expr.args[0], dict(zip(bound, names)))


def rebuild(expr: Expr, args: tuple[Expr, ...]) -> Expr:
    """The same operation on other arguments (not for reductions whose variables could be captured)."""
    if expr.op == "load":
        return load(expr.value, args, expr.dtype)
    if expr.op == "cast":
        return cast(args[0], expr.dtype)
    if expr.op == "bitcast":
        return bitcast(args[0], expr.dtype)
    if expr.op == "reduce":
        return reduce(expr.value[0], reduction_variables(expr), args[0])
    return call(expr.op, *args)


def as_it_stands(expr: Expr, args: tuple[Expr, ...], value: Any) -> Expr:
    """The same operation on other arguments and another slot, in which nothing becomes simpler."""
    return _intern(expr.op, args, value, expr.dtype)


def transform(expr: Expr, change: Callable[[Expr], Expr | None]) -> Expr:
    """Rebuild bottom-up; ``change`` returns a replacement for a node (not visited further) or None."""
    from edgec.ir.substitution import rebuilt  # it is written in terms of this module

    return rebuilt(expr, change, None)


def substitute(expr: Expr, replacement: Mapping[Expr, Expr]) -> Expr:
    """Replace variables (or any expressions) simultaneously, without capture."""
    replacement = {k: v for k, v in replacement.items() if k is not v}
    if not replacement:
        return expr
    if any(k.op != "var" for k in replacement):
        return transform(expr, replacement.get)
    from edgec.ir.substitution import with_variables

    return with_variables(expr, replacement)


def loads(expr: Expr) -> list[Expr]:
    """Every distinct load in ``expr``, arguments before users."""
    found = expr.inner_loads
    if found is None:
        found = expr.inner_loads = tuple(e for e in walk(expr) if e.op == "load" and e is not expr)
    return [*found, expr] if expr.op == "load" else [*found]


def free_variables(expr: Expr) -> frozenset[Expr]:
    """Variables that no reduction inside ``expr`` binds."""
    return frozenset((expr,)) if expr.op == "var" else expr.free
