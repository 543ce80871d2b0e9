"""What a block costs by a model: arithmetic, bytes and the start of a kernel, from the facts of a device.

It is for choosing between two ways where nobody has measured, not for predicting times: what counts is how two blocks
compare. A database of measured times takes its place where there is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from edgec.device.device import Device
from edgec.fuse.attention import attention_of, queries_of
from edgec.fuse.block import Block
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.functions import FUNCTIONS
from edgec.ir.graph import Formula, Node, Procedure
from edgec.ir.index import upper
from edgec.ir.nest import most, split_formula
from edgec.ir.types import DTYPES
from edgec.ir.vector import LANES, has_vector_form

#: Share of the arithmetic peak that each schedule reaches, from times of its kernels on an x86-64 with AVX-512.
SHARE = {"contract": 0.9, "attention": 0.75, "window": 0.6, "row": 0.35, "map": 0.35, "procedure": 0.05}
#: A clock for devices that were not measured, and bytes a cycle from caches and from memory.
GHZ, CACHE_BYTES, MEMORY_BYTES = 3.0, 33.0, 12.0
#: Seconds to start a kernel: its call, its barrier, its first loops.
LAUNCH = 3e-7
#: Arithmetic on a score beside the products: its exponential, the maximum, the sum.
EXPONENTIAL = 24
#: Queries that fill the lanes of the attention kernel.
ATTENTION_QUERIES = 48


#: The same of a GPU whose driver and kernels were not measured; of its peak, kernels reach less than a processor's.
GPU_LAUNCH, GPU_SHARE, GPU_CACHE_BYTES = 8e-6, 0.5, 64.0
#: Results that keep one lane of a GPU busy: fewer leave it waiting for its own sums.
GPU_RESULTS = 4
#: Seconds until one side knows that the other is done, and bytes a second between them, where nobody measured.
HANDOVER, COPIED = 6e-5, 8e9


@dataclass(frozen=True)
class CostModel:
    """Seconds of a block on ``threads`` cores, or on a GPU whose multiply-adds are known; without a device, on a core
    with vectors of 16 bytes."""

    device: Device | None = None
    threads: int = 1

    def __call__(self, block: Block) -> float:
        if self.device is not None and self.device.gpu_multiply_adds:
            return self._on_gpu(block, self.device)
        lanes = self.device.lanes(4) if self.device is not None else 4
        cache = (self.device.l2_bytes if self.device is not None else 0) or 256 << 10
        figure = self.device.figure if self.device is not None else lambda name: None
        peak = (figure("fp32_gflops") or GHZ * 4 * lanes) * 1e9 * self.threads
        moved = bytes_of(block)
        near = GHZ * CACHE_BYTES * 1e9 * self.threads
        rate = (figure("read_gbps") or GHZ * MEMORY_BYTES) * 1e9 if moved > cache else near
        speed = peak * self._share(block) / (1 if runs_on_lanes(block) else lanes)
        return LAUNCH + max(work(block) / speed, moved / rate)

    @staticmethod
    def _on_gpu(block: Block, device: Device) -> float:
        """Every formula is computed by as many work-items as it has results; a procedure has no kernel."""
        clock = device.gpu_clock_mhz * 1e6
        lanes = device.multiprocessors * device.gpu_multiply_adds
        peak = device.figure("fp32_gflops") or 2e-9 * lanes * clock
        filled = min(1.0, block.output.type.elements / (lanes * GPU_RESULTS))
        moved = bytes_of(block)
        near, far = device.multiprocessors * GPU_CACHE_BYTES * clock, (device.memory_gbps or 30) * 1e9
        launch = (device.figure("launch_us") or GPU_LAUNCH * 1e6) * 1e-6
        speed = peak * 1e9 * GPU_SHARE * max(filled, 1e-3)
        return launch + max(work(block) / speed, moved / (far if moved > device.gpu_l2_bytes else near))

    def transfer(self, bytes: int) -> float:
        """Seconds of handing a value to the other of a processor and a GPU, which this is the model of."""
        figure = self.device.figure if self.device is not None else lambda name: None
        handover = (figure("handover_us") or HANDOVER * 1e6) * 1e-6
        return handover + bytes / ((figure("copy_gbps") or COPIED * 1e-9) * 1e9)

    @staticmethod
    def _share(block: Block) -> float:
        share = SHARE[block.kind]
        if block.kind == "attention":
            share *= min(1.0, queries_of(split_formula(block.formula)) / ATTENTION_QUERIES)
        return share


def runs_on_lanes(block: Block) -> bool:
    """Has all its work a form on lanes, and does no data say which element of a row is read?"""
    if isinstance(block.meaning, Procedure):
        return False
    seen: set[Expr] = set()
    stack = [block.meaning.body]
    while stack:
        e = stack.pop()
        if e in seen:
            continue
        seen.add(e)
        if e.op == "load":
            rows = [i for i in e.args if i.op == "var"] if any(map(X.loads, e.args)) else e.args
            if X.free_variables(e) and (e.dtype not in LANES or not rows):
                return False
            continue  # where a row is found is no work on lanes
        if e.op in FUNCTIONS and X.free_variables(e) and not has_vector_form(e.op, e.dtype, e.args[-1].dtype):
            return False
        stack.extend(e.args)
    return True


def bytes_of(block: Block) -> int:
    """Bytes that a block touches, about: each value once, and of a value no more than there are loops around it."""
    total = int(block.output.type.bytes)
    if isinstance(block.meaning, Procedure):
        return total + sum(i.type.bytes for i in block.inputs)
    around: dict[Node, int] = {}
    for e in X.loads(block.meaning.body):
        around[e.value] = around.get(e.value, 0) + prod(most(v) for v in X.free_variables(e))
    return total + sum(min(n.type.bytes, times * DTYPES[n.type.dtype].itemsize) for n, times in around.items())


def work(block: Block) -> float:
    """Arithmetic, everything done once for the loops it depends on; in a map, for each element."""
    if isinstance(block.meaning, Procedure):
        return float(upper(block.meaning.steps))
    if block.kind == "attention":
        return _work_of_attention(block.meaning)
    return _work(block.meaning, hoisted=block.kind != "map")


def _work_of_attention(derived: Formula) -> float:
    """Both products once; a formula has the scores in three places, its kernel computes them once."""
    split = split_formula(derived)
    found = attention_of(split.body)
    assert found is not None
    inside = X.free_variables(found.key) | X.free_variables(found.query)
    scores = prod(most(v) for v in inside - set(found.features))
    values = X.free_variables(found.value) - X.free_variables(found.query) - X.free_variables(found.key)
    features, width = prod(map(most, found.features)), prod(map(most, values))
    return float(scores * (2 * features + 2 * width + EXPONENTIAL))


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
