"""The syntax of WGSL, the shading language of WebGPU: types, constants, scalar functions.

Values have 32 bits. Narrower integers are computed in i32 and brought back into their range, as lanes of a CPU are;
integers of 64 bits are computed in 32.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isinf, isnan

import numpy as np

from edgec.emit.c_literal import literal
from edgec.emit.syntax import Syntax
from edgec.errors import DeviceError
from edgec.ir.expr import Expr

#: Types of values by element type; others have no form in WGSL.
TYPES = {
    "f32": "f32", "bool": "bool", "u32": "u32", **dict.fromkeys(("i8", "u8", "i16", "u16", "i32", "i64"), "i32"),
}  # fmt: skip
#: Element types that are computed in 32 bits and brought back into their own range.
NARROW = ("i8", "u8", "i16", "u16")
#: The largest float, and where numbers begin that are rounded to infinity.
LARGEST, OVERFLOW = float(np.finfo(np.float32).max), 3.4028235677973366e38
_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_BITS = {"bitand": "&", "bitor": "|", "bitxor": "^"}
_TRUTH = {"and": "&&", "or": "||", "xor": "!=", "add": "||", "max": "||", "mul": "&&", "min": "&&"}
#: Functions that WGSL itself has, under the names of the formula language.
_BUILT_IN = frozenset(("floor", "ceil", "trunc", "round", "sqrt", "abs", "exp", "sinh", "cosh", "asinh"))
#: Those of `ec_webgpu.wgsl`.
_OWN = (
    "sin", "cos", "tan", "asin", "acos", "atan", "acosh", "atanh", "log", "log1p", "expm1", "tanh", "erf",
    "pow", "fmod", "max", "min", "sign", "sigmoid", "floormod", "floordiv",
)  # fmt: skip
_OF_INTEGERS = (
    "div", "neg", "abs", "sign", "fmod", "floormod", "floordiv", "max", "min", "shl", "shr", "pow",
)  # fmt: skip


def lacking(what: str) -> DeviceError:
    """The error for what has no form in WGSL."""
    hint = "build it for WebAssembly: --device wasm32; or cast it to float32 or int32 in the model"
    return DeviceError(f"WGSL, the language of WebGPU, has no {what}", hint=hint)


def type_of(dtype: str) -> str:
    """The type of values of an element type; raises DeviceError where there is none."""
    if dtype not in TYPES:
        raise lacking(f"values of {dtype}")
    return TYPES[dtype]


def in_range(text: str, dtype: str) -> str:
    """An integer brought back into the range of a narrower type."""
    return f"ec_as_{dtype}({text})" if dtype in NARROW else text


class WgslSyntax(Syntax):
    """WGSL: the type of a declaration follows from its value."""

    types = TYPES
    position = "i32"

    def constant(self, kind: str, name: str, value: str) -> str:
        return f"let {name} = {value};"

    def variable(self, kind: str, name: str, value: str | None = None) -> str:
        return f"var {name}: {kind};" if value is None else f"var {name}: {kind} = {value};"

    def parameter(self, kind: str, name: str) -> str:
        return f"{name}: {kind}"

    def loop(self, name: str, extent: str) -> str:
        return f"for (var {name} = 0; {name} < {extent}; {name}++) {{"

    def cast(self, kind: str, text: str) -> str:
        return f"{kind}({text})"

    def choice(self, test: str, then: str, otherwise: str) -> str:
        return f"select({otherwise}, {then}, {test})"

    def literal(self, value: float, dtype: str) -> str:
        kind = type_of(dtype)
        if kind == "bool":
            return "true" if value else "false"
        if kind == "f32":
            number = float(value)
            if isnan(number):
                return "ec_nan()"
            if isinf(number) or abs(number) > OVERFLOW:  # no constant expression may be infinite
                return "(-ec_infinity())" if number < 0 else "ec_infinity()"
            if abs(number) >= LARGEST:  # its shortest decimal is above it, which browsers refuse
                return f"({'-' * (number < 0)}{LARGEST}f)"
            return literal(number, "f32")
        if kind == "i32" and not -(2**31) <= value < 2**31:
            raise lacking(f"integers of 64 bits, such as {int(value)}")
        return literal(value, "u32" if kind == "u32" else "i32")

    def update(self, combine: str, name: str, value: str, dtype: str) -> str:
        return f"{name} = {operation(combine, dtype, (name, value))};"


def operation(op: str, dtype: str, args: Sequence[str]) -> str:
    """A function of values of one type as WGSL; raises DeviceError for what it lacks."""
    kind = type_of(dtype)
    if kind == "bool":
        if op not in _TRUTH:
            raise lacking(f"'{op}' of truth values")
        return f"({args[0]} {_TRUTH[op]} {args[1]})"
    if op in _INFIX and (kind == "f32" or op != "div"):
        return in_range(f"({args[0]} {_INFIX[op]} {args[1]})", dtype)
    if kind == "f32":
        if op == "neg":
            return f"(-{args[0]})"
        if op in ("isnan", "isinf"):
            return f"ec_{op}({args[0]})"
        if op in _BUILT_IN:
            return f"{op}({', '.join(args)})"
        if op in _OWN:
            return f"ec_{op}_f32({', '.join(args)})"
    elif op in _BITS:
        return f"({args[0]} {_BITS[op]} {args[1]})"
    elif op == "bitnot":
        return in_range(f"(~{args[0]})", dtype)
    elif op in _OF_INTEGERS:
        return in_range(f"ec_{op}_{kind}({', '.join(args)})", dtype)
    raise lacking(f"'{op}' of {dtype}")


def cast(source: Expr, text: str, to: str) -> str:
    """A value in another type: floats are truncated and saturate, narrower integers wrap."""
    kind = type_of(to)
    if type_of(source.dtype) == "f32" and kind == "bool":
        return f"(!({text} == 0.0f))"
    if type_of(source.dtype) == "f32" and kind in ("i32", "u32"):
        return in_range(f"ec_convert_{kind}({text})", to)
    return in_range(f"{kind}({text})", to)


WGSL_SYNTAX = WgslSyntax()
