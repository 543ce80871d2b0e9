"""Running what the stages make on numpy arrays, so that every stage can be held against a reference.

A plan runs block by block, a program kernel by kernel on one arena laid out as the C code will have it. Memory is
poisoned first (0xFF: NaN as a float, -1 as an integer), so a value that is read before it is written shows up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from operator import add
from typing import Any

import numpy as np

from edgec.errors import ModelError
from edgec.execute.ranks import run_ranks
from edgec.fuse import Plan
from edgec.ir import evaluate
from edgec.ir.dtypes import POISON
from edgec.ir.evaluate import check_demands
from edgec.ir.expr import Expr
from edgec.ir.graph import Graph, Node
from edgec.ir.sizes import read_sizes, shape_at
from edgec.ir.types import DTYPES, Type
from edgec.schedule.program import Buffer, Kernel, Program

Arrays = Mapping[str, np.ndarray]
Executor = Callable[[Arrays], dict[str, np.ndarray]]


def poisoned(dtype: str, elements: int) -> np.ndarray:
    """A flat array no element of which was written yet."""
    return np.full(elements * DTYPES[dtype].itemsize, POISON, np.uint8).view(DTYPES[dtype])


def checked_input(name: str, type: Type, inputs: Arrays, sizes: dict[Expr, int]) -> np.ndarray:
    """The array given for an input, whose run-time sizes are added to ``sizes``.

    Raises ModelError when it is missing or of another shape or type.
    """
    if name not in inputs:
        raise ModelError(f"input '{name}' is missing", hint=f"it is {type}")
    given = np.asarray(inputs[name])
    if given.dtype != DTYPES[type.dtype]:
        raise ModelError(f"input '{name}' is {given.dtype}{list(given.shape)}, expected {type}")
    read_sizes(name, type, given.shape, sizes)
    return np.asarray(given, order="C")  # ascontiguousarray would give a scalar a dimension


def run_graph(graph: Graph, inputs: Arrays) -> dict[str, np.ndarray]:
    """Outputs of a graph by name."""
    return evaluate.run(graph, inputs)


class PlanRun:
    """One execution of a plan: block by block, aliased values inside the arrays of their owners."""

    def __init__(self, plan: Plan, inputs: Arrays) -> None:
        self.plan = plan
        self.sizes: dict[Expr, int] = {}
        self.arrays: dict[Node, np.ndarray] = {
            n: checked_input(n.attributes["name"], n.type, inputs, self.sizes) for n in plan.graph.inputs
        }
        self.owned: dict[Node, np.ndarray] = {}
        self.views: dict[Node, list[Node]] = {}  # the values in an owner's memory
        self.computed: dict[Node, list[Expr]] = {}
        for s, n in plan.sizes.items():
            self.computed.setdefault(n, []).append(s)
            if n.op == "input":
                self.sizes[s] = int(self.arrays[n])

    def array(self, node: Node) -> np.ndarray:
        """Array of a value: created on first use, a window of the array of the value that owns its memory."""
        if node.is_const:
            return node.value
        if node not in self.arrays:
            root, offset = self.plan.root_of(node)
            memory = self.memory(root)
            corner = shape_at(offset, self.sizes)
            if root in self.plan.halos:
                corner = tuple(map(add, corner, shape_at(self.plan.halos[root].before, self.sizes)))
            shape = shape_at(node.type.shape, self.sizes)
            # The dots keep a value without dimensions an array.
            box: tuple[Any, ...] = (..., *(slice(o, o + n) for o, n in zip(corner, shape)))
            self.arrays[node] = memory[box]
            self.views.setdefault(root, []).append(node)
        return self.arrays[node]

    def memory(self, root: Node) -> np.ndarray:
        """The array of a value that owns memory, with its halo filled and nothing else written; or that of an input."""
        if root.op == "input":
            return self.arrays[root]
        if root not in self.owned:
            halo = self.plan.halos.get(root)
            shape = shape_at(root.type.shape, self.sizes)
            if halo is None:
                self.owned[root] = poisoned(root.type.dtype, prod(shape)).reshape(shape)
            else:
                around = shape_at(halo.around(root.type.shape), self.sizes)
                self.owned[root] = np.full(around, halo.value, DTYPES[root.type.dtype])
                corner = shape_at(halo.before, self.sizes)
                box: tuple[Any, ...] = (..., *(slice(o, o + n) for o, n in zip(corner, shape)))
                inside = self.owned[root][box]
                inside[...] = poisoned(root.type.dtype, prod(shape)).reshape(shape)
        return self.owned[root]

    def step(self, k: int) -> np.ndarray | None:
        """Execute block ``k``; gives its result in place, None for one that its guards skip."""
        block = self.plan.blocks[k]
        if any(bool(self.array(n)) != truth for n, truth in self.plan.guards.get(block.output, ())):
            return None
        result = self.array(block.output)
        if result.size:
            result[...] = block.evaluate(self.array, self.sizes)
        for size in self.computed.get(block.output, ()):
            self.sizes[size] = int(result)
        return result

    def run(self) -> dict[str, np.ndarray]:
        """The outputs by name; memory is given up when nobody reads it any more."""
        ends = self._last_uses()
        for k in range(len(self.plan.blocks)):
            self.step(k)
            for root in ends.get(k, ()):
                self.owned.pop(root, None)
                for node in self.views.pop(root, ()):
                    del self.arrays[node]
        check_demands((message, bool(self.array(n))) for message, n in self.plan.demands)
        return {name: np.array(self.array(n)) for name, n in self.plan.outputs}

    def _last_uses(self) -> dict[int, list[Node]]:
        """The owners of memory by the last block that reads or writes it; results and inputs have no last one."""
        plan = self.plan
        last: dict[Node, int] = {}
        for k, block in enumerate(plan.blocks):
            guards = (n for n, _ in plan.guards.get(block.output, ()))
            for node in (block.output, *block.inputs, *guards):
                if not node.is_const:
                    last[plan.root_of(node)[0]] = k
        results = (n for _, n in (*plan.outputs, *plan.demands))
        for node in (*results, *plan.sizes.values(), *plan.graph.inputs):
            if not node.is_const:
                last.pop(plan.root_of(node)[0], None)
        ends: dict[int, list[Node]] = {}
        for root, k in last.items():
            ends.setdefault(k, []).append(root)
        return ends


def run_plan(plan: Plan, inputs: Arrays) -> dict[str, np.ndarray]:
    """Outputs of a plan by name; every block's composed formula is evaluated once."""
    return PlanRun(plan, inputs).run()


class ProgramRun:
    """One execution of a program on an arena: proves layouts, placement and the reuse of memory."""

    def __init__(self, program: Program, inputs: Arrays) -> None:
        self.program = program
        self.arena = np.full(program.arena_bytes, POISON, np.uint8)
        self.memory: dict[Buffer, np.ndarray] = {}
        self.sizes: dict[Expr, int] = {}
        for name, buffer, node in program.inputs:
            self.memory[buffer] = checked_input(name, node.type, inputs, self.sizes).reshape(-1).copy()
        self.computed: dict[Buffer, list[Expr]] = {}
        for s, buffer in program.sizes.items():
            self.computed.setdefault(buffer, []).append(s)
            if buffer.space == "input":
                self.sizes[s] = int(self.memory[buffer][0])
        for _, buffer, _ in program.outputs:
            self.memory[buffer] = poisoned(buffer.dtype, buffer.elements)
        for new, old in program.states.items():  # states are overwritten: what works so works on two arrays too
            self.memory[new] = self.memory[old]

    def elements(self, buffer: Buffer) -> np.ndarray:
        """The elements of a buffer; those in the arena share its memory."""
        if buffer not in self.memory:
            if buffer.data is not None:
                return buffer.data.reshape(-1)
            if buffer not in self.program.offsets:  # a thread has it for itself
                self.memory[buffer] = poisoned(buffer.dtype, buffer.elements)
                return self.memory[buffer]
            start = self.program.offsets[buffer]
            self.memory[buffer] = self.arena[start : start + buffer.bytes].view(DTYPES[buffer.dtype])
        return self.memory[buffer]

    def array(self, node: Node) -> np.ndarray:
        if node.is_const:
            return node.value
        view = self.program.views[node]
        array = view.array(self.elements(view.buffer), self.sizes)
        return array.astype(DTYPES[node.type.dtype]) if view.buffer.dtype != node.type.dtype else array

    def place(self, node: Node) -> np.ndarray:
        """Array of a value, in its stored type."""
        view = self.program.views[node]
        return view.array(self.elements(view.buffer), self.sizes)

    def step(self, k: int) -> np.ndarray | None:
        """Execute kernel ``k``; gives its result in place, None for a border and for what its guards skip."""
        kernel = self.program.kernels[k]
        if kernel.block is None:
            kernel.schedule.fill_halo(self.elements(kernel.writes), self.sizes)
            return None
        if any(bool(self.elements(buffer)[0]) != truth for buffer, truth in kernel.guards):
            return None
        self.poison_scratch(kernel)
        for step in kernel.steps[:-1]:
            if step.block is None:
                step.schedule.fill_halo(self.elements(step.writes), self.sizes)
            else:
                self.place(step.block.output)[...] = step.block.evaluate(self.array, self.sizes)
        values = kernel.block.evaluate(self.array, self.sizes)
        result = self.place(kernel.block.output)
        result[...] = values
        for size in self.computed.get(kernel.writes, ()):
            self.sizes[size] = int(result)
        return result

    def poison_scratch(self, kernel: Kernel) -> None:
        """Overwrite the scratch memory of a kernel: no live value may be there."""
        if kernel.scratch_bytes:
            self.elements(kernel.operands[0]).view(np.uint8)[...] = POISON

    def outputs(self) -> dict[str, np.ndarray]:
        shapes = {node: shape_at(node.type.shape, self.sizes) for _, _, node in self.program.outputs}
        return {
            name: np.array(self.memory[buffer][: prod(shapes[node])].reshape(shapes[node]), DTYPES[node.type.dtype])
            for name, buffer, node in self.program.outputs
        }

    def run(self) -> dict[str, np.ndarray]:
        for k in range(len(self.program.kernels)):
            self.step(k)
        check_demands((message, bool(self.elements(b)[0])) for message, b in self.program.demands)
        return self.outputs()


def run_program(program: Program, inputs: Arrays) -> dict[str, np.ndarray]:
    """Outputs of a program by name, computed by its kernels' formulas in its own arena, or its parts' one by one."""
    if program.ranks is not None:
        return run_ranks(program, inputs, run_program)
    if not program.parts:
        return ProgramRun(program, inputs).run()
    known = {n: checked_input(name, n.type, inputs, {}) for name, _, n in program.inputs}
    for part in program.parts:
        given = {name: known[value] for (name, _, _), value in zip(part.program.inputs, part.reads)}
        results = run_program(part.program, given)
        known.update((value, results[name]) for (name, _, _), value in zip(part.program.outputs, part.writes))
    return {name: known[n] for name, _, n in program.outputs}


def executor(run: Callable[[Any, Arrays], dict[str, np.ndarray]], value: Any) -> Executor:
    return lambda inputs: run(value, inputs)
