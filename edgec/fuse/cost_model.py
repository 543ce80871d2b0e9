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
from edgec.ir.vector import HALF, LANES, has_vector_form

#: Operations on a score of attention in addition to the matmuls: its exponential, the maximum, the sum.
EXPONENTIAL = 24
#: Operations that round a result to 16 bits, and widen it for the next: files of 16 bits say so of each.
ROUNDING = 2


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
        return self._costs.kernel.launch_s + max(self.limits(block))

    def waits_for_weights(self, block: Block) -> bool:
        """True where a CPU waits for the constants of a block: fewer uses of the same constants save nothing there."""
        if self.device is not None and self.device.gpu.multiply_adds:
            return False
        arithmetic, transfers = self.limits(block)
        constants = sum(i.type.bytes for i in block.inputs if i.is_const)
        return transfers * constants > arithmetic * bytes_of(block)

    def limits(self, block: Block) -> tuple[float, float]:
        """Seconds of the arithmetic and of the bytes of a block on a CPU, of which the larger counts."""
        lanes = self.device.lanes(4) if self.device is not None else 4
        cache = (self.device.l2_bytes if self.device is not None else 0) or 256 << 10
        figure = self.device.figure if self.device is not None else lambda name: None
        costs = self._costs.kernel
        peak = (figure("fp32_gflops") or costs.clock_ghz * 4 * lanes) * 1e9 * self.threads
        moved = bytes_of(block)
        near = self._near
        rate = (figure("read_gbps") or costs.clock_ghz * costs.memory_bytes) * 1e9 if moved > cache else near
        speed = peak * self._share(block) / (1 if runs_on_lanes(block) else lanes)
        return operations(block) / speed, moved / rate

    @property
    def _near(self) -> float:
        """Bytes per second from a near cache of a CPU."""
        return self._costs.kernel.clock_ghz * self._costs.kernel.cache_bytes * 1e9 * self.threads

    def seconds_of_writing(self, moved: int) -> float:
        """Seconds of a CPU for bytes that are only written: those around a value, say."""
        return moved / self._near

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
        return launch + max(
            operations(block, by_each=True) / speed, moved / (far if moved > device.gpu.l2_bytes else near)
        )

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
    return _work(block.meaning, block.kind)


def operations(block: Block, by_each: bool = False) -> float:
    """Arithmetic, with that of positions which data choose, and their loads.

    ``by_each`` thread that computes an element, where no loop matters to it, as on GPUs; otherwise that is done once.
    """
    if isinstance(block.meaning, Procedure) or block.kind == "attention":
        return work(block)
    return _work(block.meaning, block.kind, True, by_each)


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


def _work(derived: Formula, kind: str, positions: bool = False, by_each: bool = False) -> float:
    everything = prod(most(v) for v in derived.variables if v.op == "var")
    results = _loops_of_reductions(derived) if kind in ("row", "window") else frozenset()
    around = prod(map(most, results))
    total = 0.0
    seen: set[Expr] = set()
    stack = [derived.body]
    while stack:
        e = stack.pop()
        if e in seen:
            continue
        seen.add(e)
        is_chosen = e.op == "load" and positions and any(map(X.loads, e.args))
        if e.op in ("var", "const", "size") or (e.op == "load" and not is_chosen):
            continue
        free = X.free_variables(e)
        if kind == "map":
            times = everything * _bound(free, derived) if free or by_each else 1
        else:
            times = around * prod(most(v) for v in free - results)
        if is_chosen:
            total += times
        elif e.op == "reduce":
            total += times * prod(upper(v.extent) for v in e.value[1])
        elif e.op in FUNCTIONS and e.dtype != "i64":
            each = FUNCTIONS[e.op].flops + (ROUNDING if e.dtype in HALF else 0)
            total += times * each * max(1, DTYPES[e.dtype].itemsize // 4)
        stack.extend(e.args)
    return total


def _loops_of_reductions(derived: Formula) -> frozenset[Expr]:
    """The loops of a result that its reductions depend on."""
    free = (X.free_variables(e) for e in X.walk(derived.body) if e.op == "reduce")
    return frozenset().union(*free) & frozenset(v for v in derived.variables if v.op == "var")


def _bound(free: frozenset[Expr], derived: Formula) -> int:
    """Number of evaluations of an expression inside reductions for each element."""
    return prod(most(v) for v in free if v not in derived.variables)
