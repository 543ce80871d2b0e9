"""What a block costs by a model: arithmetic, bytes and the start of a kernel, from the facts of a device.

It is for choosing between two ways where nobody has measured, not for predicting times: what counts is how two blocks
compare. A database of measured times takes its place where there is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from edgec.device.facts import Device
from edgec.fuse.block import Block
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.functions import FUNCTIONS
from edgec.ir.graph import Formula, Procedure
from edgec.ir.index import upper
from edgec.ir.nest import most
from edgec.ir.types import DTYPES

#: Share of the arithmetic peak that each schedule reaches, as measured on x86-64 and on 64-bit Arm alike.
SHARE = {"contract": 0.6, "attention": 0.4, "window": 0.25, "row": 0.12, "map": 0.12, "procedure": 0.05}
#: A clock for devices that were not measured, and bytes a cycle from caches and from memory.
GHZ, CACHE_BYTES, MEMORY_BYTES = 2.0, 24.0, 6.0
#: Seconds to start a kernel: its call, its barrier, its first loops.
LAUNCH = 5e-7
#: Queries that fill the lanes of the attention kernel.
ATTENTION_QUERIES = 48


@dataclass(frozen=True)
class CostModel:
    """Seconds of a block on one core; without a device, of a core with vectors of 16 bytes."""

    device: Device | None = None

    def __call__(self, block: Block) -> float:
        lanes = self.device.lanes(4) if self.device is not None else 4
        cache = (self.device.l2_bytes if self.device is not None else 0) or 256 << 10
        figure = self.device.figure if self.device is not None else lambda name: None
        peak = (figure("fp32_gflops") or GHZ * 4 * lanes) * 1e9
        moved = bytes_of(block)
        rate = (figure("read_gbps") or GHZ * MEMORY_BYTES) * 1e9 if moved > cache else GHZ * CACHE_BYTES * 1e9
        return LAUNCH + max(work(block) / (peak * self._share(block)), moved / rate)

    @staticmethod
    def _share(block: Block) -> float:
        share = SHARE[block.kind]
        if block.kind == "attention":
            share *= min(1.0, _queries(block) / ATTENTION_QUERIES)
        return share


def _queries(block: Block) -> int:
    """How many queries attention has: the longest loop of its result."""
    return max((most(v) for v in block.formula.variables if v.op == "var"), default=1)


def bytes_of(block: Block) -> int:
    """Bytes that a block touches, each value once."""
    return sum(i.type.bytes for i in block.inputs) + int(block.output.type.bytes)


def work(block: Block) -> float:
    """Arithmetic, everything done once for the loops it depends on; in a map, for each element."""
    if isinstance(block.meaning, Procedure):
        return float(upper(block.meaning.steps))
    hoisted = block.kind != "map"
    return _work(block.meaning, hoisted)


def _work(derived: Formula, hoisted: bool) -> float:
    everything = prod(most(v) for v in derived.variables if v.op == "var")
    total = 0.0
    seen: set[Expr] = set()
    stack = [derived.body]
    free: dict[Expr, frozenset[Expr]] = {}
    while stack:
        e = stack.pop()
        if e in seen:
            continue
        seen.add(e)
        if e.op in ("load", "var", "const", "size"):
            continue
        free[e] = X.free_variables(e)
        times = prod(most(v) for v in free[e]) if hoisted or not free[e] else everything * _bound(free[e], derived)
        if e.op == "reduce":
            total += times * prod(upper(v.extent) for v in e.value[1])
        elif e.op in FUNCTIONS and e.dtype != "i64":
            total += times * FUNCTIONS[e.op].flops * max(1, DTYPES[e.dtype].itemsize // 4)
        stack.extend(e.args)
    return total


def _bound(free: frozenset[Expr], derived: Formula) -> int:
    """How often an expression inside reductions is computed for each element."""
    return prod(most(v) for v in free if v not in derived.variables)
