"""Groups of few neighboring channels reduced together with their pixels, where channels are contiguous."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from chance import RANDOM
from compiled import Compiled, compile_graphs, program_of, target
from sanitized import run_sanitized

from edgec.execute.executor import run_graph, run_program
from edgec.frontend.values import Value, constant, emit
from edgec.ir.graph import Graph, placeholder
from edgec.ir.types import Type
from edgec.schedule.map import Map
from edgec.schedule.operations import asked, executed
from edgec.schedule.program import Program

HOST = target("host")


def normalized(rows: int, columns: int, groups: int, size: int, own: bool = True) -> Graph:
    """A normalization of ``groups`` of ``size`` channels over pixels whose channels are contiguous."""
    x = Value(placeholder("x", Type("f32", (rows, columns, groups, size))))
    axes = (0, 1, 3)
    apart = x - x.mean(axes)
    y = apart / emit("sqrt", (apart * apart).mean(axes) + 1e-5)
    if own:
        scale = RANDOM.standard_normal((groups, size)).astype(np.float32)
        y = y * constant(scale) + constant(RANDOM.standard_normal((groups, 1)).astype(np.float32))
    return Graph((x.node,), (("y", y.node),))


def scaled(groups: int, size: int) -> Graph:
    """Elements as parts of the largest of their group."""
    x = Value(placeholder("x", Type("f32", (5, 3, groups, size))))
    return Graph((x.node,), (("y", (x / emit("abs", x).reduce("max", (0, 1, 3))).node),))


SIZES = (2, 4) if HOST.device.vector_lanes <= 8 else (2, 4, 8)
GRAPHS = {
    f"{rows}x{columns} pixels of {groups} groups of {size}": normalized(rows, columns, groups, size, own)
    for size in SIZES
    for rows, columns, groups, own in ((7, 5, 16, True), (3, 9, 5, False), (9, 1, 1, True), (6, 6, 33, True))
}
GRAPHS |= {f"parts in groups of {size}": scaled(9, size) for size in SIZES}


def drawn(graph: Graph) -> dict[str, np.ndarray]:
    (x,) = graph.inputs
    return {"x": RANDOM.standard_normal(x.type.bounds).astype(np.float32) + 3}


def lanes(program: Program) -> list[int]:
    """Channels along which lanes of a map run."""
    maps = [k.schedule for k in program.kernels if isinstance(k.schedule, Map) and k.schedule.lane is not None]
    return [s.lane.value.extent for s in maps if s.lane is not None]


def test_all_channels_are_lanes(tmp_path: Path) -> None:
    """Whatever the number of threads, and as in numpy."""
    made = compile_graphs(GRAPHS, tmp_path, True, HOST.flags, HOST.device, threads=2)
    for name, graph in GRAPHS.items():
        network, fed = made[name], drawn(graph)
        assert isinstance(network, Compiled)
        groups, size = graph.inputs[0].type.bounds[2:]
        assert lanes(network.program) == [groups * size] or groups == 1, name
        want, got = run_graph(graph, fed)["y"], network(fed)["y"]
        assert np.abs(got - want).max() <= 2e-6 * np.abs(want).max(), name
        assert np.array_equal(network(fed, 2)["y"], got), name
        assert np.abs(run_program(network.program, fed)["y"] - want).max() <= 2e-6 * np.abs(want).max(), name


def test_they_stay_inside(tmp_path: Path) -> None:
    some = {name: GRAPHS[name] for name in list(GRAPHS)[1::2]}
    fed = {name: drawn(graph) for name, graph in some.items()}
    for name, got in run_sanitized(some, fed, tmp_path, HOST).items():
        want = run_graph(some[name], fed[name])["y"]
        assert np.abs(got["y"] - want).max() <= 2e-6 * np.abs(want).max(), name


@pytest.mark.parametrize("device", ["x86_64_avx2", "x86_64_avx512", "neoverse_v1", "raspberry_pi_4", "riscv64_rvv"])
@pytest.mark.parametrize("size", [2, 3, 4, 8, 16])
def test_groups_that_fill_no_vector_are_together(device: str, size: int) -> None:
    """On every device, as what divides its lanes; each element is computed as often as by itself."""
    known = target(device).device
    program = program_of(normalized(12, 12, 8, size), known)
    assert (lanes(program) == [8 * size]) == (size in (2, 4, 8) and size < known.vector_lanes)
    if lanes(program) == [8 * size]:
        (kernel,) = program.kernels
        assert kernel.block is not None and executed(kernel) <= 1.25 * asked(kernel.block)
