"""Sums of products as register-tiled kernels: matrix products and convolutions of every kind.

After flattening, a contraction is ``out[.., m, n] = f(sum over k of S[m, k] * L[k, n])``: elements of S are broadcast
to all lanes, L is loaded into lanes, along n. A tile of MR rows x NV vectors accumulates in registers over all of k. A
convolution is the same: its S has one stride along the output pixel and one along every loop of k, so there is no
im2col buffer.
Constant L is packed at build time as [.., panel, k, NV * lanes], once a contraction is taken (`packed_into`). A step of
k is that of a micro-kernel (`micro_kernel`): one element, or several of int8 (`int8_dot`) or bf16 (`bf16_dot`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, prod
from pathlib import Path
from typing import ClassVar

import numpy as np

from edgec.device.device import Device
from edgec.ir import expr as X
from edgec.ir.expr import Expr, Extent
from edgec.ir.index import upper
from edgec.ir.nest import extent, is_fixed, most
from edgec.ir.types import DTYPES
from edgec.schedule.added import Added
from edgec.schedule.contract.bf16_dot import packed_pairs
from edgec.schedule.contract.epilogue import scaled
from edgec.schedule.contract.fp16_sums import Fp16Accumulation
from edgec.schedule.contract.int8_dot import DotGroup, packed_dots
from edgec.schedule.contract.micro_kernel import MicroKernel, named
from edgec.schedule.contract.micro_kernels.fma import FMA
from edgec.schedule.contract.panels import PackedBlocks, in_panels, packed_blocks, reads_far
from edgec.schedule.contract.parts import TERMS, Parts
from edgec.schedule.contract.passes import tasks_of_pass
from edgec.schedule.contract.tiles import chunk_of, tile_costs, tiles_of_one_vector
from edgec.schedule.division import is_worth, most_even, parts
from edgec.schedule.flat import Weights, evaluate_over
from edgec.schedule.program import BlockSchedule, Buffer
from edgec.schedule.storage import bytes_along

#: Rows a lane from which on a product takes so much longer than packing its panels that every thread may pack them.
SHARED_ROWS = 40
#: Groups of panels that fewer rows have, so that threads share them.
GROUPS = 16


@dataclass(frozen=True)
class Contract(BlockSchedule):
    """The schedule of a contraction. Loops are their variables' expressions, so that addresses can be printed."""

    template: ClassVar[str] = "contract"
    outer: tuple[Expr, ...]  # loops around the tiles
    panel_outer: tuple[Expr, ...]  # those of ``outer`` that L depends on
    m: Expr  # the loop over rows, in tiles (extent 1: a constant 0)
    n: Expr  # the loop over columns, whose iterations are the lanes
    k: tuple[Expr, ...]  # the loops of the sum, innermost last
    s: Expr  # an element of S, the factor that is broadcast
    l: Expr  # an element of L, the factor on lanes
    l_mode: str  # packed: constant, laid out at build time; direct: contiguous in memory; gathered: packed at run time
    packed: Buffer | None  # a constant L in panels; None before `packed_into`
    epilogue: Expr  # over ``accumulator``
    accumulator: Expr
    store: Buffer
    address: Expr
    rows: int  # MR
    vectors: int  # NV
    lanes: int  # lanes of one vector
    tile_chunk: int  # row tiles of one task
    panel_first: bool  # loop order: panels outside row chunks (weights stay in cache), or the other way round
    micro_kernel: str = "fma"  # by name
    dots: DotGroup | None = None  # where a step takes several elements of the sum: k ends in the loop over steps
    window: tuple[
        Expr, ...
    ] = ()  # loops over the sums of a pooling window, which ``epilogue`` combines into one result
    unrolled: int = 16  # most iterations of the innermost loop of a sum that compilers are asked to unroll
    fp16: Fp16Accumulation | None = None  # products are accumulated in fp16, a few at a time; ``vectors`` is even
    panel_dtype: str = "f32"  # of a packed L
    bias: Expr | None = None  # of int8: the constant initial values of accumulators
    long: Parts | None = None  # a long sum in fp32 is added up in parts
    decided: tuple[str, ...] = ()  # decisions beyond the tile, as words of the variant
    magnitudes: Expr | None = None  # those of L are multiplied where this is 1: always, or in rows or loops
    ahead: int = 0  # elements of a row of S that are computed on lanes ahead of their products
    together: int = 0  # tasks that each part of a long sum passes over; 0: a tile adds up all parts
    panel_group: int = (
        1  # panels of a task, packed at run time beside one another: each row tile passes over all of them
    )

    @property
    def micro(self) -> MicroKernel:
        return named(self.micro_kernel)

    @property
    def parts(self) -> Parts | None:
        """The part of a sum that is added up on its own; None where it is added up as a whole."""
        return self.fp16.parts if self.fp16 is not None else self.long

    @property
    def added(self) -> tuple[Added, ...]:
        """The order of its sum of floats; none where the instruction has one of its own."""
        if not self.micro.adds_in_turn or self.fp16 is not None or self.dots is not None or not is_fixed(*self.k):
            return ()
        body = self.s if self.l_mode == "packed" else self.s * self.l
        if self.long is None:
            return (Added.one_by_one(self.k, body),)
        return (Added.in_parts(self.k, body, self.long.split, self.long.rounds),)

    @property
    def header(self) -> Path | None:
        return self.micro.header

    @property
    def variant(self) -> str | None:
        return " ".join([f"{self.rows}x{self.vectors}", *self.decided])

    @property
    def describe(self) -> str:
        sizes = f"M={self.m_extent} N={self.n_extent} K={self.k_extent}"
        tile = f"tile {self.rows} rows x {self.vectors} vectors of {self.lanes}"
        return f"contract {sizes}, {tile}, lane factor {self.l_mode}"

    @property
    def register_tile(self) -> tuple[int, int]:
        return self.rows, self.vectors

    def register_tiles(self, device: Device) -> Sequence[tuple[int, int]]:
        return tiles_for(self, device)

    @property
    def result(self) -> Expr:
        """The stored expression, in terms of ``accumulator``."""
        if self.fp16 is None:
            return self.epilogue
        if self.fp16.end is not None:
            return self.fp16.end.of(self.accumulator)
        return scaled(self.epilogue, self.fp16.scale)

    @property
    def bodies(self) -> list[Expr]:
        return [self.s, self.result, *([self.l] if self.l_mode != "packed" else [])]

    @property
    def at_store(self) -> list[Expr]:
        return [self.result]

    @property
    def repeats(self) -> int:
        return prod(most(v) for v in self.outer if v not in X.free_variables(self.s) | X.free_variables(self.l))

    @property
    def tables(self) -> list[Buffer]:
        return [self.packed] if self.packed is not None else []

    @property
    def scratch_bytes(self) -> int:
        return 4 * (self.panel_group * self.panel_floats + self.together * self.waiting)

    @property
    def panel_floats(self) -> int:
        """Words of a panel that is packed at run time: of all the sum, or of a part."""
        terms = upper(self.k_extent)
        if self.together and self.long is not None:
            terms = self.long.rounds * prod(map(most, self.k[self.long.split + 1 :]))
        return terms * self.width if self.l_mode == "gathered" else 0

    @property
    def waiting(self) -> int:
        """Sums of a task."""
        return self.tile_chunk * self.rows * self.width * self.panel_group

    @property
    def blocks(self) -> PackedBlocks | None:
        """How panels are packed at run time; None for element by element."""
        if self.l_mode != "gathered":
            return None
        inside = self.k[self.long.split :] if self.together and self.long is not None else self.k
        return packed_blocks(self.l, (self.dots.inner,) if self.dots is not None else inside, self.n, self.dots)

    @cached_property
    def panels_of_l(self) -> np.ndarray:
        """A constant L in panels, [outer, panel, k, width], in the type of a panel."""
        if self.dots is None:
            values = evaluate_over(self.l, (*self.panel_outer, *self.k, self.n))
            values = values.reshape(-1, prod(map(most, self.k)), most(self.n))
            if self.fp16 is not None:
                values = values.astype(np.float64) / self.fp16.powers[:, None]
            return in_panels(values, self.width, self.panel_dtype)
        k = (*self.k[:-1], self.dots.inner) if self.dots.inner.op == "var" else self.k[:-1]
        size = self.micro.size
        if self.micro.has_starts:
            return packed_dots(self.l, self.dots, size, self.panel_outer, k, self.n, self.width, self.bias)
        return packed_pairs(self.l, self.dots, size, self.panel_outer, k, self.n, self.width)

    def packed_into(self, weights: Weights) -> Contract:
        """The same contraction, with a constant L packed and added to ``weights``."""
        if self.l_mode != "packed" or self.packed is not None:
            return self
        return replace(self, packed=weights.add(self.panels_of_l))

    @property
    def sums(self) -> int:
        """Number of sums of one result: 1, or the size of a pooling window."""
        return prod(map(most, self.window))

    @property
    def m_extent(self) -> Extent:
        return extent(self.m)

    @property
    def n_extent(self) -> Extent:
        return extent(self.n)

    @property
    def k_extent(self) -> Extent:
        """Number of rows of a panel, of ``width`` lanes each, initial accumulators included."""
        if self.dots is not None:
            rows = self.dots.count * self.micro.panel_rows
            return X.plain(prod(map(extent, self.k[:-1])) * rows + self.micro.has_starts)
        return X.plain(prod(map(extent, self.k)))

    @property
    def width(self) -> int:
        return self.vectors * self.lanes

    @property
    def panels(self) -> Extent:
        return X.plain(-(-self.n_extent // self.width))

    @property
    def panel_groups(self) -> Extent:
        return X.plain(-(-self.panels // self.panel_group))

    @property
    def tiles(self) -> Extent:
        return X.plain(-(-self.m_extent // self.rows))

    @property
    def chunks(self) -> Extent:
        return X.plain(-(-self.tiles // self.tile_chunk))


def swept(c: Contract, device: Device, threads: int = 1) -> Contract:
    """The contraction with row tiles and panels of a task, and their loop, by its tile: what is swept again stays in
    cache, and ``threads`` have shares that are as even as can be."""
    steps, step_bytes = _steps(c), DTYPES[c.panel_dtype].itemsize
    tiles, panels = ceil(most(c.m) / c.rows), ceil(most(c.n) / c.width)
    panel_bytes, weight_bytes = c.width * steps * step_bytes, most(c.n) * steps * step_bytes
    fits = weight_bytes * prod(map(most, c.panel_outer)) <= device.l2_bytes // 4
    is_far = panel_bytes > device.l2_bytes // 2 or (most(c.m) * steps * 4 <= weight_bytes and not fits)
    is_far = is_far or c.l_mode == "gathered"
    by_rows = fits and not is_far and 4 * most(c.m) * most(c.n) > device.l2_bytes
    for group in dict.fromkeys((_group(c, device), 1)):
        around = prod(map(most, c.outer))
        chunk = chunk_of(tiles, c.rows * c.sums, steps, ceil(panels / group), around, by_rows)
        found = replace(c, tile_chunk=chunk, panel_first=is_far, together=0, panel_group=group)
        if is_worth(most(c.m) * most(c.n) * steps * around / (2 * device.vector_lanes), device, threads):
            sizes = ((size, _tasks(found, size)) for size in range(chunk, 0, -1))
            found = replace(found, tile_chunk=most_even(sizes, threads))
        found = replace(found, together=_together(found, device))
        if group == 1 or found.together or c.long is None:
            break
    return found


def _tasks(c: Contract, chunk: int) -> np.ndarray:
    """Results of each task, in order, where a task has up to so many row tiles."""
    of_panel = np.tile(parts(most(c.m), chunk * c.rows), prod(most(v) for v in c.outer if v not in c.panel_outer))
    widths = parts(most(c.n), c.width * c.panel_group)
    tasks = np.outer(widths, of_panel) if c.panel_first else np.outer(of_panel, widths)
    return np.tile(tasks.ravel(), prod(map(most, c.panel_outer)))


def _group(c: Contract, device: Device) -> int:
    """Panels that are packed at run time beside one another: as many as stay in the second-level cache.

    A row tile that passes over several writes more neighbors in memory, and reads its factors once for all. Threads
    that share a group pack it each: few rows have many groups.
    """
    is_plain = c.dots is None and c.micro is FMA and c.fp16 is None and not c.window
    if c.l_mode != "gathered" or not is_plain or not is_fixed(c.n, *c.k):
        return 1
    terms = min(TERMS, _steps(c)) if c.long is not None else _steps(c)
    panels, room = ceil(most(c.n) / c.width), device.l2_bytes // 4 // (4 * terms * c.width)
    rows = most(c.m) * prod(most(v) for v in c.outer if v not in c.panel_outer)
    if rows <= c.rows:
        return 1
    if rows < SHARED_ROWS * c.lanes:
        room = min(room, panels * prod(map(most, c.panel_outer)) // GROUPS)
    return ceil(panels / ceil(panels / max(1, min(room, panels))))


def _together(c: Contract, device: Device) -> int:
    """Tasks that parts of a long sum pass over, where L is no constant; 0 where a tile is all there is."""
    if c.long is None or c.l_mode == "packed" or c.window or not is_fixed(*c.outer, c.m, c.n, *c.k):
        return 0
    of_panel = upper(c.chunks) * prod(most(v) for v in c.outer if v not in c.panel_outer)
    tasks = of_panel * upper(c.panel_groups) * prod(map(most, c.panel_outer))
    found = tasks_of_pass(4 * c.waiting, tasks, of_panel if c.l_mode == "gathered" else 1, device.l2_bytes)
    return found * (found * c.tile_chunk > 1)


def _steps(c: Contract) -> int:
    """Steps of a sum."""
    return prod(map(most, c.k)) if c.dots is None else prod(map(most, c.k[:-1])) * c.dots.count


def tile_costs_of(c: Contract, device: Device) -> list[tuple[float, int, int, int, int]]:
    """The costs that `tile_costs` gives for a contraction, the least first."""
    row_step = max((bytes_along(e, c.m) for e in X.loads(c.s)), default=0)
    columns = ceil(most(c.n) / c.micro.columns)
    sums, in_place = prod(map(most, c.window)), c.l_mode == "direct" and reads_far(c.l, c.k, device)
    return sorted(tile_costs(most(c.m), columns, _steps(c), device, row_step, sums, c.micro, in_place))


def tiles_for(c: Contract, device: Device) -> list[tuple[int, int]]:
    """All possible (rows, vectors) of a contraction's register tile, by predicted time."""
    if (alone := tiles_of_one_vector(most(c.m), device, prod(map(most, c.window)), c.micro)) is not None:
        return [alone]
    return list(tile_cycles(c, device))


def tile_cycles(c: Contract, device: Device) -> dict[tuple[int, int], float]:
    """Predicted cycles of every (rows, vectors) that registers hold, the least first."""
    m, found = most(c.m), dict[tuple[int, int], float]()
    for cycles, *_, rows, vectors in tile_costs_of(c, device):
        found.setdefault((ceil(m / ceil(m / rows)), vectors * c.micro.columns), cycles)
    return found
