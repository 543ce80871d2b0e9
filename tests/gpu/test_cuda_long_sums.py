"""Long sums of few results on CUDA: thread blocks share them, alone and in launches that kernels share."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from chance import SEED
from emulated import Emulated, emulate
from small_graphs import arrays, conv, doubled, graph, pad, total, transpose, value, weights

from edgec import ops
from edgec.device.load import load_device
from edgec.fuse import plan
from edgec.ir import evaluate
from edgec.ir import expr as X
from edgec.ir.graph import Graph, constant
from edgec.ir.nest import most
from edgec.ops import graphs
from edgec.schedule.build import schedule
from edgec.schedule.gpu.contract import GpuContract
from edgec.schedule.gpu.levels import in_levels
from edgec.schedule.gpu.loops import GpuMap, GpuReduce
from edgec.schedule.gpu.together import GpuTogether
from edgec.schedule.options import ScheduleOptions
from edgec.schedule.program import Kernel, Program

DEVICE = load_device("cuda_sm90")


def _sums() -> Graph:
    """Sums and maxima along columns and of all, squares summed up, and products of tall matrices."""
    tall, other, third = (value(n, 9001, c) for n, c in (("a", 37), ("b", 40), ("d", 40)))
    flat = value("c", 70004)
    return graph(
        ops.node("sqrt", total(ops.node("mul", tall, tall), 0)),
        total(other, 0, combine="max"),
        total(flat, 0),
        total(ops.node("mul", other, other), 0),
        ops.node("matmul", transpose(tall, 1, 0), other),
        ops.node("matmul", transpose(tall, 1, 0), third),
    )


def _kernels(program: Program) -> list[Kernel]:
    return [k for kernel in program.kernels for k in kernel.schedule.steps or (kernel,)]


def _hold(whole: Graph, folder: Path, in_levels: bool = False) -> None:
    """A graph in emulation against its evaluation in double precision, twice: counters are zero again after a run."""
    network = emulate({"whole": whole}, folder, DEVICE, in_levels=in_levels)["whole"]
    assert isinstance(network, Emulated)
    given = arrays(whole, SEED)
    want = evaluate.run(doubled(whole), {k: v.astype(np.float64) for k, v in given.items()})
    for _ in range(2):
        for name, got in network(given).items():
            np.testing.assert_allclose(got, want[name], rtol=0, atol=2e-5 * np.abs(want[name]).max())


@pytest.mark.parametrize("in_levels", [False, True])
def test_parts_add_up(in_levels: bool, tmp_path: Path) -> None:
    whole = _inner() if in_levels else _sums()
    _hold(whole, tmp_path, in_levels)


def test_they_are_shared_among_thread_blocks() -> None:
    program = schedule(plan(_sums(), gpu=True), DEVICE)
    reductions = [k.schedule for k in _kernels(program) if isinstance(k.schedule, GpuReduce)]
    assert len(reductions) == 4
    assert all(r.split >= 4 and r.locks * r.team * r.split >= 1024 for r in reductions)
    short = schedule(plan(graph(total(value("a", 300, 37), 0)), gpu=True), DEVICE).kernels[0].schedule
    assert isinstance(short, GpuReduce) and short.split == 1 and not short.scratch_bytes


def test_launches_keep_memory_and_counters_apart() -> None:
    """Kernels in parts share launches; each has its part of the scratch memory and of the counters."""
    program = schedule(plan(_inner(), gpu=True), DEVICE, ScheduleOptions(in_levels=True))
    shared = [k for k in program.kernels if isinstance(k.schedule, GpuTogether)]
    in_parts = [k for s in shared for k in s.schedule.steps if k.scratch_bytes]
    assert any(isinstance(k.schedule, GpuReduce) for k in in_parts)
    assert any(isinstance(k.schedule, GpuContract) for k in in_parts)
    for kernel in shared:
        assert kernel.scratch_bytes >= sum(k.scratch_bytes for k in kernel.schedule.steps)
        assert kernel.schedule.locks == sum(k.schedule.locks for k in kernel.schedule.steps) <= program.locks


def _inner() -> Graph:
    """The same sums as one vector that others read, as a training's gradients are."""
    parts = [ops.node("reshape", node, shape=(node.type.elements,)) for _, node in _sums().outputs]
    vector = ops.node("concat", *parts, axis=0)
    return graph(ops.node("add", vector, vector), total(ops.node("abs", vector), 0))


def test_products_of_few_columns_are_no_tiles() -> None:
    """Phases of a strided depthwise convolution's gradient: four results of four taps each."""
    x, w = value("x", 8, 32, 12, 12), value("w", 128, 1, 2, 2)
    y = ops.node("conv", x, w, strides=(1, 1), dilations=(1, 1), groups=32)
    _, kernel = schedule(plan(graph(y), gpu=True), DEVICE).kernels  # the first turns the weights
    assert isinstance(kernel.schedule, GpuMap)


def test_what_nobody_reads_soon_waits_until_the_device_is_full() -> None:
    """Long chains with a sum at each step: the sums share launches, but not all of them one."""
    x = value("x", 512, 512, 32)
    sums = []
    for k in range(40):
        x = ops.node("tanh", ops.node("add", x, value(f"b{k}", 512, 512, 32)))
        sums.append(ops.node("add", *[total(total(x, 0), 0)] * 2))
    program = schedule(plan(graph(*sums), gpu=True), DEVICE)
    made = in_levels(program.kernels, {})
    reductions = [k for k, kernel in enumerate(made) if any(isinstance(s.schedule, GpuReduce) for s in kernel.steps)]
    assert 2 <= len(reductions) <= 20
    assert reductions[0] < len(made) / 2


def test_sums_over_columns_read_whole_cache_lines() -> None:
    """Sums of 4096 rows, as of gradients of biases: 32 neighbors, in parts."""
    program = schedule(plan(graph(total(value("a", 4096, 1024), 0)), gpu=True), DEVICE)
    (kernel,) = program.kernels
    found = kernel.schedule
    assert isinstance(found, GpuReduce) and found.neighbors == 32 and found.split > 1 and found.wide


@pytest.mark.parametrize("columns", [36, 37, 64])
def test_neighbors_are_read_as_vectors_where_all_are_aligned(columns: int, tmp_path: Path) -> None:
    """Products of two values, with the second one row further: 36 and 64 columns make vectors, 37 do not."""
    first, second = value("a", 3001, columns), value("b", 3002, columns)
    moved = graphs.part(second, [1, 0], [3001, columns])
    whole = graph(total(ops.node("mul", first, moved), 0), total(ops.node("mul", first, first), 0, combine="min"))
    reductions = [k.schedule for k in _kernels(schedule(plan(whole, gpu=True), DEVICE))]
    assert [r.wide for r in reductions if isinstance(r, GpuReduce)] == [columns != 37] * 2
    _hold(whole, tmp_path)


def test_deviations_of_neighbors_and_what_follows_them(tmp_path: Path) -> None:
    """Terms that a loop does not change are vectors before it; those of the result behind it are scalars."""
    x, means, scales = value("x", 3001, 36), value("means", 36), value("scales", 36)
    less = ops.node("sub", x, means)
    variances = ops.node("mul", total(ops.node("mul", less, less), 0), constant(np.float32(1 / 3001)))
    whole = graph(ops.node("div", scales, ops.node("sqrt", ops.node("add", variances, constant(np.float32(1e-5))))))
    (kernel,) = _kernels(schedule(plan(whole, gpu=True), DEVICE))
    assert isinstance(kernel.schedule, GpuReduce) and kernel.schedule.wide
    _hold(whole, tmp_path)


def test_many_rows_share_the_registers_of_a_multiprocessor() -> None:
    """The normalization of 4096 rows has eight thread blocks at a time; that of one row has all registers."""
    found = []
    for rows in (4096, 1):
        x = value("x", rows, 1024)
        means = ops.node("mul", total(x, 1), constant(np.float32(1 / 1024)))
        (kernel,) = schedule(plan(graph(ops.node("sub", x, means)), gpu=True), DEVICE).kernels
        assert isinstance(kernel.schedule, GpuReduce)
        found.append((kernel.schedule.resident, kernel.schedule.ahead))
    assert found == [(8, 16), (1, None)]


def test_launches_give_thread_blocks_like_shares() -> None:
    """A sum of three times as many elements as eight others has more thread blocks than they have."""
    long = ops.node("reshape", total(value("long", 100352, 288), 0), shape=(288,))
    short = [ops.node("reshape", total(value(f"v{k}", 65536, 128), 0), shape=(128,)) for k in range(8)]
    whole = graph(total(ops.node("concat", long, *short, axis=0), 0))
    program = schedule(plan(whole, gpu=True), DEVICE, ScheduleOptions(in_levels=True))
    (launch,) = (k.schedule for k in program.kernels if isinstance(k.schedule, GpuTogether))
    reductions = [k.schedule for k in launch.steps if isinstance(k.schedule, GpuReduce)]
    blocks = [-(-most(r.loops[0]) // r.each) * r.split for r in reductions]
    elements = [most(r.loops[0]) * most(r.row) for r in reductions]
    shares = [n / b for n, b in zip(elements, blocks)]
    assert len(reductions) == 9 and max(shares) < 1.2 * min(shares)


@pytest.mark.parametrize(("taps", "side", "is_map"), [(7, 28, True), (7, 3, False), (17, 28, False)])
def test_windows_of_many_taps_are_a_map(taps: int, side: int, is_map: bool, tmp_path: Path) -> None:
    """True where threads with four channels each fill the device; else a team of threads computes a result."""
    inside = pad(transpose(value("x", 1, side, side, 64), 0, 3, 1, 2), taps // 2, taps // 2)
    whole = graph(transpose(conv(inside, weights(64, 1, taps, taps), groups=64), 0, 2, 3, 1))
    maps = [k.schedule for k in schedule(plan(whole, gpu=True), DEVICE).kernels if isinstance(k.schedule, GpuMap)]
    assert any(e.op == "reduce" for found in maps for e in X.walk(found.body)) == is_map
    if not is_map:
        return
    _hold(whole, tmp_path)


def test_shared_memory_of_a_launch_has_room_for_all_of_its_sums() -> None:
    """Thirty sums in parts that all could share one launch: two tables of 512 floats each are 48 KB for twelve."""
    sums = [ops.node("reshape", total(value(f"v{k}", 4096, 64), 0), shape=(64,)) for k in range(30)]
    whole = graph(total(ops.node("concat", *sums, axis=0), 0))
    program = schedule(plan(whole, gpu=True), DEVICE, ScheduleOptions(in_levels=True))
    launches = [k.schedule.steps for k in program.kernels if isinstance(k.schedule, GpuTogether)]
    assert sum(map(len, launches)) >= 24 and len(launches) > 1
    assert all(sum(4 * 512 * 2 for _ in steps) <= 48 << 10 for steps in launches)
