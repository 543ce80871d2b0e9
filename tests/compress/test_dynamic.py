"""int8-dynamic on small graphs, and every compression of networks with open dimensions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_models import model, node, tensor_input, weights

from edgec import ops
from edgec.compress import Request, compress
from edgec.compress.prune import Pruning, prune
from edgec.compress.prune.scheme import parsed
from edgec.device.load import load_device
from edgec.frontend.onnx import import_model
from edgec.fuse import plan
from edgec.ir.evaluate import run
from edgec.ir.graph import Graph, Node, constant, placeholder, rewrite
from edgec.ir.types import Type
from edgec.rewrite import simplify
from edgec.schedule.storage import kept_narrow

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


@pytest.mark.parametrize("is_rectified", [False, True])
def test_operands_are_rounded_to_the_nearest_level(is_rectified: bool) -> None:
    """Weights of an identity matrix show the operand as it is stored: off by half a level, and in the mean by none."""
    x = placeholder("x", Type("f32", (3, 40)))
    y: Node = ops.node("max", x, constant(np.zeros((), np.float32))) if is_rectified else x
    graph = Graph((x,), (("y", ops.node("matmul", y, constant(np.eye(40, dtype=np.float32)))),))
    narrow = compress(graph, Request("int8-dynamic", device=DEVICE)).graph
    given = np.random.default_rng(8).uniform(-1, 1, (3, 40)).astype(np.float32)
    want, got = run(graph, {"x": given})["y"], run(narrow, {"x": given})["y"]
    level = np.abs(want).max(axis=1, keepdims=True) / (255 if is_rectified else 127)
    assert (got != want).any()
    assert (np.abs(got - want) <= 0.5001 * level).all()
    assert np.abs(((got - want) / level).mean()) < 0.1


def imported(batch: int | str) -> Graph:
    """A padded convolution, a squeeze and two matmuls, over a batch of this size or one between 1 and 3."""
    random = np.random.default_rng(7)
    shapes = {"w": (32, 8, 3, 3), "u": (32, 64), "v": (64, 5)}
    given = [weights(n, (random.standard_normal(s) / 6).astype(np.float32)) for n, s in shapes.items()]
    nodes = [
        node("Conv", ["x", "w"], ["a"], "first", pads=[1] * 4),
        node("Relu", ["a"], ["b"]),
        node("ReduceMean", ["b"], ["c"], axes=[2, 3], keepdims=0),
        node("MatMul", ["c", "u"], ["d"], "second"),
        node("Tanh", ["d"], ["e"]),
        node("MatMul", ["e", "v"], ["y"], "third"),
    ]
    proto = model(nodes, [tensor_input("x", [batch, 8, 9, 7])], initializers=given)
    dims = {batch: (1, 3, 1)} if isinstance(batch, str) else {}
    return simplify(import_model(proto, dims=dims))[0]


@pytest.mark.parametrize("precision", ["int8-dynamic", "int8", "mixed", "int4-weight"])
def test_networks_with_an_open_batch_are_compressed_like_others(precision: str) -> None:
    graph = imported("n")
    narrow = compress(graph, Request(precision, device=DEVICE)).graph
    assert narrow is not graph and not narrow.inputs[0].type.is_fixed
    simpler = simplify(narrow)[0]
    for batch in (1, 2, 3):
        x = {"x": np.random.default_rng(batch).standard_normal((batch, 8, 9, 7)).astype(np.float32)}
        want, got = run(graph, x)["y"], run(narrow, x)["y"]
        assert got.shape == want.shape == (batch, 5)
        assert np.abs(got - want).max() <= (0.25 if precision == "int4-weight" else 0.05) * np.abs(want).max()
        np.testing.assert_allclose(run(simpler, x)["y"], got, rtol=1e-3, atol=1e-3)
        if precision in ("int8-dynamic", "int4-weight"):  # without calibration data, which are drawn by size
            fixed = compress(imported(batch), Request(precision, device=DEVICE)).graph
            np.testing.assert_allclose(run(fixed, x)["y"], got, rtol=1e-5, atol=1e-5)


def test_corrections_take_samples_of_several_sizes(tmp_path: Path) -> None:
    graph = imported("n")
    for batch in (1, 3):
        x = np.random.default_rng(batch).standard_normal((batch, 8, 9, 7)).astype(np.float32)
        np.savez(tmp_path / f"{batch}.npz", x=x[None])
    narrow = compress(graph, Request("int8", calibration=tmp_path, observer="best", device=DEVICE)).graph
    x = {"x": np.random.default_rng(9).standard_normal((2, 8, 9, 7)).astype(np.float32)}
    want, got = run(graph, x)["y"], run(narrow, x)["y"]
    assert np.abs(got - want).max() <= 0.05 * np.abs(want).max()


@pytest.mark.parametrize("kind", ["vector", "block=8x4", "2:4"])
def test_networks_with_an_open_batch_are_pruned_like_others(kind: str) -> None:
    asked = Pruning(parsed(kind, 16), 0.5)
    masks, fixed = (prune(graph, asked, None).masks for graph in (imported("n"), imported(2)))
    assert masks.keys() == fixed.keys() and len(masks) >= 2
    for name in masks:
        np.testing.assert_array_equal(masks[name], fixed[name])


def test_unscaled_sums_of_integers_are_not_stored_in_fp16() -> None:
    """They exceed its largest number where a kernel of their own makes floats of them."""
    device = replace(load_device("cuda_sm86"), precision="fp16")
    graph = simplify(compress(imported(2), Request("int8-dynamic", device=DEVICE)).graph)[0]
    planned = plan(graph, False, gpu=True)
    narrow = kept_narrow(planned, device)
    sums = [b.output for b in planned.blocks if b.output.op == "cast" and b.output.type.dtype == "f32"]
    assert len(sums) >= 2 and not {planned.root_of(n)[0] for n in sums} & narrow
    assert any(n.op == "mul" for n in narrow)
