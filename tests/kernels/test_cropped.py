"""Rows of repeated elements that are cropped, and channels that are shuffled before they are stored: on lanes.

A crop leaves positions that no split of a loop makes linear. Lanes repeat what they load, or load from where a table
says, in maps and in rows. Loads begin at all phases, and end within vectors.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from compiled import Compiled, compile_graphs, program_of, target
from small_graphs import arrays, conv, graph, pad, relu, softmax, total, transpose, value, weights

from edgec import ops
from edgec.device.load import load_device
from edgec.emit.source import generate
from edgec.fuse import plan
from edgec.fuse.cost_model import CostModel
from edgec.ir import evaluate
from edgec.ir.graph import Graph, Node, constant
from edgec.schedule.contract.contract import Contract
from edgec.schedule.map import Map
from edgec.schedule.row import Row
from edgec.schedule.transpose import Transpose


def cropped(x: Node, times: int, start: int, extent: int) -> Node:
    """Every element of the last dimension so many times, of which a part is left."""
    *outer, n = x.type.shape
    apart = ops.node("reshape", x, shape=(*outer, n, 1))
    wide = ops.node("broadcast", apart, shape=(*outer, n, times))
    row = ops.node("reshape", wide, shape=(*outer, n * times))
    starts, steps = (0,) * len(outer) + (start,), (1,) * (len(outer) + 1)
    return ops.node("slice", row, starts=starts, steps=steps, shape=(*outer, extent))


def map_of(times: int, start: int, extent: int) -> Graph:
    x = value("x", 3, 30)
    return graph(ops.node("mul", ops.node("exp", cropped(x, times, start, extent)), value("z", 3, extent)))


def shuffled(x: Node, groups: int) -> Node:
    n, c, h, w = x.type.shape
    apart = ops.node("reshape", x, shape=(n, groups, c // groups, h, w))
    return ops.node("reshape", transpose(apart, 0, 2, 1, 3, 4), shape=(n, c, h, w))


GRAPHS = {
    **{f"by {t} from {s}": map_of(t, s, 30 * t - s - 1) for t, s in ((2, 0), (2, 1), (3, 1), (4, 0), (4, 3), (4, 6))},
    "few": map_of(2, 1, 5),
    "softmax": graph(softmax(cropped(value("x", 3, 30), 2, 1, 57), 1)),
    "sum by threes": graph(total(relu(cropped(value("x", 3, 30), 3, 2, 81)), 1)),
    "channels": graph(shuffled(relu(conv(value("x", 1, 8, 6, 6), weights(32, 8, 1, 1))), 2)),
    "channels of a window": graph(shuffled(ops.node("add", conv(value("x", 1, 8, 6, 6), weights(32, 8, 3, 3)),
                                                    weights(32, 1, 1)), 4)),
}  # fmt: skip


@pytest.mark.parametrize("device", ["host", "generic"])
def test_agrees_with_the_formula(device: str, tmp_path: Path) -> None:
    where = target(device)
    names = {f"g{k}": name for k, name in enumerate(GRAPHS)}
    graphs = {short: GRAPHS[name] for short, name in names.items()}
    for short, network in compile_graphs(graphs, tmp_path, flags=where.flags, device=where.device).items():
        assert isinstance(network, Compiled)
        given = arrays(graphs[short], 3)
        for name, want in evaluate.run(graphs[short], given).items():
            np.testing.assert_allclose(network(given)[name], want, rtol=2e-5, atol=2e-5, err_msg=names[short])


@pytest.mark.parametrize(("name", "how"), [("by 2 from 1", "ec_repeated"), ("by 4 from 6", "ec_repeated"),
                                           ("by 3 from 1", "ec_pick")])  # fmt: skip
def test_what_a_crop_leaves_is_loaded_on_lanes(name: str, how: str) -> None:
    program = program_of(GRAPHS[name])
    (kernel,) = program.kernels
    assert isinstance(kernel.schedule, Map) and kernel.schedule.lane is not None
    assert how in generate(program, "net").functions[0].text


@pytest.mark.parametrize("name", ["softmax", "sum by threes"])
def test_reductions_of_them_run_on_lanes(name: str) -> None:
    assert [type(k.schedule) for k in program_of(GRAPHS[name]).kernels] == [Row]


def test_channels_in_front_of_a_shuffle_fill_lanes() -> None:
    """Two by two in memory, but constants are laid out in the order of the result."""
    program = program_of(GRAPHS["channels"], load_device("x86_64_avx512"))
    (found,) = (k.schedule for k in program.kernels if isinstance(k.schedule, Contract))
    assert found.n_extent == 32


def test_groups_in_front_of_a_shuffle_are_stored_as_they_are() -> None:
    """No two channels of a group are neighbors behind it: a copy moves them."""
    x, w = value("x", 1, 64, 14, 14), weights(64, 8, 1, 1)
    program = program_of(graph(shuffled(relu(conv(x, w, groups=8)), 8)), load_device("x86_64_avx512"))
    assert not any(isinstance(k.schedule, Map) and k.schedule.lane is None for k in program.kernels)


def test_channels_last_become_rows_of_an_output_in_a_copy() -> None:
    """A depthwise convolution could run along rows, as its output lies; what it reads has channels last."""
    x = relu(conv(value("x", 1, 16, 32, 32), weights(32, 16, 1, 1)))
    y = conv(pad(x, 0, 0, 1, 1), weights(32, 1, 3, 3), groups=32)
    program = program_of(graph(y), load_device("x86_64_avx512"))
    assert isinstance(program.kernels[-1].schedule, Transpose)


def test_a_recurrence_is_priced_on_lanes() -> None:
    """Its products take no longer than four times what they take as a convolution would."""
    steps, hidden = 100, 64
    gates, state = value("x", steps, 1, 4 * hidden), value("h", 1, hidden)
    panels = constant(np.zeros((4 * hidden // 32, hidden, 32), np.float32))
    more = {"kind": "lstm", "activations": (("sigmoid", 1.0, 0.0), ("tanh", 1.0, 0.0), ("tanh", 1.0, 0.0))}
    y = ops.node("recurrence", gates, value("b", 4 * hidden), panels, state, value("c", 1, hidden), **more)
    price = CostModel(load_device("x86_64_avx512"))
    alone, product = (
        plan(graph(n)).blocks[0]
        for n in (y, ops.node("matmul", value("a", steps, hidden), weights(hidden, 4 * hidden)))
    )
    assert price(product) < price(alone) < 8 * price(product)
