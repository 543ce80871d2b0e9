"""Rows that pass back in compiled code give the bounds that they give node by node, and count every roundoff."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
import small_graphs as g
from bounded import eye, left_by, network
from chance import RANDOM

from edgec.certify import descent, domain, rules
from edgec.certify import network as networks
from edgec.certify.bounds import Bounds
from edgec.certify.descent import Descent
from edgec.certify.domain import Domain
from edgec.certify.network import Network
from edgec.certify.ranges import UNITS
from edgec.ir.graph import Graph, Node, constant
from edgec.ir.registry import node


def _conv(
    x: Node, outputs: int, kernel: int, stride: int = 1, dilation: int = 1, pad: tuple[int, int] = (1, 1)
) -> Node:
    if any(pad):
        x = node("pad", x, before=(0, 0, *pad), after=(0, 0, *pad[::-1]), value=0.0)
    w = g.weights(outputs, x.type.shape[1], kernel, kernel + 1, scale=0.4)
    made = node("conv", x, w, strides=(stride, 1), dilations=(1, dilation), groups=1)
    return node("add", made, g.weights(outputs, 1, 1))


def _flat(x: Node) -> Node:
    return node("reshape", x, shape=(1, x.type.elements))


def _dense(x: Node, outputs: int, scale: float = 0.5) -> Node:
    made = node("matmul", x, g.weights(x.type.shape[1], outputs, scale=scale))
    return node("sub", made, constant(RANDOM.uniform(-1, 1, outputs).astype("f4")))


def _convolutions() -> Graph:
    """Strides, dilations, borders on either side, more channels than a panel has, a part that grows to the whole."""
    a = g.relu(_conv(g.value("x", 1, 3, 9, 10), 9, 3, stride=2, pad=(1, 2)))
    b = g.relu(_conv(a, 4, 2, dilation=2))
    c = g.leaky(_conv(b, 5, 3, pad=(0, 0)))
    return g.graph(_dense(g.relu(_dense(_flat(g.relu(_conv(c, 3, 2))), 7)), 3))


def _layers() -> Graph:
    """Two bends one after the other, a curve, products with constants, layers wider than a group of rows."""
    a = g.relu(_dense(g.value("x", 1, 6), 61))
    b = node("min", node("max", _dense(a, 40, 0.3), g.number(-0.5)), g.number(1.5))
    c = node("mul", node("sigmoid", node("mul", _dense(b, 33, 0.3), g.number(1.25))), g.weights(33))
    return g.graph(_dense(g.relu(_dense(c, 29)), 3))


def _images() -> Graph:
    """Products of the last dimension of values with four, and a convolution of the inputs behind one of them."""
    x = g.relu(_conv(g.value("x", 1, 2, 5, 6), 11, 2, pad=(0, 0)))
    shape = (1, 1, 1, x.type.elements)
    a = g.relu(node("matmul", node("reshape", x, shape=shape), g.weights(shape[-1], 50, scale=0.3)))
    return g.graph(node("matmul", g.relu(node("matmul", a, g.weights(50, 31))), g.weights(31, 3)))


def _residual() -> Graph:
    """Sums of ways with and without layers, one within another, in pictures and in rows, before bends and not."""
    x = g.relu(_conv(g.value("x", 1, 3, 8, 7), 6, 3, stride=2))
    a = g.relu(_conv(x, 5, 3))
    b = g.relu(node("add", _conv(a, 7, 3), _conv(a, 7, 1, pad=(0, 0))))
    inner = g.relu(_dense(_flat(b), 13, 0.2))
    h = g.relu(_dense(inner, 13))
    within = node("add", _dense(g.relu(_dense(h, 13)), 13), node("tanh", h))
    outer = _dense(g.relu(node("add", _dense(inner, 13), node("mul", _dense(g.relu(within), 13), g.weights(13)))), 9)
    return g.graph(_dense(g.relu(node("add", outer, outer)), 3))


def _domain(net: Network, count: int) -> Domain:
    (n,) = net.inputs.values()
    center, eps = (
        RANDOM.standard_normal((count, *n.type.shape)),
        RANDOM.uniform(0.01, 0.3, (count, *(1,) * n.type.rank)),
    )
    return Domain({n: center - eps}, {n: center + eps})


def _bounds(net: Network, domain: Domain) -> tuple[Bounds, np.ndarray, np.ndarray]:
    found = net.bounds(domain)
    (n,), (given,) = net.outputs.values(), net.inputs.values()
    least, reached = net.back({n: np.repeat(eye(n), domain.boxes, 0)}, found)
    return found, least, reached[given]


def _apart(make: Callable[[], Graph], boxes: int) -> float:
    """The greatest difference between bounds in compiled code and node by node, of all values."""
    net = network(make())
    given = _domain(net, boxes)
    found, least, reached = _bounds(net, given)
    assert any(way is not None for way in net.ways.values())
    net.is_plain, net.ways = False, {}
    others, own, rows = _bounds(net, given)
    pairs = [(getattr(found.exact[n], k), getattr(others.exact[n], k)) for n in net.rules for k in ("low", "high")]
    return max(float(np.abs(a - b).max() / (1 + np.abs(b).max())) for a, b in (*pairs, (least, own), (reached, rows)))


@pytest.mark.parametrize("boxes", [1, 3])
@pytest.mark.parametrize("make", [_convolutions, _layers, _images, _residual])
def test_bounds_are_those_of_rows_node_by_node(make: Callable[[], Graph], boxes: int) -> None:
    assert _apart(make, boxes) < 1e-9


@pytest.mark.parametrize("make", [_convolutions, _layers, _images, _residual])
def test_no_drawn_input_leaves_the_bounds(make: Callable[[], Graph]) -> None:
    graph = make()
    center = RANDOM.standard_normal(graph.inputs[0].type.shape).astype(np.float32)
    assert not left_by(graph, {"x": center}, 0.1, count=40)[:3]


def test_slopes_of_the_wrong_sign_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted mistake: rows above zero take the upper plane."""
    bent = Descent._bent

    def turned(points, lines, n, boxes):  # type: ignore[no-untyped-def]
        bent(points, lines, n, boxes)
        facts = points[-1].facts
        if not lines.is_exact:
            facts["low"], facts["high"] = facts["high"], facts["low"]

    monkeypatch.setattr(Descent, "_bent", staticmethod(turned))
    assert _apart(_layers, 1) > 1e-3


def test_rows_beyond_a_border_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted mistake: parts of values begin where the padding does."""
    through = Descent._through

    def moved(self, steps, n, into):  # type: ignore[no-untyped-def]
        through(self, steps, n, into)
        steps.made[-1].before_y = 0

    monkeypatch.setattr(Descent, "_through", moved)
    assert _apart(_convolutions, 1) > 1e-3


def _bounds_that_are_left() -> int:
    """How many bounds of outputs for one input are above what exact arithmetic gives, where great terms cancel."""
    left = 0
    for _ in range(6):
        w, v = RANDOM.standard_normal((64, 32)) * 1e8, RANDOM.standard_normal((32, 9)).astype(np.float32)
        w[32:] = -w[:32]
        w = w.astype(np.float32)
        inner = g.relu(node("add", node("matmul", g.value("x", 1, 64), constant(w)), g.number(1e12)))
        net = network(g.graph(node("matmul", inner, constant(v))))
        (n,), (end,) = net.inputs.values(), net.outputs.values()
        x = RANDOM.uniform(0.9, 1.1, (1, 1, 64)).astype(np.float32).astype(np.float64)
        least, _ = net.back({end: eye(end)}, net.bounds(Domain({n: x}, {n: x})))
        (bias,) = (Fraction(float(c.reshape(-1)[0])) for c in net.fixed.values() if c.size == 1 and c.any())
        hidden = [_exact(x[0, 0], column) + bias for column in w.T]
        for k, column in enumerate(v.T):
            exact = sum((a * Fraction(float(b)) for a, b in zip(hidden, column)), Fraction(0))
            left += (Fraction(float(least[0, k])) > exact) + (Fraction(float(least[0, k + 9])) > -exact)
    return left


def _exact(a: np.ndarray, b: np.ndarray) -> Fraction:
    return sum((Fraction(float(x)) * Fraction(float(y)) for x, y in zip(a, b)), Fraction(0))


def test_roundoffs_of_the_analysis_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in UNITS:
        monkeypatch.setitem(UNITS, name, 0.0)
    assert not _bounds_that_are_left()


def test_roundoffs_that_are_not_counted_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted mistake: the analysis itself loses nothing."""
    for name in UNITS:
        monkeypatch.setitem(UNITS, name, 0.0)
    monkeypatch.setattr(rules, "lost", lambda *_: np.zeros(()))
    for module in (rules, domain, descent):
        monkeypatch.setattr(module, "U64", 0.0)
    assert _bounds_that_are_left()


def test_rows_without_a_compiler_pass_node_by_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descent, "library", lambda: None)
    net = network(_layers())
    _bounds(net, _domain(net, 1))
    assert not any(net.ways.values())


def test_ways_that_part_pass_in_compiled_code() -> None:
    net = network(_residual())
    _bounds(net, _domain(net, 1))
    (n,) = net.outputs.values()
    way = net._way(n)
    assert way is not None and len(way.route.sums) >= 3 and way.route.depth == 2
    assert all(way is not None for way in net.ways.values())


def test_a_way_that_is_forgotten_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted mistake: rows that come the second way are not added to those that came the first."""
    monkeypatch.setitem(descent._KINDS, "meet", descent._PLACE)
    assert _apart(_residual, 1) > 1e-3


def test_rows_that_are_kept_too_late_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted mistake: both ways of a sum begin with rows of the first one's end."""
    monkeypatch.setitem(descent._KINDS, "turn", descent._KEEP)
    assert _apart(_residual, 1) > 1e-3


def test_what_rows_lose_where_they_meet_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of 1 / 3 and of 3 meet at inputs of great values: the bound is wider by what their sum rounds."""
    monkeypatch.setattr(rules, "lost", lambda *_: np.zeros(()))
    for module in (rules, domain):
        monkeypatch.setattr(module, "U64", 0.0)
    x = g.relu(_dense(g.value("x", 1, 4), 5))
    graph = g.graph(node("matmul", node("add", x, node("mul", x, g.weights(5))), g.weights(5, 2)))
    net = network(graph)
    (n,), (given,) = net.outputs.values(), net.inputs.values()
    found = net.bounds(Domain({given: np.full((1, 1, 4), 1e3)}, {given: np.full((1, 1, 4), 1e3)}))
    counted, _ = net._way(n).back(eye(n), found)  # type: ignore[union-attr]
    found.points.clear()
    way = net._way(n)
    assert way is not None and way.route.met
    way.route.met.clear()  # planted: it is not counted
    other, _ = way.back(eye(n), found)
    assert (counted < other).all()


def _crossing(x: Node) -> Node:
    a, b = g.relu(_dense(x, 9)), g.relu(_dense(x, 9))
    return node("add", node("add", _dense(a, 9), b), node("add", _dense(b, 9), a))


def _met_twice(x: Node) -> Node:
    a = g.relu(x)
    return node("add", g.relu(node("add", _dense(a, 9), a)), a)


def _within_end(x: Node) -> Node:
    a = g.relu(x)
    return node("add", node("add", _dense(a, 9), a), a)


@pytest.mark.parametrize(
    ("make", "has_way"),
    [(_met_twice, False), (_within_end, False), (_crossing, False), (lambda x: node("add", g.relu(x), x), True),
     (lambda x: node("mul", g.relu(x), x), False)],
)  # fmt: skip
def test_ways_that_cross_have_no_way_in_code(make: Callable[[Node], Node], has_way: bool) -> None:
    net = network(g.graph(_dense(make(_dense(g.value("x", 1, 6), 9)), 3)))
    _bounds(net, _domain(net, 1))
    (n,) = net.outputs.values()
    assert (net._way(n) is not None) == has_way == (networks.descent(n, net.rules, net.fixed, 1) is not None)


def test_ways_to_two_inputs_have_no_way_in_code() -> None:
    net = network(g.graph(_dense(node("add", _dense(g.value("x", 1, 6), 9), _dense(g.value("z", 1, 4), 9)), 3)))
    (n,) = net.outputs.values()
    assert net._way(n) is None
