"""Cost model of a block: arithmetic, bytes and kernel launch, from the facts of a device.

It compares variants where no measured times are known (`edgec.tune`); it is not meant to predict absolute times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from math import ceil, prod

from edgec.device.costs import usual_costs
from edgec.device.device import Device
from edgec.fuse.attention import attention_of, queries_of
from edgec.fuse.block import Block
from edgec.fuse.stored_lanes import columns_in_runs
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
class Amounts:
    """Demands of a block on a device. No fitted number is in it: prices are these amounts times `Rates`."""

    kind: str
    operations: float
    """On a CPU those that run one by one count once for each lane that they leave idle."""
    bytes: int
    results: int
    is_far: bool
    """Whether the bytes exceed the cache, and come from memory."""
    queries: int = 0
    """Of attention."""


@dataclass(frozen=True)
class Rates:
    """Seconds of a launch, of an operation by the kind of its block, and of a byte from the cache and from memory.

    The seconds of a block are linear in them, up to which of arithmetic and bytes takes longer; `edgec device fit`
    solves for the costs that they are made of.
    """

    launch: float
    operation: Mapping[str, float]
    near: float
    far: float
    results: float = 0.0
    """Results that fill a GPU; with fewer, an operation takes longer. 0 on a CPU."""
    queries: float = 1.0
    """Queries that fill the lanes of attention."""

    def __call__(self, a: Amounts) -> float:
        return self.launch + max(self.limits(a))

    def limits(self, a: Amounts) -> tuple[float, float]:
        """Seconds of the arithmetic and of the bytes, of which the larger counts."""
        filled = max(min(1.0, a.results / self.results), 1e-3) if self.results else 1.0
        if a.kind == "attention":
            filled *= min(1.0, a.queries / self.queries) if a.queries else 1.0
        return a.operations * self.operation[a.kind] / filled, a.bytes * (self.far if a.is_far else self.near)


@dataclass(frozen=True)
class CostModel:
    """Predicted seconds of a block on ``threads`` cores, or on a GPU whose device file states its multiply-adds.

    Without a device, those of a core with vectors of 16 bytes.
    """

    device: Device | None = None
    threads: int = 1

    def __call__(self, block: Block) -> float:
        return self.rates(self.amounts(block))

    @property
    def on_gpu(self) -> bool:
        """Is it priced as a GPU?"""
        return self.device is not None and bool(self.device.gpu.multiply_adds)

    def waits_for_weights(self, block: Block) -> bool:
        """True where a CPU waits for the constants of a block: fewer uses of the same constants save nothing there."""
        if self.on_gpu:
            return False
        arithmetic, transfers = self.limits(block)
        constants = sum(i.type.bytes for i in block.inputs if i.is_const)
        return transfers * constants > arithmetic * bytes_of(block)

    def limits(self, block: Block) -> tuple[float, float]:
        """Seconds of the arithmetic and of the bytes of a block, of which the larger counts."""
        return self.rates.limits(self.amounts(block))

    @property
    def _near(self) -> float:
        """Bytes per second from a near cache of a CPU."""
        core = self.device.costs.kernel if self.device is not None else usual_costs().kernel
        return core.clock_ghz * core.cache_bytes * 1e9 * self.threads

    @property
    def barrier(self) -> float:
        """Seconds of a barrier between threads of a CPU; a launch on a GPU has one."""
        costs = self.device.costs if self.device is not None else usual_costs()
        return 0.0 if self.on_gpu else costs.threads.barrier / (costs.kernel.clock_ghz * 1e9)

    def exchange(self, moved: int, threads: int) -> float:
        """Seconds of threads of a CPU that read bytes of which each has written as many as any other."""
        costs = self.device.costs if self.device is not None else usual_costs()
        per_thread = moved / threads * (1 - 1 / threads)
        return per_thread / (costs.threads.exchange * costs.kernel.clock_ghz * 1e9)

    def seconds_of_writing(self, moved: int) -> float:
        """Seconds of a CPU for bytes that are only written: those around a value, say."""
        return moved / self._near

    def amounts(self, block: Block) -> Amounts:
        """The demands of a block on this device."""
        moved, results, device = bytes_of(block), block.output.type.elements, self.device
        if device is not None and self.on_gpu:
            return Amounts(block.kind, operations(block, by_each=True), moved, results, moved > device.gpu.l2_bytes)
        cache = (device.l2_bytes if device is not None else 0) or 256 << 10
        lanes = device.lanes(4) if device is not None else 4
        idle = _idle_where_stored(block, lanes) if runs_on_lanes(block) else float(lanes)
        queries = queries_of(split_formula(block.formula)) if block.kind == "attention" else 0
        # A procedure on lanes is, like a row, sums of what it reads in between functions.
        kind = "row" if isinstance(block.meaning, Procedure) and block.meaning.on_lanes else block.kind
        return Amounts(kind, operations(block) * idle, moved, results, moved > cache, queries)

    @cached_property
    def rates(self) -> Rates:
        """The device's seconds a unit, from its facts, its measured figures and its costs."""
        device, costs = self.device, self.device.costs if self.device is not None else usual_costs()
        figure = device.figure if device is not None else lambda name: None
        if device is not None and self.on_gpu:
            clock, lanes = device.gpu.clock_mhz * 1e6, device.gpu.multiprocessors * device.gpu.multiply_adds
            peak = (figure("fp32_gflops") or 2e-9 * lanes * clock) * 1e9
            near = device.gpu.multiprocessors * costs.gpu.cache_bytes * clock
            each = dict.fromkeys(asdict(costs.peak_share), 1 / (peak * costs.gpu.peak_share))
            far = (device.gpu.memory_gbps or 30) * 1e9
            return Rates(gpu_launch_s(device), each, 1 / near, 1 / far, lanes * costs.gpu.results_per_lane)
        core, lanes = costs.kernel, device.lanes(4) if device is not None else 4
        peak = (figure("fp32_gflops") or core.clock_ghz * 4 * lanes) * 1e9 * self.threads
        far = (figure("read_gbps") or core.clock_ghz * core.memory_bytes) * 1e9
        each = {kind: 1 / (peak * share) for kind, share in asdict(costs.peak_share).items()}
        return Rates(core.launch_s, each, 1 / self._near, 1 / far, queries=core.attention_queries)

    def transfer(self, bytes: int) -> float:
        """Seconds to transfer a value between this GPU and the CPU."""
        figure = self.device.figure if self.device is not None else lambda name: None
        costs = self.device.costs.gpu if self.device is not None else usual_costs().gpu
        handover = (figure("handover_us") or costs.handover_s * 1e6) * 1e-6
        return handover + bytes / ((figure("copy_gbps") or costs.copy_bytes_per_s * 1e-9) * 1e9)


def gpu_launch_s(device: Device) -> float:
    """Seconds to launch a kernel on a GPU: measured, or from the device's costs."""
    return (device.figure("launch_us") or device.costs.gpu.launch_s * 1e6) * 1e-6


def runs_on_lanes(block: Block) -> bool:
    """Can the block be vectorized: does every function have a vector form, and is no index inside a row data?"""
    if isinstance(block.meaning, Procedure):
        return block.meaning.on_lanes
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


def _idle_where_stored(block: Block, lanes: int) -> float:
    """Times that a contraction takes of what it would if no order of its result cut its columns into short runs."""
    columns, run = columns_in_runs(split_formula(block.formula)) if block.kind == "contract" else (1, 1)
    return _filled(columns, lanes) / _filled(run, lanes)


def _filled(columns: int, lanes: int) -> float:
    """The share of lanes that so many columns use."""
    return columns / (ceil(columns / lanes) * lanes)


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
