"""Reductions in CUDA whose threads hold their share of a row, in emulation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from chance import SEED
from emulated import Emulated, emulate
from small_graphs import arrays, doubled, graph, layernorm, pad, softmax, value, weights

from edgec import ops
from edgec.device.device import Device
from edgec.device.load import load_device
from edgec.emit.project import files
from edgec.fuse import plan
from edgec.ir import evaluate
from edgec.ir.graph import Graph, Node
from edgec.schedule.build import schedule
from edgec.schedule.options import ScheduleOptions


def _stored(rows: int, columns: int) -> Node:
    """A product, which is stored before rows are reduced."""
    return ops.node("matmul", value("x", rows, 24), weights(24, columns))


def _normalized(rows: int, columns: int) -> Graph:
    scaled = ops.node("mul", layernorm(_stored(rows, columns), 1), weights(columns))
    return graph(ops.node("add", scaled, weights(columns)))


#: Rows that a team has whole, in part, and with fewer elements than threads; one that is too long to hold.
CASES = {
    **{f"normalization of {n}": _normalized(37, n) for n in (768, 192, 300, 51, 8, 9000)},
    **{f"softmax of {n}": graph(softmax(_stored(37, n), 1)) for n in (768, 192, 300, 51)},
    "softmax of padded rows": graph(softmax(pad(_stored(37, 60), 0, (3, 1)), 1)),
    "normalization of a sum": graph(layernorm(ops.node("add", _stored(40, 96), value("r", 40, 96)), 1)),
}


def _device() -> Device:
    return replace(load_device("cuda_sm90"), precision="fp32")


def _kernels(made: Graph) -> list[str]:
    """The text of every reduction."""
    program = schedule(plan(made, gpu=True), _device(), ScheduleOptions(fp32_blocks=0))
    written = files(program, _device(), "net")
    text = "".join(c.decode() for path, c in written.items() if "kernels_" in path and path.endswith(".cu"))
    return [part for part in text.split("EC_KERNEL") if "_reduce(" in part.partition("{")[0]]


@pytest.mark.parametrize("name", CASES)
def test_rows_are_those_of_the_formulas(name: str, tmp_path: Path) -> None:
    made = CASES[name]
    network = emulate({"net": made}, tmp_path, _device())["net"]
    assert isinstance(network, Emulated)
    given = arrays(made, SEED)
    want = evaluate.run(doubled(made), {k: v.astype(np.float64) for k, v in given.items()})
    for port, got in network(given).items():
        assert np.abs(got - want[port]).max() <= 1e-5 * np.abs(want[port]).max(), port


def test_a_row_is_read_once_and_constants_before_the_kernel_waits() -> None:
    (kernel,) = _kernels(_normalized(37, 256))
    before, after = kernel.split("ec_wait();")
    assert before.count("ec_load(") == kernel.count("const float *restrict")  # scales and shifts
    assert after.count("ec_load(") == 1  # the row


def test_a_long_row_is_read_pass_by_pass() -> None:
    (kernel,) = _kernels(_normalized(37, 9000))
    assert "held" not in kernel and kernel.count("ec_load(") == 3 + kernel.count("const float *restrict")


def test_what_a_condition_guards_is_not_read_without_it() -> None:
    """Beside the row there is nothing to read: padding is no load."""
    kernels = _kernels(graph(softmax(pad(_stored(37, 60), 0, (3, 1)), 1)))
    assert kernels and not any("held" in kernel for kernel in kernels)
