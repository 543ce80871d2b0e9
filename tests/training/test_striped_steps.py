"""Training steps in stripes: the same gradients in less memory, where memory asks for it alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from small_models import model, node, tensor_input, weights
from trained_models import floats

import edgec
from edgec import pipeline
from edgec.artifact.folder import read_lock
from edgec.execute.executor import run_graph
from edgec.execute.samples import random_inputs
from edgec.fuse.stripes import Region, heads, in_stripes, tails
from edgec.ir.graph import Graph, Node
from edgec.options import resolve
from edgec.pipeline.context import Context

OPTIONS: dict[str, Any] = {"loss": "cross_entropy", "optimizer": "sgd:lr=0.05,momentum=0.9"}


def pictures(side: int = 24) -> onnx.ModelProto:
    """Large values first: a strided convolution, a depthwise one, a residual, a strided depthwise one, a classifier."""
    relu = [node("Relu", [f"c{k}"], [f"r{k}"]) for k in range(5)]
    nodes = [
        node("Conv", ["x", "w0", "b0"], ["c0"], pads=[0, 0, 1, 1], strides=[2, 2]), relu[0],
        node("Conv", ["r0", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1], group=8), relu[1],
        node("Conv", ["r1", "w2", "b2"], ["p2"]), node("Add", ["p2", "r0"], ["c2"]), relu[2],
        node("Conv", ["r2", "w3", "b3"], ["c3"], pads=[0, 0, 1, 1], strides=[2, 2], group=8), relu[3],
        node("Conv", ["r3", "w4", "b4"], ["c4"]), relu[4],
        node("GlobalAveragePool", ["r4"], ["m"]),
        node("Flatten", ["m"], ["f"]),
        node("Gemm", ["f", "w5", "b5"], ["y"], transB=1),
    ]  # fmt: skip
    shapes = [(8, 3, 3, 3), (8, 1, 3, 3), (8, 8, 1, 1), (8, 1, 3, 3), (16, 8, 1, 1), (5, 16)]
    held = {f"w{k}": floats(*shape) for k, shape in enumerate(shapes)}
    held |= {f"b{k}": floats(shape[0]) for k, shape in enumerate(shapes)}
    image = tensor_input("x", [1, 3, side, side])
    return model(nodes, [image], ["y"], [weights(n, v) for n, v in held.items()])


def step_graph(update: str) -> tuple[Graph, list[Node]]:
    """The graph of a step, and the values that lie in memory in the order in which they are computed."""
    built = edgec.build(pictures().SerializeToString(), compile=False, device="generic", update=update, **OPTIONS)
    assert built.program.training is not None
    graph = built.program.training.step.graph
    plan = pipeline.run(graph, Context(resolve({"device": "generic"})), "fuse", "fuse").result
    return graph, [b.output for b in plan.blocks]


@pytest.mark.parametrize("update", ["bias", "all"])
def test_every_region_of_a_step_gives_the_same(update: str) -> None:
    graph, standing = step_graph(update)
    loss = graph.outputs[0][1]
    arrays = random_inputs(graph, 1)
    arrays["target"] = np.array([3], np.int64)
    want = run_graph(graph, arrays)

    def differs(region: Region, count: int) -> float:
        found = run_graph(in_stripes(graph, region, count), arrays)
        assert found.keys() == want.keys()
        return max(float(np.abs(found[n] - want[n]).max()) for n in want)

    before = list(heads(graph, standing, loss))
    after = list(tails(graph, standing, loss))
    assert len(after) >= 4 and any(len(region.added) > 3 for region in after)
    assert update == "all" or any(len(region.placed) > 3 for region in before)  # words of masks
    assert update == "bias" or any(n.op == "conv" for region in after for n in region.added)  # gradients of weights
    for region in (*before, *after):
        for count in (2, 3):
            if region.stripe(count - 1, count) is not None:
                bound = 0.0 if region.placed else 1e-5  # sums of stripes are added in another order
                assert differs(region, count) <= bound


@pytest.mark.parametrize(("update", "share"), [("bias", 0.7), ("last:2", 0.7)])
def test_a_step_in_stripes_fits_and_learns_the_same(update: str, share: float, tmp_path: Path) -> None:
    source = pictures(40).SerializeToString()
    whole = edgec.build(source, tmp_path / "whole", update=update, **OPTIONS)
    facts = read_lock(whole.folder)["training"]
    beside = facts["state_bytes"] + 4 * 3 * 40 * 40
    room = beside + int(facts["arena_bytes"] * share)
    small = edgec.build(source, tmp_path / "small", update=update, ram=room, threads=2, **OPTIONS)
    assert read_lock(small.folder)["training"]["arena_bytes"] + beside <= room
    assert edgec.check(small).ok
    random = np.random.default_rng(5)
    images = random.standard_normal((6, 1, 3, 40, 40)).astype(np.float32)
    losses = []
    for folder, threads in ((whole.folder, 1), (small.folder, 1), (small.folder, 2)):
        with edgec.load(folder, threads=threads) as net:
            losses.append([net.step(x, np.array([k % 5])) for k, x in enumerate(images)])
    assert losses[1] == losses[2]
    assert np.allclose(losses[0], losses[1], atol=1e-5)
    assert losses[0][0] == pytest.approx(losses[1][0], abs=1e-6) and len({*losses[0]}) == len(images)
