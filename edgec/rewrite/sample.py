"""Test instances of rules: random broadcasting shapes, and values chosen to break them."""

from __future__ import annotations

from math import prod
from random import Random
from typing import Any

import numpy as np

from edgec import ops
from edgec.ir.graph import Node, constant, placeholder
from edgec.ir.types import DTYPES, FLOATS, Type, ends
from edgec.rewrite.forms import Form

Array = np.ndarray
Shape = tuple[int, ...]


def shapes(random: Random, count: int) -> list[Shape]:
    """``count`` shapes with sizes from 1 to 4 that broadcast together."""
    full = [random.randint(1, 4) for _ in range(random.randint(0, 4))]
    return [broadcastable(random, full) for _ in range(count)]


def broadcastable(random: Random, full: list[int]) -> Shape:
    """A shape that broadcasts to ``full``: leading dimensions left out, others of extent 1."""
    if random.random() < 0.4:
        return tuple(full)
    kept = full[random.randint(0, len(full)) :]
    return tuple(1 if random.random() < 0.4 else extent for extent in kept)


#: What breaks rules that are only nearly right.
_HARD = (0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-42, -1e-42, 3e38, -3e38, 0.1, -7.25, 0.5)
_EASY = (0.0, -0.0, 1.0, -1.0, 2.0, 0.5, -3.0)


def values(random: Random, type: Type, is_exact: bool) -> Array:
    """Elements for one tensor: of one sign or both, all alike or not, and specials where bits are to be kept."""
    dtype = DTYPES[type.dtype]
    n = type.elements
    if type.dtype == "bool":
        return np.array([random.random() < 0.5 for _ in range(n)], dtype).reshape(type.shape)
    if type.dtype not in FLOATS:
        least, greatest = ends(type.dtype)
        low, high = random.choice([(-3, 3), (0, 9), (int(least), int(greatest))])
        picked = [min(max(random.randint(low, high), least), greatest) for _ in range(n)]
        return np.array(picked, dtype).reshape(type.shape)
    kind = random.choice(["both", "both", "positive", "special", "alike"])
    if kind == "special":
        pool = _HARD if is_exact else _EASY
        floats = [random.choice(pool) for _ in range(n)]
    else:
        floats = [random.choice((-1, 1)) * random.uniform(0.2, 3.0) for _ in range(n)]
        floats = [abs(f) for f in floats] if kind == "positive" else floats[:1] * n if kind == "alike" else floats
    with np.errstate(over="ignore"):
        return np.array(floats, np.float64).astype(dtype).reshape(type.shape)


def tolerance(dtype: str) -> float:
    """Largest admissible difference of two results of reassociated arithmetic, relative to the operands."""
    return {"f64": 1e-9, "f32": 2e-4}.get(dtype, 2e-2)


# ---- words for the examples of changes


def given(name: str, *shape: int, dtype: str = "f64") -> Node:
    """An input; doubles, so that a proof can tell a wrong rule from rounding."""
    return placeholder(name, Type(dtype, shape))


def fixed(random: Random, *shape: int, dtype: str = "f64") -> Node:
    """A constant."""
    if isinstance(random, Form):
        return random.unknown(Type(dtype, shape))
    return constant(values(random, Type(dtype, shape), False))


def positions_in(random: Random, extent: Any, count: Any) -> Node:
    """So many constant positions in a dimension, in any order."""
    if isinstance(random, Form):
        return random.unknown(Type("i64", (count,)))
    return constant(np.array([random.randint(0, extent - 1) for _ in range(count)], np.int64))


def extents(random: Random, count: int) -> Shape:
    return tuple(extent(random, 1, 4) for _ in range(count))


def few(random: Random, count: int) -> Shape:
    """Extents of rules whose code asks for numbers: a form for every choice of 1 to 3."""
    return tuple(random.randint(1, 3) for _ in range(count))


def extent(random: Random, low: int, high: int) -> Any:
    """A number of elements; of a form, any number from ``low`` on."""
    return random.extent(low) if isinstance(random, Form) else random.randint(low, high)


def permutation(random: Random, rank: int) -> Shape:
    return tuple(random.sample(range(rank), rank))


def bytes_of(random: Random, *shape: int, dtype: str = "i8") -> Node:
    """Constant weights of a quantized network."""
    low, high = ends(dtype)
    values = [random.randint(int(low), int(high)) for _ in range(prod(shape))]
    return constant(np.array(values, DTYPES[dtype]).reshape(shape))


def dequantized(random: Random, q: Node, *scales: int, zero: int | None = None, dtype: str = "f32") -> Node:
    """(q - zero) * scale, for scales of the shape ``scales``; a random zero point where none is given."""
    x = ops.node("cast", q, to=dtype)
    zero = random.randint(*map(int, ends(q.type.dtype))) if zero is None else zero
    factors = random.uniform(0.001, 0.5) * (1 + np.arange(prod(scales)).reshape(scales))
    if zero:
        x = ops.node("sub", x, constant(np.array(zero, DTYPES[dtype])))
    return ops.node("mul", x, constant(factors.astype(DTYPES[dtype])))
