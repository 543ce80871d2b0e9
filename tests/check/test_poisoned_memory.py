"""Memory of executions is poisoned: where two values lie that must not, results say so; invariants refuse it too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from kept_graphs import same_draws
from kernel_cases import GROUPS
from small_graphs import conv, graph, pad, relu, softmax, value, weights

from edgec import ops
from edgec.device.load import load_device
from edgec.errors import ModelError
from edgec.execute.executor import PlanRun, ProgramRun, checked_input, run_graph, run_program
from edgec.execute.invariants import InvariantError, verify_plan, verify_program
from edgec.execute.samples import random_inputs
from edgec.fuse import plan
from edgec.ir.dtypes import POISON
from edgec.ir.graph import Graph
from edgec.ir.types import Type
from edgec.schedule.build import schedule
from edgec.schedule.memory import ALIGNMENT
from edgec.schedule.options import ScheduleOptions
from edgec.schedule.program import Buffer, Program

DEVICE = load_device("x86_64_avx512")
#: Groups of graphs whose kernels have scratch memory.
WITH_SCRATCH = (
    "attentions",
    "grouped",
    "winograds",
    "winograds_at_run",
    "chains",
    "sorting",
    "selection",
    "turned",
    "attending",
)


def between() -> Graph:
    """A value that is alive during a kernel with scratch memory, and read after it."""
    early = ops.node("matmul", softmax(value("x", 24, 40)), weights(40, 40))
    order = ops.node("cast", ops.node("argsort", early, axis=1, descending=False), to="f32")
    late = ops.node("mul", early, value("y", 24, 40))
    return graph(*(ops.node("matmul", n, weights(40, 8)) for n in (order, late)))


def programs() -> Iterator[tuple[Graph, Program]]:
    for group in WITH_SCRATCH:
        same_draws()
        for _, made in islice(GROUPS[group](), 3):
            yield made, schedule(plan(made), DEVICE, ScheduleOptions(2))


def bytes_of(run: ProgramRun, buffer: Buffer) -> np.ndarray:
    return run.elements(buffer).view(np.uint8)


def test_what_was_not_written_is_poison() -> None:
    """The arena and outputs before a run, and scratch memory behind its kernel."""
    scratches = 0
    for made, program in programs():
        run = ProgramRun(program, random_inputs(made, 0))
        assert (run.arena == POISON).all()
        assert all((bytes_of(run, b) == POISON).all() for _, b, _ in program.outputs if b.space == "output")
        run.arena[...] = 0
        for k, kernel in enumerate(program.kernels):
            run.step(k)
            if kernel.scratch_bytes:
                scratches += 1
                assert (bytes_of(run, kernel.operands[0]) == POISON).all(), kernel.names
    assert scratches > 10


def alive_across(program: Program) -> Iterator[tuple[Buffer, Buffer]]:
    """(scratch, value) of kernels with a value that was written before and is read behind them."""
    for k, kernel in enumerate(program.kernels):
        before = {n.writes for n in program.kernels[:k]}
        behind = {b for n in program.kernels[k + 1 :] for b in n.reads}
        if kernel.scratch_bytes:
            yield from ((kernel.operands[0], b) for b in (before & behind) - {kernel.writes} if b.space == "arena")


def test_a_value_under_scratch_memory_shows() -> None:
    made = between()
    program = schedule(plan(made), DEVICE, ScheduleOptions(1))
    pairs = [*alive_across(program)]
    assert pairs
    given = random_inputs(made, 0)
    want = run_program(program, given)
    for scratch, held in pairs:
        moved = {**program.offsets, scratch: program.offsets[held]}
        wrong = replace(program, offsets=moved, arena_bytes=program.arena_bytes + scratch.bytes)
        got = run_program(wrong, given)
        assert any(np.isnan(got[n]).any() and not np.isnan(want[n]).any() for n in want)
        with pytest.raises(InvariantError, match="overlap"):
            verify_program(wrong)


def test_places_that_are_none_are_refused() -> None:
    """A buffer without a place, before the memory, not aligned, or beyond the end by one step; in the arena as in
    weights."""
    program = schedule(plan(between()), DEVICE, ScheduleOptions(1))
    verify_program(program)
    for space, limit in (("arena", program.arena_bytes), ("weights", program.weights_bytes)):
        buffer = max((b for b in program.offsets if b.space == space), key=lambda b: program.offsets[b])
        end = limit - buffer.bytes
        others = {b: at for b, at in program.offsets.items() if b is not buffer}
        beyond = (end // ALIGNMENT + 1) * ALIGNMENT
        for offsets in (others, *({**others, buffer: at} for at in (-ALIGNMENT, ALIGNMENT // 2, beyond))):
            with pytest.raises(InvariantError, match="it lies at"):
                verify_program(replace(program, offsets=offsets))


def test_blocks_of_another_type_are_refused() -> None:
    made = plan(between())
    verify_plan(made)
    block = made.blocks[0]
    other = replace(block, meaning=replace(block.meaning, type=Type("f64", block.meaning.type.shape)))
    with pytest.raises(InvariantError, match="its meaning gives f64"):
        verify_plan(replace(made, blocks=(other, *made.blocks[1:])))


def test_the_plan_keeps_nothing_longer_than_it_is_read() -> None:
    """Before the first block writes them, values of a plan are poison within their halo; behind the last reader they
    are given up."""
    made = graph(conv(pad(relu(value("x", 1, 3, 5, 6)), 1, 2), weights(4, 3, 3, 3)))
    planned = plan(made)
    given = random_inputs(made, 0)
    run = PlanRun(planned, given)
    halos = [n for n in planned.halos if n.op != "input"]
    assert halos
    for root in halos:
        memory, halo = run.memory(root), planned.halos[root]
        inside = memory[tuple(slice(b, b + n) for b, n in zip(halo.before, root.type.shape))]
        assert inside.shape == root.type.shape and np.isnan(inside).all()
        assert np.isnan(memory).sum() == inside.size < memory.size
        assert (memory[~np.isnan(memory)] == halo.value).all()
    run = PlanRun(planned, given)
    got = run.run()
    for name, want in run_graph(made, given).items():
        np.testing.assert_allclose(got[name], want, rtol=1e-5, atol=1e-5)
    outputs = {planned.root_of(n)[0] for _, n in planned.outputs}
    assert set(run.owned) <= outputs and all(n.op == "input" or planned.root_of(n)[0] in outputs for n in run.arrays)


@pytest.mark.parametrize(
    ("given", "message"),
    [({}, "is missing"), ({"x": np.zeros((2, 3))}, "is float64"), ({"x": np.zeros((3, 2), np.float32)}, "x")],
)
def test_inputs_of_another_form_are_refused(given: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        checked_input("x", Type("f32", (2, 3)), given, {})
