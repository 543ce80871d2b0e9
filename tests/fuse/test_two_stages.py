"""Reductions to few results in two stages: the same results in C and CUDA, on any number of threads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from chance import RANDOM
from compiled import compile_graphs, program_of, target
from emulated import emulate
from small_graphs import arrays, conv, doubled, graph, number, pad, relu, silu, softmax, value, weights

from edgec import ops
from edgec.device.load import load_device
from edgec.fuse import plan
from edgec.fuse.choice import BlockCosts
from edgec.fuse.cost_model import CostModel
from edgec.fuse.two_stages import IN_TWO, in_two_stages
from edgec.ir import expr as X
from edgec.ir.evaluate import run
from edgec.ir.graph import Graph, Node
from edgec.ir.types import DTYPES

DEVICE = load_device("x86_64_avx2")


def reduced(x: Node, *axes: int, combine: str = "add") -> Node:
    return ops.node("reduce", x, combine=combine, axes=axes)


def normalized(x: Node, *axes: int) -> Node:
    """The value less its mean, over the root of its variance."""
    terms = number(1 / np.prod([x.type.bounds[d] for d in axes]))
    centered = ops.node("sub", x, ops.node("mul", reduced(x, *axes), terms))
    variance = ops.node("mul", reduced(ops.node("mul", centered, centered), *axes), terms)
    return ops.node("div", centered, ops.node("sqrt", ops.node("add", variance, number(1e-5))))


def in_groups(x: Node, count: int, scale: Node | None = None) -> Node:
    """Normalized in groups of channels, as exporters write it: over what a reshape made one dimension."""
    flat = ops.node("reshape", x, shape=(1, count, x.type.elements // count))
    found = normalized(flat, 2)
    return ops.node("reshape", found if scale is None else ops.node("mul", found, scale), shape=x.type.shape)


PICTURE = (1, 48, 31, 37)
CASES: Mapping[str, Graph] = {
    "sum of a picture": graph(reduced(value("x", *PICTURE), 1, 2, 3)),
    "greatest of a list": graph(reduced(value("x", 120_000), 0, combine="max")),
    "least of integers": graph(reduced(value("x", 3, 40_000, dtype="i32"), 0, 1, combine="min")),
    "sum of halves": graph(reduced(value("x", 1, 300, 200, dtype="f16"), 1, 2)),
    "layer": graph(normalized(value("x", *PICTURE), 1, 2, 3)),
    "group of all channels": graph(in_groups(value("x", *PICTURE), 1)),
    "scaled elements": graph(in_groups(value("x", *PICTURE), 1, weights(1, 1, 48 * 31 * 37))),
    "three groups": graph(in_groups(value("x", *PICTURE), 3)),
    "three channels": graph(normalized(value("x", 1, 3, 200, 201), 2, 3)),
    "both ends": graph(reduced(value("x", 90, 3, 400), 0, 2)),
    "distribution": graph(softmax(value("x", 1, 90_000), 1)),
}

#: Cases that a GPU computes at once: a launch would cost more, or its type is none of fp32 kernels.
ONE_LAUNCH = ("three groups", "three channels", "both ends", "sum of halves")


def in_stages(case: str, device: str = "x86_64_avx2", units: int = 16) -> Graph:
    """The graph of a case in two stages, of which there must be some."""
    found, choices = in_two_stages(CASES[case], BlockCosts(CostModel(load_device(device))), units)
    assert choices and all(c.taken.name == IN_TWO for c in choices)
    assert found.outputs[0][1].type == CASES[case].outputs[0][1].type
    return found


def inputs(case: str) -> dict[str, np.ndarray]:
    (x,) = CASES[case].inputs
    drawn = RANDOM.standard_normal(x.type.bounds) if x.type.dtype[0] == "f" else RANDOM.integers(-99, 99, x.type.bounds)
    return {"x": np.asarray(drawn).astype(DTYPES[x.type.dtype])}


def error(case: str, found: np.ndarray, given: Mapping[str, np.ndarray]) -> float:
    exact = run(CASES[case], given)["y0"].astype(np.float64)
    return float(np.abs(found.astype(np.float64) - exact).max() / np.abs(exact).max())


def within(case: str) -> float:
    """The tolerance of a case: sums of halves are rounded once, in whatever order they are."""
    return {"f16": 2e-3, "i32": 0.0}.get(CASES[case].outputs[0][1].type.dtype, 2e-5)


def _reads_partial(node: Node) -> bool:
    (x,) = node.args
    return x.op == "reduce" or (x.op == "mul" and x.args[0].op == "reduce")


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("units", [2, 3, 4, 16])
def test_means_the_same(case: str, units: int) -> None:
    given = inputs(case)
    made, choices = in_two_stages(CASES[case], BlockCosts(CostModel(DEVICE)), units)
    assert error(case, run(made, given)["y0"], given) <= within(case)
    partial_results = [n.type.elements for n in made.operations() if n.op == "reduce" and not _reads_partial(n)]
    if any(c.taken.name == IN_TWO for c in choices):
        assert min(partial_results) >= units
    else:
        assert made is CASES[case]


def test_in_c_on_any_number_of_threads(tmp_path: Path) -> None:
    made = {case: in_stages(case) for case in CASES if case != "three groups"}
    host = target("host")
    compiled = compile_graphs(made, tmp_path, flags=host.flags, device=host.device, threads=4)
    for case, network in compiled.items():
        assert not isinstance(network, Exception), network
        given = inputs(case)
        alone = network(given)["y0"]
        assert error(case, alone, given) <= within(case), case
        for threads in (2, 3, 4):
            np.testing.assert_array_equal(network(given, threads)["y0"], alone, err_msg=case)


def test_on_a_gpu(tmp_path: Path) -> None:
    made = {case: in_stages(case, "cuda_sm90", 132) for case in CASES if case not in ONE_LAUNCH}
    for case, network in emulate(made, tmp_path, load_device("cuda_sm90")).items():
        assert not isinstance(network, Exception), network
        given = inputs(case)
        assert error(case, network(given)["y0"], given) <= within(case), case


@pytest.mark.parametrize("device", ["x86_64_avx2", "cuda_sm90"])
def test_partial_results_are_in_the_range_of_their_terms(device: str) -> None:
    """Sums of squares of a part would be infinite if stored in fp16, though not in a register."""
    made = in_stages("layer", device, 132)
    stored = [n for n in made.operations() if n.op == "mul" and n.args[0].op == "reduce" and n.type.elements > 1]
    x = np.full(PICTURE, 200, np.float32)
    x[:, :, ::2] = 0
    for node in stored:
        (found,) = run(Graph(made.inputs, (("y", node),)), {"x": x}).values()
        assert 0 < np.abs(found).max() < 4e4
    assert len(stored) == 2


def test_planning_asks_for_the_units_of_the_device() -> None:
    kernels = {units: len(plan(CASES["layer"], units=units).blocks) for units in (1, 4)}
    assert kernels[1] == 1 and kernels[4] > 3
    kernels = {units: len(plan(CASES["layer"], fuse="operators", units=units).blocks) for units in (1, 4)}
    assert kernels[1] == kernels[4], "other modes keep the operators of the model"


def test_short_rows_stay_as_they_are() -> None:
    costs = BlockCosts(CostModel(DEVICE))
    for node in (
        reduced(value("x", 64), 0),
        reduced(value("x", 3, 4099), 1),
        normalized(value("x", 1, 8, 6, 6), 1, 2, 3),
    ):
        given = graph(node)
        assert in_two_stages(given, costs, 2)[0] is given


def test_a_reshape_goes_where_it_is_read() -> None:
    """Between the stages and after them the picture keeps the dimensions of its readers."""
    made = in_stages("group of all channels")
    assert made.outputs[0][1].op == "div"
    assert {n.type.bounds for n in made.operations() if n.type.elements > 10_000} == {PICTURE}
    assert all(n.op != "reshape" or n.type.elements == 1 for n in made.operations())


def test_sizes_that_are_open_stay_as_they_are() -> None:
    given = graph(reduced(value("x", X.size("n", 1, 100_000), 64), 0, 1))
    assert in_two_stages(given, BlockCosts(CostModel(DEVICE)), 8)[0] is given


def test_terms_on_a_gpu_are_neighbors() -> None:
    """A mean of rows: the first stage adds up along them, as what computes a row does."""
    whole = graph(reduced(ops.node("exp", value("x", 8, 512, 1024)), 0, 1, 2))
    for units, device, axes in ((132, "cuda_sm90", (2,)), (4, "x86_64_avx2", (1, 2))):
        costs = BlockCosts(CostModel(load_device(device)))
        made, choices = in_two_stages(whole, costs, units)
        assert [c.taken.name for c in choices] == [IN_TWO]
        first = next(n for n in made.operations() if n.op == "reduce")
        assert first.attributes["axes"] == axes, device


def weighed(channels: int, size: int, groups: int) -> Graph:
    """What a convolution in groups made, its channels weighed by their own means."""
    x = relu(conv(pad(value("x", 1, channels, size, size), 1, 1), weights(channels, channels // groups, 3, 3),
                  groups=groups))  # fmt: skip
    means = ops.node("reshape", reduced(x, 2, 3), shape=(1, channels, 1, 1))
    return graph(ops.node("mul", x, silu(ops.node("mul", means, number(1 / size**2)))))


def test_channels_are_added_up_where_rows_are_computed() -> None:
    """By whole rows, a part for each thread at least, so that no thread reads all that the others have written."""
    costs = BlockCosts(CostModel(DEVICE))
    for size, units in ((56, 2), (28, 4), (30, 3)):
        made, choices = in_two_stages(weighed(48, size, 48), costs, units)
        assert [c.taken.name for c in choices] == [IN_TWO]
        first, second = (n for n in made.operations() if n.op == "reduce")
        parts = first.type.bounds[2]
        assert first.args[0].type.bounds == (1, 48, parts, size // parts, size) and first.attributes["axes"] == (3, 4)
        assert units <= parts <= size // 2 and second.type.elements == 48


def test_channels_that_threads_divide_stay_together() -> None:
    """On one thread, of small pictures, and behind a product, whose columns threads share."""
    costs = BlockCosts(CostModel(DEVICE))
    for given, units in ((weighed(48, 56, 48), 1), (weighed(48, 7, 48), 2), (weighed(48, 56, 1), 2)):
        assert in_two_stages(given, costs, units)[0] is given
    given = weighed(256, 56, 256)
    assert in_two_stages(given, BlockCosts(CostModel(load_device("cuda_sm90"))), 132)[0] is given


def test_sums_of_channels_take_no_other_layout() -> None:
    """Kernels go on along channels: nothing is turned, and the second stage is in the kernel that weighs them."""
    for units in (2, 4):
        program = program_of(in_two_stages(weighed(48, 56, 48), BlockCosts(CostModel(DEVICE)), units)[0], DEVICE)
        kinds = [step.template for kernel in program.kernels for step in kernel.steps]
        assert len([k for k in program.kernels if "map over [28]" in k.describe]) == 1
        assert kinds.count("transpose") <= 2  # the picture at either end


def test_weighed_channels_on_any_number_of_threads(tmp_path: Path) -> None:
    costs, host = BlockCosts(CostModel(DEVICE)), target("host")
    sizes = ((48, 56), (20, 30), (33, 28))
    made = {f"{c} x {n}": in_two_stages(weighed(c, n, c), costs, 4)[0] for c, n in sizes}
    assert all(sum(n.op == "reduce" for n in g.operations()) == 2 for g in made.values())
    for name, network in compile_graphs(made, tmp_path, flags=host.flags, device=host.device, threads=4).items():
        assert not isinstance(network, Exception), network
        given = arrays(made[name], 3)
        alone = network(given)["y0"]
        exact = run(doubled(made[name]), {k: v.astype(np.float64) for k, v in given.items()})["y0"]
        assert np.abs(alone - exact).max() < 1e-5 * np.abs(exact).max()
        for threads in (2, 3, 4):
            np.testing.assert_array_equal(network(given, threads)["y0"], alone, err_msg=name)
