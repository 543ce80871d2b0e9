"""The schedules of everything that is not a contraction: maps, windows and rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from edgec.device.facts import Device
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.nest import coefficient, is_fixed, mergeable, most, used_as_values
from edgec.ir.vector import always_computed, free, is_vectorizable, vector_lanes, vector_registers
from edgec.schedule.ending import Ending
from edgec.schedule.flat import Flat, Weights, merge_loops, with_contiguous_weights
from edgec.schedule.halves import taps_in_halves
from edgec.schedule.products import Taps, taps_of
from edgec.schedule.program import Buffer
from edgec.schedule.record import Record

#: Lanes of one map task: large enough that sharing out tasks costs nothing.
MAP_BLOCK = 4096
#: A sum over this many neighbors is worth a row's tail.
ROW_FROM = 16
#: A window unrolls at most this many multiply-adds of one tile.
UNROLL_LIMIT = 256


@dataclass(frozen=True)
class Map(Record):
    """One pass over the output; ``lane`` is None when the body has no vector form.

    Reductions that lanes run across are done once for all of ``inside``: a softmax of columns, say.
    """

    template: ClassVar[str] = "map"
    loops: tuple[Expr, ...]  # outermost first, without the lane and what is inside
    lane: Expr | None
    lanes: int  # of one vector
    body: Expr
    store: Buffer
    address: Expr
    inside: tuple[Expr, ...] = ()  # loops inside that over lanes: no reduction depends on them

    @property
    def bodies(self) -> list[Expr]:
        return [self.body]

    @property
    def at_store(self) -> list[Expr]:
        return [self.body]


@dataclass(frozen=True)
class Window(Record):
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
    in_halves: bool = False  # two neighboring lanes in 32 bits: products are added up in halves
    end: Ending | None = None  # and so is what follows them

    @property
    def bodies(self) -> list[Expr]:
        t = self.taps
        return [self.body, *([t.x, t.word, t.start] if t is not None else [])]


@dataclass(frozen=True)
class Row(Record):
    """Reductions along the contiguous loop ``row``, and element-wise work between them and after them.

    ``reductions`` are (combine, body) pairs in order; ``reduced(k)`` stands for the value of the k-th in later bodies
    and in ``result``. ``saved`` are row values kept in scratch because a later pass needs them again.
    """

    template: ClassVar[str] = "row"
    loops: tuple[Expr, ...]
    row: Expr
    lanes: int  # of one vector
    reductions: tuple[tuple[str, Expr], ...]
    result: Expr
    keeps_row: bool  # the result has the row's dimension; else it is one number a row
    saved: tuple[Expr, ...]
    store: Buffer
    address: Expr

    @property
    def bodies(self) -> list[Expr]:
        return [*(body for _, body in self.reductions), self.result]

    @property
    def scratch_bytes(self) -> int:
        return -(-most(self.row) // 16) * 64 * len(self.saved)


def reduced(k: int, dtype: str) -> Expr:
    """The value of a row's k-th reduction."""
    return X.load(("reduction", k), (), dtype)


def window(flat: Flat, device: Device, weights: Weights) -> Window | None:
    sums = [e for e in X.walk(flat.body) if e.op == "reduce"]
    if len(sums) != 1:
        return None
    flat = merge_loops(flat)
    (reduction,) = (e for e in X.walk(flat.body) if e.op == "reduce")
    lanes = [v for v in flat.loops if coefficient(flat.address, v) == 1 and most(v) >= 4]
    taps = prod(v.extent for v in reduction.value[1])
    if (
        not lanes
        or not is_fixed(lanes[0])
        or not isinstance(taps, int)
        or taps > UNROLL_LIMIT
        or reduction.value[0] not in ("add", "max", "min", "mul")
    ):
        return None
    n = lanes[0]
    body = repacked(flat.body, flat.loops, n, weights)
    (reduction,) = (e for e in X.walk(body) if e.op == "reduce")
    if not is_vectorizable(body, n) or n not in free(reduction) or _is_along_memory(reduction, n):
        return None
    others = sorted((v for v in flat.loops if v is not n), key=lambda v: -(coefficient(flat.address, v) or 0))
    m: Expr = X.const(0)
    rows = 1
    if others:
        m = others.pop()
        limit = max(1, min(vector_registers(device) // 3, UNROLL_LIMIT // taps, 8))
        rows = _even_rows(most(m), limit)
    taps = taps_of(device, reduction, flat.loops, n, weights)
    if taps is not None:
        total = X.load("sum", (X.const(0) + n,), "i32")
        body, reduction = X.substitute(body, {reduction: total}), total
    deep = _depth(reduction, others, device) if taps is None and rows > 1 else 1
    halves = taps_in_halves(device, reduction, body, flat.loops, n, flat.store, flat.address, weights)
    if halves is not None:
        reduction, body, end = halves
    return Window(
        tuple(others), m, n, rows, vector_lanes(device), reduction, body, flat.store, flat.address, taps, deep,
        halves is not None, end if halves is not None else None,
    )  # fmt: skip


def _depth(reduction: Expr, others: list[Expr], device: Device) -> int:
    """2 where two outputs one above the other share what they read, and registers hold both; else 1.

    Reading is what windows wait for: two rows of a 3 x 3 window read 4 rows where they read 6 one by one.
    """
    if not others or vector_registers(device) < 32 or not is_fixed(others[-1]) or most(others[-1]) < 4:
        return 1
    names, body = X.opened(reduction)
    steps = [(coefficient(e.args[0], others[-1]), e) for e in X.loads(body) if e.args]
    return 2 if any(step and any(_overlaps(e, step, v) for v in names) for step, e in steps) else 1


def _overlaps(load: Expr, step: int, tap: Expr) -> bool:
    """Is what the next output reads, ``step`` further on, a later tap of this one?"""
    by = coefficient(load.args[0], tap) or 0
    return by != 0 and step % by == 0 and 0 < step // by < most(tap)


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


def repacked(body: Expr, loops: tuple[Expr, ...], n: Expr, weights: Weights) -> Expr:
    """Weights contiguous along the lanes ``n``, those inside reductions too."""

    def change(e: Expr) -> Expr | None:
        if e.op != "reduce":
            return None
        names, inner = X.opened(e)
        return X.reduce(e.value[0], names, with_contiguous_weights(inner, (*loops, *names), n, weights))

    return X.transform(with_contiguous_weights(body, loops, n, weights), change)


@dataclass(frozen=True)
class Parts:
    """A formula of reductions that share one loop, taken apart; the fields are those of `Row`."""

    loops: tuple[Expr, ...]
    row: Expr
    reductions: tuple[tuple[str, Expr], ...]
    result: Expr
    keeps_row: bool
    address: Expr

    @property
    def passes(self) -> list[Expr]:
        """What is computed along the row, in order."""
        return [*(inner for _, inner in self.reductions), *([self.result] if self.keeps_row else [])]


def taken_apart(flat: Flat) -> Parts | None:
    """The reductions of ``flat`` and what follows them; None when they do not share one loop."""
    sums = [e for e in X.walk(flat.body) if e.op == "reduce"]
    extents = {tuple(v.extent for v in s.value[1]) for s in sums}
    if len(extents) != 1 or len(next(iter(extents))) != 1:
        return None
    if any(s.value[0] not in ("add", "mul", "max", "min") for s in sums):
        return None
    ((extent,),) = extents
    line = X.var("row", extent)
    outside = frozenset().union(*(free(s) for s in sums))
    keep = [v for v in flat.loops if v not in outside and coefficient(flat.address, v) == 1]
    if keep and keep[0].value.extent != extent:
        return None
    body, address, loops = flat.body, flat.address, flat.loops
    if keep:
        change = {keep[0]: line}
        body, address = X.substitute(body, change), X.substitute(address, change)
        loops = tuple(v for v in loops if v is not keep[0])
    done: dict[Expr, Expr] = {}
    reductions = []
    for k, s in enumerate(sorted((e for e in X.walk(body) if e.op == "reduce"), key=lambda e: e.height)):
        inner = X.substitute(X.transform(s.args[0], done.get), {X.reduction_variables(s)[0]: line})
        done[s] = reduced(k, s.dtype)
        reductions.append((s.value[0], inner))
    return Parts(loops, line, tuple(reductions), X.transform(body, done.get), bool(keep), address)


def row(flat: Flat, device: Device) -> Row | None:
    """Schedule along a contiguous reduction loop; None when the reductions do not share one."""
    parts = taken_apart(merge_reductions(merge_loops(flat)))
    if parts is None or any(not is_vectorizable(e, parts.row) for e in parts.passes):
        return None
    steps = {coefficient(e.args[0], parts.row) for _, o in parts.reductions for e in X.loads(o) if e.args}
    if not steps <= {0, 1}:
        return None
    return Row(
        parts.loops, parts.row, vector_lanes(device), parts.reductions, parts.result, parts.keeps_row,
        _worth_saving(parts.passes, parts.row), flat.store, parts.address,
    )  # fmt: skip


def _worth_saving(passes: list[Expr], line: Expr) -> tuple[Expr, ...]:
    """Row values that cost more than a load and are needed in more than one pass."""
    expensive = {"exp", "log", "tanh", "erf", "sigmoid", "div", "sqrt", "pow", "sin", "cos"}
    times: dict[Expr, int] = {}
    for body in passes:
        for e in always_computed(body, line):
            times[e] = times.get(e, 0) + 1
    return tuple(e for e, n in times.items() if n > 1 and e.op in expensive and e.dtype == "f32" and line in free(e))


def merge_reductions(flat: Flat) -> Flat:
    """Reductions over several loops that memory holds as one become reductions over one."""

    def change(e: Expr) -> Expr | None:
        if e.op != "reduce" or len(e.value[1]) < 2:
            return None
        names, inner = X.opened(e)
        inner = X.transform(inner, change)
        loops = list(names)
        where = [load.args[0] for load in X.loads(inner)]
        for outer, nested in [(a, b) for a in names for b in names if a is not b]:
            if outer not in loops or nested not in loops or {outer, nested} & used_as_values(inner):
                continue
            if mergeable(outer, nested, where):
                joined = X.fresh(outer.value.extent * nested.value.extent)
                inner = X.substitute(inner, {outer: X.const(0), nested: joined})
                loops = [joined if v is nested else v for v in loops if v is not outer]
                where = [load.args[0] for load in X.loads(inner)]
        return X.reduce(e.value[0], loops, inner)

    return Flat(flat.loops, X.transform(flat.body, change), flat.store, flat.address)


def _is_expensive(body: Expr) -> bool:
    return any(e.op in ("exp", "sigmoid", "tanh", "erf", "log", "pow", "sin", "cos") for e in X.walk(body))


def map_(flat: Flat, device: Device, weights: Weights) -> Map:
    """The schedule that always applies."""
    flat = merge_loops(flat)
    loops = sorted(flat.loops, key=lambda v: -(coefficient(flat.address, v) or 0))
    lanes = [v for v in loops if coefficient(flat.address, v) == 1 and most(v) >= 4]
    if not lanes and _is_expensive(flat.body):  # scattering lanes is cheap beside computing them one by one
        lanes = [v for v in reversed(loops) if most(v) >= 16 and coefficient(flat.address, v) is not None]
    if lanes:
        lane = lanes[0]
        body = repacked(flat.body, flat.loops, lane, weights)
        if is_vectorizable(body, lane):
            inside = _independent(body, loops) if lane not in _independent(body, loops) else ()
            outer = tuple(v for v in loops if v is not lane and v not in inside)
            return Map(outer, lane, vector_lanes(device), body, flat.store, flat.address, inside)
    last = _independent(flat.body, loops)  # the innermost loop shares what does not depend on it
    return Map((*(v for v in loops if v not in last), *last), None, 1, flat.body, flat.store, flat.address)


def _independent(body: Expr, loops: Sequence[Expr]) -> tuple[Expr, ...]:
    """The loops that no reduction depends on, where there are reductions."""
    within = [free(e) for e in X.walk(body) if e.op == "reduce" and {*loops} & free(e)]
    outermost = frozenset().union(*within)
    return tuple(v for v in loops if v not in outermost) if within else ()
