"""Windows: reductions over few elements, several neighboring outputs in registers, lanes along channels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil, prod
from typing import ClassVar

import numpy as np

from edgec.device.device import Device
from edgec.ir import expr as X
from edgec.ir import index
from edgec.ir.expr import Expr
from edgec.ir.nest import coefficient, is_fixed, most
from edgec.ir.types import FLOATS
from edgec.ir.vector import is_vectorizable
from edgec.schedule.added import Added
from edgec.schedule.contract.fp16_epilogue import Fp16Epilogue
from edgec.schedule.contract.fp16_sums import COLUMNS, taps_in_fp16
from edgec.schedule.contract.int8_dot import Taps, taps_of
from edgec.schedule.division import TASK, is_worth, parts, uneven
from edgec.schedule.flat import Flat, Weights, merge_loops
from edgec.schedule.loops import are_few_gathered, lanes_of_reductions, repacked
from edgec.schedule.program import BlockSchedule, Buffer

#: A sum over this many neighbors is worth a row's tail.
ROW_FROM = 16
#: A window unrolls at most this many multiply-adds of one tile.
UNROLL_LIMIT = 256


@dataclass(frozen=True)
class Window(BlockSchedule):
    """A reduction over few elements: ``deep`` x ``rows`` neighboring outputs at once, lanes along ``n``.

    ``rows`` lie along ``m``, ``deep`` along the innermost of ``loops``: what is read for one serves the next.
    """

    template: ClassVar[str] = "window"
    loops: tuple[Expr, ...]
    m: Expr
    n: Expr
    rows: int
    lanes: int  # of one vector
    reduction: Expr
    body: Expr
    store: Buffer
    address: Expr
    taps: Taps | None = None  # of bytes: ``reduction`` then only stands for the sum
    deep: int = 1
    in_fp16: bool = False  # two neighboring lanes in 32 bits: products are added up in fp16
    end: Fp16Epilogue | None = None  # and so is what follows them
    group: int = 1  # channels that read the same; lanes are of several groups
    columns: int = 0  # iterations of ``n`` in a task, where that makes even shares; 0: all
    columns_first: bool = False  # the loop over these tasks is the outermost; else it is the innermost

    @property
    def task_loops(self) -> tuple[Expr, ...]:
        return self.loops

    @property
    def describe(self) -> str:
        taps = [v.value.extent for v in self.taps.names] if self.taps else [v.extent for v in self.reduction.value[1]]
        return f"window of {'x'.join(map(str, taps)) or '1'}, tile {self.rows} outputs x {self.lanes} lanes"

    @property
    def added(self) -> tuple[Added, ...]:
        """The order of its sum of floats, which all results of a tile have."""
        is_sum = self.reduction.op == "reduce" and self.reduction.value[0] == "add"
        if self.in_fp16 or self.taps is not None or not is_sum or self.reduction.dtype not in FLOATS:
            return ()
        names, body = X.opened(self.reduction)
        if not is_fixed(*names):
            return ()
        first = {v: v + 0 for v in (self.m, *(self.loops[-1:] if self.deep > 1 else ())) if v.op == "var"}
        order = [number for number, _, _ in self.elements([first])]
        return (Added(names, body, np.array(order)[None]),)

    def elements(self, outputs: Sequence[Mapping[Expr, Expr]]) -> list[tuple[int, int, Expr]]:
        """The elements that a tile combines, in order: (number of the tap, number of the output, formula).

        Outputs are their positions, as changes of loops. What several of them share is used at once.
        """
        names, body = X.opened(self.reduction)
        updates = []
        for number, taps in enumerate(product(*(range(v.value.extent) for v in names))):
            at = {v: X.const(t) for v, t in zip(names, taps)}
            for r, moved in enumerate(outputs):
                element = X.substitute(body, at | dict(moved))
                updates.append((_position(element, set(moved)), (number, r, element)))
        is_shared = self.deep > 1 or self.group > 1
        return [u for _, u in (sorted(updates, key=lambda u: u[0]) if is_shared else updates)]

    @property
    def bodies(self) -> list[Expr]:
        t = self.taps
        return [self.body, *([t.x, t.word, t.start] if t is not None else [])]


def window(flat: Flat, device: Device, weights: Weights, group: int = 1) -> Window | None:
    """The schedule of a short reduction; in groups of channels, all of which read the same (`grouped`), if told so."""
    sums = [e for e in X.walk(flat.body) if e.op == "reduce"]
    if len(sums) != 1:
        return None
    flat = merge_loops(flat)
    (reduction,) = (e for e in X.walk(flat.body) if e.op == "reduce")
    lanes = [v for v in flat.loops if coefficient(flat.address, v) == 1 and most(v) >= 4]
    count = prod(v.extent for v in reduction.value[1])
    if (
        not lanes
        or not is_fixed(lanes[0])
        or not isinstance(count, int)
        or count > UNROLL_LIMIT
        or reduction.value[0] not in ("add", "max", "min", "mul")
    ):
        return None
    n = lanes[0]
    body = repacked(flat.body, flat.loops, n, weights)
    (reduction,) = (e for e in X.walk(body) if e.op == "reduce")
    whole = X.substitute(body, {n // group: X.const(0)}) if group > 1 else body
    if (
        not is_vectorizable(whole, n)
        or not {*flat.loops} <= X.free_variables(reduction)
        or _is_along_memory(reduction, n)
    ):
        return None  # a sum that some loop does not change would be computed again in it
    if group == 1 and (lanes_of_reductions(flat, lanes) or are_few_gathered(reduction, n, device.vector_lanes)):
        return None
    others = sorted((v for v in flat.loops if v is not n), key=lambda v: -(coefficient(flat.address, v) or 0))
    m: Expr = X.const(0)
    rows = 1
    if others:
        m = others.pop()
        limit = max(1, min(device.vectors_in_registers // 3, UNROLL_LIMIT // count, 8))
        rows = _even_rows(most(m), limit)
    taps = taps_of(device, reduction, flat.loops, n, weights)
    if taps is not None:
        total = X.load("sum", (X.const(0) + n,), "i32")
        body, reduction = X.substitute(body, {reduction: total}), total
    deep = _depth(reduction, others, device) if taps is None and rows > 1 else 1
    fp16 = taps_in_fp16(device, reduction, body, flat.loops, n, flat.store, flat.address, weights)
    if fp16 is not None:
        reduction, body, end = fp16
    lanes_at_once = device.vector_lanes * (COLUMNS if fp16 is not None else 1)
    cycles = prod(map(most, flat.loops)) * count / (2 * device.vector_lanes)
    is_shared = is_worth(cycles, device, flat.threads)
    cut = _columns(others, most(n), lanes_at_once, deep, flat.threads) if is_shared else (0, False)
    return Window(
        tuple(others), m, n, rows, device.vector_lanes, reduction, body, flat.store, flat.address, taps, deep,
        fp16 is not None, end if fp16 is not None else None, group, *cut,
    )  # fmt: skip


def _columns(others: Sequence[Expr], extent: int, lanes: int, deep: int, threads: int) -> tuple[int, bool]:
    """Iterations along lanes in a task, and whether their loop is the outermost: all, unless that makes uneven shares.

    Threads share rows where they can, as the kernels before and after.
    """
    vectors, best = ceil(extent / lanes), (0, False)
    rows = np.ones(prod(map(most, others)))
    if deep > 1:
        rows = np.tile(parts(most(others[-1]), deep), prod(map(most, others[:-1])))
    least = uneven(rows, threads)
    for count in range(2, min(threads, vectors) + 1):
        size = ceil(vectors / count)
        cost, each = 1 + TASK * count / vectors, np.outer(rows, parts(vectors, size))
        for tasks, is_first in ((each, False), (each.T, True)):
            if (found := uneven(tasks.ravel(), threads) * cost) < least:
                least, best = found, (size * lanes, is_first)
    return best


def _depth(reduction: Expr, others: list[Expr], device: Device) -> int:
    """2 where two outputs one above the other share what they read, and registers hold both; else 1.

    Reading is what windows wait for: two rows of a 3 x 3 window read 4 rows where they read 6 one by one.
    """
    if not others or device.vectors_in_registers < 32 or not is_fixed(others[-1]) or most(others[-1]) < 4:
        return 1
    names, body = X.opened(reduction)
    steps = [(coefficient(e.args[0], others[-1]), e) for e in X.loads(body) if e.args]
    return 2 if any(step and any(_overlaps(e, step, v) for v in names) for step, e in steps) else 1


def _overlaps(load: Expr, step: int, tap: Expr) -> bool:
    """Is what the next output reads, ``step`` further on, a later tap of this one?"""
    by = coefficient(load.args[0], tap) or 0
    return by != 0 and step % by == 0 and 0 < step // by < most(tap)


def _position(element: Expr, loops: set[Expr]) -> tuple[int, ...]:
    """The position of an element that moves with the outputs, from that of the first."""
    moving = [e for e in X.loads(element) if e.args and loops & X.free_variables(e)]
    return tuple(index.linear(e.args[0])[1] for e in moving)


def _is_along_memory(reduction: Expr, n: Expr) -> bool:
    """Is a long sum contiguous where the lanes would be far apart? Then rows are walked along it."""
    names, body = X.opened(reduction)
    if len(names) != 1 or most(names[0]) < ROW_FROM:
        return False
    places = [e.args[0] for e in X.loads(body)]
    return all(coefficient(a, names[0]) == 1 and coefficient(a, n) not in (0, 1) for a in places)


def _even_rows(extent: int, most: int) -> int:
    """The largest tile up to ``most`` with the fewest tiles, the last one as full as possible."""
    tiles = -(-extent // most)
    return -(-extent // tiles)
