"""Scalar functions and comparisons, with special values."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from chance import RANDOM
from small_graphs import (
    Named,
    graph,
    value,
)  # fmt: skip

from edgec import ops
from edgec.ir.functions import FUNCTIONS
from edgec.ir.graph import Node, constant
from edgec.ir.types import DTYPES

#: What functions must get right beside ordinary numbers.
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -1.5, 1e-3, -88.5, 90.0, 1e-40, 3e38, -3e38, np.inf, -np.inf, np.nan)


UNARY = (
    "neg", "abs", "sign", "floor", "ceil", "trunc", "round", "sqrt", "exp", "log", "log1p", "expm1", "sigmoid", "tanh",
    "erf", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "isnan", "isinf",
    "not", "bitnot",
)  # fmt: skip


LOGICAL = ("and", "or", "xor", "not")


BITS = ("bitand", "bitor", "bitxor", "bitnot", "shl", "shr")


INTEGER = (
    "add", "sub", "mul", "div", "floordiv", "floormod", "fmod", "max", "min", "neg", "abs", "sign", "lt", "le", "gt",
    "ge", "eq", "ne", "pow", *BITS,
)  # fmt: skip


def functions() -> Iterator[Named]:
    """Every scalar function for every type that it is for, on the numbers at the edges of the type."""
    for name in FUNCTIONS:
        operands = 3 if name in ("select", "mulshift") else 1 if name in UNARY else 2
        types = ["bool"] if name in LOGICAL else [] if name in BITS else ["f32", "f64"]
        types += ["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"] if name in INTEGER else []
        types = ["i32"] if FUNCTIONS[name].only == "i32" else types
        results = []
        for dtype in types:
            # numpy, which is the reference, knows no negative powers of whole numbers.
            pairs = _pairs(dtype, least=0 if name == "pow" and dtype[0] in "iu" else None)
            args = [ops.node("lt", *pairs), *pairs] if name == "select" else pairs
            if name == "mulshift":
                counts = constant(np.arange(pairs[0].type.elements, dtype=np.int32) % 64)
                args = [*pairs, counts]
                results.append(ops.node(name, *pairs, constant(np.array(31, np.int32))))
            results.append(ops.node(name, *args[:operands]))
        yield f"function {name}", graph(*results)


def comparisons() -> Iterator[Named]:
    """Comparisons that are the same for every value of a type: compilers warn about those."""
    compare = ("lt", "le", "gt", "ge", "eq", "ne")
    for dtype in ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "bool"):
        x = value("x", 9, dtype=dtype)
        ends = (False, True) if dtype == "bool" else (np.iinfo(DTYPES[dtype]).min, np.iinfo(DTYPES[dtype]).max)
        limits = [constant(np.array(end, DTYPES[dtype])) for end in ends]
        tests = [ops.node(c, *args) for c in compare for y in (x, *limits) for args in ((x, y), (y, x))]
        if dtype == "bool":
            tests += [ops.node(c, x, y) for c in ("and", "or", "xor") for y in (x, *limits)]
        else:
            names = ("add", "sub", "mul", "div", "floordiv", "floormod", "fmod", "max", "min", "shl", "shr")
            tests += [ops.node(name, x, y) for name in names for y in (x, *limits)]
        yield f"constant comparisons {dtype}", graph(*tests)
    x = value("x", 21)
    numbers = [constant(np.array(n, np.float32)) for n in (0.0, -0.0, np.inf, -np.inf, np.nan, 3e38)]
    yield (
        "constant comparisons f32",
        graph(*(ops.node(c, x, y) for c in (*compare, "max", "min") for y in (x, *numbers))),
    )


def _pairs(dtype: str, least: int | None = None) -> list[Node]:
    """Two vectors that hold every pair of a type's numbers at the edge; all inputs but the integers, whose are many."""
    if dtype in ("f32", "f64"):
        edges = np.array([*SPECIAL, *RANDOM.standard_normal(5)], DTYPES[dtype])
    elif dtype == "bool":
        edges = np.array([False, True])
    else:
        limits = np.iinfo(DTYPES[dtype])
        numbers = (0, 1, 2, 3, 7, 33, -1, -2, -5, limits.min, limits.max)
        edges = np.array([n for n in numbers if limits.min <= n <= limits.max], DTYPES[dtype])
    right = edges if least is None else edges[edges >= least]
    pairs = np.meshgrid(edges, right, indexing="ij")
    return [constant(p.reshape(-1)) for p in pairs]
