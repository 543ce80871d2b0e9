"""Rounding: sums in orders that are as bad as can be, and the compiled code, at single points."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
import small_graphs as g
from bounded import box, left_by, network, network_of, output_bounds
from chance import RANDOM
from compiled import Compiled, compile_graphs

from edgec.certify import elementwise, ranges, rules
from edgec.ir.graph import Graph, constant
from edgec.ir.registry import node

F = np.float32
Order = Callable[[np.ndarray], np.ndarray]


def in_order(terms: np.ndarray, order: np.ndarray) -> np.float32:
    total = F(0)
    for t in terms[order]:
        total = F(total + t)
    return total


def pairwise(terms: np.ndarray) -> np.float32:
    while len(terms) > 1:
        half = len(terms) // 2
        terms = np.concatenate([terms[:half] + terms[half : 2 * half], terms[2 * half :]]).astype(F)
    return F(terms[0])


#: Sums of rounded products: as they stand, the least and the greatest first, one sign first, by pairs.
ORDERS: dict[str, Callable[[np.ndarray], np.float32]] = {
    "as they stand": lambda t: in_order(t, np.arange(len(t))),
    "from behind": lambda t: in_order(t, np.arange(len(t))[::-1]),
    "rising": lambda t: in_order(t, np.argsort(t)),
    "falling": lambda t: in_order(t, np.argsort(-t)),
    "greatest first": lambda t: in_order(t, np.argsort(-np.abs(t))),
    "by pairs": pairwise,
}


def _dots(a: np.ndarray, w: np.ndarray, of: Callable[[np.ndarray], np.float32]) -> np.ndarray:
    return np.array([[of((row * w[:, k]).astype(F)) for k in range(w.shape[1])] for row in a], F)


def _left(k: int, count: int) -> list[str]:
    """Orders whose sums leave the bounds of a product of ``count`` columns of ``k`` terms at a point."""
    w, x = RANDOM.standard_normal((k, count)).astype(F), RANDOM.standard_normal((2, k)).astype(F)
    net = network(g.graph(node("matmul", g.value("x", 2, k), constant(w))))
    low, high = output_bounds(net, net.bounds(box(net, {"x": x}, 0)))["y0"]
    found = {name: _dots(x, w, of) for name, of in ORDERS.items()}
    return [name for name, y in found.items() if not ((y >= low) & (y <= high)).all()]


@pytest.mark.parametrize("k", [1, 2, 7, 64, 500])
def test_sums_in_any_order_stay_inside(k: int) -> None:
    assert _left(k, 40) == []


def test_a_unit_roundoff_that_is_too_small_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (ranges, elementwise):
        monkeypatch.setitem(module.UNITS, "f32", 2.0**-30)
    assert _left(500, 40)


def test_sums_of_fewer_terms_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "gamma", lambda terms, unit: 0.5 * unit)
    assert _left(500, 40)


def test_an_error_that_is_not_carried_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A difference of nearly equal sums within one kernel: all that is left is their error."""
    w = RANDOM.standard_normal((200, 1)).astype(F)
    x = g.value("x", 1, 200)
    twice = node("add", node("matmul", x, constant(w)), g.number(1.0))
    graph = g.graph(node("mul", twice, g.number(1e6)))
    centers = {"x": RANDOM.standard_normal((1, 200)).astype(F)}
    net = network(graph)
    low, high = output_bounds(net, net.bounds(box(net, centers, 0)))["y0"]
    sums = [in_order((centers["x"][0] * w[:, 0]).astype(F), RANDOM.permutation(200)) for _ in range(50)]
    got = np.array([F(F(s + F(1)) * F(1e6)) for s in sums])
    assert ((got >= low) & (got <= high)).all()
    assert np.ptp(got) > 1e-8 * np.abs(got).max()
    right = elementwise.RANGES["mul"]
    monkeypatch.setitem(
        elementwise.RANGES, "mul", lambda p, a: right(p, [ranges.Range(r.low, r.high, 0 * r.error) for r in a])
    )
    low, high = output_bounds(net, net.bounds(box(net, centers, 0)))["y0"]
    assert not ((got >= low) & (got <= high)).all()


def _mlp() -> Graph:
    x = g.value("x", 1, 20)
    for _ in range(3):
        x = g.relu(node("add", node("matmul", x, g.weights(20, 20, scale=0.3)), g.weights(20)))
    return g.graph(node("sigmoid", node("matmul", x, g.weights(20, 6))))


def _convolutions() -> Graph:
    x = node("pad", g.value("x", 1, 3, 8, 8), before=(0, 0, 1, 1), after=(0, 0, 1, 1))
    x = node("conv", x, g.weights(8, 3, 3, 3, scale=0.3), strides=(1, 1), dilations=(1, 1), groups=1)
    x = g.gelu(node("add", x, g.weights(8, 1, 1)))
    x = node("pool", x, combine="max", kernel=(2, 2), strides=(2, 2), dilations=(1, 1))
    mean = node("mul", node("reduce", x, combine="add", axes=(2, 3)), g.number(1 / 16))
    y = node("matmul", node("reshape", mean, shape=(1, 8)), g.weights(8, 4))
    e = node("exp", node("sub", y, node("reduce", y, combine="max", axes=(1,))))
    return g.graph(node("div", e, node("reduce", e, combine="add", axes=(1,))))


def _eight_bits() -> Graph:
    x = node("round", node("mul", g.value("x", 2, 16), g.number(30.0)))
    for _ in range(2):
        q = node("cast", node("min", node("max", x, g.number(-128)), g.number(127)), to="i8")
        w = constant(RANDOM.integers(-20, 21, (16, 16)).astype(np.int8))
        sums = node("matmul", node("cast", q, to="i32"), node("cast", w, to="i32"))
        x = node("round", node("mul", node("cast", sums, to="f32"), g.number(0.0123)))
    return g.graph(x)


@pytest.mark.parametrize("fuse", [True, False])
def test_compiled_code_never_leaves_its_bounds(fuse: bool, tmp_path: Path) -> None:
    graphs: Mapping[str, Graph] = {"mlp": _mlp(), "convolutions": _convolutions(), "eight bits": _eight_bits()}
    for name, made in compile_graphs(graphs, tmp_path, fuse).items():
        assert isinstance(made, Compiled), made
        for eps in (0.0, 1e-4, 0.05):
            (n,) = graphs[name].inputs
            centers = {"x": RANDOM.standard_normal(n.type.shape).astype(F)}
            for net in (network(graphs[name]), network_of(made, fuse)):
                assert not left_by(graphs[name], centers, eps, 100, made, net), (name, eps)
