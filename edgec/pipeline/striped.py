"""Training steps in stripes, where they take more memory than there is.

The head of the forward pass is computed so, or the tail of the backward pass, wherever most memory is taken; then both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edgec.fuse import Plan
from edgec.fuse.stripe_ways import TRIALS, Way, ways
from edgec.fuse.stripes import heads, in_stripes, tails
from edgec.ir.graph import Graph, Node
from edgec.schedule.program import Buffer, Program

#: How many ways are scheduled that are expected to take more than there is.
NEAREST = 2


def in_fitting_stripes(
    program: Program,
    room: int,
    plan: Callable[[Graph], Plan],
    trial: Callable[[Graph], Program],
    ram: Callable[[Program], int],
) -> Program:
    """The program of a step with the least work added by stripes that fits into ``room`` bytes; of those that were
    tried the smallest, where none does.

    The loss, the first output, is where the forward pass ends.
    """
    graph = program.graph
    loss = graph.outputs[0][1]
    standing: Sequence[Node] = [b.output for b in plan(graph).blocks]
    if loss not in standing:
        return program
    forward, backward = (
        iter(_tried(ways(graph, regions, standing, room, loss), room))
        for regions in (heads(graph, standing, loss), tails(graph, standing, loss))
    )
    found = program
    taken: dict[bool, Way | None] = {True: None, False: None}
    while ram(program) > room:
        side = _peaks_before(program, program.outputs[0][1])
        taken[side] = next(forward if side else backward, None)
        if taken[side] is None:
            break
        divided = graph
        for way in (taken[False], taken[True]):  # values of the head are those that the tail reads
            divided = in_stripes(divided, way.region, way.count) if way is not None else divided
        program = trial(divided)
        found = min(found, program, key=ram)
    return found


def _tried(found: Sequence[Way], room: int) -> Sequence[Way]:
    """The ways that are scheduled, in this order: of those that are expected not to fit only the first."""
    fit = sum(way.bytes <= room for way in found)
    return found[: min(TRIALS, fit + NEAREST)]


def _peaks_before(program: Program, loss: Buffer) -> bool:
    """Is most memory of the arena taken before a buffer is written?"""
    lives: dict[Buffer, tuple[int, int]] = {}
    for k, kernel in enumerate(program.kernels):
        for b in kernel.touches:
            if b.space == "arena":
                lives[b] = (lives[b][0] if b in lives else k, k)
    written = next(k for k, kernel in enumerate(program.kernels) if any(s.writes is loss for s in kernel.steps))
    begun: dict[int, list[Buffer]] = {}
    for b, (first, _) in lives.items():
        begun.setdefault(first, []).append(b)
    alive: list[Buffer] = []
    held = []
    for k in range(len(program.kernels)):
        alive = [b for b in alive if lives[b][1] >= k] + begun.get(k, [])
        held.append(sum({program.offsets[b]: b.bytes for b in alive}.values()))
    return held.index(max(held)) <= written
