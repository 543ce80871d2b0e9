"""The least arena that a plan can have, whatever its kernels are: known before they are made.

Trials of plans are compared by their memory. One that cannot take less than another does needs no kernels.
"""

from __future__ import annotations

from collections.abc import Mapping

from edgec.fuse import Plan
from edgec.ir.graph import Node
from edgec.schedule.chain import VECTOR_BYTES
from edgec.schedule.memory import aligned
from edgec.schedule.program import Buffer, View


def least_arena(plan: Plan, views: Mapping[Node, View]) -> int:
    """Bytes that are alive at once at least: every result that may lie over an operand does, and what may be a step of
    its reader takes nothing."""
    lives: dict[Buffer, tuple[int, int]] = {}
    touched: list[tuple[Buffer, dict[Buffer, None]]] = []
    spared = {views[b.output].buffer for b in plan.blocks if b.output.op == "copy" and b.output in views}
    for k, block in enumerate(plan.blocks):
        written = views[block.output].buffer
        read = dict.fromkeys(views[n].buffer for n in block.inputs if n in views)
        touched.append((written, read))
        for buffer in (*read, written):
            if buffer.space == "arena" and buffer.bytes > VECTOR_BYTES and buffer not in spared:
                lives[buffer] = (lives[buffer][0] if buffer in lives else k, k)
    change = [0] * (len(touched) + 1)
    for buffer, (first, last) in lives.items():
        change[first] += aligned(buffer.bytes)
        change[last + 1] -= aligned(buffer.bytes)
    most, alive = 0, 0
    for k, (written, read) in enumerate(touched):
        alive += change[k]
        own = aligned(written.bytes) if written in lives and lives[written][0] == k else 0
        takes_over = any(b in lives and lives[b][1] == k and aligned(b.bytes) == own for b in read if b is not written)
        most = max(most, alive - own if takes_over else alive)
    return most
