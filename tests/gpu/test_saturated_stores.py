"""Stores of int8 and uint8 in CUDA that round and saturate by themselves, in emulation."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from emulated import Emulated, emulate
from integer_cases import clamped
from small_graphs import graph, number, value

from edgec import ops
from edgec.device.load import load_device
from edgec.emit.project import files
from edgec.fuse import plan
from edgec.ir import evaluate
from edgec.ir import expr as X
from edgec.ir.graph import Graph, Node
from edgec.schedule.build import schedule
from edgec.schedule.gpu.integer import saturated
from edgec.schedule.options import ScheduleOptions

#: (type, zero point)
POINTS = [("i8", 0), ("i8", -7), ("u8", 0), ("u8", 131), ("u8", 255)]
#: Ties, bounds and what is far beyond them.
EDGES = [
    0.5,
    1.5,
    -0.5,
    -2.5,
    126.5,
    127.5,
    128.5,
    -128.5,
    -129.5,
    254.5,
    255.5,
    4e4,
    -4e4,
    1e10,
    -1e10,
    np.inf,
    -np.inf,
]


def _values() -> np.ndarray:
    """[16, 64]"""
    drawn = np.random.default_rng(0).uniform(-400, 400, 16 * 64 - len(EDGES))
    return np.concatenate([drawn, EDGES]).astype(np.float32).reshape(16, 64)


def _sources(made: Graph) -> str:
    device = load_device("cuda_sm90")
    written = files(schedule(plan(made, gpu=True), device, ScheduleOptions()), device, "net")
    return "".join(c.decode() for path, c in written.items() if "kernels_" in path and path.endswith(".cu"))


@pytest.mark.parametrize(("kind", "zero"), POINTS)
def test_every_float_becomes_the_byte_of_the_formula(kind: str, zero: int, tmp_path: Path) -> None:
    made = graph(clamped(value("x", 16, 64), kind, zero))
    assert re.search(rf"ec_rounded\{{\w+, {zero}\}}", _sources(made))
    network = emulate({"net": made}, tmp_path, load_device("cuda_sm90"))["net"]
    assert isinstance(network, Emulated)
    given = {"x": _values()}
    np.testing.assert_array_equal(network(given)["y0"], evaluate.run(made, given)["y0"])


def _bounded(x: Node, low: float, high: float, to: str = "i8") -> Node:
    return ops.node("cast", ops.node("min", ops.node("max", ops.node("round", x), number(low)), number(high)), to=to)


@pytest.mark.parametrize(
    "made",
    [
        _bounded(value("x", 16, 64), -127, 127),
        _bounded(value("x", 16, 64), -128, 126),
        _bounded(ops.node("add", value("x", 16, 64), number(0.25)), 0, 127),
        ops.node("cast", ops.node("min", ops.node("max", value("x", 16, 64), number(-128)), number(127)), to="i8"),
    ],
    ids=["-127 to 127", "-128 to 126", "0 to 127", "truncated"],
)
def test_other_bounds_are_kept(made: Node, tmp_path: Path) -> None:
    network = graph(made)
    assert "ec_rounded" not in _sources(network)
    ran = emulate({"net": network}, tmp_path, load_device("cuda_sm90"))["net"]
    assert isinstance(ran, Emulated)
    given = {"x": np.clip(_values(), -1000, 1000)}
    np.testing.assert_array_equal(ran(given)["y0"], evaluate.run(network, given)["y0"])


def test_zero_points_are_integers_of_the_range_of_the_type() -> None:
    x = X.load("x", (), "f32")

    def stored(point: float) -> X.Expr:
        shifted = X.call("add", X.call("round", x), X.const(point, "f32"))
        bounded = X.call("max", shifted, X.const(0.0, "f32"))
        return X.cast(X.call("min", bounded, X.const(255.0, "f32")), "u8")

    assert saturated(stored(17.0)) == (x, 17)
    assert saturated(stored(0.5)) is None
    assert saturated(stored(1e6)) is None
