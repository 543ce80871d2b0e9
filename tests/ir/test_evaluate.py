"""Semantics of formulas: every core operator against numpy, and the vectorized evaluation against plain loops."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from chance import RANDOM
from plain_operators import WINDOWS, conv, last, pcg4d, scattered, scattered_nd, windows

from edgec import ops
from edgec.errors import ModelError
from edgec.frontend import formula as _formula  # noqa: F401  (it registers an operator)
from edgec.ir import expr as X
from edgec.ir.evaluate import evaluate_formula, evaluate_node, run
from edgec.ir.expr import Expr
from edgec.ir.functions import FUNCTIONS
from edgec.ir.graph import Formula, Graph, constant, placeholder
from edgec.ir.types import DTYPES, Type, dtype_name

Array = np.ndarray


def floats(*shape: int) -> Array:
    return RANDOM.standard_normal(shape).astype(np.float32)


def whole(high: int, *shape: int) -> Array:
    return RANDOM.integers(0, high, shape)


def apply(op: str, *arrays: Array, **attrs: Any) -> Array:
    args = [placeholder(f"a{k}", Type(dtype_name(a.dtype), a.shape)) for k, a in enumerate(arrays)]
    node = ops.node(op, *args, **attrs)
    result = evaluate_node(node, list(arrays))
    assert result.shape == node.type.shape
    assert result.dtype == DTYPES[node.type.dtype]
    return result


# ---- scalar functions: elementwise with broadcasting, against Python's own arithmetic

PLAIN: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": lambda a, b: a / b,
    "floordiv": lambda a, b: math.floor(a / b), "floormod": lambda a, b: a - b * math.floor(a / b),
    "fmod": math.fmod, "pow": lambda a, b: abs(a) ** b, "max": max, "min": min, "neg": lambda a: -a, "abs": abs,
    "sign": lambda a: (a > 0) - (a < 0), "floor": math.floor, "ceil": math.ceil, "trunc": math.trunc,
    "round": round, "sqrt": lambda a: math.sqrt(abs(a)), "exp": math.exp, "log": lambda a: math.log(abs(a)),
    "log1p": lambda a: math.log1p(abs(a)), "expm1": math.expm1, "sigmoid": lambda a: 1 / (1 + math.exp(-a)),
    "tanh": math.tanh, "erf": math.erf, "sin": math.sin, "cos": math.cos, "tan": math.tan,
    "asin": lambda a: math.asin(abs(a) % 1), "acos": lambda a: math.acos(abs(a) % 1), "atan": math.atan,
    "sinh": math.sinh, "cosh": math.cosh, "asinh": math.asinh, "acosh": math.acosh,
    "atanh": lambda a: math.atanh(abs(a) % 1), "isnan": math.isnan, "isinf": math.isinf,
    "lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "and": lambda a, b: a and b, "or": lambda a, b: a or b,
    "xor": lambda a, b: a != b, "not": lambda a: not a, "bitand": lambda a, b: a & b, "bitor": lambda a, b: a | b,
    "bitxor": lambda a, b: a ^ b, "bitnot": lambda a: ~a, "shl": lambda a, b: a << b, "shr": lambda a, b: a >> b,
    "select": lambda c, a, b: a if c else b, "mulshift": lambda a, b, n: (a * b + ((1 << n) >> 1)) >> n,
}  # fmt: skip
DOMAIN: dict[str, Callable[[Array], Array]] = {
    "sqrt": np.abs, "log": np.abs, "log1p": np.abs, "asin": lambda a: np.abs(a) % 1, "acos": lambda a: np.abs(a) % 1,
    "atanh": lambda a: np.abs(a) % 1, "acosh": lambda a: 1 + np.abs(a),
}  # fmt: skip


def test_every_scalar_function_has_a_plain_meaning() -> None:
    assert set(PLAIN) == set(FUNCTIONS)


def operands(name: str) -> list[Array]:
    plain = PLAIN[name]
    shapes = [(3, 1, 4), (2, 1), (4,)][: plain.__code__.co_argcount if hasattr(plain, "__code__") else 2]
    if name in ("tanh", "exp", "floor", "ceil", "trunc", "round", "erf", "sin", "cos", "tan", "sinh", "cosh", "abs",
                "asinh", "acosh", "atan", "expm1", "isnan", "isinf"):  # fmt: skip
        shapes = shapes[:1]
    if name in ("and", "or", "xor", "not"):
        return [whole(2, *s).astype(bool) for s in shapes]
    if name.startswith(("bit", "sh", "mulshift")):
        return [whole(8, *s).astype(np.int32) for s in shapes]
    values = [floats(*s) for s in shapes]
    if name == "select":
        values[0] = values[0] > 0
    if name == "pow":
        values[0] = np.abs(values[0])
    if name in ("eq", "ne"):
        values = [np.rint(v) for v in values]
    return [DOMAIN[name](v) for v in values] if name in DOMAIN else values


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_a_scalar_function_lifts_over_broadcast_tensors(name: str) -> None:
    arrays = operands(name)
    got = apply(name, *arrays)
    spread = np.broadcast_arrays(*arrays)
    expected = [PLAIN[name](*(a[i].item() for a in spread)) for i in np.ndindex(spread[0].shape)]
    assert got.shape == spread[0].shape
    np.testing.assert_allclose(got.reshape(-1), np.array(expected), rtol=3e-6, atol=1e-6)


def test_integer_division_truncates_and_floor_division_floors() -> None:
    a, b = np.array([7, -7, 7, -7], np.int32), np.array([2, 2, -2, -2], np.int32)
    assert apply("div", a, b).tolist() == [3, -3, -3, 3]
    assert apply("floordiv", a, b).tolist() == [3, -4, -4, 3]
    assert apply("floormod", a, b).tolist() == [1, 1, -1, -1]
    assert apply("fmod", a, b).tolist() == [1, -1, 1, -1]


# ---- structured operators, against numpy or plain loops


def doubling() -> np.ndarray:
    """h = relu(x + 0.5 + 2 h) from 1, over the inputs 1 and 2."""
    weights = np.zeros((1, 1, 32), np.float32)
    weights[0, 0, 0] = 2
    gates, state = np.array([[[1]], [[2]]], np.float32), np.ones((1, 1), np.float32)
    bias = np.array([0.5], np.float32)
    return apply("recurrence", gates, bias, weights, state, kind="rnn", activations=(("relu", 1.0, 0.0),))


A, B = floats(2, 3, 4), floats(4, 5)
W = floats(2, 2, 6, 5)
IMAGE, FILTER, GROUPED = floats(2, 4, 7, 6), floats(6, 4, 3, 2), floats(6, 2, 3, 2)
AT = np.array([[2, -1, 0, 0], [1, 1, 2, -3]])
TIES = np.array([1.0, -0.0, 0.0, np.nan, 2.0], np.float32)
COMBINES: dict[str, Callable[[Any, Any], Any]] = {"add": np.add, "mul": np.multiply, "max": max, "min": min}
CASES: dict[str, list[tuple[Any, Callable[[], Array]]]] = {
    "random": [
        (pcg4d(np.arange(15).reshape(3, 5), *(np.array([[c]]) for c in (n, stream, seed))) // 256 / 2**24,
         lambda n=n, stream=stream, seed=seed: apply(
             "random", np.array(n, np.int32), shape=(3, 5), stream=stream, seed=seed))
        for n, stream, seed in ((0, 0, 0), (7, 2, 5), (2**31 - 1, 40, 2**31 + 9))
    ],
    "matmul": [
        (A @ B, lambda: apply("matmul", A, B)),
        (A[0] @ B, lambda: apply("matmul", A[0], B)),
        (A[:, None] @ A.transpose(0, 2, 1), lambda: apply("matmul", A[:, None], A.transpose(0, 2, 1))),
        (np.zeros((2, 3)), lambda: apply("matmul", floats(2, 0), floats(0, 3))),
    ],
    "conv": [
        (conv(IMAGE, FILTER, (2, 1), (1, 2), 1),
         lambda: apply("conv", IMAGE, FILTER, strides=(2, 1), dilations=(1, 2))),
        (conv(IMAGE, GROUPED, (1, 1), (1, 1), 2),
         lambda: apply("conv", IMAGE, GROUPED, strides=(1, 1), dilations=(1, 1), groups=2)),
    ],
    "formula": [
        (A @ B, lambda: apply("formula", A, B, text="f32 y[s,m,n] = sum(k) a[s,m,k] * b[k,n]",
                              sizes=(("k", B.shape[0]), ("m", A.shape[1]), ("n", B.shape[1]), ("s", A.shape[0])))),
    ],
    "bitcast": [
        (A.view(np.int32), lambda: apply("bitcast", A, to="i32")),
        (AT.view(np.float64), lambda: apply("bitcast", AT, to="f64")),
    ],
    "cast": [
        (A.astype(np.int32), lambda: apply("cast", A, to="i32")),
        (A != 0, lambda: apply("cast", A, to="bool")),
        (AT.astype(np.uint8), lambda: apply("cast", AT, to="u8")),
    ],
    "reshape": [
        (A.reshape(4, 6), lambda: apply("reshape", A, shape=(4, 6))),
        (A.reshape(1, 24, 1), lambda: apply("reshape", A, shape=(1, 24, 1))),
    ],
    "transpose": [(A.transpose(2, 0, 1), lambda: apply("transpose", A, perm=(2, 0, 1)))],
    "broadcast": [(np.broadcast_to(B[:1], (3, 2, 5)), lambda: apply("broadcast", B[:1], shape=(3, 2, 5)))],
    "slice": [
        (A[1:, ::-2, 1:3],
         lambda: apply("slice", A, starts=(1, 2, 1), steps=(1, -2, 1), shape=(1, 2, 2))),
        (A[:, :0], lambda: apply("slice", A, starts=(0, 0, 0), steps=(1, 1, 1), shape=(2, 0, 4))),
    ],
    "windows": [(windows(W, **s), lambda s=s: apply("windows", W, **s)) for s in WINDOWS],
    "pad": [
        (np.pad(A, ((0, 0), (2, 1), (0, 3)), constant_values=-np.inf),
         lambda: apply("pad", A, before=(0, 2, 0), after=(0, 1, 3), value=-np.inf)),
    ],
    "concat": [
        (np.concatenate([A, A[:, :0], A[:, 1:]], 1), lambda: apply("concat", A, A[:, :0], A[:, 1:], axis=1)),
    ],
    "update": [
        (np.concatenate([A[:, :1], A[:, :2] * 2], 1), lambda: apply("update", A, A[:, :2] * 2, starts=(0, 1, 0))),
        (A, lambda: apply("update", A, A[:, :0], starts=(0, 3, 0))),
    ],
    "iota": [(np.broadcast_to(np.arange(3.0), (2, 3)), lambda: apply("iota", shape=(2, 3), axis=1, dtype="f32"))],
    "gather": [
        (A[:, AT % 3], lambda: apply("gather", A, AT, axis=1)),
        (A[:, 2], lambda: apply("gather", A, np.array(-1), axis=1)),
    ],
    "gather_elements": [
        (np.take_along_axis(A[0], AT % 3, 0), lambda: apply("gather_elements", A[0], AT, axis=0)),
    ],
    "gather_nd": [
        (A[[0, 1], [2, 0]], lambda: apply("gather_nd", A, np.array([[0, 2], [1, 0]]))),
        (np.stack([A[0, 2], A[1, 0]]), lambda: apply("gather_nd", A, np.array([[2], [0]]), batch=1)),
    ],
    "scatter_elements": [
        (scattered(A[0], AT, A[1, :2], 0, last), lambda: apply("scatter_elements", A[0], AT, A[1, :2], axis=0)),
        *((scattered(A[0], AT, A[1, :2], 0, f),
           lambda name=name: apply("scatter_elements", A[0], AT, A[1, :2], axis=0, combine=name))
          for name, f in COMBINES.items()),
    ],
    "scatter_nd": [
        (scattered_nd(A, AT[:, :2] % 2, A[0, :2], last), lambda: apply("scatter_nd", A, AT[:, :2] % 2, A[0, :2])),
        (scattered_nd(A, AT[:, :1] % 2, A[:, :3], np.add),
         lambda: apply("scatter_nd", A, AT[:, :1] % 2, A[:, :3], combine="add")),
    ],
    "reduce": [
        (A.sum((0, 2), keepdims=True), lambda: apply("reduce", A, combine="add", axes=(0, 2))),
        (A.prod(1, keepdims=True), lambda: apply("reduce", A, combine="mul", axes=(1,))),
        (A.max(2, keepdims=True), lambda: apply("reduce", A, combine="max", axes=(2,))),
        (AT.min(0, keepdims=True), lambda: apply("reduce", AT, combine="min", axes=(0,))),
        ((A > 0).all(0, keepdims=True), lambda: apply("reduce", A > 0, combine="and", axes=(0,))),
        ((A > 0).any(0, keepdims=True), lambda: apply("reduce", A > 0, combine="or", axes=(0,))),
        (np.full((2, 1), -np.inf), lambda: apply("reduce", floats(2, 0), combine="max", axes=(1,))),
    ],
    "pool": [
        (np.lib.stride_tricks.sliding_window_view(IMAGE, (3, 3), (2, 3))[:, :, ::2, :, :, ::2].max((-1, -2)),
         lambda: apply("pool", IMAGE, combine="max", kernel=(3, 2), strides=(2, 1), dilations=(1, 2))),
    ],
    "argsort": [
        (np.argsort(A, 1, kind="stable"), lambda: apply("argsort", A, axis=1)),
        (np.argsort(-A, 2, kind="stable")[:, :, :2], lambda: apply("argsort", A, axis=2, descending=True, count=2)),
        ([1, 2, 0, 4, 3], lambda: apply("argsort", TIES, axis=0)),
        ([3, 4, 0, 1, 2], lambda: apply("argsort", TIES, axis=0, descending=True)),
    ],
    "argsort_rows": [
        ([3, 2, 0, 1], lambda: apply("argsort_rows", np.array([[2, 1], [2, 1], [2, 0], [-1, 9]]))),
        ([0, 1, 2], lambda: apply("argsort_rows", np.zeros((3, 0)))),
    ],
    "compact": [
        ([0, 3, 5, -1, -1, -1], lambda: apply("compact", np.array([[1, 0, 0], [1, 0, 1]], bool))),
        ([], lambda: apply("compact", np.zeros((3, 0), bool))),
    ],
    "non_max_suppression": [
        ([[[1, 3, 2], [2, 0, 3]]], lambda: suppressed(0.5)),
        ([[[1, 0, 3], [2, 0, 1]]], lambda: suppressed(0.7)),
        ([[[1, 3, -1], [-1, -1, -1]]], lambda: suppressed(0.5, np.array(0.45, np.float32))),
    ],
    "descend": [([[2, 3], [1, 3], [0, 3]], lambda: apply("descend", TREE_ROWS, *TREES, depth=2))],
    "pairwise_coupling": [([[1 / 3] * 3], lambda: apply("pairwise_coupling", np.float32([[0.5] * 3]), classes=3))],
    "dequantize": [(AT[:, :3] * B[:2, [0, 0, 1]], lambda: apply("dequantize", AT[:, :3], B[:2, :2], axis=1, block=2))],
    # Shares of 1/4 and 3/4: 0.1875 * (12 - 4) along the difference of scores.
    "attention_gradients": [
        ([1.5, -1.5, 1.5, 4.0, 12.0],
         lambda: apply(
             "attention_gradients",
             *map(np.array, ([[1.0]], [[0.0], [1.0]], [[0.0], [0.5]], [[16.0]], [6.0])),
             np.log([[1.0, 3.0 / np.e]]),
         )),
    ],
    # Scores of log 1 and log 3, and a query that sees no key.
    "attention_statistics": [
        (np.log([3.0, 4 / 3]),
         lambda: apply("attention_statistics", np.array([[2.0]]), np.log([[1.0], [3.0]]), scale=0.5)),
        ([0.0, np.inf],
         lambda: apply("attention_statistics", np.array([[1.0]]), np.ones((2, 1)), np.full((1, 2), -np.inf))),
    ],
    "collective": [
        (A, lambda: apply("collective", A, kind="sum", ranks=1)),
        (A[None], lambda: apply("collective", A, kind="gather", ranks=1)),
    ],
    "recurrence": [([[[3.5]], [[9.5]], [[9.5]]], lambda: doubling())],
    "branch": [
        (A, lambda: apply("branch", np.array(True), A, -A)),
        (-A, lambda: apply("branch", np.array(False), A, -A)),
    ],
    "size": [(np.array(7), lambda: apply("size", value=7))],
    "prefix": [
        (A.cumsum(1), lambda: apply("prefix", A, combine="add", axis=1)),
        (A[:, ::-1].cumprod(1)[:, ::-1], lambda: apply("prefix", A, combine="mul", axis=1, reverse=True)),
        (A.cumsum(1) - A, lambda: apply("prefix", A, combine="add", axis=1, exclusive=True)),
        (np.maximum.accumulate(A, 2), lambda: apply("prefix", A, combine="max", axis=2)),
        ([-np.inf, 1, 1, 3], lambda: apply("prefix", np.array([1.0, 0, 3, 2]), combine="max", axis=0, exclusive=True)),
        (A[:, :0], lambda: apply("prefix", A[:, :0], combine="add", axis=1, exclusive=True)),
    ],
}  # fmt: skip


#: The first two overlap by 2/3 of their union, the third touches the second, the last is far away.
BOXES = np.array([[[0, 0, 5, 1], [1, 0, 6, 1], [6, 1, 7, 0], [20, 20, 30, 30]]], np.float32)
#: Two trees, of two branches with the leaves 0 to 2 and of leaf 3 alone: roots, splits, nodes.
TREES = np.array([0, 5], "i4"), np.array([0.5, 2], "f4"), np.array([[0, 1, 4, 2], [1, 3, 4, 3]], "i4")
TREE_ROWS = np.array([[0.5, 9], [0.5, 2], [np.nan, 0]], np.float32)
SCORES = np.array([[[0.8, 0.9, 0.1, 0.5], [0.2, 0.2, 0.3, 0.1]]], np.float32)


def suppressed(overlap: float, *least: Array) -> Array:
    ratio, limit = np.array([overlap], np.float32), np.array([3])
    return apply("non_max_suppression", BOXES, SCORES, limit, ratio, *least, most=3)


def test_every_core_operator_has_a_case() -> None:
    # Other tests in the same process may have added operators of a user's own.
    own = {name for name, definition in ops.operators().items() if definition.__module__.startswith("edgec.")}
    assert own == set(CASES) | set(FUNCTIONS)


@pytest.mark.parametrize("name", sorted(CASES))
def test_an_operator_agrees_with_numpy(name: str) -> None:
    for wanted, actual in CASES[name]:
        expected, got = np.asarray(wanted), actual()
        assert got.shape == expected.shape
        np.testing.assert_allclose(got, expected, rtol=2e-5, atol=1e-6)


# ---- the vectorized evaluation against one loop for each element


def plainly(formula: Formula, arrays: list[Array]) -> Array:
    def value(e: Expr, at: dict[Expr, int]) -> Any:
        if e.op == "const":
            return DTYPES[e.dtype].type(e.value)
        if e.op == "var":
            return at[e]
        if e.op == "load":
            return arrays[e.value][tuple(value(i, at) for i in e.args)]
        if e.op == "select":
            return value(e.args[1] if value(e.args[0], at) else e.args[2], at)
        if e.op == "cast":
            return DTYPES[e.dtype].type(value(e.args[0], at))
        if e.op == "reduce":
            names = X.reduction_variables(e)
            places = product(*(range(v.value.extent) for v in names))
            return sum(value(e.args[0], {**at, **dict(zip(names, p))}) for p in places)
        return FUNCTIONS[e.op].numpy(*(value(a, at) for a in e.args))

    axes = formula.variables
    result = np.zeros(formula.type.shape, DTYPES[formula.type.dtype])
    for place in np.ndindex(*formula.type.shape):
        result[place] = value(formula.body, dict(zip(axes, place)))
    return result


I, J, K = X.var("i", 3), X.var("j", 4), X.fresh(5)
IN = X.fresh(4)


def a(*index: Expr | int) -> Expr:
    return X.load(0, index, "f32")


def b(*index: Expr | int) -> Expr:
    return X.load(1, index, "f32")


FORMULAS = {
    "affine index": a(I * 2 + 1, J),
    "reversed index": a(I * -1 + 5, J * -1 + 7),
    "diagonal": a(I, I),
    "division": a((I * 4 + J) // 5, (I * 4 + J) % 5),
    "choice by position": X.select((I >= 1) & (J < 3), a(I - 1, J), X.const(9.0, "f32")),
    "sum of products": X.reduce("add", (K,), a(I, K) * b(J, K)),
    "sum of products of sums": X.reduce("add", (K,), (a(I, K) + 1.0) * (b(J, K) - a(J, 0))),
    "sum over two": X.reduce("add", (K, IN), a(I, K) * b(IN, K)),
    "nested sums": X.reduce("add", (K,), a(I, K) * X.reduce("add", (IN,), b(IN, K) * a(IN, J))),
    "sum with an outer index": X.reduce("add", (K,), X.select(X.call("lt", K, J), a(I, K), X.const(0.0, "f32"))),
    "sum of a constant": X.reduce("add", (K,), a(I, 0)),
    "mixed types": X.cast(X.cast(a(I, J) * 10.0, "i32"), "f32") + X.cast(J, "f32"),
    "window": X.reduce("add", (IN,), a(I + IN, J) * b(0, IN)),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_grids_agree_with_loops(name: str) -> None:
    arrays = [floats(8, 8), floats(8, 8)]
    formula = Formula(Type("f32", (3, 4)), (I, J), FORMULAS[name])
    got = evaluate_formula(formula, arrays.__getitem__)
    np.testing.assert_allclose(got, plainly(formula, arrays), rtol=2e-5, atol=1e-6)


def test_a_view_of_a_non_contiguous_array_is_read_right() -> None:
    backing = floats(8, 8)
    formula = Formula(Type("f32", (3, 4)), (I, J), a(I * 2, J) + a(J, I))
    got = evaluate_formula(formula, lambda slot: backing.T[::-1])
    np.testing.assert_array_equal(got, plainly(formula, [np.ascontiguousarray(backing.T[::-1])]))


# ---- whole graphs


def test_running_a_graph_gives_its_outputs_by_name() -> None:
    x = placeholder("x", Type("f32", (2, 3)))
    y = ops.node("add", x, constant(np.ones((), np.float32)))
    graph = Graph((x,), (("y", y), ("z", ops.node("mul", y, y))))
    got = run(graph, {"x": (value := floats(2, 3))})
    np.testing.assert_array_equal(got["z"], (value + 1) * (value + 1))
    np.testing.assert_array_equal(got["y"], value + 1)
    assert run(graph, {"x": value}, keep=True)[y] is not None


@pytest.mark.parametrize(
    ("given", "message"),
    [({}, "input 'x' is missing"), ({"x": np.zeros((3, 2), np.float32)}, r"expected f32\[2,3\]"),
     ({"x": np.zeros((2, 3))}, r"expected f32\[2,3\]")],
)  # fmt: skip
def test_wrong_inputs_are_refused(given: dict[str, Array], message: str) -> None:
    x = placeholder("x", Type("f32", (2, 3)))
    with pytest.raises(ModelError, match=message):
        run(Graph((x,), (("y", ops.node("neg", x)),)), given)
