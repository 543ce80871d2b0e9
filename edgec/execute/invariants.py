"""Invariants of plans and programs, cheap enough to be checked at every build."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from itertools import pairwise
from math import prod

from edgec.errors import InternalError
from edgec.fuse import Block, Plan
from edgec.fuse.cost_model import operations
from edgec.fuse.join import AGAIN, CHOSEN
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.functions import FUNCTIONS
from edgec.ir.graph import Formula, Node
from edgec.ir.nest import most
from edgec.schedule.gpu.together import GpuTogether
from edgec.schedule.memory import ALIGNMENT, overwrites_in_place
from edgec.schedule.operations import asked, executed, operators_of
from edgec.schedule.program import Buffer, Kernel, Program

#: Operations of a kernel over those of its operators one by one.
MOST_REPEATED = 1.25
#: The same over those that were decided: both branches of a choice may compute what they share.
MOST_DECIDED = 2.5
#: Kernels of fewer operations than these take no time.
LEAST_OPERATIONS = 10_000


class RepeatedWork(UserWarning):
    """A kernel that computes more often than its operators ask for: right, and slower than it should be."""


class InvariantError(InternalError):
    """A stage left a result that contradicts itself: a mistake in edgec, not in the model."""

    def __init__(self, message: str, where: str) -> None:
        super().__init__(message, hint="this is a mistake in edgec: please report it with the model", where=where)


def verify_plan(plan: Plan) -> None:
    """Every value a block reads is an input, a constant, or written by an earlier block; so is every output."""
    for level in plan.levels:
        verify_plan(level)
    parts: dict[Node, list[Node]] = {}
    for part, place in plan.aliases.items():
        if place.is_view:
            parts.setdefault(part, []).append(place.parent)
        else:
            parts.setdefault(place.parent, []).append(part)
    written: set[Node] = set(plan.graph.inputs)

    def is_ready(node: Node) -> bool:
        if node in written or node.is_const or not node.type.elements:
            return True
        if node in parts and all(map(is_ready, parts[node])):
            written.add(node)
        return node in written

    for k, block in enumerate(plan.blocks):
        where = f"block {k} ({block.output!r})"
        if block.meaning.type != block.output.type:
            raise InvariantError(f"its meaning gives {block.meaning.type}, not {block.output.type}", where)
        for node in block.inputs:
            if not is_ready(node):
                raise InvariantError(f"it reads {node!r}, which no earlier block writes", where)
        written.add(block.output)
    for name, node in plan.outputs:
        if not is_ready(node):
            raise InvariantError("no block writes it", f"output '{name}'")
        if node in plan.aliases and plan.aliases[node].is_view:
            raise InvariantError("it is a view, and no block writes its own memory", f"output '{name}'")


def verify_program(program: Program) -> None:
    """Buffers lie aligned inside the arena, and no two that are alive at once overlap."""
    if program.parts:
        for part in program.parts:
            verify_program(part.program)
        return
    for level in program.levels:
        verify_program(level.program)
    for buffer in dict.fromkeys(b for k in program.kernels for b in k.touches):
        if buffer.space in ("arena", "weights"):
            limit = program.arena_bytes if buffer.space == "arena" else program.weights_bytes
            start = program.offsets.get(buffer, -1)
            if start < 0 or start % ALIGNMENT or start + buffer.bytes > limit:
                raise InvariantError(f"it lies at {start}, with {limit} bytes to lie in", f"buffer {buffer.name}")
    lives = _lives(program)
    begun: dict[int, list[Buffer]] = {}
    for b, (first, _) in lives.items():
        begun.setdefault(first, []).append(b)
    alive: list[tuple[int, str, Buffer]] = []
    for k, kernel in enumerate(program.kernels):
        alive = [each for each in alive if lives[each[2]][1] >= k]
        alive = sorted((*alive, *((program.offsets[b], b.name, b) for b in begun.get(k, ()))))
        for (start, _, a), (following, _, b) in pairwise(alive):
            if following < start + a.bytes and not _takes_over(kernel, k, lives, a, b):
                raise InvariantError(f"{a.name} and {b.name} overlap", f"kernel {k} ({', '.join(kernel.names)})")


def warn_of_repeats(program: Program) -> None:
    """A warning (RepeatedWork) for every kernel that repeats work: its results are right, so the build goes on."""
    for part in program.parts:
        warn_of_repeats(part.program)
    for kernel in program.kernels:
        message = _repeats(kernel, program.choices)
        if message:
            warnings.warn(f"{message}; please report it with the model", RepeatedWork, stacklevel=2)


def _repeats(kernel: Kernel, choices: Mapping[str, str]) -> str:
    """The step with more operations than those of its operators one by one that no price decided to repeat; or ""."""
    for step in kernel.steps:
        if step.block is None or step.block.is_procedure:
            continue
        count = executed(step)
        if count <= LEAST_OPERATIONS:
            continue
        limit = MOST_REPEATED * asked(step.block)
        if count > limit:
            limit = max(limit, MOST_DECIDED * decided(step.block, choices))
        if count > limit:
            where = f"kernel of {step.block.output!r} ({', '.join(step.names)})"
            repeated = f"{count / (limit or 1):.1f} times the most"
            return f"{where}: it executes {count:.0f} operations ({step.describe}), {repeated}"
    return ""


def decided(block: Block, choices: Mapping[str, str]) -> float:
    """Operations of a block with all that the planner decided to compute more than once for an element; or 0.

    Decided by price; or because a reduction reads it, or several parts of a concatenation, or because it only chooses
    elements: what is dear to repeat is stored before these. The factors of a product may be computed for each of its
    terms.
    """
    nodes = operators_of(block)
    priced = (choices.get(f"{kind} {node.key}") == AGAIN for kind in ("recompute", "gather") for node in nodes)
    if block.kind == "contract" and isinstance(block.meaning, Formula):
        return _with_factors_of_terms(block.meaning)
    is_repeated = block.kind != "map" or any(n.op in ("concat", *CHOSEN) for n in nodes) or any(priced)
    return operations(block, by_each=True) if is_repeated else 0.0


def _with_factors_of_terms(derived: Formula) -> float:
    """Operations of sums of products, each sum once, whose factors are computed for every term."""

    def price(e: Expr, times: int, seen: set[Expr]) -> float:
        if e in seen or e.op in ("load", "var", "const"):
            return 0.0
        seen.add(e)
        if e.op == "reduce":
            terms = prod(most(v) for v in (*X.free_variables(e), *X.reduction_variables(e)))
            return price(e.args[0], terms, seen) + terms
        own = FUNCTIONS[e.op].flops * times if e.op in FUNCTIONS and e.dtype != "i64" else 0
        return own + sum(price(a, times, seen) for a in e.args)

    return price(derived.body, prod(most(v) for v in derived.variables if v.op == "var"), set())


def _lives(program: Program) -> dict[Buffer, tuple[int, int]]:
    lives: dict[Buffer, tuple[int, int]] = {}
    for k, kernel in enumerate(program.kernels):
        for b in kernel.touches:
            if b.space == "arena":
                lives[b] = (lives.get(b, (k, k))[0], k)
    return lives


def _takes_over(kernel: Kernel, k: int, lives: dict[Buffer, tuple[int, int]], a: Buffer, b: Buffer) -> bool:
    """The result may lie over an operand that dies here, where the kernel reads before it writes."""
    for operand, result in ((a, b), (b, a)):
        if lives[operand][1] == k == lives[result][0]:
            own = _kernel_of(kernel, operand)
            return own.writes is result and overwrites_in_place(own, operand)
    return False


def _kernel_of(kernel: Kernel, operand: Buffer) -> Kernel:
    """Of kernels that share a launch the one that alone has ``operand``; the kernel itself otherwise."""
    own = [s for s in kernel.steps if operand in s.operands] if isinstance(kernel.schedule, GpuTogether) else []
    return own[0] if len(own) == 1 else kernel
