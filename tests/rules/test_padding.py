"""Windows over padding lose the taps that read no element, and keep their results, in every spelling of a network."""

from __future__ import annotations

from itertools import product
from math import gcd
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from chance import RANDOM
from onnx import TensorProto
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, RuntimeException
from small_models import model, node, tensor_input, weights

from edgec.frontend.onnx import import_model
from edgec.ir.evaluate import run
from edgec.ir.graph import Graph, Node
from edgec.rewrite import simplify
from edgec.rewrite.taps import Axis

KINDS = ("Conv", "grouped", "depthwise", "ConvTranspose", "ConvInteger", "QLinearConv", "MaxPool", "AveragePool")


def drawn(low: int, high: int, count: int) -> list[int]:
    return [int(k) for k in RANDOM.integers(low, high + 1, count)]


def geometry(spatial: int, kernel: list[int], space: list[int], is_pool: bool) -> dict[str, Any] | None:
    """Random pads, dilations and strides with a window that fits; None where none was found."""
    dilations = drawn(1, 7, spatial)
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations)]
    most = [k - 1 for k in kernel] if is_pool else [9] * spatial
    pads = [int(RANDOM.integers(0, m + 1)) for m in most * 2]
    if any(n + pads[a] + pads[a + spatial] < s for a, (n, s) in enumerate(zip(space, spans))):
        return None
    found: dict[str, Any] = {"kernel_shape": kernel, "pads": pads, "strides": drawn(1, 3, spatial)}
    return found | ({"dilations": dilations} if any(d > 1 for d in dilations) else {})


def network(kind: str) -> tuple[onnx.ModelProto, dict[str, np.ndarray]] | None:
    """A random network of one window operator, and an input."""
    spatial = int(RANDOM.integers(1, 4))
    space, kernel = drawn(1, 6, spatial), drawn(1, 4, spatial)
    channels, groups = 4, {"grouped": 2, "depthwise": 4}.get(kind, 1)
    attributes = geometry(spatial, kernel, space, "Pool" in kind)
    if attributes is None:
        return None
    x = RANDOM.standard_normal((2, channels, *space)).astype(np.float32)
    w = RANDOM.standard_normal((4, channels // groups, *kernel)).astype(np.float32)
    if kind in ("MaxPool", "AveragePool"):
        extra = {"count_include_pad": int(RANDOM.integers(2))} if kind == "AveragePool" else {}
        nodes = [node(kind, ["x"], ["y"], **attributes, **extra)]
        return model(nodes, [tensor_input("x", x.shape)], opset=19), {"x": x}
    if kind == "ConvTranspose":
        attributes = {**attributes, "pads": [0] * (2 * spatial)}
    if kind in ("ConvInteger", "QLinearConv"):
        bytes_in = RANDOM.integers(0, 256, x.shape, np.uint8)
        whole = RANDOM.integers(-63, 64, w.shape, np.int8)  # the peer saturates without VNNI
        constants = [weights("w", whole), weights("zx", np.uint8(37)), weights("zw", np.int8(0))]
        operands = ["x", "w", "zx", "zw"]
        if kind == "QLinearConv":
            constants += [weights("s", np.float32(0.01)), weights("zy", np.uint8(90)), weights("sy", np.float32(0.3))]
            operands = ["x", "s", "zx", "w", "s", "zw", "sy", "zy"]
        nodes = [node(kind, operands, ["q"], **attributes), node("Cast", ["q"], ["y"], to=TensorProto.FLOAT)]
        return model(nodes, [tensor_input("x", x.shape, TensorProto.UINT8)], initializers=constants), {"x": bytes_in}
    operator = "ConvTranspose" if kind == "ConvTranspose" else "Conv"
    nodes = [node(operator, ["x", "w"], ["y"], group=groups, **attributes)]
    return model(nodes, [tensor_input("x", x.shape)], initializers=[weights("w", w)]), {"x": x}


def multiply_adds(graph: Graph) -> int:
    """Terms of all windows."""
    total = 0
    for n in graph.operations():
        if n.op == "conv":
            total += n.type.elements * n.args[1].type.elements // n.args[1].type.shape[0]
        elif n.op == "pool":
            total += n.type.elements * int(np.prod(n.attributes["kernel"]))
    return total


def needed(n: Node) -> int:
    """Terms of the windows of ``n`` whose tap reads an element at some position, by looking at each."""
    x = n.args[0]
    while x.op == "cast":
        x = x.args[0]
    kernel = n.args[1].type.shape[2:] if n.op == "conv" else n.attributes["kernel"]
    lead = n.type.rank - len(kernel)
    inside = np.ones(x.type.shape[lead:], bool)
    if x.op == "pad":
        sides = list(zip(x.attributes["before"][lead:], x.attributes["after"][lead:]))
        inside = np.pad(np.ones(x.args[0].type.shape[lead:], bool), sides)
    taps = 0
    for tap in product(*map(range, kernel)):
        starts = [k * d for k, d in zip(tap, n.attributes["dilations"])]
        at = tuple(slice(b, b + (m - 1) * s + 1, s) for b, m, s in
                   zip(starts, n.type.shape[lead:], n.attributes["strides"]))  # fmt: skip
        taps += bool(inside[at].any())
    per_tap = n.args[1].type.shape[1] if n.op == "conv" else 1
    return n.type.elements * per_tap * taps


def windows(graph: Graph) -> list[Node]:
    return [n for n in graph.operations() if n.op in ("conv", "pool")]


@pytest.mark.parametrize("kind", KINDS)
def test_results_stay_and_no_tap_reads_padding_alone(kind: str) -> None:
    quiet = onnxruntime.SessionOptions()
    quiet.log_severity_level = 4
    shorter = compared = 0
    while shorter < 12 or compared < 6:
        made = network(kind)
        if made is None:
            continue
        proto, given = made
        graph = import_model(proto)
        simpler, applied = simplify(graph)
        got, expected = run(simpler, given)["y"], run(graph, given)["y"]
        largest = np.abs(expected[np.isfinite(expected)]).max(initial=1)  # a maximum of padding alone is infinite
        tolerance = 1 if kind == "QLinearConv" else 1e-5 * largest
        np.testing.assert_allclose(got.astype(np.float64), expected.astype(np.float64), atol=tolerance, rtol=0)
        try:
            peer = onnxruntime.InferenceSession(proto.SerializeToString(), quiet).run(None, given)[0]
        except (Fail, RuntimeException):  # it refuses some pads that the standard allows
            continue
        least = np.finfo(np.float32).min  # the peer's maximum of padding alone
        np.testing.assert_allclose(np.maximum(got, least), peer, atol=tolerance, rtol=1e-5)
        compared += 1
        assert multiply_adds(simpler) <= multiply_adds(graph)
        assert all(multiply_adds(Graph((), (("y", n),))) == needed(n) for n in windows(simpler) if is_dense(n))
        shorter += any(a.rule == "drop_taps_over_padding" for a in applied) or kind == "ConvTranspose"


def is_dense(n: Node) -> bool:
    """Are the taps that read elements at equal distances, wherever the strides are no larger than the input?"""
    x = n.args[0]
    while x.op in ("cast", "pad"):
        x = x.args[0]
    lead = n.type.rank - len(n.attributes["strides"])
    return all(s <= e for s, e in zip(n.attributes["strides"], x.type.shape[lead:]))


@pytest.mark.parametrize(("dilation", "taps"), [(12, 9), (16, 1), (24, 1), (36, 1)])
def test_a_widely_dilated_convolution_is_its_center(dilation: int, taps: int) -> None:
    """The atrous pyramids of segmentation networks on small pictures."""
    w = weights("w", RANDOM.standard_normal((8, 6, 3, 3)).astype(np.float32))
    conv = node("Conv", ["x", "w"], ["y"], pads=[dilation] * 4, dilations=[dilation] * 2)
    graph = import_model(model([conv], [tensor_input("x", (1, 6, 16, 16))], initializers=[w]))
    simpler, _ = simplify(graph)
    assert multiply_adds(simpler) == 8 * 6 * 16 * 16 * taps
    assert (taps > 1) == any(n.op == "pad" for n in simpler.operations())


def test_a_window_over_padding_alone_is_a_constant() -> None:
    """Pads so wide that no window reaches the input."""
    w = weights("w", RANDOM.standard_normal((2, 3, 2)).astype(np.float32))
    conv = node("Conv", ["p", "w"], ["y"], strides=[20])
    pad = node("Pad", ["x", "pads", "v"], ["p"])
    constants = [w, weights("pads", np.array([0, 0, 5, 0, 0, 3])), weights("v", np.float32(0.5))]
    graph = import_model(model([pad, conv], [tensor_input("x", (1, 3, 4))], initializers=constants))
    simpler, _ = simplify(graph)
    assert not windows(simpler)
    given = {"x": RANDOM.standard_normal((1, 3, 4)).astype(np.float32)}
    np.testing.assert_allclose(run(simpler, given)["y"], run(graph, given)["y"], rtol=1e-5)


def test_taps_that_read_elements_are_those_found_one_by_one() -> None:
    for _ in range(3000):
        extent, before, taps, stride, dilation, positions = (int(n) for n in RANDOM.integers(0, 9, 6))
        axis = Axis(extent, before - 2, taps, stride + 1, dilation + 1, positions)
        found = [k for k in range(taps) if extent and len(axis.reading(k))]
        step = gcd(*(k - found[0] for k in found)) or 1
        assert axis.live() == (range(found[0], found[-1] + 1, step) if found else None)


@pytest.mark.parametrize("extent", [1, 4])
def test_taps_of_an_absurd_window_are_not_looked_at_one_by_one(extent: int) -> None:
    live = Axis(extent, 1 << 30, taps=1 << 31, stride=2, dilation=1, positions=1 << 28).live()
    assert live is not None and (1 << 30) in live
