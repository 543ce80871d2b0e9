"""Windows over padding in pieces: right in every variant, with fewer multiply-adds, and only where it pays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from chance import RANDOM, SEED
from small_graphs import conv, graph, pad, relu, value, weights
from small_models import model, node, tensor_input
from small_models import weights as constant_of

import edgec
from edgec import ops
from edgec.check.compare import compare_all
from edgec.device.load import load_device
from edgec.execute.executor import run_graph, run_plan
from edgec.execute.samples import random_inputs
from edgec.fuse import Plan, border, plan
from edgec.fuse.border import divided
from edgec.fuse.choice import BlockCosts
from edgec.fuse.cost_model import CostModel
from edgec.ir.graph import Graph, Node, constant
from edgec.rewrite.taps import Axis

WAYS = ("regions", "sums")


def prices_for(way: str) -> BlockCosts:
    """Prices at which this variant is the cheapest wherever it is offered."""
    return BlockCosts(lambda block: 1.0, frozen=_Always(way))


class _Always(dict[str, str]):
    """Every choice about taps is decided."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way

    def __contains__(self, key: object) -> bool:
        return str(key).startswith("taps ")

    def __getitem__(self, key: str) -> str:
        return self.way


def multiply_adds(g: Graph) -> int:
    found = 0
    for n in g.operations():
        if n.op == "conv":
            found += n.type.elements * n.args[1].type.elements // n.args[1].type.shape[0]
        elif n.op == "pool":
            found += n.type.elements * int(np.prod(n.attributes["kernel"]))
    return found


def drawn(low: int, high: int, count: int) -> tuple[int, ...]:
    return tuple(int(k) for k in RANDOM.integers(low, high + 1, count))


def random_window() -> Node | None:
    """A convolution or pool over padding with steps after it; None where the window drawn does not fit."""
    spatial, groups = int(RANDOM.integers(1, 4)), int(RANDOM.choice([1, 2, 4]))
    space, kernel = drawn(2, 9, spatial), drawn(1, 3, spatial)
    before, after = drawn(0, 9, spatial), drawn(0, 9, spatial)
    attributes: dict[str, Any] = {"strides": drawn(1, 2, spatial), "dilations": drawn(1, 8, spatial)}
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, attributes["dilations"])]
    if any(n + b + a < s for n, b, a, s in zip(space, before, after, spans)):
        return None
    kind = RANDOM.choice(["float", "integer", "max", "add"])
    lead = (0, 0)
    if kind == "integer":
        narrow = value("x", 2, 4, *space, dtype="u8")
        padded = ops.node("pad", narrow, before=lead + before, after=lead + after, value=int(RANDOM.integers(0, 200)))
        w = constant(RANDOM.integers(-128, 128, (4, 4 // groups, *kernel)).astype(np.int8))
        wide = [ops.node("cast", x, to="i32") for x in (padded, w)]
        y = ops.node("conv", *wide, groups=groups, **attributes)
        return ops.node("mul", ops.node("cast", y, to="f32"), weights(4, *(1,) * spatial))
    fill = float(RANDOM.choice([0.0, 1.5])) if kind != "max" else float(RANDOM.choice([-np.inf, 0.25]))
    x = value("x", 2, 4, *space)
    padded = ops.node("pad", x, before=lead + before, after=lead + after, value=fill)
    if kind == "float":
        y = ops.node("conv", padded, weights(4, 4 // groups, *kernel), groups=groups, **attributes)
        return relu(ops.node("add", y, weights(4, *(1,) * spatial)))
    y = ops.node("pool", padded, combine=str(kind), kernel=kernel, **attributes)
    return ops.node("mul", y, weights(*y.type.shape[2:])) if kind == "add" else y


@pytest.mark.parametrize("way", WAYS)
def test_every_variant_is_right(way: str) -> None:
    found = 0
    while found < 40:
        end = random_window()
        if end is None or not end.type.elements:
            continue
        whole = graph(end)
        planned = plan(whole, prices=prices_for(way))
        choices = [c for c in planned.decisions.choices if c.kind == "taps"]
        if not choices or choices[0].taken.name != way:
            continue
        found += 1
        assert multiply_adds(planned.graph) < multiply_adds(whole)
        inputs = random_inputs(whole, SEED)
        assert all(d.within(2e-5) for d in compare_all(run_plan(planned, inputs), run_graph(whole, inputs)))


def atrous(dilation: int, size: int, channels: int = 64, depthwise: bool = False) -> Graph:
    x = relu(value("x", 1, channels, size, size))
    padded = pad(x, dilation, dilation)
    groups = channels if depthwise else 1
    y = conv(padded, weights(channels, channels // groups, 3, 3, scale=0.1), 1, dilation, groups=groups)
    return graph(relu(ops.node("add", y, weights(channels, 1, 1))))


def planned(g: Graph, device: str) -> Plan:
    return plan(g, prices=BlockCosts(CostModel(load_device(device))))


@pytest.mark.parametrize("device", ["x86_64_avx512", "pixel_8", "raspberry_pi_4", "cortex_m7"])
def test_a_wide_dilation_computes_a_quarter(device: str) -> None:
    """At 12 places over 16 x 16, half of the taps of every row and column read elements."""
    for depthwise in (False, True):
        whole = atrous(12, 16, depthwise=depthwise)
        assert multiply_adds(planned(whole, device).graph) * 4 == multiply_adds(whole)


@pytest.mark.parametrize("device", ["x86_64_avx512", "pixel_8"])
@pytest.mark.parametrize(("dilation", "size"), [(1, 16), (1, 4), (2, 40), (1, 112)])
def test_a_narrow_border_is_left(device: str, dilation: int, size: int) -> None:
    whole = atrous(dilation, size)
    assert multiply_adds(planned(whole, device).graph) == multiply_adds(whole)


def test_padding_costs_no_more_than_what_it_writes() -> None:
    """A 5 x 5 window of 6 x 6 pixels has more padding than pixels, but the pixels are not copied into it."""
    x = relu(conv(value("x", 1, 8, 6, 6), weights(1632, 8, 1, 1)))
    whole = graph(relu(conv(pad(x, 2, 2), weights(1632, 1, 5, 5), groups=1632)))
    assert multiply_adds(planned(whole, "x86_64_avx512").graph) == multiply_adds(whole)


def test_pieces_have_the_names_of_the_whole_and_can_be_decided() -> None:
    w = constant_of("w", RANDOM.standard_normal((24, 16, 3, 3)).astype(np.float32))
    b = constant_of("b", RANDOM.standard_normal(24).astype(np.float32))
    nodes = [
        node("Conv", ["x", "w", "b"], ["c"], "atrous", pads=[7] * 4, dilations=[7, 7]),
        node("Relu", ["c"], ["r"], "active"),
        node("MaxPool", ["r"], ["p"], "largest", kernel_shape=[3, 3], pads=[2] * 4, dilations=[4, 4]),
        node("AveragePool", ["p"], ["y"], "mean", kernel_shape=[2, 2], pads=[1, 1, 1, 1], count_include_pad=0),
    ]
    proto = model(nodes, [tensor_input("x", [1, 16, 9, 10])], initializers=[w, b])
    for way in ("whole", *WAYS):
        built = edgec.build(proto, overrides={"taps atrous": way})
        kernels = [k for k in built.program.kernels if "atrous" in k.names]
        assert (len(kernels) > 3) == (way != "whole")
        assert edgec.check(proto, samples=2, blocks=True, overrides={"taps atrous": way}).ok


def test_names_and_choices_of_a_graph_that_stays() -> None:
    whole = atrous(1, 12)
    same, choices = divided(whole, BlockCosts(CostModel()))
    assert same is whole and not choices


def _around(ranges: list[range]) -> range:
    full = [r for r in ranges if r]
    return range(min(r.start for r in full), max(r.stop for r in full)) if full else range(0)


def test_pieces_are_those_of_their_definition() -> None:
    """Every piece holds all that reads an element in it, whatever strides and dilations leave out between."""
    for _ in range(300):
        extent, before, taps, stride, dilation, positions = (int(n) for n in RANDOM.integers(1, (9, 12, 14, 6, 7, 12)))
        axis = Axis(extent, before, taps, stride, dilation, positions)
        for part in border._groups(axis):
            assert part.positions == _around([axis.reading(k) for k in part.taps]), axis
        for part in border._regions(axis):
            live = [[k for k in range(taps) if p in axis.reading(k)] for p in part.positions]
            assert part.taps == _around([range(some[0], some[-1] + 1) for some in live if some]), axis


def test_large_windows_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, reading = 0, Axis.reading

    def counted(self: Axis, tap: int) -> range:
        nonlocal asked
        asked += 1
        return reading(self, tap)

    monkeypatch.setattr(Axis, "reading", counted)
    axis = Axis(4, 300, 600, 1, 1, 20)
    assert border._groups(axis) and border._regions(axis)
    assert asked <= axis.taps * (axis.positions + 1)
    assert len(border._groups(Axis(300, 500, 1000, 1, 1, 1000))) > 2
