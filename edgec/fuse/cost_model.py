"""Cost model of a block: arithmetic, bytes and kernel launch, from the facts of a device.

It compares variants where no measured times are known (`edgec.tune`); it is not meant to predict absolute times.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from edgec.device.costs import Costs, usual_costs
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

#: Operations on a score of attention in addition to the matmuls: its exponential, the maximum, the sum.
EXPONENTIAL = 24


@dataclass(frozen=True)
class CostModel:
    """Predicted seconds of a block on ``threads`` cores, or on a GPU whose device file states its multiply-adds.

    Without a device, those of a core with vectors of 16 bytes.
    """

    device: Device | None = None
    threads: int = 1

    @property
    def _costs(self) -> Costs:
        return self.device.costs if self.device is not None else usual_costs()

    def __call__(self, block: Block) -> float:
        if self.device is not None and self.device.gpu.multiply_adds:
            return self._on_gpu(block, self.device)
        lanes = self.device.lanes(4) if self.device is not None else 4
        cache = (self.device.l2_bytes if self.device is not None else 0) or 256 << 10
        figure = self.device.figure if self.device is not None else lambda name: None
        costs = self._costs.kernel
        peak = (figure("fp32_gflops") or costs.clock_ghz * 4 * lanes) * 1e9 * self.threads
        moved = bytes_of(block)
        near = costs.clock_ghz * costs.cache_bytes * 1e9 * self.threads
        rate = (figure("read_gbps") or costs.clock_ghz * costs.memory_bytes) * 1e9 if moved > cache else near
        speed = peak * self._share(block) / (1 if runs_on_lanes(block) else lanes)
        return costs.launch_s + max(operations(block) / speed, moved / rate)

    @staticmethod
    def _on_gpu(block: Block, device: Device) -> float:
        """Seconds on a GPU, with one work-item per result: few results do not use the whole GPU."""
        clock, costs = device.gpu.clock_mhz * 1e6, device.costs.gpu
        lanes = device.gpu.multiprocessors * device.gpu.multiply_adds
        peak = device.figure("fp32_gflops") or 2e-9 * lanes * clock
        filled = min(1.0, block.output.type.elements / (lanes * costs.results_per_lane))
        moved = bytes_of(block)
        near, far = device.gpu.multiprocessors * costs.cache_bytes * clock, (device.gpu.memory_gbps or 30) * 1e9
        launch = gpu_launch_s(device)
        speed = peak * 1e9 * costs.peak_share * max(filled, 1e-3)
        return launch + max(operations(block) / speed, moved / (far if moved > device.gpu.l2_bytes else near))

    def transfer(self, bytes: int) -> float:
        """Seconds to transfer a value between this GPU and the CPU."""
        figure = self.device.figure if self.device is not None else lambda name: None
        costs = self._costs.gpu
        handover = (figure("handover_us") or costs.handover_s * 1e6) * 1e-6
        return handover + bytes / ((figure("copy_gbps") or costs.copy_bytes_per_s * 1e-9) * 1e9)

    def _share(self, block: Block) -> float:
        share: float = getattr(self._costs.peak_share, block.kind)
        if block.kind == "attention":
            share *= min(1.0, queries_of(split_formula(block.formula)) / self._costs.kernel.attention_queries)
        return share


def gpu_launch_s(device: Device) -> float:
    """Seconds to launch a kernel on a GPU: measured, or from the device's costs."""
    return (device.figure("launch_us") or device.costs.gpu.launch_s * 1e6) * 1e-6


def runs_on_lanes(block: Block) -> bool:
    """Can the block be vectorized: does every function have a vector form, and is no index inside a row data?"""
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
            continue  # the index of a row is scalar work
        if e.op in FUNCTIONS and X.free_variables(e) and not has_vector_form(e.op, e.dtype, e.args[-1].dtype):
            return False
        stack.extend(e.args)
    return True


def bytes_of(block: Block) -> int:
    """Approximate bytes that a block accesses: each value once, or the iterations around its loads where fewer."""
    total = int(block.output.type.bytes)
    if isinstance(block.meaning, Procedure):
        return total + sum(i.type.bytes for i in block.inputs)
    around: dict[Node, int] = {}
    for e in X.loads(block.meaning.body):
        around[e.value] = around.get(e.value, 0) + prod(most(v) for v in X.free_variables(e))
    return total + sum(min(n.type.bytes, times * DTYPES[n.type.dtype].itemsize) for n, times in around.items())


def work(block: Block) -> float:
    """FLOPs: each expression once for the iterations of the loops it depends on; in a map, once for each element."""
    if isinstance(block.meaning, Procedure):
        return float(upper(block.meaning.steps))
    if block.kind == "attention":
        return _work_of_attention(block.meaning)
    return _work(block.meaning, hoisted=block.kind != "map")


def operations(block: Block) -> float:
    """FLOPs, and the number of loads whose index is data."""
    if isinstance(block.meaning, Procedure):
        return work(block)
    everything = prod(most(v) for v in block.meaning.variables if v.op == "var")
    chosen = [e for e in X.loads(block.meaning.body) if any(map(X.loads, e.args))]
    bound = (_bound(X.free_variables(e), block.meaning) for e in chosen)
    return work(block) + everything * sum(bound)


def _work_of_attention(derived: Formula) -> float:
    """FLOPs of attention: the formula contains the scores three times, the kernel computes them once."""
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
    """Number of evaluations of an expression inside reductions for each element."""
    return prod(most(v) for v in free if v not in derived.variables)
