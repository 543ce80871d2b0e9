"""Vectorizability: the formulas that can be computed on the lanes of a vector."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, floor, inf, isinf, isnan

from edgec.ir import expr as X
from edgec.ir import index
from edgec.ir.dtypes import ends
from edgec.ir.expr import Expr
from edgec.ir.linear import build, linear
from edgec.ir.nest import coefficient, is_fixed, repeats_of

INFIX = ("add", "sub", "mul", "div")
COMPARE = ("lt", "le", "gt", "ge", "eq", "ne")
#: Functions of floats with a vector form of the same name in ec_simd.h.
VECTOR = {
    "max", "min", "abs", "sqrt", "floor", "ceil", "trunc", "round", "exp", "log", "log1p", "expm1", "sigmoid",
    "tanh", "erf", "sin", "cos", "pow", "fmod",
}  # fmt: skip
#: Those of integers, named with _i behind.
INTEGER = {
    "add", "sub", "mul", "neg", "abs", "sign", "max", "min", "bitand", "bitor", "bitxor", "bitnot", "shl", "shr",
    "mulshift",
}  # fmt: skip
#: Floats that are rounded after every operation, a sum once at its end.
HALF = ("f16", "bf16")
#: What a lane, of 32 bits always, holds of a type: a float, an integer or a mask. Memory may be narrower.
LANES = {
    **dict.fromkeys(("f32", *HALF), "float"),
    **dict.fromkeys(("i32", "i16", "i8", "u16", "u8"), "integer"),
    "bool": "mask",
}


def has_vector_form(op: str, dtype: str, argument: str) -> bool:
    """Can a function with a result of this type run on lanes, its last operand being of the type ``argument``?"""
    kind = LANES.get(dtype)
    if kind == "float":
        return op in VECTOR or op in INFIX or op in ("select", "neg")
    if kind == "integer":
        return op in INTEGER or op == "select"
    if op == "isnan":
        return LANES.get(argument) == "float"
    return op in ("and", "or", "xor", "not") or (op in COMPARE and LANES.get(argument) in ("float", "integer"))


def bounds(e: Expr) -> tuple[float, float]:
    """The range a value is known to stay in, unless it is NaN."""
    if e.op == "const" and not isnan(e.value):
        return e.value, e.value
    if e.op in ("min", "max"):
        (a, b), (c, d) = map(bounds, e.args)
        return (min(a, c), min(b, d)) if e.op == "min" else (max(a, c), max(b, d))
    if e.op in ("round", "floor", "ceil", "trunc"):
        low, high = bounds(e.args[0])
        return low if isinf(low) else floor(low), high if isinf(high) else ceil(high)
    if e.op in ("cast", "load") and LANES.get(e.dtype) == "integer" and e.dtype != "i32":
        low, high = ends(e.dtype)
        return low, high
    if e.op == "cast" and LANES.get(e.args[0].dtype) == "integer":
        return bounds(e.args[0])
    return -inf, inf


def widened(body: Expr) -> Expr | None:
    """The lanes that a store of whole numbers in 64 bits may be given and widens; None where it has none."""
    return (
        body.args[0]
        if body.op == "cast" and body.dtype == "i64" and LANES.get(body.args[0].dtype) == "integer"
        else None
    )


def is_vectorizable(body: Expr, lane: Expr, is_whole: bool = False) -> bool:
    """Can ``body`` be computed for consecutive values of ``lane`` at once, with a vector form of every part?

    ``is_whole`` says that vectors begin at multiples of their lanes, so that loads may repeat elements on them.
    """
    mine = (e for e in X.walk(body) if lane in X.free_variables(e))
    return body.dtype in LANES and all(_has_lanes(e, lane, is_whole) for e in mine)


def is_repeated(load: Expr, lane: Expr) -> bool:
    """Does a load of floats read each element for 2 or 4 lanes, which divide the lanes of any vector?"""
    found = repeats_of(load.args[0], lane) if load.args and LANES.get(load.dtype) == "float" else None
    return found is not None and found.times in (2, 4)


def chosen(address: Expr, lane: Expr) -> tuple[Expr, Expr] | None:
    """The two parts of an address that integers of 32 bits choose along ``lane``: what all lanes share, and those."""
    terms, constant = linear(address)
    found = [e for e in terms if lane in X.free_variables(e)]
    if len(found) != 1 or terms[found[0]] != 1 or found[0].op != "cast":
        return None
    (table,) = found[0].args
    if table.dtype != "i32" or (table.op == "load" and coefficient(table.args[0], lane) != 1):
        return None
    return build({e: k for e, k in terms.items() if e is not found[0]}, constant), table


def places(e: Expr, lane: Expr | None) -> int | None:
    """The step from lane to lane of an integer of 32 bits that is a position; None for anything else."""
    is_position = lane is not None and e.op == "cast" and e.dtype == "i32" and e.args[0].dtype == "i64"
    return coefficient(e.args[0], lane) if is_position and lane is not None else None


def _has_lanes(e: Expr, lane: Expr, is_whole: bool) -> bool:
    if e.dtype == "i64":  # a position
        if e.op == "floordiv":
            return is_whole
        return e.op in ("var", "add", "mul", "const") or (e.op == "cast" and e.args[0].dtype == "i32")
    if e.op == "load":
        is_known = coefficient(e.args[0], lane) is not None or chosen(e.args[0], lane) is not None
        return e.dtype in LANES and (is_known or (is_whole and is_repeated(e, lane)))
    if e.op == "reduce":
        return LANES.get(e.dtype) in ("float", "integer") and e.value[0] in ("add", "mul", "max", "min")
    if e.op == "select":
        return e.dtype in LANES
    if e.op == "cast":
        return e.dtype in LANES and (e.args[0].dtype in LANES or places(e, lane) is not None)
    return e.op not in ("const", "bitcast") and has_vector_form(e.op, e.dtype, e.args[-1].dtype)


def always_computed(body: Expr, lane: Expr) -> Iterator[Expr]:
    """Sub-expressions of ``body`` that are computed whatever is chosen in it.

    A choice that does not depend on ``lane`` is made once for all lanes; what its branches load may lie outside their
    buffers while the other is taken, so nothing of them can be moved out.
    """
    seen: set[Expr] = set()
    stack = [body]
    while stack:
        e = stack.pop()
        if e not in seen:
            seen.add(e)
            yield e
            is_guard = e.op == "select" and lane not in X.free_variables(e.args[0])
            stack += e.args[:1] if is_guard else e.args


def loads_beyond_choice(choice: Expr) -> Iterator[Expr]:
    """The loads in branches of a choice by data that leave no buffer, and so may be made before it.

    GCC 12 compiles groups of such loads wrong where it turns the choice into masks (two neighbors each of a loop in a
    loop, with AVX2 or AVX-512). Those that a choice by position guards stay where they are, with what is open, and
    those whose place is loaded too.
    """
    is_by_data, is_by_position = _decided_by(choice.args[0])
    is_known = not is_by_position or not _has_sizes(choice)
    stack = [*choice.args[1:]] if is_by_data and is_known else []
    seen: set[Expr] = set()
    while stack:
        e = stack.pop()
        if e in seen:
            continue
        seen.add(e)
        if (elements := _elements(e)) and not X.loads(e.args[0]):
            first, last = index.bounds(e.args[0])
            if first >= 0 and last < elements:
                yield e
        elif e.op not in ("load", "reduce", "select"):  # a choice inside may guard its loads by position
            stack.extend(e.args)


def keeps_loads(choice: Expr) -> bool:
    """Are there loads in branches of a choice by data that have to stay there?"""
    moved = {*loads_beyond_choice(choice)}
    branches = (load for branch in choice.args[1:] for load in X.loads(branch))
    return _decided_by(choice.args[0])[0] and any(_elements(load) and load not in moved for load in branches)


def _elements(e: Expr) -> int:
    """Those of the buffer that is loaded from, at one position; else 0."""
    return getattr(e.value, "elements", 0) if e.op == "load" and len(e.args) == 1 else 0


def _decided_by(condition: Expr) -> tuple[bool, bool]:
    """Does a condition depend on data, and does it depend on positions beside those of the data?"""
    is_by_data = is_by_position = False
    stack = [condition]
    seen: set[Expr] = set()
    while stack:
        e = stack.pop()
        if e in seen:
            continue
        seen.add(e)
        if e.op == "load" and not isinstance(e.value, str):
            is_by_data = True
        elif e.op in ("load", "var", "size"):  # what has a name alone is a position, or how many there are
            is_by_position = True
        else:
            stack.extend(e.args)
    return is_by_data, is_by_position


def _has_sizes(e: Expr) -> bool:
    return any(
        x.op == "size" or (x.op == "var" and not is_fixed(x)) or (x.op == "load" and isinstance(x.value, str))
        for x in X.walk(e)
    )


def _surely_computed(body: Expr, known: dict[Expr, set[Expr]]) -> set[Expr]:
    """Sub-expressions that are computed whatever is chosen in it, without those inside of reductions and places.

    ``known`` are those of branches: choices that share one are many ways through few expressions.
    """
    if body in known:
        return known[body]
    found: set[Expr] = set()
    stack = [body]
    while stack:
        e = stack.pop()
        if e not in found:
            found.add(e)
            if e.op == "select":
                one, other = (_surely_computed(branch, known) for branch in e.args[1:])
                found |= one & other
            stack += () if e.op in ("load", "reduce") else e.args[:1] if e.op == "select" else e.args
    known[body] = found
    return found


def parts_beyond_choice(choice: Expr) -> Iterator[Expr]:
    """The largest parts of the branches of a choice that may be computed before it: what both compute, or what is of
    reductions alone.

    Of what a choice by position guards in one branch, no load may be moved out, and so no reduction that is not
    computed yet.
    """
    sure: dict[Expr, set[Expr]] = {}
    one, other = (_surely_computed(branch, sure) for branch in choice.args[1:])
    is_by_data = bool(X.loads(choice.args[0]))
    known: dict[Expr, bool] = {}

    def is_of_reductions(e: Expr) -> bool:
        if e not in known:
            if e.op == "load":
                known[e] = isinstance(e.value, tuple)  # the value of a reduction, already computed
            elif e.op == "reduce":
                known[e] = is_by_data
            else:
                known[e] = e.op == "const" or (bool(e.args) and all(map(is_of_reductions, e.args)))
        return known[e]

    stack = [*choice.args[1:]]
    seen: set[Expr] = set()
    while stack:
        e = stack.pop()
        if e in seen or e.op in ("const", "var", "size", "load"):
            continue
        seen.add(e)
        is_alone = is_of_reductions(e) and any(x.op in ("load", "reduce") for x in X.walk(e))
        if ((e in one and e in other) or is_alone) and (e.dtype != "i64" or e.op == "reduce"):  # positions stay
            yield e
        else:
            stack.extend(e.args)
