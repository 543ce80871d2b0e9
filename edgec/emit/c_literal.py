"""Element types, constants and functions of floats as C spells them."""

from __future__ import annotations

from math import isinf, isnan

import numpy as np

from edgec.ir.types import CODED, FLOATS, MINIFLOATS

C_TYPES = {
    "f32": "float", "f64": "double", "f16": "float", "bf16": "float", "bool": "uint8_t",
    "i8": "int8_t", "i16": "int16_t", "i32": "int32_t", "i64": "int64_t",
    "u8": "uint8_t", "u16": "uint16_t", "u32": "uint32_t", "u64": "uint64_t",
    "i4": "int8_t", "i2": "int8_t", "u4": "uint8_t", "u2": "uint8_t", **dict.fromkeys(MINIFLOATS, "float"),
}  # fmt: skip
#: Types in memory; what is coded there is decoded when it is loaded.
STORAGE = {**C_TYPES, **{dtype: f"ec_{dtype}" for dtype in CODED}}

#: Functions of the C library by those of the formula language.
LIBM = {
    "floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "rint", "sqrt": "sqrt", "abs": "fabs",
    "exp": "exp", "log": "log", "log1p": "log1p", "expm1": "expm1", "tanh": "tanh", "erf": "erf",
    "sin": "sin", "cos": "cos", "tan": "tan", "asin": "asin", "acos": "acos", "atan": "atan",
    "sinh": "sinh", "cosh": "cosh", "asinh": "asinh", "acosh": "acosh", "atanh": "atanh", "pow": "pow", "fmod": "fmod",
}  # fmt: skip
_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/"}


def scalar_update(combine: str, name: str, value: str, dtype: str) -> str:
    """A statement that combines a variable of the type with a value."""
    ctype = C_TYPES[dtype]
    if combine in ("and", "or"):
        return f"{name} = {name} {'&&' if combine == 'and' else '||'} {value};"
    if dtype in ("f16", "bf16", "f32", "f64") and combine in _INFIX:
        return f"{name} = {name} {_INFIX[combine]} {value};"
    if dtype == "bool":
        return f"{name} = {name} {'||' if combine in ('add', 'max') else '&&'} {value};"
    return f"{name} = ec_{combine}_{ctype}({name}, {value});"


def literal(value: float, dtype: str) -> str:
    """A constant as C text of exactly this value."""
    if dtype in FLOATS:
        suffix = "" if dtype == "f64" else "f"
        number = float(value)
        if isnan(number):
            return "(float)NAN" if suffix else "(double)NAN"
        if isinf(number):
            text = f"({'float' if suffix else 'double'})INFINITY"
            return f"(-{text})" if number < 0 else text
        if suffix and abs(number) > 3.4028235677973366e38:
            return "(-(float)INFINITY)" if number < 0 else "(float)INFINITY"
        text = repr(number) if dtype == "f64" else _shortest(number)
        return f"{text}{suffix}" if number >= 0 and not text.startswith("-") else f"({text}{suffix})"
    if dtype == "bool":
        return "1" if value else "0"
    if dtype in ("u32", "u64"):
        return f"{value}u"  # as wide as the number asks for; in OpenCL C, ull has 128 bits
    if dtype in ("i32", "i64") and value == -(2 ** (31 if dtype == "i32" else 63)):
        return f"({value + 1} - 1)"
    return str(int(value))


def _shortest(number: float) -> str:
    text = np.format_float_scientific(np.float32(number), unique=True, trim="0")
    plain = np.format_float_positional(np.float32(number), unique=True, trim="0")
    return plain if len(plain) <= len(text) + 2 else text
