"""Vectors in C: types, loads, stores, arithmetic and casts on lanes (ec_simd.h, ec_simd_integer.h).

A lane has 32 bits and holds a float, an integer or a mask, whatever the type in memory; what is computed in a narrower
type is brought back into its range after every operation.
"""

from __future__ import annotations

from collections.abc import Sequence

from edgec.ir.expr import Expr
from edgec.ir.vector import COMPARE, LANES, bounds

_TYPES = {"float": "ec_vf", "integer": "ec_vi", "mask": "ec_vi"}
_BROADCAST = {"float": "ec_set1", "integer": "ec_set1_i", "mask": "ec_mask"}
_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_WIDE = ("f32", "i32", "bool")


def vector_type(dtype: str) -> str:
    """The type of a vector with values of ``dtype``."""
    return _TYPES[LANES[dtype]]


def broadcast(text: str, dtype: str) -> str:
    """The same value in all lanes."""
    return f"{_BROADCAST[LANES[dtype]]}({text})"


def counted(first: str, step: int) -> str:
    """Integers with a step from lane to lane."""
    steps = "ec_to_int(ec_iota())"
    if step != 1:
        steps = f"ec_mul_i({steps}, {broadcast(str(step), 'i32')})"
    return f"ec_add_i({broadcast(first, 'i32')}, {steps})"


def access(name: str, dtype: str, count: str | None) -> str:
    """The function that loads, stores, gathers, picks or scatters values, all lanes or the first ``count``."""
    return f"ec_{name}{'' if dtype == 'f32' else '_' + dtype}{'_n' if count else ''}"


def repeated(place: str, dtype: str, times: int, phase: int, count: str | None) -> str:
    """The elements at a place, each of them ``times`` times beside itself, in all lanes or the first ``count``.

    The first ``phase`` of them are left out.
    """
    few = f"(({count or 'EC_VL'}) + {phase + times - 1}) / {times}"
    return f"ec_repeated({access('load', dtype, few)}({place}, {few}), {times}, {phase})"


def narrowed(text: str, dtype: str) -> str:
    """A result that may have left the range of a type narrower than a lane."""
    return text if dtype in _WIDE else f"ec_as_{dtype}({text})"


def combined(combine: str, dtype: str, a: str, b: str) -> str:
    """One step of a reduction; floats narrower than a lane are rounded at its end alone."""
    if LANES[dtype] == "integer":
        text = f"ec_{combine}_i({a}, {b})"
        return text if combine in ("max", "min") else narrowed(text, dtype)
    return f"{a} {_INFIX[combine]} {b}" if combine in _INFIX else f"ec_{combine}({a}, {b})"


def across(combine: str, dtype: str, vector: str) -> str:
    """The lanes of a vector reduced to one number."""
    name = {"add": "sum", "mul": "prod"}.get(combine, combine)
    return f"ec_h{name}{'_i' if LANES[dtype] == 'integer' else ''}({vector})"


def call(e: Expr, args: Sequence[str]) -> str:
    """A scalar function on lanes; ``args`` are vectors."""
    if e.op == "isnan":
        return f"ec_ne({args[0]}, {args[0]})"
    if e.op in COMPARE:
        return f"ec_{e.op}{'_i' if LANES[e.args[0].dtype] == 'integer' else ''}({', '.join(args)})"
    kind = LANES[e.dtype]
    if e.op == "select":
        return f"ec_select{'' if kind == 'float' else '_i'}({', '.join(args)})"
    if kind == "integer":
        if e.op == "mulshift" and e.args[2].op == "const" and e.args[2].value == 31:
            return f"ec_mulhigh({args[0]}, {args[1]})"
        text = f"ec_{e.op}_i({', '.join(args)})" if e.op != "mulshift" else f"ec_mulshift({', '.join(args)})"
        return text if e.op in ("max", "min", "shr", "bitand", "bitor", "bitxor") else narrowed(text, e.dtype)
    if e.op in _INFIX:
        return narrowed(f"{args[0]} {_INFIX[e.op]} {args[1]}", e.dtype)
    return narrowed(f"-{args[0]}" if e.op == "neg" else f"ec_{e.op}({', '.join(args)})", e.dtype)


def cast(e: Expr, x: str) -> str:
    """A cast whose source is the vector ``x``."""
    source, target = LANES[e.args[0].dtype], LANES[e.dtype]
    if target == "mask":
        zero = broadcast("0.0f" if source == "float" else "0", e.args[0].dtype)
        return x if source == "mask" else f"ec_ne{'_i' if source == 'integer' else ''}({x}, {zero})"
    if source == "mask":
        return f"ec_truth({x})" if target == "integer" else f"ec_to_float(ec_truth({x}))"
    if source == target:
        return x if _holds(e.dtype, e.args[0].dtype) else narrowed(x, e.dtype)
    if target == "float":
        return narrowed(f"ec_to_float({x})", e.dtype)
    low, high = bounds(e.args[0])
    fits = low > -(2.0**31) and high < 2.0**31 and e.dtype != "i32"
    return narrowed(f"ec_{'whole' if fits else 'to_int'}({x})", e.dtype)


def _holds(wide: str, narrow: str) -> bool:
    """Is every value of the second type one of the first?"""
    if LANES[wide] == "float":
        return wide == narrow or wide == "f32"
    if wide == narrow or wide == "i32":
        return True
    return int(wide[1:]) > int(narrow[1:]) and (wide[0] == narrow[0] or narrow[0] == "u")


def rounded_and_clamped(e: Expr) -> tuple[Expr, float, float] | None:
    """(x, low, high) where a float-to-integer cast is of ``min(max(round(x), low), high)``.

    Between whole numbers, clamping first gives the same; then rounding and conversion are one instruction. Without a
    lower bound, which a sum of bytes may not need, conversions saturate.
    """
    found: dict[str, float] = {}
    inner = e.args[0]
    while inner.op in ("min", "max") and inner.op not in found and inner.args[1].op == "const":
        found[inner.op] = inner.args[1].value
        inner = inner.args[0]
    if inner.op != "round" or LANES.get(inner.dtype) != "float" or "min" not in found:
        return None
    low, high = found.get("max", -(2.0**31)), found["min"]
    is_whole = low == round(low) and high == round(high) and low <= high <= 2.0**24
    is_whole = is_whole and (low >= -(2.0**24) or "max" not in found)
    return (inner.args[0], low, high) if is_whole else None


def stored(e: Expr) -> Expr:
    """The operand of a store of ``e``: stores narrow, so a cast that only narrows is left out."""
    while e.op == "cast" and e.dtype not in _WIDE:
        source = e.args[0]
        if LANES.get(source.dtype) != LANES[e.dtype] or not _holds(source.dtype, e.dtype):
            break
        e = source
    return e
