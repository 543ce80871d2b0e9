"""Bounds of one operator, and of a few, against drawn inputs: in numpy, in doubles and in the compiled code."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import small_graphs as g
from bounded import Arrays, left_by, network, widths
from chance import RANDOM

from edgec.certify import choose, elementwise, planes, reductions
from edgec.errors import ModelError
from edgec.ir.evaluate import run
from edgec.ir.graph import Graph, Node, constant
from edgec.ir.registry import node

Made = Callable[[], Node]


def _x(*shape: int) -> Node:
    return g.value("x", *shape)


def _positive(x: Node) -> Node:
    return node("add", node("mul", x, x), g.number(0.25))


def _softmax(x: Node, axis: int) -> Node:
    z = node("sub", x, node("reduce", x, combine="max", axes=(axis,)))
    e = node("exp", z)
    return node("div", e, node("reduce", e, combine="add", axes=(axis,)))


def _normalized(x: Node) -> Node:
    n = float(x.type.shape[-1])
    mean = node("mul", node("reduce", x, combine="add", axes=(1,)), g.number(1 / n))
    d = node("sub", x, mean)
    variance = node("mul", node("reduce", node("mul", d, d), combine="add", axes=(1,)), g.number(1 / n))
    return node("div", d, node("sqrt", node("add", variance, g.number(1e-1))))


def _attention() -> Node:
    q, k = (node("matmul", _x(4, 6), g.weights(6, 6, scale=0.4)) for _ in range(2))
    return node("matmul", _softmax(node("matmul", q, node("transpose", k, perm=(1, 0))), 1), _x(4, 6))


def _conv(x: Node, *shape: int, strides: tuple[int, int] = (1, 1), groups: int = 1) -> Node:
    return node("conv", x, g.weights(*shape), strides=strides, dilations=(1, 1), groups=groups)


def _bordered(x: Node) -> Node:
    return node("pad", x, before=(0, 0, 1, 1), after=(0, 0, 1, 1))


def _pool(x: Node, combine: str, size: int = 2, stride: int = 2) -> Node:
    return node("pool", x, combine=combine, kernel=(size, size), strides=(stride, stride), dilations=(1, 1))


def _quantized() -> Node:
    scaled = node("round", node("mul", _x(2, 6), g.number(12.7)))
    q = node("cast", node("min", node("max", scaled, g.number(-128)), g.number(127)), to="i8")
    w = constant(RANDOM.integers(-127, 128, (6, 5)).astype(np.int8))
    return node(
        "mul",
        node("cast", node("matmul", node("cast", q, to="i32"), node("cast", w, to="i32")), to="f32"),
        g.number(0.003),
    )


def _stored(*shape: int) -> Node:
    """Weights that a file keeps as integers with a scale and a zero point."""
    codes = constant(RANDOM.integers(-127, 128, shape).astype(np.int8))
    return node("mul", node("sub", node("cast", codes, to="f32"), g.number(3.0)), g.number(0.013))


UNARY = ("abs", "neg", "floor", "ceil", "trunc", "round", "exp", "expm1", "sigmoid", "tanh", "erf")
CASES: dict[str, Made] = {
    **{name: lambda name=name: node(name, _x(2, 5)) for name in UNARY},  # type: ignore[misc]
    **{name: lambda name=name: node(name, _positive(_x(2, 5))) for name in ("sqrt", "log", "log1p")},  # type: ignore[misc]
    "add": lambda: node("add", _x(2, 5), g.value("z", 5)),
    "sub of itself": lambda: node("sub", _x(2, 5), node("mul", _x(2, 5), g.number(0.5))),
    "mul": lambda: node("mul", _x(2, 5), g.value("z", 2, 1)),
    "square": lambda: node("mul", _x(2, 5), _x(2, 5)),
    "div": lambda: node("div", _x(2, 5), _positive(g.value("z", 2, 5))),
    "div of a constant": lambda: node("div", g.weights(5), node("neg", _positive(_x(2, 5)))),
    "max": lambda: node("max", _x(2, 5), g.value("z", 2, 5)),
    "min": lambda: node("min", _x(2, 5), g.number(0.3)),
    "relu": lambda: g.relu(node("matmul", _x(2, 6), g.weights(6, 5))),
    "clip": lambda: g.clip(_x(2, 5)),
    "silu": lambda: g.silu(_x(2, 5)),
    "gelu": lambda: g.gelu(_x(2, 5)),
    "leaky": lambda: g.leaky(node("matmul", _x(2, 6), g.weights(6, 5))),
    "select": lambda: node("select", node("gt", _x(2, 5), g.value("z", 2, 5)), g.number(2.0), node("exp", _x(2, 5))),
    "matmul": lambda: node("add", node("matmul", _x(3, 8), g.weights(8, 5)), g.weights(5)),
    "matmul from the left": lambda: node("matmul", g.weights(3, 3), _x(3, 8)),
    "products": lambda: node("matmul", _x(3, 4), g.value("z", 4, 3)),
    "conv": lambda: _conv(_x(1, 3, 6, 6), 4, 3, 3, 3),
    "conv with strides": lambda: _conv(_bordered(_x(1, 4, 5, 5)), 4, 2, 3, 3, strides=(2, 2), groups=2),
    "depthwise": lambda: _conv(_x(1, 3, 6, 6), 3, 1, 3, 3, groups=3),
    "conv of integers with a scale": lambda: node(
        "conv", _x(1, 3, 6, 6), _stored(4, 3, 3, 3), strides=(1, 1), dilations=(1, 1), groups=1
    ),
    "matmul of integers with a scale": lambda: node("matmul", _x(3, 8), _stored(8, 5)),
    "sum": lambda: node("reduce", _x(3, 5), combine="add", axes=(1,)),
    "greatest": lambda: node("reduce", _x(3, 5), combine="max", axes=(0,)),
    "least": lambda: node("reduce", _x(3, 5), combine="min", axes=(0, 1)),
    "average pool": lambda: node("mul", _pool(_x(1, 2, 6, 6), "add"), g.number(0.25)),
    "max pool": lambda: _pool(_x(1, 2, 7, 7), "max", 3, 2),
    "concat": lambda: node("concat", _x(2, 3), g.weights(2, 2), g.relu(_x(2, 3)), axis=1),
    "slice": lambda: node("slice", _x(4, 6), starts=(3, 1), steps=(-1, 2), shape=(2, 2)),
    "pad with a number": lambda: node("pad", _x(2, 3), before=(1, 0), after=(0, 2), value=1.5),
    "gather": lambda: node("gather", _x(4, 3), constant(np.array([2, 0, 0, 3])), axis=0),
    "broadcast": lambda: node("mul", node("broadcast", _x(1, 3), shape=(4, 3)), g.weights(4, 3)),
    "softmax": lambda: _softmax(_x(2, 6), 1),
    "layer normalization": lambda: _normalized(_x(2, 6)),
    "attention": _attention,
    "int8": _quantized,
}  # fmt: skip


def centers(graph: Graph) -> Arrays:
    return {str(n.attributes["name"]): RANDOM.standard_normal(n.type.shape).astype(np.float32) for n in graph.inputs}


@pytest.mark.parametrize("name", CASES)
def test_no_drawn_input_leaves_the_bounds(name: str) -> None:
    graph = g.graph(CASES[name]())
    for eps in (0.0, 1e-3, 0.1, 1.0):
        assert not left_by(graph, centers(graph), eps, count=60)[:3]


def test_linear_operators_are_bounded_exactly() -> None:
    """Bounds of linear maps are reached at a corner: they are as wide as that, and rounding."""
    w = RANDOM.standard_normal((6, 4)).astype(np.float32)
    graph = g.graph(node("add", node("matmul", _x(1, 6), constant(w)), node("matmul", _x(1, 6), constant(-w / 2))))
    found = widths(graph, centers(graph), 0.5)["y0"]
    assert found == pytest.approx(2 * 0.5 * np.abs(w / 2).sum(0).max(), rel=1e-5)


def test_relu_is_bounded_by_its_triangle() -> None:
    graph = g.graph(g.relu(_x(1)))
    found = widths(graph, {"x": np.zeros(1, np.float32)}, 1.0)["y0"]
    assert found == pytest.approx(1.0, abs=1e-6) or found == pytest.approx(2.0, abs=1e-6)


@pytest.mark.parametrize(
    ("module", "name", "case"),
    [
        (planes, "mccormick", "products of elements"),
        (choose, "window_parts", "max pool"),
        (planes, "extreme_planes", "max"),
        (elementwise, "_corners", "mul"),
    ],
)
def test_planted_mistakes_are_found(module: object, name: str, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = getattr(module, name)

    def mccormick(a: elementwise.Range, b: elementwise.Range) -> planes.Planes:
        p = right(a, b)
        return planes.Planes(p.low, p.offset_low + 1e-3, p.high, p.offset_high)

    def window_parts(n: Node) -> list[reductions.Part]:
        return list(right(n)[:-1])

    def extreme_planes(*given: object) -> planes.Planes:
        p = right(*given)
        return planes.Planes(p.low, p.offset_low, p.high, p.offset_high * 0.9)

    def _corners(
        a: elementwise.Range, b: elementwise.Range, of: Callable[..., np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        return of(a.low, b.low), of(a.high, b.high)

    monkeypatch.setattr(module, name, locals()[name])
    made = {**CASES, "products of elements": lambda: node("mul", _x(2, 5), g.value("z", 2, 5))}
    graph = g.graph(made[case]())
    assert left_by(graph, centers(graph), 1.0, count=300)


def test_operators_without_bounds_are_refused_by_name() -> None:
    graph = g.graph(node("sin", node("prefix", _x(2, 5), combine="add", axis=1)))
    with pytest.raises(ModelError, match=r"no bounds for .*prefix by add.*sin"):
        network(graph)
    with pytest.raises(ModelError, match="f16"):
        network(g.graph(node("exp", g.value("x", 2, dtype="f16"))))


def test_numbers_that_the_code_may_not_have_have_no_bounds() -> None:
    """A logarithm of what may be negative, a division by what may be zero, a sum beyond the greatest float."""
    for made in (
        node("log", _x(2)),
        node("div", g.number(1.0), _x(2)),
        node("mul", node("mul", _x(2), g.number(1e30)), g.number(1e30)),
    ):
        graph = g.graph(node("sigmoid", made))
        found = widths(graph, {"x": np.zeros(2, np.float32)}, 1.0)["y0"]
        assert not np.isfinite(found)


def test_weights_that_arithmetic_gives_are_known() -> None:
    """A product and what is subtracted after it may be one rounding in C, two in numpy: weights are computed when a
    network is built, and its code has the same numbers."""
    codes = node("cast", constant(RANDOM.integers(-127, 128, (4, 3, 3, 3)).astype(np.int8)), to="f32")
    shifted = node("sub", node("mul", codes, g.number(0.013)), g.number(0.3))
    made = g.graph(node("conv", _x(1, 3, 6, 6), shifted, strides=(1, 1), dilations=(1, 1), groups=1))
    (numbers,) = [n for n in network(made).fixed if n.type.shape == (4, 3, 3, 3)]
    assert numbers.is_const and np.array_equal(numbers.value, run(g.graph(shifted), {})["y0"])


def test_numbers_that_code_computes_are_not_known() -> None:
    """What no product reads is computed as the network runs, in a rounding or two."""
    shifted = node("sub", node("mul", _stored(1, 3, 6, 6), g.number(0.013)), g.number(0.3))
    assert shifted not in network(g.graph(node("add", _x(1, 3, 6, 6), shifted))).fixed
