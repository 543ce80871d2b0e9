"""Differences between code and model: bounds hold for drawn inputs, are narrow, and planted mistakes are found."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import small_graphs as g
from bounded import box, drawn
from chance import RANDOM

import edgec
from edgec.certify.domain import Domain
from edgec.certify.joint import Joint
from edgec.certify.pairs import Bend, Pair
from edgec.check.float64 import exact_results
from edgec.cli.main import main
from edgec.errors import ModelError, UsageError
from edgec.frontend.onnx.export import to_onnx
from edgec.fuse import plan
from edgec.ir.evaluate import evaluate_node
from edgec.ir.graph import Graph, Node, constant
from edgec.ir.registry import node
from edgec.schedule.order import orders_of

Layer = Callable[[Node], Node]
F = np.float32
EPS = 0.02


def _dense(x: Node, outputs: int) -> Node:
    inputs = x.type.shape[-1]
    return node("add", node("matmul", x, g.weights(inputs, outputs, scale=inputs**-0.5)), g.weights(outputs, scale=0.1))


def _network(bend: Layer, *, widths: tuple[int, ...] = (9, 7, 5)) -> Graph:
    x = g.value("x", 1, 6)
    for width in widths:
        x = bend(_dense(x, width))
    return g.graph(_dense(x, 3))


def _pictures() -> Graph:
    """Convolutions with a sum beside them, in the order of dimensions that TFLite has."""
    x = g.value("x", 1, 6, 6, 2)
    first = node("transpose", x, perm=(0, 3, 1, 2))
    a = g.relu(node("conv", first, g.weights(4, 2, 3, 3, scale=0.3), strides=(1, 1), dilations=(1, 1)))
    b = node("add", a, g.relu(node("conv", a, g.weights(4, 4, 1, 1, scale=0.5), strides=(1, 1), dilations=(1, 1))))
    back = g.relu(
        node(
            "transpose",
            node("add", b, constant(np.array([-0.5, 0.2, -0.2, 0.1], F).reshape(4, 1, 1))),
            perm=(0, 2, 3, 1),
        )
    )
    return g.graph(_dense(node("reshape", back, shape=(1, 64)), 3))


def _centers(graph: Graph, count: int = 4) -> list[dict[str, np.ndarray]]:
    return [{"x": RANDOM.standard_normal(graph.inputs[0].type.shape).astype(np.float32)} for _ in range(count)]


def _left(built: edgec.Built, network: Joint, center: dict[str, np.ndarray], eps: float = EPS) -> tuple[float, float]:
    """The distance by which drawn inputs leave the bounds of an output, and the widest bound."""
    domain = box(network, center, eps)
    low, high = network.differences(network.bounds(domain))["y0"]
    away = 0.0
    for k in range(60):
        given = drawn(network, domain, k % 2 == 0)
        found = built.run(given)["y0"].astype(np.float64) - exact_results(built.stages.graph, given)["y0"]
        away = max(away, float((low - found).max()), float((found - high).max()))
    return away, float(np.maximum(-low, high).max())


def _joint(built: edgec.Built, samples: list[dict[str, np.ndarray]]) -> Joint:
    assert built.stages.plan is not None
    orders = orders_of(built.program.kernels, built.program.views)
    return Joint(built.stages.plan, built.stages.graph, samples, orders)


BENDS: dict[str, Layer] = {
    "relu": g.relu, "clip": g.clip, "leaky": g.leaky, "silu": g.silu,
    "tanh": lambda x: node("tanh", x), "sigmoid": lambda x: node("sigmoid", x),
}  # fmt: skip


@pytest.mark.parametrize("quantize", ["none", "int8"])
@pytest.mark.parametrize("name", BENDS)
def test_no_drawn_input_leaves_the_bounds(name: str, quantize: str) -> None:
    graph = _network(BENDS[name])
    settings = {} if quantize == "none" else {"quantize": quantize, "calibrate": "random"}
    built = edgec.build(to_onnx(graph), **settings)
    centers = _centers(graph)
    network = _joint(built, centers)
    for center in centers[:2]:
        away, widest = _left(built, network, center)
        assert away <= 0 and widest < 30


@pytest.mark.parametrize("quantize", ["none", "int8"])
def test_layouts_and_sums_beside(quantize: str) -> None:
    graph = _pictures()
    settings = {} if quantize == "none" else {"quantize": quantize, "calibrate": "random"}
    built = edgec.build(to_onnx(graph), **settings)
    centers = _centers(graph)
    network = _joint(built, centers)
    assert len(network.pairs) == 3
    away, _ = _left(built, network, centers[0])
    assert away <= 0


def test_pairs_make_the_difference() -> None:
    graph = _network(g.relu)
    built = edgec.build(to_onnx(graph))
    centers = _centers(graph)
    paired, apart = _joint(built, centers), _joint(built, [])
    assert len(paired.pairs) == 3 and not apart.pairs
    together, alone = (_left(built, network, centers[0], 0.5)[1] for network in (paired, apart))
    assert together * 50 < alone


def test_any_pair_is_sound() -> None:
    """Pairs are guesses: a wrong scale and a wrong partner widen bounds, and no input leaves them."""
    graph = _network(g.relu, widths=(7, 7, 7))
    built = edgec.build(to_onnx(graph), quantize="int8", calibrate="random")
    centers = _centers(graph)
    right = _left(built, _joint(built, centers), centers[0])[1]
    wrong = _joint(built, centers)
    for p in wrong.pairs:
        scale = p.scale * RANDOM.uniform(0.5, 2, p.scale.shape)
        replaced = Pair(p.program, p.reference, scale, p.shift + 0.1, p.order)
        wrong.by_reference[p.reference.node] = replaced
        wrong.by_program[p.program.node] = replaced
    away, widest = _left(built, wrong, centers[0])
    assert away <= 0 and widest > right


def test_steps_of_a_single_input_are_known() -> None:
    """One input, and not one near it: the rounding of an integer network is then no unknown."""
    graph = _network(g.relu)
    built = edgec.build(to_onnx(graph), quantize="int8", calibrate="random")
    center = _centers(graph)[0]
    found = edgec.certify(built, inputs=center, eps=0, against="float")
    (difference,) = found.certificates[0].differences
    assert difference.met <= difference.most <= difference.met * 1.01 + 1e-6


def test_a_planted_mistake_is_outside_of_what_rounding_explains() -> None:
    """A program with one wrong weight is not within the bounds of the right one, and its own bounds say so."""
    graph = _network(g.relu)
    other = _network(g.relu)  # of other weights
    built = edgec.build(to_onnx(graph))
    centers = _centers(graph)
    right, wrong = Joint(plan(graph), graph, centers), Joint(plan(other), graph, centers)
    _, widest = _left(built, right, centers[0])
    low, high = wrong.differences(wrong.bounds(box(wrong, centers[0], EPS)))["y0"]
    assert widest < 1e-3 < max(float(low.max()), float(-high.min()))


def test_a_limit_that_is_met_or_not(tmp_path: Path) -> None:
    graph = _network(g.relu)
    built = edgec.build(to_onnx(graph), quantize="int8", calibrate="random")
    center = _centers(graph)[0]
    np.savez(tmp_path / "x.npz", **center)
    where = f"{tmp_path / 'x.npz'}:{EPS}"
    most = edgec.certify(built, against="float", box=where).certificates[0].differences[0].most
    assert edgec.certify(built, against="float", box=where, limit=most * 1.01).ok
    unknown = edgec.certify(built, against="float", box=where, limit=most * 0.9).certificates[0].verdict
    assert unknown.status == "unknown" and unknown.margin < 0
    found = edgec.certify(built, against="float", box=where, limit=1e-9).certificates[0].verdict
    assert found.status == "violated" and found.inputs is not None
    given = built.run(found.inputs)["y0"] - exact_results(built.stages.graph, found.inputs)["y0"]
    assert np.abs(given).max() > 1e-9


def test_a_budget_that_is_proved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = _network(g.relu)
    (tmp_path / "net.onnx").write_bytes(to_onnx(graph).SerializeToString())
    np.savez(tmp_path / "x.npz", **_centers(graph)[0])
    near = ["--box", f"{tmp_path / 'x.npz'}:0.01"]

    def built(out: str, *more: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as ended:
            main(["build", str(tmp_path / "net.onnx"), "--json", "-o", str(tmp_path / out), *more])
        return int(str(ended.value.code)), capsys.readouterr().out

    code, text = built("a", "--budget", "certified_error=0.01", *near)
    (held,) = json.loads(text)["budgets"]
    assert code == 0 and held["ok"] and 0 < held["found"] <= 0.01
    code, text = built("b", "--budget", "certified_error=1e-9", *near)
    assert code == 1 and not json.loads(text)["budgets"][0]["ok"]
    for more in (("--budget", "certified_error=0.01"), near):
        code, text = built("c", *more)
        assert code == 2 and "--box" in text and not (tmp_path / "c").exists()


def test_questions_that_make_no_sense() -> None:
    graph = _network(g.relu)
    built = edgec.build(to_onnx(graph))
    center = _centers(graph)[0]
    for wanted, message in (
        ({"against": "flaot", "inputs": center, "eps": 0}, "there is no 'flaot'"),
        ({"against": "float", "inputs": center, "eps": 0, "limit": -1.0}, "is no limit"),
        ({"against": "float", "inputs": center, "eps": 0, "radius": True}, "for all outputs"),
        ({"inputs": center, "eps": 0, "limit": 1.0}, "one of differences"),
        ({"against": "float", "box": "x.npz"}, "no box"),
        ({"against": "float", "box": "x.npz:far"}, "is no number"),
        ({"against": "float", "box": "x.npz:0", "inputs": center}, "what its inputs are"),
        ({"against": "float"}, "is not said"),
    ):
        with pytest.raises(UsageError, match=message):
            edgec.certify(built, **wanted)  # type: ignore[arg-type]
    renamed = g.graph(_dense(g.value("z", 1, 6), 3))
    with pytest.raises(ModelError, match="other inputs"):
        Joint(plan(graph), renamed, [])


def test_bends_are_what_they_are_called() -> None:
    network = Joint(plan(_network(g.clip)), _network(g.clip), _centers(_network(g.clip)))
    for p in network.pairs:
        assert isinstance(p.program, Bend) and p.program.kind == p.reference.kind in ("max", "min")


def _alone(graph: Graph, program: Graph, low: float, high: float) -> tuple[float, float]:
    """The bounds of the one output of a program less a graph, for an input between two numbers."""
    network = Joint(plan(program), graph, [])
    shape = (1, *next(iter(network.inputs.values())).type.shape)
    domain = Domain(*({n: np.full(shape, x) for n in network.inputs.values()} for x in (low, high)))
    found = network.differences(network.bounds(domain))["y0"]
    return float(found[0].min()), float(found[1].max())


def test_constants_of_constants_are_real_numbers() -> None:
    """Rounding of a constant by the program is part of the difference, whether it is folded or in the code."""
    x = g.value("x", 512)
    scaled = node(
        "mul", node("cast", constant(np.arange(-128, 128, 0.5).astype(np.int8)), to="f32"), g.number(0.0123457)
    )
    for op in ("mul", "add", "sub"):
        graph = g.graph(node(op, x, scaled))
        built = edgec.build(to_onnx(graph))
        network = _joint(built, [])
        for center in (scaled_values := evaluate_node(scaled, [evaluate_node(a, [n.value for n in a.args]) if a.args
                       else a.value for a in scaled.args]), -scaled_values):  # fmt: skip
            away, _ = _left(built, network, {"x": center.astype(np.float32)}, 0.0)
            assert away <= 0


def test_numbers_that_leave_their_type_are_unknown() -> None:
    x = g.value("x", 3)
    small = node("cast", node("cast", node("mul", x, g.number(50)), to="i32"), to="i8")
    same = node("cast", node("cast", node("mul", x, g.number(0)), to="i32"), to="i8")
    low, high = _alone(g.graph(node("cast", small, to="f32")), g.graph(node("cast", same, to="f32")), 1.0, 4.0)
    assert low == -np.inf and high == np.inf


def test_slopes_in_another_order() -> None:
    """A leaky choice with a slope for each channel, computed in another order of dimensions."""
    slopes = constant(np.array([3.0, 1.0, 0.5, 2.0], np.float32).reshape(1, 1, 4))

    def leaky(x: Node, slopes: Node) -> Node:
        return node("select", node("lt", x, g.number(0)), node("mul", x, slopes), x)

    x = g.value("x", 1, 3, 4)
    graph = g.graph(leaky(x, slopes))
    turned = leaky(node("transpose", x, perm=(0, 2, 1)), node("transpose", slopes, perm=(0, 2, 1)))
    program = g.graph(node("transpose", turned, perm=(0, 2, 1)))
    network = Joint(plan(program), graph, _centers(graph))
    assert len(network.pairs) == 1 and network.pairs[0].order == (0, 2, 1)
    low, high = network.differences(network.bounds(box(network, _centers(graph)[0], 1.0)))["y0"]
    assert -1e-5 < low.min() <= 0 <= high.max() < 1e-5


def test_inputs_that_only_the_model_reads() -> None:
    x, z = g.value("x", 2), g.value("x of the reference", 2)
    graph = g.graph(node("add", x, z))
    program = Graph(graph.inputs, g.graph(node("mul", x, g.number(1.5))).outputs)
    low, high = _alone(graph, program, 1.0, 2.0)
    assert low <= -1.0 and -0.5 <= high < 0.1  # x / 2 - z
    assert edgec.certify(edgec.build(to_onnx(g.graph(g.relu(g.value("x", 0, 3))))), inputs={"x": np.zeros((0, 3), F)},
                         eps=0, against="float").ok  # fmt: skip
