"""Replicas of a step: threads take micro-batches side by side, each with an arena and sums of gradients of its own.

Micro-batches do not depend on one another. Where threads share every kernel of each, they meet at every kernel, and
read what another core has just written; a thread that takes whole ones meets the others once a step. All replicas read
the same weights. The first adds gradients to the moments (or sums) of the state, as a step on one thread does, every
other one to sums that begin as zero and are added to the state in order. So the number of replicas decides the bits of
a result, and that of threads does not. What only the last micro-batch does runs once, after that, on all threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import ceil

from edgec.device.device import Device
from edgec.differentiate.step import Step
from edgec.pipeline.context import Context
from edgec.pipeline.micro_batches import updating_last
from edgec.pipeline.trials import Trials
from edgec.schedule.memory import ALIGNMENT
from edgec.schedule.program import Buffer, Kernel, Program
from edgec.schedule.replicas import Replicas
from edgec.schedule.thread_count import meeting_cycles, work_cycles

#: Arenas, sums and state together take so many times the state at most, or so many bytes.
SHARE, SMALL = 3, 16 << 20
#: The part of the predicted time that replicas must save: for so many times the state, and for so few bytes.
GAIN, LEAST = 0.25, 0.1

Made = tuple[Step, Program]


def in_replicas(
    whole: Made, context: Context, divided: Callable[[], Made | None]
) -> tuple[Step, Program, Replicas | None]:
    """A step with its program, and the replicas of it; as it was, without replicas, where threads had better share its
    kernels. A step that takes its batch as a ``whole`` may be ``divided`` into as many micro-batches as threads."""
    options = context.options
    if options.threads == 1 or options.device.language != "c" or options.room:
        return *whole, None
    parts = whole if whole[0].micro is not None else divided()
    count = best_count(*whole, *parts, options.threads, options.device) if parts is not None else 1
    if parts is None or count == 1:
        return *whole, None
    step, _ = parts
    alone = replace(context, options=replace(options, threads=1))
    program = updating_last(Trials(step, alone).least(), step)
    sums = sum(_whole(b.bytes) for b in early_states(program, step))
    late = late_kernels(program, step)
    reordered = reordered_sums(program, step, late)
    if not sums or reordered is None or not is_kept(program, late):
        return *whole, None
    arena, pieces = _whole(program.arena_bytes), tuple((program.offsets[b], b.bytes) for b in reordered)
    replicas = Replicas(count, arena, arena + sums, pieces)
    return step, replace(program, arena_bytes=replicas.bytes), replicas


def early_states(program: Program, step: Step) -> Sequence[Buffer]:
    """What every micro-batch adds to, in the order of the state; empty where it is not one piece of floats there."""
    states = set(program.states.values())
    trained = {name for name, _, _ in program.inputs if name in step.trained}
    kept = [(name, b) for name, b, _ in program.inputs if b in states and name not in trained]
    places = [k for k, (name, _) in enumerate(kept) if name in step.early]
    found = [kept[k][1] for k in places]
    is_one = bool(places) and places == [*range(places[0], places[0] + len(places))]
    return found if is_one and all(b.dtype == "f32" for b in found) else ()


def best_count(whole: Step, shared: Program, part: Step, program: Program, threads: int, device: Device) -> int:
    """The number of replicas that takes least, of those that memory allows; 1 where sharing kernels takes less.

    ``program`` is that of a micro-batch, ``shared`` the one whose kernels threads would share.
    """
    assert part.micro is not None
    early, work, runs = early_states(program, part), work_cycles(program.graph, device), part.micro.count
    together = work_cycles(shared.graph, device)
    if shared.threads > 1:
        read = sum(b.bytes for k in shared.kernels for b in dict.fromkeys(k.reads) if b.space == "arena")
        together = together / threads + meeting_cycles(len(shared.kernels), read, device, threads)
    together *= whole.micro.count if whole.micro is not None else 1
    sums, state = sum(b.bytes for b in early), sum(b.bytes for b in program.states.values())
    best, least = 1, together
    for count in range(2, min(threads, runs) + 1) if early else ():
        memory = state + count * program.arena_bytes + (count - 1) * sums
        cycles = ceil(runs / count) * work + count * sums / device.costs.kernel.memory_bytes
        saved = LEAST if memory <= SMALL else GAIN if memory <= SHARE * state else 1.0
        if cycles < min(least, together * (1 - saved)):
            best, least = count, cycles
    return best


def late_kernels(program: Program, step: Step) -> list[int]:
    """The numbers of the kernels that the last micro-batch alone runs."""
    assert step.micro is not None
    last = next(b for name, b, _ in program.inputs if name == step.micro.last.attributes["name"])
    return [k for k, kernel in enumerate(program.kernels) if (last, True) in kernel.guards]


def reordered_sums(program: Program, step: Step, late: Sequence[int]) -> list[Buffer] | None:
    """The buffers of the arena where ``late`` kernels read sums of gradients, which are copied from there to the state.

    None where they read other numbers of a micro-batch: no sum over replicas makes those of the batch of them. Truth
    values are those of losses, which are the same for all micro-batches of a step that goes on.
    """
    states = early_states(program, step)
    sums = {new for new, old in program.states.items() if old in states}
    own = {s.writes for k in late for s in program.kernels[k].steps}
    copies = [k.block for k in program.kernels if k.writes in sums and k.block is not None]
    copied = {
        program.views[n].buffer
        for block in copies
        if block.output.op == "copy"
        for n in block.inputs
        if n.type.elements == program.views[n].buffer.elements
    }
    read = dict.fromkeys(b for k in late for b in _read(program.kernels[k]) if b.space == "arena" and b not in own)
    found = [b for b in read if b.dtype != "bool"]
    return found if copied.issuperset(found) else None


def is_kept(program: Program, late: Sequence[int]) -> bool:
    """Is what ``late`` kernels read of others still in the arena when all others have run?"""
    own = {s.writes for k in late for s in program.kernels[k].steps}
    ends: dict[Buffer, int] = {}
    for k in late:
        for b in program.kernels[k].reads:
            if b.space == "arena" and b not in own:
                ends[b] = k
    # All other kernels run before the late ones, of which some were before them.
    return not any(
        _overlap(program, b, w)
        for b, end in ends.items()
        for k, kernel in enumerate(program.kernels)
        if (k < end if k in late else k > end)
        for w in _written(kernel)
    )


def _read(kernel: Kernel) -> Sequence[Buffer]:
    return kernel.reads[1 if kernel.scratch_bytes else 0 :]


def _written(kernel: Kernel) -> list[Buffer]:
    changed = [kernel.writes, *(kernel.operands[:1] if kernel.scratch_bytes else ())]
    return [b for b in changed if b.space == "arena"]


def _overlap(program: Program, a: Buffer, b: Buffer) -> bool:
    at, other = program.offsets[a], program.offsets[b]
    return at < other + b.bytes and other < at + a.bytes


def _whole(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
