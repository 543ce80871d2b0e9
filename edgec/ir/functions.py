"""Scalar functions of the formula language: the one table of their meaning, price, result type, derivatives, shape."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np

Array = Any


@dataclass(frozen=True, slots=True)
class Curve:
    """The shape of a function of one argument, from which bounds follow (``edgec.certify``).

    ``pieces`` has a letter for each piece between ``turns``, from left to right: v where it is convex, n where it is
    concave. It is monotone between ``extremes``, and defined above ``start``. Of a function that steps, ``steps`` are
    the least and the greatest of f(x) - x. ``ulp`` is the largest error of the C code, in units in the last place of
    the result, with fused multiply-adds or without (docs/results/vector-math.md; that of log1p holds for softplus, that
    of sigmoid for silu).
    """

    pieces: str = ""
    turns: tuple[float, ...] = ()
    extremes: tuple[float, ...] = ()
    start: float = -inf
    steps: tuple[float, float] | None = None
    ulp: float = 0.0


@dataclass(frozen=True, slots=True)
class Function:
    """A scalar function: ``numpy`` is its meaning, ``flops`` its price, ``result`` its type when not its argument's.

    ``only`` is the type of its arguments where it is defined for one alone. ``derivatives`` has a formula for each
    argument (a, b, c): what a change ``g`` of the result ``y`` means for it, that is g * dy/da. "0" stands where the
    function is constant but for steps; truth values and functions of integers have none. ``curve`` is the shape of a
    function of one argument.
    """

    numpy: Callable[..., Array]
    flops: int = 1
    result: str | None = None
    only: str | None = None
    derivatives: tuple[str | None, ...] = ()
    curve: Curve | None = None


def _erf(x: Array) -> Array:
    # Abramowitz-Stegun is too coarse for a reference: the C library's erf, lifted over arrays, is exact enough.
    from math import erf

    x = np.asarray(x)
    flat = np.fromiter((erf(v) for v in x.astype(np.float64).ravel()), np.float64, x.size)
    return flat.reshape(x.shape).astype(x.dtype)


def _trunc_div(a: Array, b: Array) -> Array:
    if np.result_type(a, b).kind not in "iu":  # bfloat16 is of no kind that numpy knows
        return np.divide(a, b)
    quotient = np.floor_divide(a, b)
    rounded_down = (np.multiply(quotient, b) != a) & (np.less(a, 0) != np.less(b, 0)) & np.not_equal(b, 0)
    return (quotient + rounded_down).astype(np.result_type(a, b))


def _mulshift(a: Array, b: Array, n: Array) -> Array:
    """a * b / 2^n, a half rounded up, for n of 0 to 63: the product is exact, the result wraps around."""
    count = np.bitwise_and(n, 63).astype(np.uint64)
    half = np.right_shift(np.left_shift(np.uint64(1), count), np.uint64(1)).astype(np.int64)
    product = np.multiply(a, b, dtype=np.int64) + half
    return np.right_shift(product, count.astype(np.int64)).astype(np.int32)


def _quiet(function: Callable[..., Array]) -> Callable[..., Array]:
    def wrapped(*args: Array) -> Array:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*args)

    return wrapped


def _sigmoid(x: Array) -> Array:
    return (1 / (1 + np.exp(-x))).astype(np.asarray(x).dtype)


_POW = "select(eq(b, 0), 0, g * b * pow(a, b - 1))"

FUNCTIONS: dict[str, Function] = {
    name: replace(f, numpy=_quiet(f.numpy))
    for name, f in {
        "add": Function(np.add, derivatives=("g", "g")),
        "sub": Function(np.subtract, derivatives=("g", "-g")),
        "mul": Function(np.multiply, derivatives=("g * b", "g * a")),
        "div": Function(_trunc_div, 4, derivatives=("g / b", "-(g / b * y)")),
        "floordiv": Function(np.floor_divide, 4, derivatives=("0", "0")),
        "floormod": Function(np.mod, 4, derivatives=("g", "-(g * floor(a / b))")),
        "fmod": Function(np.fmod, 8, derivatives=("g", "-(g * trunc(a / b))")),
        "pow": Function(
            np.power,
            20,
            derivatives=(
                "select(eq(b, 0), 0, g * b * pow(a, b - 1))",
                "select(eq(a, 0) & (b >= 0), 0, g * y * log(a))",
            ),
        ),
        "max": Function(np.maximum, derivatives=("winner(g, y > b, a, b)", "winner(g, y > a, b, a)")),
        "min": Function(np.minimum, derivatives=("winner(g, y < b, a, b)", "winner(g, y < a, b, a)")),
        "neg": Function(np.negative, derivatives=("-g",)),
        "abs": Function(np.abs, derivatives=("g * sign(a)",), curve=Curve("v", extremes=(0.0,))),
        "sign": Function(np.sign, derivatives=("0",)),
        "floor": Function(np.floor, derivatives=("0",), curve=Curve(steps=(-1.0, 0.0))),
        "ceil": Function(np.ceil, derivatives=("0",), curve=Curve(steps=(0.0, 1.0))),
        "trunc": Function(np.trunc, derivatives=("0",), curve=Curve(steps=(-1.0, 1.0))),
        "round": Function(np.rint, derivatives=("0",), curve=Curve(steps=(-0.5, 0.5))),
        "sqrt": Function(np.sqrt, 4, derivatives=("g / (2 * y)",), curve=Curve("n", start=0.0, ulp=0.5)),
        "exp": Function(np.exp, 10, derivatives=("g * y",), curve=Curve("v", ulp=1.1)),
        "log": Function(np.log, 10, derivatives=("g / a",), curve=Curve("n", start=0.0, ulp=0.9)),
        "log1p": Function(np.log1p, 12, derivatives=("g / (a + 1)",), curve=Curve("n", start=-1.0, ulp=2.8)),
        "expm1": Function(np.expm1, 12, derivatives=("g * (y + 1)",), curve=Curve("v", ulp=1.6)),
        "sigmoid": Function(_sigmoid, 14, derivatives=("g * (y * (1 - y))",), curve=Curve("vn", (0.0,), ulp=3.2)),
        "tanh": Function(np.tanh, 14, derivatives=("g * (1 - y * y)",), curve=Curve("vn", (0.0,), ulp=7.0)),
        "erf": Function(
            _erf,
            16,
            derivatives=("g * (1.1283791670955126 * exp(-(a * a)))",),
            curve=Curve("vn", (0.0,), ulp=7.5),
        ),
        "sin": Function(np.sin, 14, derivatives=("g * cos(a)",)),
        "cos": Function(np.cos, 14, derivatives=("-(g * sin(a))",)),
        "tan": Function(np.tan, 20, derivatives=("g * (y * y + 1)",)),
        "asin": Function(np.arcsin, 20, derivatives=("g / sqrt(1 - a * a)",)),
        "acos": Function(np.arccos, 20, derivatives=("-(g / sqrt(1 - a * a))",)),
        "atan": Function(np.arctan, 20, derivatives=("g / (a * a + 1)",)),
        "sinh": Function(np.sinh, 20, derivatives=("g * cosh(a)",)),
        "cosh": Function(np.cosh, 20, derivatives=("g * sinh(a)",)),
        "asinh": Function(np.arcsinh, 20, derivatives=("g / sqrt(a * a + 1)",)),
        "acosh": Function(np.arccosh, 20, derivatives=("g / sqrt(a * a - 1)",)),
        "atanh": Function(np.arctanh, 20, derivatives=("g / (1 - a * a)",)),
        "isnan": Function(np.isnan, 1, "bool"),
        "isinf": Function(np.isinf, 1, "bool"),
        "lt": Function(np.less, 1, "bool"),
        "le": Function(np.less_equal, 1, "bool"),
        "gt": Function(np.greater, 1, "bool"),
        "ge": Function(np.greater_equal, 1, "bool"),
        "eq": Function(np.equal, 1, "bool"),
        "ne": Function(np.not_equal, 1, "bool"),
        "and": Function(np.logical_and, 1, "bool"),
        "or": Function(np.logical_or, 1, "bool"),
        "xor": Function(np.logical_xor, 1, "bool"),
        "not": Function(np.logical_not, 1, "bool"),
        "bitand": Function(np.bitwise_and),
        "bitor": Function(np.bitwise_or),
        "bitxor": Function(np.bitwise_xor),
        "bitnot": Function(np.bitwise_not),
        "shl": Function(np.left_shift),
        "shr": Function(np.right_shift),
        "mulshift": Function(_mulshift, 4, None, "i32"),
        "select": Function(lambda c, a, b: np.where(c, a, b), derivatives=(None, "select(a, g, 0)", "select(a, 0, g)")),
    }.items()
}

#: Functions that integers and truth values have no code of.
OF_FLOATS = frozenset(
    (
        "sqrt", "exp", "log", "log1p", "expm1", "sigmoid", "tanh", "erf", "sin", "cos", "tan", "asin", "acos", "atan",
        "sinh", "cosh", "asinh", "acosh", "atanh", "isnan", "isinf",
    )
)  # fmt: skip
_TWO = frozenset(
    (
        "add", "sub", "mul", "div", "floordiv", "floormod", "fmod", "pow", "max", "min", "eq", "ne", "lt", "le", "gt",
        "ge", "and", "or", "xor", "bitand", "bitor", "bitxor", "shl", "shr",
    )
)  # fmt: skip
_THREE = frozenset(("select", "mulshift"))


def arity(name: str) -> int:
    """Number of arguments of a scalar function."""
    return 2 if name in _TWO else 3 if name in _THREE else 1
