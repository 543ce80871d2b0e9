"""The common part of all GPU schedules."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod
from typing import Literal

from edgec.device.device import Device
from edgec.ir import expr as X
from edgec.ir import index
from edgec.ir.expr import Expr
from edgec.ir.nest import coefficient, is_fixed, most
from edgec.ir.vector import HALF, is_vectorizable
from edgec.schedule.gpu.integer import stored
from edgec.schedule.program import BlockSchedule, Buffer
from edgec.schedule.storage import half_dtype

#: A product of so few rows is a reduction a result.
FEW_ROWS = 2
#: Elements that one thread reads or writes at once where they are neighbors: 16 bytes of floats.
LANES = 4
#: Weights of the next kernel, and how many of their bytes, from the first on, are brought into the L2 cache.
Prefetch = tuple[tuple[Buffer, int], ...]


@dataclass(frozen=True)
class GpuKernel(BlockSchedule):
    """A record of one of the GPU schedules. ``store`` is written at ``address``.

    ``early`` are constants that the kernel brings into the L2 cache before it waits for what it reads besides. Where
    results are ``coarse``, they have 16 bits or fewer, and functions need no more.
    """

    store: Buffer
    address: Expr
    early: tuple[Buffer, ...] = field(default=(), kw_only=True)
    coarse: bool = field(default=False, kw_only=True)

    @property
    def shares_scratch(self) -> bool:
        """Always: scratch memory is one buffer for all thread blocks of a launch."""
        return True


@dataclass(frozen=True)
class GpuProduct(GpuKernel):
    """A schedule of a matrix product; loops of each kind, outermost first."""

    batch: tuple[Expr, ...]
    m: tuple[Expr, ...]
    n: tuple[Expr, ...]
    k: tuple[Expr, ...]

    @property
    def rows(self) -> int:
        return prod(map(most, self.m))

    @property
    def columns(self) -> int:
        return prod(map(most, self.n))

    @property
    def depth(self) -> int:
        return prod(map(most, self.k))

    @property
    def batches(self) -> int:
        return prod(map(most, self.batch))

    @property
    def sizes(self) -> str:
        """In words."""
        return f"{self.batches} x " * (self.batches > 1) + f"M={self.rows} N={self.columns} K={self.depth}"


def packed_as(device: Device) -> Literal["f32", "f16", "bf16"]:
    """The type in memory of constant factors."""
    return half_dtype(device) or "f32"


def widths(device: Device) -> list[int]:
    """Widths of vector accesses in floats, largest first; OpenCL's may be wider than 16 bytes."""
    return [w for w in (16, 8, LANES) if w == LANES or (device.language == "opencl" and w <= device.lanes(4))]


def is_aligned(address: Expr, lane: Expr, lanes: int = LANES) -> bool:
    """Does ``address`` step by one along ``lane``, and is it a multiple of ``lanes`` wherever lane is?

    The extent of the loop must be a multiple, too.
    """
    terms, constant = index.linear(address)
    if coefficient(address, lane) != 1 or constant % lanes or most(lane) % lanes:
        return False
    return all(v is lane or step % lanes == 0 for v, step in terms.items())


def has_lanes(body: Expr, store: Buffer, address: Expr, lane: Expr, lanes: int = LANES) -> bool:
    """Can a thread compute ``lanes`` neighbors along ``lane`` at once, and store them as one vector?"""
    if stored(body, store.dtype) is not body:
        body, store = body.args[0], replace(store, dtype="f32")
    return (
        lane.op == "var"
        and is_fixed(lane)
        and most(lane) % lanes == 0
        and store.dtype in ("f32", *HALF)
        and is_aligned(address, lane, lanes)
        and on_lanes(body, lane)
    )


def on_lanes(body: Expr, lane: Expr) -> bool:
    """Can a thread compute ``body`` for neighbors at once? Lanes hold floats and masks."""
    mine = [e for e in X.walk(body) if lane in X.free_variables(e)]
    kinds = all(e.dtype in ("f32", "bool", "i64") and e.op != "cast" for e in mine)
    kinds = kinds and all(e.dtype == "f32" for e in mine if e.op == "load")
    return kinds and is_vectorizable(body, lane)


def loads_lanes(e: Expr, lane: Expr) -> bool:
    """Are LANES neighbors along ``lane`` one load each, everything else shared?"""
    inside = [load for load in X.loads(e) if lane in X.free_variables(load)]
    if lane.op != "var" or not inside or any(load.dtype != "f32" for load in inside):
        return False
    stand_in = inside[0]
    return has_lanes(e, Buffer("", "arena", "f32", 0), stand_in.args[0], lane)
