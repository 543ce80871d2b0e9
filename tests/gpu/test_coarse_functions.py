"""Error functions of results in 16 bits or fewer, in emulation."""

from __future__ import annotations

from dataclasses import replace
from math import erf
from pathlib import Path

import numpy as np
import pytest
from emulated import Emulated, emulate
from small_graphs import graph, value

from edgec import ops
from edgec.device.device import Device, Precision
from edgec.device.load import load_device
from edgec.fuse import plan
from edgec.ir.graph import Graph
from edgec.schedule.build import schedule
from edgec.schedule.gpu.kernel import GpuKernel
from edgec.schedule.options import ScheduleOptions

#: What the function may be off, beside the rounding of the store.
OFF = 2.6e-5


def _device(precision: Precision) -> Device:
    return replace(load_device("cuda_sm90"), precision=precision)


def _function(*shape: int) -> Graph:
    """The function in one kernel, and a product of it: that stores it in 16 bits in fp16."""
    found = ops.node("erf", value("x", *shape))
    return graph(ops.node("matmul", found, value("w", shape[-1], 8)))


def _coarse(made: Graph, precision: Precision) -> list[bool]:
    program = schedule(plan(made, gpu=True), _device(precision), ScheduleOptions(fp32_blocks=0))
    return [k.schedule.coarse for k in program.kernels if isinstance(k.schedule, GpuKernel)]


@pytest.mark.parametrize("precision", ["fp16", "fp32"])
def test_the_function_is_within_its_bound(precision: Precision, tmp_path: Path) -> None:
    """Each row of ``x`` has one value, and w is a unit matrix: results are the function itself."""
    values = np.concatenate([np.linspace(-6, 6, 1014), [0.0, 1e-6, 3.0, -3.0, np.inf, -np.inf]]).astype(np.float32)
    made = _function(len(values) // 4, 64)
    network = emulate({"net": made}, tmp_path, _device(precision))["net"]
    assert isinstance(network, Emulated)
    given = np.zeros((len(values) // 4, 64), np.float32)
    given[:, :4] = values.reshape(-1, 4)
    (got,) = network({"x": given, "w": np.eye(64, 8, dtype=np.float32)}).values()
    want = np.array([erf(float(np.float16(v) if precision == "fp16" else v)) for v in values]).reshape(-1, 4)
    rounding = 2.0**-11 * np.abs(want) if precision == "fp16" else 0.0
    off = np.abs(got[:, :4] - want)
    assert (off <= (OFF if precision == "fp16" else 1e-6) + rounding).all()
    positive = (given[:, :4] > 0) & (given[:, :4] < 3)
    assert abs((got[:, :4] - want)[positive].mean()) <= OFF  # where stores do not hide it
    assert not got[:, 4:].any()


def test_nothing_stays_nothing(tmp_path: Path) -> None:
    network = emulate({"net": _function(64, 64)}, tmp_path, _device("fp16"))["net"]
    assert isinstance(network, Emulated)
    (got,) = network({"x": np.full((64, 64), np.nan, np.float32), "w": np.eye(64, 8, dtype=np.float32)}).values()
    assert np.isnan(got).all()


def test_results_in_24_bits_have_the_function_of_the_library() -> None:
    assert any(_coarse(_function(64, 64), "fp16"))
    assert not any(_coarse(_function(64, 64), "fp32"))
    assert not any(_coarse(graph(ops.node("erf", value("x", 64, 64))), "fp16"))  # an output is fp32
