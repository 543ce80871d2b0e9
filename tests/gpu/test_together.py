"""Maps and reductions that do not wait for one another in one launch of CUDA, in emulation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from chance import SEED
from emulated import Emulated, emulate
from small_graphs import arrays, graph, layernorm, number, softmax, to_bytes, transpose, value, weights

from edgec import ops
from edgec.device.device import Device
from edgec.device.load import load_device
from edgec.execute.invariants import InvariantError, verify_program
from edgec.fuse import plan
from edgec.ir import evaluate
from edgec.ir.graph import Graph
from edgec.schedule.build import schedule
from edgec.schedule.gpu.together import MOST, GpuTogether, joined
from edgec.schedule.options import ScheduleOptions


def _device(multiprocessors: int = 132) -> Device:
    device = load_device("cuda_sm90")
    return replace(device, gpu=replace(device.gpu, multiprocessors=multiprocessors))


def _launches(made: Graph, device: Device) -> list[int]:
    """Kernels of each launch."""
    kernels = schedule(plan(made, gpu=True), device, ScheduleOptions(fp32_blocks=0)).kernels
    return [len(k.schedule.kernels) if isinstance(k.schedule, GpuTogether) else 1 for k in kernels]


def _normalized(rows: int) -> Graph:
    row = layernorm(ops.node("matmul", value("x", rows, 16), weights(16, 96)), 1)
    multiplied = ops.node("matmul", ops.node("cast", to_bytes(row), to="f32"), weights(96, 24))
    return graph(multiplied, ops.node("matmul", row, weights(96, 24)))


def _turned() -> Graph:
    """Two ends of an array that change places, element by element changed: parts of one buffer."""
    x = value("x", 40, 96)
    ends = [ops.node("slice", x, starts=(k, 0), steps=(1, 1), shape=(40 - 17 if k else 17, 96)) for k in (17, 0)]
    ends = [ops.node(f, end) for f, end in zip(("tanh", "sigmoid"), ends)]
    return graph(ops.node("matmul", ops.node("concat", *ends, axis=0), weights(96, 24)))


def _holds(made: Graph, folder: Path) -> None:
    network = emulate({"net": made}, folder, _device())["net"]
    assert isinstance(network, Emulated)
    given = arrays(made, SEED)
    want = evaluate.run(made, given)
    for port, got in network(given).items():
        assert np.abs(got - want[port]).max() <= 1e-4 * np.abs(want[port]).max(), port


def test_two_kernels_of_one_row_share_a_launch(tmp_path: Path) -> None:
    made = _normalized(37)
    assert _launches(made, _device()).count(2) == 1
    _holds(made, tmp_path)


def test_parts_of_a_buffer_share_a_launch(tmp_path: Path) -> None:
    made = _turned()
    assert _launches(made, _device())[0] == 2
    _holds(made, tmp_path)


def test_large_kernels_are_launches_of_their_own() -> None:
    assert max(_launches(_normalized(4096), _device(multiprocessors=1))) == 1


def test_a_launch_has_so_many_kernels() -> None:
    x = value("x", 4, 96)
    made = graph(*(ops.node("mul", x, number(float(k))) for k in range(2, 2 + 2 * MOST)))
    assert _launches(made, _device()) == [MOST, MOST]


def test_what_reads_the_other_waits_for_it() -> None:
    x = value("x", 40, 96)
    total = ops.node("reduce", x, combine="add", axes=(1,))
    made = graph(ops.node("reduce", ops.node("mul", total, total), combine="max", axes=(0,)))
    assert max(_launches(made, _device())) == 1


def test_levels_have_launches_of_their_own() -> None:
    made = _normalized(37)
    planned = plan(made, gpu=True)
    kernels = schedule(planned, _device(), ScheduleOptions(fp32_blocks=0, in_levels=True)).kernels
    assert sum(len(k.steps) for k in kernels) == sum(_launches(made, _device()))


def test_an_update_waits_for_what_it_changes() -> None:
    whole = ops.node("add", value("a", 8, 96), value("b", 8, 96))
    part = ops.node("mul", value("c", 3, 96), value("d", 3, 96))
    made = graph(ops.node("update", whole, part, starts=(4, 0)))
    assert max(_launches(made, _device())) == 1


def test_a_result_lies_over_an_operand_of_its_own_kernel() -> None:
    """Rotated rows take the place of what they are made of, beside a mask in the same launch."""
    x, mask = value("x", 1, 48, 64), value("m", 8, 48, 48)
    whole = ops.node("matmul", x, weights(64, 64))
    halves = [ops.node("slice", whole, starts=(0, 0, k), steps=(1, 1, 1), shape=(1, 48, 32)) for k in (32, 0)]
    turned = ops.node("concat", ops.node("neg", halves[0]), halves[1], axis=2)
    rotated = ops.node("add", ops.node("mul", whole, weights(48, 64)), ops.node("mul", turned, weights(48, 64)))
    hidden = ops.node("select", ops.node("lt", mask, number(0.0)), number(-9.0), number(0.0))
    shares = softmax(ops.node("add", ops.node("matmul", rotated, transpose(rotated, 0, 2, 1)), hidden), 2)
    made = graph(ops.node("matmul", shares, rotated), ops.node("matmul", hidden, weights(48, 5)))
    program = schedule(plan(made, gpu=True), _device(), ScheduleOptions(fp32_blocks=0))
    (masks,) = (k for k in program.kernels if any(b.name == "m" for b in k.reads))
    at = program.offsets
    (over,) = (k for k in program.kernels if at.get(k.writes, -1) in [at[b] for b in k.reads if b.space == "arena"])
    kernels = [joined([over, masks]) if k is over else k for k in program.kernels if k is not masks]
    offsets = {**at, masks.writes: program.arena_bytes}
    apart = replace(
        program, kernels=tuple(kernels), offsets=offsets, arena_bytes=program.arena_bytes + masks.writes.bytes
    )
    verify_program(apart)
    with pytest.raises(InvariantError, match="overlap"):  # another kernel of the launch reads what is written over
        verify_program(replace(apart, kernels=tuple(joined([over, over]) if k is over else k for k in program.kernels)))
