"""Procedures: what a definition and its template agreed on, and the buffers of the operands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from edgec.device.device import Device
from edgec.fuse import Block, Plan
from edgec.ir.expr import Expr, Extent
from edgec.ir.graph import Node, Procedure
from edgec.ir.index import upper
from edgec.ir.types import Type
from edgec.schedule.flat import Weights
from edgec.schedule.program import BlockSchedule, Buffer, View
from edgec.schedule.views import strides_of

#: Scratch of threads is apart by whole cache lines.
_LINE = 64
#: Bytes that a group of a GPU keeps in the memory its threads share; what needs more lies in the arena.
_SHARED = 32 * 1024


@dataclass(frozen=True)
class ProcedureCall(BlockSchedule):
    """A procedure on buffers, each of which holds its operand alone, in row-major order."""

    template: ClassVar[str] = "procedure"
    node: Node
    procedure: Procedure
    arguments: tuple[tuple[Buffer, Type], ...]  # one buffer may serve several operands
    store: Buffer
    scratch: int  # bytes: of every thread of a processor; of a GPU, of all groups of the launch
    room: int = 0  # bytes that a group of a GPU has for its task, there or in shared memory
    in_rounds: bool = False  # the threads of a processor share the rounds of the procedure, and its scratch

    @property
    def describe(self) -> str:
        tasks = self.procedure.tasks
        if self.in_rounds:
            return f"{self.node.op}, every step shared by threads"
        return f"{self.node.op}, {'a single task' if tasks == 1 else f'{tasks} tasks'}"

    @property
    def bodies(self) -> list[Expr]:
        return []

    @property
    def tables(self) -> list[Buffer]:
        return [buffer for buffer, _ in self.arguments]

    @property
    def scratch_bytes(self) -> int:
        return self.scratch

    @property
    def shares_scratch(self) -> bool:
        return self.procedure.tasks == 1 or self.in_rounds or self.room > 0  # of a GPU, it is that of all groups

    def overwrites(self, operand: Buffer) -> bool:
        return [k for k, b in enumerate(self.tables) if b is operand] == [self.procedure.overwrites]


def procedure_call(
    block: Block, views: Mapping[Node, View], weights: Weights, device: Device, threads: int = 1
) -> ProcedureCall:
    """The call of a block that is a procedure, for ``threads`` threads of a processor."""
    assert isinstance(block.meaning, Procedure)

    def buffer(node: Node) -> Buffer:
        if node.is_const:
            return weights.add(node.value)
        view = views[node]
        assert view.offset == 0 and view.strides == strides_of(view.shape, len(view.shape) - 1), "not row-major"
        return view.buffer

    operands = tuple((buffer(a), a.type) for a in block.output.args)
    found = block.meaning
    if not device.is_gpu:
        rounds = found.rounds if found.rounds is not None and _pay_in_rounds(found, device, threads) else None
        scratch = _lines(found.scratch if rounds is None else rounds.scratch)
        return ProcedureCall(block.output, found, operands, buffer(block.output), scratch, in_rounds=rounds is not None)
    room = _lines(found.scratch if found.room is None else found.room)
    scratch = room * upper(found.tasks) if room > _SHARED else 0
    return ProcedureCall(block.output, found, operands, buffer(block.output), scratch, room)


def _pay_in_rounds(found: Procedure, device: Device, threads: int) -> bool:
    """Do threads that tasks are too few for save more by sharing every round than their barriers cost?"""
    assert found.rounds is not None
    if upper(found.tasks) >= threads:
        return False
    costs = device.costs.threads
    cycles = upper(found.steps) / (2 * costs.fmas * device.vector_lanes)
    return cycles * (1 - 1 / threads) > costs.barrier * upper(found.rounds.count)


def _lines(count: Extent) -> int:
    return -(-upper(count) // _LINE) * _LINE


def made_in_outputs(plan: Plan, views: dict[Node, View]) -> None:
    """Has what a procedure may overwrite made in the output that is its result, where nothing else reads it; so is what
    another procedure overwrites for that."""
    roots = {plan.root_of(n)[0] for b in plan.blocks for n in b.inputs if n in plan.aliases}
    wanted = {n for _, n in plan.outputs}
    kept = {*wanted, *plan.aliases, *roots, *plan.halos, *plan.guards, *plan.graph.inputs, *plan.sizes.values()}
    kept |= {n for _, n in plan.demands}
    made = {b.output for b in plan.blocks}
    for block in reversed(plan.blocks):
        which = block.meaning.overwrites if isinstance(block.meaning, Procedure) else None
        if which is None or block.output not in wanted or block.output in plan.aliases or block.output in plan.guards:
            continue
        operand = block.output.args[which]
        readers = [b for b in plan.blocks if operand in b.inputs]
        is_alike = operand.type == block.output.type and block.output.args.count(operand) == 1
        if is_alike and operand in made and operand not in kept and len(readers) == 1:
            views[operand] = replace(views[operand], buffer=views[block.output].buffer)
            wanted.add(operand)
