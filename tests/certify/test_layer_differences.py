"""Differences that are bounded layer by layer: no drawn input leaves them, and they are what single impulses give."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import small_graphs as g
from bounded import box, drawn
from chance import RANDOM

import edgec
from edgec.certify.joint import Joint
from edgec.certify.pairs import values
from edgec.check.float64 import exact_results
from edgec.frontend.onnx.export import to_onnx
from edgec.ir.graph import Graph, Node
from edgec.ir.registry import node
from edgec.schedule.order import orders_of

LOCAL = sys.modules["edgec.certify.local"]
JOINT = sys.modules["edgec.certify.joint"]


def _conv(x: Node, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> Node:
    channels = x.type.shape[1] // groups
    scale = (channels * kernel * kernel) ** -0.5
    edge = (0, 0, kernel // 2, kernel // 2)
    x = node("pad", x, before=edge, after=edge)
    w = g.weights(outputs, channels, kernel, kernel, scale=scale)
    x = node("conv", x, w, strides=(stride, stride), dilations=(1, 1), groups=groups)
    return node("add", x, g.weights(outputs, 1, 1, scale=0.1))


def _network() -> Graph:
    """Strides, a depthwise convolution, a sum beside a convolution, a mean, a softmax."""
    x = g.relu(_conv(g.value("x", 1, 3, 12, 10), 8, 3, 2))
    y = g.relu(_conv(g.relu(_conv(x, 8, 3, 1, 8)), 8, 1))
    y = g.relu(node("add", _conv(y, 8, 3), x))
    mean = node(
        "mul", node("pool", y, combine="add", kernel=(6, 5), strides=(1, 1), dilations=(1, 1)), g.number(1 / 30)
    )
    z = node("add", node("matmul", node("reshape", mean, shape=(1, 8)), g.weights(8, 4, scale=0.4)), g.weights(4))
    e = node("exp", node("sub", z, node("reduce", z, combine="max", axes=(1,))))
    return g.graph(z, node("div", e, node("reduce", e, combine="add", axes=(1,))))


def _joint(quantize: str) -> tuple[edgec.Built, Joint, dict[str, np.ndarray]]:
    graph = _network()
    settings = {} if quantize == "none" else {"quantize": quantize, "calibrate": "random"}
    built = edgec.build(to_onnx(graph), numeric="exact", **settings)
    centers = [{"x": RANDOM.standard_normal((1, 3, 12, 10)).astype(np.float32)} for _ in range(4)]
    assert built.stages.plan is not None
    orders = orders_of(built.program.kernels, built.program.views)
    return built, Joint(built.stages.plan, built.stages.graph, centers, orders), centers[0]


def _widest(network: Joint, center: dict[str, np.ndarray], eps: float) -> float:
    found = network.differences(network.bounds(box(network, center, eps), tighten=False))
    return float(np.maximum(-found["y0"][0], found["y0"][1]).max())


def _no_rows(network: Joint, given: dict[Node, np.ndarray], *rest: object, **more: object) -> tuple[np.ndarray, None]:
    """Rows of linear bounds that say nothing."""
    return np.full(next(iter(given.values())).shape[:2], np.nan), None


@pytest.mark.parametrize("quantize", ["none", "int8"])
def test_no_drawn_input_leaves_what_layers_leave(quantize: str, monkeypatch: pytest.MonkeyPatch) -> None:
    built, network, center = _joint(quantize)
    assert len(network.pairs) >= 4
    monkeypatch.setattr(Joint, "back", _no_rows)
    domain = box(network, center, 0.02)
    bounds = network.differences(network.bounds(domain, tighten=False))
    assert all(np.isfinite(ends).all() for pair in bounds.values() for ends in pair)
    for k in range(150):
        given = drawn(network, domain, k % 2 == 0)
        got, real = built.run(given), exact_results(built.stages.graph, given)
        for name, (low, high) in bounds.items():
            away = got[name].astype(np.float64) - real[name]
            assert ((away >= low) & (away <= high)).all()
    near = _widest(network, center, 0.02)
    monkeypatch.setattr(JOINT, "apart", lambda *of: None)
    assert near * (100 if quantize == "none" else 1.2) < _widest(network, center, 0.02)


def test_impulses_together_are_impulses_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sent many at a time they give what each gives alone; where two meet, they would give less, and that is found."""
    _, network, center = _joint("int8")
    right, seen = LOCAL._of_impulses, []

    def compared(program, reference, link, radius, scale, turned, is_late):  # type: ignore[no-untyped-def]
        together = right(program, reference, link, radius, scale, turned, is_late)
        with monkeypatch.context() as m:
            m.setattr(LOCAL, "_PERIODS", ())
            alone = right(program, reference, link, radius, scale, turned, is_late)
            held = radius.copy()
            held.flat[:2] = 0  # what is fixed has no impulse, and those behind it have
            several = right(program, reference, link, held, scale, turned, is_late)
            m.setattr(LOCAL, "_ROOM", 1)
            each = right(program, reference, link, held, scale, turned, is_late)
            assert np.allclose(several, each, rtol=1e-9, atol=1e-12)
        with monkeypatch.context() as m:
            m.setattr(LOCAL, "_alone", lambda *of: True)
            m.setattr(LOCAL, "_periods", lambda *of: (1,) * radius[0].ndim)
            wrong = right(program, reference, link, radius, scale, turned, is_late)
        periods = LOCAL._periods(program, reference, link, turned)
        seen.append(
            (float(alone.max()), float(wrong.max()), np.prod(np.minimum(periods, radius[0].shape)), radius.size)
        )
        assert np.allclose(together, alone, rtol=1e-9, atol=1e-12)
        return together

    monkeypatch.setattr(LOCAL, "_of_impulses", compared)
    network.bounds(box(network, center, 0.02), tighten=False)
    assert len(seen) >= 4
    assert any(wrong < 0.9 * alone for alone, wrong, *_ in seen)
    assert any(sent * 4 < size for *_, sent, size in seen)


def _left(network: Joint, center: dict[str, np.ndarray], eps: float) -> float:
    """The distance by which differences of operands at drawn inputs leave the bounds that layers give."""
    domain, away = box(network, center, eps), -np.inf
    network.bounds(domain, tighten=False)
    own = {p.program.operand: p for p in network.pairs}
    theirs = {p.reference.operand for p in network.pairs}
    for k in range(30):
        given = drawn(network, domain, k % 2 == 0)
        found = values(network.graph.nodes(), given, set(own))
        wide = {str(t.attributes["name"]): given[str(n.attributes["name"])].astype(np.float64)
                for t, n in network.twins.items()}  # fmt: skip
        real = values(Graph((), tuple(network.reference.items())).nodes(), wide, theirs)
        for m, p in own.items():
            x = p.scale * np.asarray(found[m], np.float64) + p.shift - np.transpose(real[p.reference.operand], p.order)
            low, high = network.apart[p.program.node]
            away = max(away, float((low - x).max()), float((x - high).max()))
    return away


def test_steps_that_are_not_counted_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    _, network, center = _joint("int8")
    assert _left(network, center, 0.02) <= 0
    right = LOCAL.way

    def wrong(rule, args):  # type: ignore[no-untyped-def]
        way = right(rule, args)
        if way is not None:
            way.spread = 0 * way.spread
        return way

    monkeypatch.setattr(LOCAL, "way", wrong)
    assert _left(network, center, 0.02) > 0


def test_rounding_that_is_not_counted_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    built, network, center = _joint("none")
    domain = box(network, center, 1e-6)

    def leaves() -> bool:
        low, high = network.differences(network.bounds(domain, tighten=False))["y0"]
        given = [drawn(network, domain, k % 2 == 0) for k in range(20)]
        away = [built.run(x)["y0"].astype(np.float64) - exact_results(built.stages.graph, x)["y0"] for x in given]
        return not all(((x >= low) & (x <= high)).all() for x in away)

    assert not leaves()
    link = JOINT.Joint._link

    def without(self, n, found):  # type: ignore[no-untyped-def]
        kept, found.noise = found.noise, {}
        made = link(self, n, found)
        found.noise = kept
        return made

    monkeypatch.setattr(LOCAL.Chain, "noise", property(lambda self: {}, lambda self, value: None), raising=False)
    monkeypatch.setattr(JOINT.Joint, "_link", without)
    assert leaves()


def test_no_impulse_is_sent_too_late() -> None:
    """Without time the bounds are those of magnitudes: wider, and at once."""
    _, network, center = _joint("none")
    domain = box(network, center, 0.02)
    sent = network.differences(network.bounds(domain, tighten=False))
    network.until = 0.0
    late = network.differences(network.bounds(domain, tighten=False))
    assert all(np.all(late[name][1] - late[name][0] >= high - low) for name, (low, high) in sent.items())
    assert any(np.any(late[name][1] - late[name][0] > 10 * (high - low)) for name, (low, high) in sent.items())
