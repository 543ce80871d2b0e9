"""Convolutions of few channels as products of stored windows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from chance import RANDOM
from emulated import Emulated, emulate
from small_graphs import arrays, graph, relu, value, weights
from test_cuda_kernels import TOLERANCE, difference

from edgec import ops
from edgec.device.load import load_device
from edgec.differentiate import gradients
from edgec.fuse import plan
from edgec.ir import evaluate
from edgec.ir.expr import Extent
from edgec.ir.graph import Graph, Node, placeholder
from edgec.ir.sizes import Dimension
from edgec.ir.types import Type
from edgec.schedule.gpu import stored_windows
from edgec.schedule.gpu.stored_windows import with_stored_windows

DEVICE = replace(load_device("cuda_sm90"), precision="fp16")
#: Batch, channels, extents, outputs, kernel, strides, dilations, elements before and after.
CASES = [
    (1, 3, (17, 19), 9, (3, 3), (2, 2), (1, 1), ((1, 1), (1, 0))),
    (2, 3, (15, 14), 16, (7, 5), (2, 1), (1, 2), ((3, 4), (3, 4))),
    (3, 1, (12,), 8, (5,), (1,), (2,), ((0,), (3,))),
    (1, 5, (9, 9), 4, (4, 4), (4, 4), (1, 1), ((0, 0), (0, 0))),
    (2, 2, (5, 6, 7), 8, (2, 3, 3), (1, 2, 2), (1, 1, 1), ((1, 1, 0), (0, 1, 2))),
]


def padded(case: tuple) -> tuple[Node, Node]:  # type: ignore[type-arg]
    """The input, and it with zeros around."""
    batch, channels, extents, _, _, _, _, (before, after) = case
    x = value("x", batch, channels, *extents)
    return x, ops.node("pad", x, before=(0, 0, *before), after=(0, 0, *after), value=0.0)


def convolution(case: tuple, w: Node | None = None) -> Node:  # type: ignore[type-arg]
    _, channels, _, outputs, kernel, strides, dilations, _ = case
    w = w if w is not None else weights(outputs, channels, *kernel)
    return ops.node("conv", padded(case)[1], w, strides=strides, dilations=dilations, groups=1)


def always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_windows, "_pays", lambda n, device: n.args[1].is_const or n.args[1].op == "input")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_same_results(case: tuple, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[type-arg]
    always(monkeypatch)
    g = graph(convolution(case))
    stored = with_stored_windows(g, DEVICE)
    assert [n.op for n in stored.nodes() if n.op in ("conv", "windows", "pad")] == ["windows"]
    x = arrays(g, 1)
    np.testing.assert_allclose(evaluate.run(stored, x)["y0"], evaluate.run(g, x)["y0"], atol=1e-4)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_gradient_reads_the_same_windows(case: tuple, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[type-arg]
    always(monkeypatch)
    _, channels, _, outputs, kernel, *_ = case
    w = value("w", outputs, channels, *kernel)
    y = convolution(case, w)
    seed = value("seed", *y.type.shape)
    (by_w,) = gradients(y, [w], seed=seed)
    assert by_w is not None
    x = next(n for n in Graph((), (("y", y),)).nodes() if n.op == "input" and n.attributes["name"] == "x")
    g = Graph((x, w, seed), (("y", y), ("w", by_w)))
    stored = with_stored_windows(g, DEVICE)
    is_stored = outputs >= 8 and np.prod(kernel) < np.prod(y.type.shape[2:])
    assert sum(n.op == "windows" for n in stored.nodes()) == 1
    assert sum(n.op == "conv" for n in stored.nodes()) == (0 if is_stored else 1)
    given = {n.attributes["name"]: RANDOM.standard_normal(n.type.shape).astype(np.float32) for n in (x, w, seed)}
    got, want = evaluate.run(stored, given), evaluate.run(g, given)
    for name in ("y", "w"):
        np.testing.assert_allclose(got[name], want[name], atol=1e-3)


def test_values_beside_a_part_are_not_read() -> None:
    """Elements beside a slice inside of the padding are zeros for a window, whatever x has there."""
    x = value("x", 1, 3, 40, 40)
    part = ops.node("slice", x, starts=(0, 0, 4, 4), steps=(1,) * 4, shape=(1, 3, 32, 32))
    wide = ops.node("pad", part, before=(0, 0, 2, 2), after=(0, 0, 2, 2), value=0.0)
    y = ops.node("conv", wide, weights(8, 3, 5, 5), strides=(1, 1), dilations=(1, 1), groups=1)
    g = graph(y)
    stored = with_stored_windows(g, DEVICE)
    given = arrays(g, 1)
    np.testing.assert_allclose(evaluate.run(stored, given)["y0"], evaluate.run(g, given)["y0"], atol=1e-4)


@pytest.mark.parametrize(("number", "is_stored"), [(1, True), (Dimension("n", 1, 9).extent, False)], ids=str)
def test_images_of_any_number_are_not_stored(number: Extent, is_stored: bool) -> None:
    """Images of an open number: the room that their windows take is not known."""
    x, g = (placeholder(c, Type("f32", shape)) for c, shape in (("x", (3, number, 9, 9)), ("g", (10, number, 7, 7))))
    y = ops.node("conv", x, g, strides=(1, 1), dilations=(1, 1), groups=1)
    assert stored_windows.is_stored_gradient(y, DEVICE) == is_stored


def test_all_that_is_made_of_a_convolution_has_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tile, or a precision, that is asked for a layer finds the product also where nothing is fused."""
    always(monkeypatch)
    y = convolution(CASES[0])
    g = replace(graph(relu(y)), origin={y.args[0]: ("c",), y: ("c",)})
    stored = with_stored_windows(g, DEVICE)
    made = [n for n in stored.operations() if n.op != "max"]
    assert {"windows", "matmul"} < {n.op for n in made}
    assert all(stored.names(n) == ("c",) for n in made)


def test_the_model_of_tiles_decides() -> None:
    """Windows are stored where a picture's channels are few or lie apart, and the product is worth a kernel."""

    def is_stored(x: Node, channels: int, outputs: int, groups: int = 1) -> bool:
        w = weights(outputs, channels // groups, 3, 3)
        y = ops.node("conv", x, w, strides=(1, 1), dilations=(1, 1), groups=groups)
        return any(n.op == "windows" for n in with_stored_windows(graph(y), DEVICE).nodes())

    def product(channels: int) -> Node:
        w = weights(channels, 8, 1, 1)
        one = ops.node("conv", value("x", 1, 8, 66, 66), w, strides=(1, 1), dilations=(1, 1), groups=1)
        return relu(one)

    assert is_stored(value("x", 1, 3, 226, 226), 3, 32)
    assert is_stored(value("x", 1, 80, 66, 66), 80, 64)
    assert not is_stored(value("x", 1, 3, 8, 8), 3, 8)
    assert not is_stored(product(64), 64, 64)
    assert not is_stored(value("x", 1, 32, 66, 66), 32, 32, groups=32)
    assert is_stored(value("x", 1, 3, 512, 512), 3, 64)
    assert not is_stored(value("x", 1, 3, 2160, 3840), 3, 64)  # windows would take half a gigabyte
    assert is_stored(product(5), 5, 64)
    assert not is_stored(product(20), 20, 64)  # copies of 8 bytes will do


@pytest.mark.parametrize("precision", ["fp32", "tf32", "fp16"])
def test_kernels(precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    always(monkeypatch)
    device = replace(DEVICE, precision=precision)
    g = graph(relu(convolution(CASES[1])))
    stored = with_stored_windows(g, device)
    assert len(plan(stored, gpu=True).blocks) == 2  # the windows, and the product with what follows
    network = emulate({"net": stored}, tmp_path, device)["net"]
    assert isinstance(network, Emulated)
    given = arrays(g, 1)
    want = evaluate.run(g, given)
    for output, got in network(given).items():
        assert difference(got, want[output], TOLERANCE[precision]) is None, output
