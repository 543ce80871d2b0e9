"""Trials of a training step: programs with more or less computed again, of which the one that takes least is taken."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf

from edgec.differentiate.step import Step
from edgec.fuse import Plan
from edgec.fuse.kept import least_kept
from edgec.fuse.masks import with_packed_masks
from edgec.fuse.one_pass import in_one_pass
from edgec.fuse.procedure_operands import read_where_stored
from edgec.fuse.recompute import ALL, WIDE, Recomputing, recomputed
from edgec.ir.graph import Graph, Node
from edgec.pipeline.context import Context
from edgec.pipeline.run import run
from edgec.schedule.memory import TooLarge
from edgec.schedule.program import Program

#: What is tried to be computed again, the cheapest first; the first ``FREE`` of them always.
RECOMPUTINGS = (Recomputing(), Recomputing(WIDE, 16), *(Recomputing(ALL, longest) for longest in (4, 8, 16, 32, 64)))
FREE = 2

Outputs = tuple[tuple[str, Node], ...]


class Trials:
    """The graphs of a step, each of which is planned once, by their outputs.

    On a GPU, whose kernels cost a launch each, nothing but the statistics of rows is computed again.
    """

    def __init__(self, step: Step, context: Context) -> None:
        self.step, self.context = step, context
        graph: Graph = run(step.graph, context, "simplify", "compress").result.graph
        self.loss = dict(graph.outputs)[step.graph.outputs[0][0]]
        self.plans: dict[Outputs, Plan] = {}
        begun = in_one_pass(graph, [self.loss])
        if context.options.device.language != "c":
            self.starts = [(read_where_stored(begun), [self.loss])]
            self.usual = {graph.outputs: graph for graph, _ in self.starts}
            return
        packed, words = with_packed_masks(begun, [self.loss])
        self.starts = [(begun, [self.loss])]
        if packed is not begun:
            self.starts.append((packed, [self.loss, *words]))
        self.usual = {}
        for trial in (*(graph for graph, _ in self.starts), *_recomputing(self.starts, RECOMPUTINGS[:FREE])):
            self.usual.setdefault(trial.outputs, trial)

    def least(self) -> Program:
        """The program with what is cheap computed again where that takes less memory, and the rest as well where there
        is less RAM than that takes; the least of all, where none fits, and of equals the first."""
        found = self.program()
        assert found is not None
        return found

    def program(self, most: float = inf) -> Program | None:
        """The same; None where each takes more than ``most`` bytes of arena."""
        found: Program | None = None
        is_plain = self.context.options.device.precision == "fp32"  # nothing is narrowed
        for trial in reversed(self.usual.values()):  # the last often takes the least, by which others are known not to
            limit = most if found is None else found.arena_bytes
            if limit < inf and is_plain and least_kept(trial, [self.loss]) > limit:
                continue
            program = tried(trial, self.context, limit, self.plans)
            if program is not None and (found is None or ram_of(program, self.step) <= ram_of(found, self.step)):
                found = program
        if found is None or self.context.options.device.language != "c":
            return found
        seen, room = {*self.usual}, self.context.options.room
        for trial in _recomputing(self.starts, RECOMPUTINGS[FREE:]):
            if not room or ram_of(found, self.step) <= room:
                break
            if trial.outputs not in seen:
                seen.add(trial.outputs)
                found = tried(trial, self.context, found.arena_bytes - 1) or found
        return found


def _recomputing(starts: Sequence[tuple[Graph, list[Node]]], limits: Sequence[Recomputing]) -> Iterator[Graph]:
    """The graphs with results that nothing is computed again for, by what is computed again for others."""
    for each in limits:
        for graph, results in starts:
            yield recomputed(graph, results, each)


def tried(
    trial: Graph, context: Context, arena: float = inf, plans: dict[Outputs, Plan] | None = None
) -> Program | None:
    """The program of a graph, which may be among ``plans``; None where its arena takes more bytes than so many."""
    plan = plans.get(trial.outputs) if plans is not None else None
    if plan is None:
        plan = planned(trial, context)
        if plans is not None:
            plans[trial.outputs] = plan
    try:
        program: Program = run(plan, replace(context, arena=arena), "schedule", "schedule")["schedule"]
    except TooLarge:
        return None
    return program


def planned(graph: Graph, context: Context) -> Plan:
    """The plan of a graph, as a whole."""
    plan: Plan = run(graph, replace(context, divides=False), "fuse", "fuse").result
    return plan


def ram_of(program: Program, step: Step) -> int:
    """Bytes of the arena, of states once, and of the samples of all micro-batches and the loss."""
    runs = step.micro.count if step.micro is not None else 1
    states = set(program.states.values())
    inputs = (b.bytes * (1 if b in states else runs) for _, b, _ in program.inputs)
    return program.arena_bytes + sum(inputs) + sum(b.bytes for _, b, _ in program.outputs if b not in program.states)
