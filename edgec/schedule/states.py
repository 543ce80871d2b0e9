"""States in place: the caller may pass one array as a state and as its new value.

Then nothing of the state may be read once a kernel has begun to write its new value, except by a kernel that reads
each element only just before it writes that very place. A new value that would come too early is made in the arena
and copied out at the end.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from edgec.frontend import states
from edgec.fuse import Plan
from edgec.fuse.plan import copy_block
from edgec.ir.graph import Node
from edgec.schedule.memory import overwrites_in_place
from edgec.schedule.program import Buffer, Kernel, View


def pairs(plan: Plan, views: Mapping[Node, View]) -> dict[Buffer, Buffer]:
    """The buffer of every state's new value, and that of the state."""
    inputs = {str(n.attributes["name"]): n for n in plan.graph.inputs}
    outputs = dict(plan.outputs)
    return {
        views[outputs[s.output]].buffer: views[inputs[s.input]].buffer
        for s in states.states(plan.graph)
        if s.output in outputs and outputs[s.output].type.elements
    }


def overwritten_early(kernels: Sequence[Kernel], known: Mapping[Buffer, Buffer]) -> set[Buffer]:
    """New values that would be written over a state somebody still reads."""
    readers: dict[Buffer, list[int]] = {old: [] for old in known.values()}
    begun: dict[Buffer, int] = {}
    for place, kernel in enumerate(kernels):
        for buffer in readers.keys() & kernel.touches[:-1]:
            readers[buffer].append(place)
        begun.setdefault(kernel.writes, place)
    found = set()
    for new, old in known.items():
        first = begun.get(new, len(kernels))
        late = [k for k in readers[old] if k >= first]
        if any(k > first or not overwrites_in_place(kernels[k], old) for k in late):
            found.add(new)
    return found


def copied_last(plan: Plan, late: Collection[str]) -> Plan:
    """The plan with these outputs made elsewhere and copied when everything else is done."""
    copies = {name: copy_block(n, n, ("state", name)) for name, n in plan.outputs if name in late}
    outputs = tuple((name, copies[name].output if name in copies else n) for name, n in plan.outputs)
    return replace(plan, blocks=(*plan.blocks, *copies.values()), outputs=outputs)
