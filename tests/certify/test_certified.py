"""Verdicts: what holds is said to hold, what is violated is shown by an input, and planted mistakes are found."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
import small_graphs as g
from bounded import box, network, output_bounds
from chance import RANDOM

import edgec
from edgec.certify import attack, choices, cut, ranges, search
from edgec.certify.network import Network
from edgec.certify.properties import Case, Clause, around, no_other_class, read_number
from edgec.certify.verdict import Verdict
from edgec.errors import ModelError, UsageError
from edgec.execute.executor import run_graph
from edgec.frontend.onnx.export import to_onnx
from edgec.ir.graph import Graph, constant
from edgec.ir.registry import node
from edgec.ir.types import Type
from edgec.progress import silent

F = np.float32
DIGITS = Path(__file__).parents[2] / "apps" / "digits"


def _distance() -> Graph:
    """|a| + |b| as a ReLU network: 0 at the origin alone."""
    x = g.value("x", 1, 2)
    hidden = g.relu(node("matmul", x, constant(np.array([[1, -1, 0, 0], [0, 0, 1, -1]], F))))
    return g.graph(node("matmul", hidden, constant(np.ones((4, 1), F))))


def _case(low: list[float], high: list[float], limit: float) -> Case:
    """|a| + |b| <= limit is forbidden in a box."""
    clause = Clause({"y0": np.ones((1, 1, 1))}, np.array([limit]))
    return Case({"x": np.array([low])}, {"x": np.array([high])}, (clause,))


def _decide(graph: Graph, case: Case, seconds: float = 20.0) -> Verdict:
    return search.decide(network(graph), case, lambda x: run_graph(graph, x), seconds, silent)


def test_cuts_decide_what_bounds_alone_do_not() -> None:
    """max(a + b, 0) is no more than max(a, 0) + max(b, 0), of which one plane each knows nothing."""
    hidden = g.relu(node("matmul", g.value("x", 1, 2), constant(np.array([[1, 1, 0], [1, 0, 1]], F))))
    graph = g.graph(node("matmul", hidden, constant(np.array([[-1], [1], [1]], F))))
    found = _decide(graph, _case([-1, -1], [1, 1], -0.1))
    assert found.status == "holds" and found.parts > 1
    assert _decide(_distance(), _case([0.5, 0.5], [1, 1], 0.5)).parts == 1


def test_violations_are_inputs_of_the_box() -> None:
    case = _case([-1, -1], [1, 1], 0.01)
    found = _decide(_distance(), case)
    assert found.status == "violated" and found.inputs is not None
    assert attack.inside(case, found.inputs) and np.abs(found.inputs["x"]).sum() <= 0.01


def test_time_that_is_up_is_said() -> None:
    found = _decide(_distance(), _case([-1, 1e-3], [1, 1], 0.999e-3), 0.0)
    assert found.status == "unknown" and "time is up" in found.reason


def test_a_property_that_rounding_breaks_does_not_hold() -> None:
    """(x + 1e8) - 1e8 is x for real numbers, and 0 for floats: real arithmetic would prove that it is above 0.5."""
    shifted = node("add", g.value("x", 1, 1), g.number(1e8))
    graph = g.graph(node("sub", shifted, g.number(1e8)))
    clause = Clause({"y0": np.ones((1, 1, 1))}, np.array([0.5]))
    case = Case({"x": np.array([[0.9]])}, {"x": np.array([[1.1]])}, (clause,))
    assert _decide(graph, case, 1.0).status == "violated"


@pytest.mark.parametrize("norm", ["inf", "2"])
def test_random_networks_are_never_wrong(norm: str) -> None:
    for _ in range(6):
        x = g.value("x", 1, 4)
        h = g.relu(node("add", node("matmul", x, g.weights(4, 12)), g.weights(12)))
        graph = g.graph(node("matmul", g.relu(node("matmul", h, g.weights(12, 12))), g.weights(12, 3)))
        center = {"x": RANDOM.standard_normal((1, 4)).astype(F)}
        label = int(run_graph(graph, center)["y0"].argmax())
        for eps in (0.01, 0.1, 0.5):
            types = {"x": Type("f32", (1, 4))}
            case = around(center, types, eps, norm, None, no_other_class("y0", Type("f32", (1, 3)), label))
            found = _decide(graph, case, 2.0)
            if found.status == "violated":
                assert found.inputs is not None
                assert attack.inside(case, found.inputs) and run_graph(graph, found.inputs)["y0"].argmax() != label
            if found.status == "holds":
                for _ in range(200):
                    move = RANDOM.standard_normal((1, 4))
                    scale = np.abs(move).max() if norm == "inf" else np.sqrt((move**2).sum())
                    near = (center["x"] + move / scale * eps * 0.999).astype(F)
                    assert run_graph(graph, {"x": near})["y0"].argmax() == label


def test_a_search_that_skips_parts_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "attack", lambda *given, **more: None)
    monkeypatch.setattr(cut.Cut, "_violated", lambda *given: None)
    case = _case([-1, -1], [1, 1], 0.3)
    assert _decide(_distance(), case, 1.0).status == "unknown"
    monkeypatch.setattr(cut, "BATCH", 1)
    right = Network.bounds
    halved = lambda self, domain, *more, **given: right(  # noqa: E731
        self, type(domain)({n: v + 0.9 for n, v in domain.low.items()}, domain.high), *more, **given
    )
    monkeypatch.setattr(Network, "bounds", halved)
    assert _decide(_distance(), case, 20.0).status == "holds"


def _wide(seed_scale: float) -> tuple[Graph, dict[str, np.ndarray], int]:
    """A network of more inputs than are cut, an input of it, and its class."""
    x = node("add", node("matmul", g.value("x", 1, 30), g.weights(30, 16, scale=seed_scale)), g.weights(16))
    h = node("min", node("max", x, g.number(0.0)), g.number(2.0))
    h = g.relu(node("add", node("matmul", h, g.weights(16, 12, scale=0.5)), g.weights(12)))
    graph = g.graph(node("matmul", h, g.weights(12, 3)))
    center = {"x": RANDOM.standard_normal((1, 30)).astype(F)}
    return graph, center, int(run_graph(graph, center)["y0"].argmax())


def test_an_input_that_no_slope_shows_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound has no slope by the second input, by which alone it loses; the first one is steep and loses nothing."""
    first = np.array([[0, 0, 0, 0, 1], [1, -1, 2, -2, 0]], np.float32)
    second = np.array([[1], [1], [-0.5], [-0.5], [0.4]], np.float32)
    graph = g.graph(node("matmul", g.relu(node("matmul", g.value("x", 1, 2), constant(first))), constant(second)))
    found = _decide(graph, _case([0.5, -1], [1, 1], 0.1))
    assert found.status == "holds" and found.parts < 800
    for what, name, planted in ((cut, "FLAT", 0.0), (cut, "FEW", -1), (cut.Sides, "moves", lambda *given: None)):
        monkeypatch.setattr(what, name, planted)  # slopes alone, and no choices
    assert _decide(graph, _case([0.5, -1], [1, 1], 0.1), 0.5).status == "unknown"


def _decided(graph: Graph, center: dict[str, np.ndarray], label: int, eps: float, seconds: float = 3.0) -> Verdict:
    types = {"x": Type("f32", (1, 30))}
    clauses = no_other_class("y0", Type("f32", (1, 3)), label)
    return _decide(graph, around(center, types, eps, "inf", None, clauses), seconds)


def _escapes(graph: Graph, center: dict[str, np.ndarray], label: int, eps: float) -> bool:
    """Does a drawn corner of the box have another class?"""
    for _ in range(400):
        corner = center["x"] + eps * 0.9999 * RANDOM.choice([-1, 1], (1, 30))
        if run_graph(graph, {"x": corner.astype(F)})["y0"].argmax() != label:
            return True
    return False


def test_choices_decide_networks_of_many_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choices.Narrowing, "run", lambda *given: False)  # ranges alone would do
    parts = 0
    for k in range(16):
        if k >= 4 and parts > 3:
            break
        graph, center, label = _wide(0.3)
        for eps in (0.02, 0.05, 0.1):
            found = _decided(graph, center, label, eps)
            if found.status == "holds":
                parts = max(parts, found.parts)
                assert not _escapes(graph, center, label, eps)
    assert parts > 3, "none was decided by choices"


def test_multipliers_that_are_wrong_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: multipliers for the sides that were not taken prove what is not so."""
    monkeypatch.setattr(time, "perf_counter", time.process_time)  # what else runs here changes nothing
    monkeypatch.setattr(search, "attack", lambda *given, **more: None)
    monkeypatch.setattr(search.Momentum, "of", lambda *given: None)
    monkeypatch.setattr(choices.Narrowing, "run", lambda *given: False)
    for name in ("proved", "Ascent"):
        right = getattr(choices, name)

        def turned(*given, right=right):  # type: ignore[no-untyped-def]
            return right(*given[:-1], {n: -t for n, t in given[-1].items()})

        monkeypatch.setattr(choices, name, turned)
    wrong = 0
    for _ in range(40):
        graph, center, label = _wide(0.3)
        for eps in (0.1, 0.2, 0.4):
            found = _decided(graph, center, label, eps, 1.0)
            wrong += found.status == "holds" and _escapes(graph, center, label, eps)
        if wrong:
            break
    assert wrong > 0


def _crown(layers: list[tuple[np.ndarray, np.ndarray]], x: np.ndarray, eps: float) -> tuple[np.ndarray, np.ndarray]:
    """CROWN of a ReLU network as its paper has it (Zhang et al., 2018), in a few lines of its own."""
    bounds: list[tuple[np.ndarray, np.ndarray]] = []
    for depth in range(len(layers)):
        found = []
        for sign in (1.0, -1.0):
            w, b = sign * layers[depth][0].T, sign * layers[depth][1]
            for k in reversed(range(depth)):
                low, high = bounds[k]
                open = (low < 0) & (high > 0)
                upper = np.where(open, high / np.where(open, high - low, 1), low >= 0)
                lower = np.where(open, high > -low, low >= 0)
                b = b + np.minimum(w, 0) @ np.where(open, -upper * low, 0)
                w = np.maximum(w, 0) * lower + np.minimum(w, 0) * upper
                b, w = b + w @ layers[k][1], w @ layers[k][0].T
            found.append(w @ x + b - eps * np.abs(w).sum(1))
        bounds.append((found[0], -found[1]))
    return bounds[-1]


def test_bounds_are_those_of_the_paper_and_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = [(20, 40), (40, 30), (30, 5)]
    layers = [(RANDOM.standard_normal(s).astype(F) * F(0.3), RANDOM.standard_normal(s[1]).astype(F)) for s in sizes]
    h = g.value("x", 1, 20)
    for k, (w, b) in enumerate(layers):
        h = node("add", node("matmul", h if k == 0 else g.relu(h), constant(w)), constant(b))
    graph, x = g.graph(h), RANDOM.standard_normal((1, 20)).astype(F)
    net = network(graph)
    low, high = output_bounds(net, net.bounds(box(net, {"x": x}, 0.05)))["y0"]
    wide = [(w.astype(np.float64), b.astype(np.float64)) for w, b in layers]
    least, most = _crown(wide, x[0].astype(np.float64), 0.05)
    assert (low[0] <= least).all() and (high[0] >= most).all()
    monkeypatch.setitem(ranges.UNITS, "f32", 2.0**-60)  # what is left is the rounding of the analysis
    near, far = output_bounds(net, net.bounds(box(net, {"x": x}, 0.05)))["y0"]
    assert np.abs(near[0] - least).max() < 1e-9 and np.abs(far[0] - most).max() < 1e-9
    assert 0 < np.abs(near[0] - low[0]).max() < 1e-3


def test_values_that_are_late_keep_intervals() -> None:
    """Bounds of a network when its time is over: none by rows, all of them right, and wider than those in time."""
    h = g.relu(node("matmul", g.value("x", 1, 6), constant(RANDOM.standard_normal((6, 8)).astype(F))))
    h = g.relu(node("matmul", h, constant(RANDOM.standard_normal((8, 8)).astype(F))))
    graph, x = (
        g.graph(node("matmul", h, constant(RANDOM.standard_normal((8, 4)).astype(F)))),
        RANDOM.standard_normal((1, 6)),
    )
    net = network(graph)
    domain = box(net, {"x": x.astype(F)}, 0.2)
    in_time, plain = net.bounds(domain), net.bounds(domain, tighten=False)
    net.until = 0.0
    late = net.bounds(domain)
    assert net.is_late
    for n in net.rules:
        assert (late.seen[n].low == plain.seen[n].low).all() and (late.seen[n].high == plain.seen[n].high).all()
        assert (late.seen[n].low <= in_time.seen[n].low).all() and (late.seen[n].high >= in_time.seen[n].high).all()
    assert any((late.seen[n].high > in_time.seen[n].high).any() for n in net.rules)


def test_distances_that_are_none() -> None:
    assert read_number("2/255", "--eps") == 2 / 255
    for wrong in ("-1", "nan", "inf", "x", "1/0", "1/-2", ""):
        with pytest.raises(UsageError, match=r"no (number|distance)"):
            read_number(wrong, "--eps")
    with pytest.raises(UsageError, match="not finite"):
        around({"x": np.array([np.nan])}, {"x": Type("f32", (1,))}, 0.1)


def test_the_digits_are_certified_in_compiled_code() -> None:
    with np.load(DIGITS / "digits_test.npz") as data:
        images = data["image"][:2]
    built = edgec.build(DIGITS / "digits.onnx", numeric="exact")
    found = edgec.certify(built, inputs={"image": images}, eps=0.002, within=(0, 1), seconds=20)
    assert found.replayed and found.share == 1.0
    for c, image in zip(found.certificates, images):
        (bounds,) = c.outputs
        for _ in range(50):
            near = np.clip(image + RANDOM.uniform(-0.002, 0.002, image.shape), 0, 1).astype(F)[None]
            near = np.clip(near, np.nextafter(image - F(0.002), F(1)), image + F(0.00199))
            y = built(near)
            assert (y >= bounds.low).all() and (y <= bounds.high).all() and y.argmax() == c.label


def test_a_far_image_is_not_certified() -> None:
    with np.load(DIGITS / "digits_test.npz") as data:
        image = data["image"][:1]
    built = edgec.build(DIGITS / "digits.onnx", numeric="exact")
    found = edgec.certify(built, inputs={"image": image}, eps=0.9, within=(0, 1), seconds=20)
    (c,) = found.certificates
    assert c.verdict.status == "violated" and c.verdict.inputs is not None
    assert built(c.verdict.inputs["image"]).argmax() != c.label


def test_kernels_without_bounds_are_refused(tmp_path: Path) -> None:
    x = node("pad", g.value("x", 1, 64, 32, 32), before=(0, 0, 1, 1), after=(0, 0, 1, 1))
    y = node("conv", x, g.weights(64, 64, 3, 3), strides=(1, 1), dilations=(1, 1), groups=1)
    proto = to_onnx(g.graph(y))
    with pytest.raises(ModelError, match="winograd"):
        edgec.certify(proto, inputs={"x": np.zeros((1, 64, 32, 32), F)}, eps=0.1)
