"""Verdicts: what holds is said to hold, what is violated is shown by an input, and planted mistakes are found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import small_graphs as g
from bounded import network
from chance import RANDOM

import edgec
from edgec.certify import attack, search
from edgec.certify.network import Network
from edgec.certify.properties import Case, Clause, around, no_other_class, read_number
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


def _decide(graph: Graph, case: Case, seconds: float = 20.0) -> search.Verdict:
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
    monkeypatch.setattr(search, "met_by", lambda *given: None)
    monkeypatch.setattr(search, "attack", lambda *given: None)
    case = _case([-1, -1], [1, 1], 0.3)
    assert _decide(_distance(), case, 1.0).status == "unknown"
    monkeypatch.setattr(search, "BATCH", 1)
    right = Network.bounds
    halved = lambda self, domain, *more, **given: right(  # noqa: E731
        self, type(domain)({n: v + 0.9 for n, v in domain.low.items()}, domain.high), *more, **given
    )
    monkeypatch.setattr(Network, "bounds", halved)
    assert _decide(_distance(), case, 1.0).status == "holds"


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
    found = edgec.certify(built, inputs={"image": images}, eps=0.002, within=(0, 1), seconds=1)
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
    found = edgec.certify(built, inputs={"image": image}, eps=0.9, within=(0, 1), seconds=1)
    (c,) = found.certificates
    assert c.verdict.status == "violated" and c.verdict.inputs is not None
    assert built(c.verdict.inputs["image"]).argmax() != c.label


def test_kernels_without_bounds_are_refused(tmp_path: Path) -> None:
    x = node("pad", g.value("x", 1, 64, 32, 32), before=(0, 0, 1, 1), after=(0, 0, 1, 1))
    y = node("conv", x, g.weights(64, 64, 3, 3), strides=(1, 1), dilations=(1, 1), groups=1)
    proto = to_onnx(g.graph(y))
    with pytest.raises(ModelError, match="winograd"):
        edgec.certify(proto, inputs={"x": np.zeros((1, 64, 32, 32), F)}, eps=0.1)
