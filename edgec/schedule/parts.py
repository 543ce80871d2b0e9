"""Programs in parts: several devices share a network, each with a program of its own for every segment it runs."""

from __future__ import annotations

from collections.abc import Sequence

from edgec.fuse import Plan
from edgec.ir.graph import Node
from edgec.schedule.memory import ALIGNMENT
from edgec.schedule.program import Buffer, Part, Program


def joined(plan: Plan, parts: Sequence[Part]) -> Program:
    """The program that runs ``parts`` one after the other; its kernels, memory and weights are theirs together."""

    def port(name: str, space: str, node: Node) -> tuple[str, Buffer, Node]:
        return name, Buffer(name, space, node.type.dtype, node.type.elements), node

    programs = [part.program for part in parts]
    offsets: dict[Buffer, int] = {}
    arena = weights = 0
    for p in programs:  # as if one lay behind the other
        offsets |= {b: place + (arena if b.space == "arena" else weights) for b, place in p.offsets.items()}
        arena, weights = (-(-n // ALIGNMENT) * ALIGNMENT for n in (arena + p.arena_bytes, weights + p.weights_bytes))
    return Program(
        plan.graph,
        tuple(k for p in programs for k in p.kernels),
        tuple(port(n.attributes["name"], "input", n) for n in plan.graph.inputs),
        tuple(port(name, "output", n) for name, n in plan.outputs),
        offsets,
        arena,
        sum(p.arena_lower_bound_bytes for p in programs),
        weights,
        max((p.scratch_bytes for p in programs), default=0),
        max((p.threads for p in programs), default=1),
        {node: view for p in programs for node, view in p.views.items()},
        parts=tuple(parts),
        assignment=plan.assignment,
        choices={c.key: c.taken.name for c in plan.decisions.choices}
        | {key: taken for p in programs for key, taken in p.choices.items()},
    )
