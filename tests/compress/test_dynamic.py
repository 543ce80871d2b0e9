"""int8-dynamic on small graphs: levels of operands that are never negative, open batches, and scales per row."""

from __future__ import annotations

import numpy as np
import pytest

from edgec import ops
from edgec.compress import Request, compress
from edgec.device.load import load_device
from edgec.ir.evaluate import run
from edgec.ir.graph import Graph, Node, constant, placeholder, rewrite
from edgec.ir.types import Type
from edgec.rewrite import simplify

DEVICE = load_device("x86_64_avx512")
SHAPES = {"conv": (2, 16, 9, 7), "matmul": (3, 40)}


def network(kind: str, is_rectified: bool, seed: int) -> Graph:
    """A padded convolution or a matmul of the input, after a ReLU or not."""
    random = np.random.default_rng(seed)
    x = placeholder("x", Type("f32", SHAPES[kind]))
    y: Node = ops.node("max", x, constant(np.zeros((), np.float32))) if is_rectified else x
    if kind == "conv":
        y = ops.node("pad", y, before=(0, 0, 1, 1), after=(0, 0, 1, 1), value=0.0)
        w = constant(random.standard_normal((24, 16, 3, 3)).astype(np.float32))
        y = ops.node("conv", y, w, strides=(1, 1), dilations=(1, 1))
    else:
        y = ops.node("matmul", y, constant(random.standard_normal((40, 24)).astype(np.float32)))
    return simplify(Graph((x,), (("y", y),)))[0]


def integral_weights(graph: Graph) -> Graph:
    """The network with weights that bytes hold exactly, so that what is lost is lost by the operand."""

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        if old.op in ("conv", "matmul"):
            w = np.clip(np.rint(args[1].value * 40), -127, 127)
            axes = (1, 2, 3) if old.op == "conv" else (0,)
            w[np.abs(w) == np.abs(w).max(axes, keepdims=True)] = 127
            args = (args[0], constant(w.astype(np.float32)))
        return ops.node(old.op, *args, **old.attributes) if args != old.args else old

    return rewrite(graph, change)


@pytest.mark.parametrize("kind", SHAPES)
def test_an_operand_that_is_never_negative_has_all_levels(kind: str) -> None:
    """The same values lose half as much where the graph tells that they are not negative."""
    x = np.abs(np.random.default_rng(5).standard_normal(SHAPES[kind])).astype(np.float32)
    losses = {}
    for is_rectified in (True, False):
        graph = integral_weights(network(kind, is_rectified, 1))
        narrow = compress(graph, Request("int8-dynamic", device=DEVICE)).graph
        want, plain = run(graph, {"x": x})["y"], run(narrow, {"x": x})["y"]
        losses[is_rectified] = float(np.sqrt(((plain - want) ** 2).mean()))
        simpler = run(simplify(narrow)[0], {"x": x})["y"]
        np.testing.assert_allclose(simpler, plain, rtol=1e-4, atol=1e-4 * np.abs(plain).max())
    assert losses[True] < 0.65 * losses[False]


@pytest.mark.parametrize("kind", SHAPES)
def test_rows_and_pictures_have_scales_of_their_own(kind: str) -> None:
    """A row (a picture) that is a thousand times another does not cost that one its levels."""
    graph = network(kind, True, 2)
    narrow = simplify(compress(graph, Request("int8-dynamic", device=DEVICE)).graph)[0]
    x = np.random.default_rng(6).standard_normal(SHAPES[kind]).astype(np.float32)
    x[0] *= 1000
    for k, (want, got) in enumerate(zip(run(graph, {"x": x})["y"], run(narrow, {"x": x})["y"])):
        assert np.abs(got - want).max() <= 0.03 * np.abs(want).max(), k
