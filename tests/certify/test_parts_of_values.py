"""Rows of parts of values, of elements that matter, and of several boxes give the bounds that whole rows give."""

from __future__ import annotations

import numpy as np
import pytest
import small_graphs as g
from bounded import box, eye, left_by, network
from chance import RANDOM

from edgec.certify import maps, units
from edgec.certify import network as networks
from edgec.certify.backward import Backward
from edgec.certify.bounds import Bounds
from edgec.certify.domain import Domain
from edgec.certify.elementwise import RANGES, Place
from edgec.certify.network import Network
from edgec.certify.patches import Patch
from edgec.certify.ranges import Range
from edgec.certify.sides import Sides
from edgec.ir.graph import Graph, Node, constant
from edgec.ir.registry import node


def _conv(x: Node, outputs: int, stride: int = 1, groups: int = 1, before: int = 1, value: float = 0.0) -> Node:
    padded = node("pad", x, before=(0, 0, before, before), after=(0, 0, 1, 1), value=value)
    w = g.weights(outputs, x.type.shape[1] // groups, 3, 3, scale=0.4)
    made = node("conv", padded, w, strides=(stride, stride), dilations=(1, 1), groups=groups)
    return node("add", made, g.weights(outputs, 1, 1))


def _convolutions() -> Graph:
    """Strides, borders, a residual of two ways of different reach, a depthwise layer, a choice by sign."""
    x = g.value("x", 1, 2, 12, 12)
    a = g.relu(_conv(x, 4, 2))
    b = g.leaky(node("add", _conv(_conv(a, 4, groups=4), 4), a))
    c = g.relu(_conv(b, 6, 2, before=0, value=0.5))
    flat = node("reshape", c, shape=(1, c.type.elements))
    return g.graph(node("matmul", g.relu(node("matmul", flat, g.weights(c.type.elements, 5))), g.weights(5, 3)))


def _dense(shut: float = 0.0) -> Graph:
    """Layers of which some elements are shut, or all of them."""
    x = g.value("x", 1, 6)
    a = g.relu(
        node("sub", node("matmul", x, g.weights(6, 40)), constant(RANDOM.uniform(-2, 4 + shut, 40).astype("f4")))
    )
    b = g.relu(node("sub", node("matmul", a, g.weights(40, 30)), g.number(0.5)))
    return g.graph(node("matmul", b, g.weights(30, 3)))


def _centers(graph: Graph, count: int = 1) -> list[dict[str, np.ndarray]]:
    return [
        {str(n.attributes["name"]): RANDOM.standard_normal(n.type.shape).astype(np.float32) for n in graph.inputs}
        for _ in range(count)
    ]


def _bounds(net: Network, domain: Domain) -> tuple[Bounds, np.ndarray]:
    found = net.bounds(domain)
    (n,) = net.outputs.values()
    return found, net.back({n: np.repeat(eye(n), domain.boxes, 0)}, found)[0]


def _apart(net: Network, a: Bounds, b: Bounds) -> float:
    """The greatest difference of ranges."""
    return max(float(np.abs(getattr(a.exact[n], k) - getattr(b.exact[n], k)).max()) for n in net.rules for k in _ENDS)


_ENDS = ("low", "high")


@pytest.mark.parametrize("tile", [1, 2, 3])
def test_tiles_give_the_bounds_of_whole_rows(tile: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = _convolutions()
    net, centers = network(graph), _centers(graph)[0]
    monkeypatch.setattr(units, "_tile", lambda *_: None)
    whole, outputs = _bounds(net, box(net, centers, 0.1))
    monkeypatch.setattr(units, "_tile", lambda _network, n, *_: tile if len(n.type.shape) > 2 else None)
    tiled, others = _bounds(net, box(net, centers, 0.1))
    assert _apart(net, whole, tiled) < 1e-9 and np.abs(outputs - others).max() < 1e-9
    assert _apart(net, whole, net.bounds(box(net, centers, 0.1), tighten=False)) > 1e-3


def test_no_drawn_input_leaves_the_bounds_of_tiles() -> None:
    graph = _convolutions()
    for eps in (0.02, 0.3):
        assert not left_by(graph, _centers(graph)[0], eps, count=15)[:3]


def test_rows_beyond_a_border_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted mistake: rows that read what was put around a value are kept."""
    graph = _convolutions()
    net, centers = network(graph), _centers(graph)[0]
    monkeypatch.setattr(units, "_tile", lambda _network, n, *_: 1 if len(n.type.shape) > 2 else None)
    found = net.bounds(box(net, centers, 0.1))
    monkeypatch.setattr(maps, "inside", lambda *_: None)
    assert _apart(net, found, net.bounds(box(net, centers, 0.1))) > 1e-6


@pytest.mark.parametrize("shut", [0.0, 100.0])
def test_elements_that_are_shut_are_left_out(shut: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(networks.Network, "is_plain", False)  # rows in numpy
    graph = _dense(shut)
    net, centers = network(graph), _centers(graph)[0]
    found, outputs = _bounds(net, box(net, centers, 0.1))
    assert any(a is not None and a.size < 35 for a in found.alive.values())
    monkeypatch.setattr(networks, "_PICKED", -1.0)
    whole, others = _bounds(net, box(net, centers, 0.1))
    assert _apart(net, found, whole) < 1e-9 and np.abs(outputs - others).max() < 1e-9
    assert not left_by(graph, centers, 0.1, count=40)[:3]


@pytest.mark.parametrize("make", [_convolutions, _dense])
def test_boxes_together_have_the_bounds_of_each_alone(make: object) -> None:
    graph = make()  # type: ignore[operator]
    net, many = network(graph), [box(network(graph), c, eps) for c, eps in zip(_centers(graph, 3), (0.01, 0.3, 0.1))]
    (n,) = many[0].low
    inputs = list(net.inputs.values())
    domain = Domain(
        {inputs[0]: np.concatenate([d.low[n] for d in many])}, {inputs[0]: np.concatenate([d.high[n] for d in many])}
    )
    together, outputs = _bounds(net, domain)
    for k, one in enumerate(many):
        alone, own = _bounds(net, Domain({inputs[0]: one.low[n]}, {inputs[0]: one.high[n]}))
        assert np.abs(own[0] - outputs[k]).max() < 1e-9 * (1 + np.abs(own).max())
        for m in net.rules:
            assert np.abs(alone.exact[m].low[0] - together.exact[m].low[k]).max() < 1e-8


def test_mirrored_rows_are_rows_and_their_negatives() -> None:
    graph = _convolutions()
    net = network(graph)
    found = net.bounds(box(net, _centers(graph)[0], 0.1))
    for n in net.rules:
        rows = RANDOM.standard_normal((1, 3, *n.type.shape))
        mirrored = Backward(net, found, {n: Patch(rows)}, mirrored=True).run(False, None, None)
        both = Backward(net, found, {n: Patch(np.concatenate([rows, -rows], 1))}).run(False, None, None)
        assert np.abs(mirrored - both).max() < 1e-9 * (1 + np.abs(both).max())


def test_the_error_of_a_choice_is_that_of_the_side_that_is_taken() -> None:
    """A ReLU that is shut whatever the rounding stores its zero; one that may open has the error of its operand."""
    place = Place(g.relu(g.value("x", 4)))
    low, high, error = (np.array([v]) for v in ([-2.0, -1.0, 1.0, -1.0], [-1.0, -0.05, 2.0, 1.0], [0.1, 0.1, 0.1, 0.1]))
    zero = Range(np.zeros((1, 1)), np.zeros((1, 1)), np.zeros((1, 1)))
    assert RANGES["max"](place, [Range(low, high, error), zero]).error.tolist() == [[0.0, 0.1, 0.1, 0.1]]


def test_sides_that_bounds_of_a_box_decide_hold_in_its_parts() -> None:
    graph = _dense()
    net, centers = network(graph), _centers(graph)[0]
    whole, (n,) = box(net, centers, 0.2), net.inputs.values()
    sides = Sides(net)
    found = sides.found(net.bounds(whole), sides.none())
    assert (found == 1).any() and (found == -1).any() and (found == 0).any()
    x = whole.low[n] + RANDOM.random((200, *n.type.shape)) * (whole.high[n] - whole.low[n])
    points = net.bounds(Domain({n: x}, {n: x}), tighten=False)
    own = sides.found(points, np.repeat(sides.none(), 200, 0))
    assert not ((found != 0) & (own != 0) & (own != found)).any()
    known = net.bounds(Domain({n: x}, {n: x}), sides.known(np.repeat(found, 200, 0)), tighten=False)
    assert _apart(net, points, known) < 1e-9
