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
from edgec.ir.index import least, upper
from edgec.ir.nest import coefficient, extent, is_fixed, most
from edgec.ir.types import DTYPES
from edgec.schedule.added import Added
from edgec.schedule.contract import decisions
from edgec.schedule.contract.ahead import ahead_of
from edgec.schedule.contract.bf16_dot import packed_pairs
from edgec.schedule.contract.epilogue import scaled
from edgec.schedule.contract.fp16_epilogue import fp16_epilogue
from edgec.schedule.contract.fp16_sums import Fp16Accumulation, in_fp16
from edgec.schedule.contract.int8_dot import DotGroup, packed_dots, with_bias_inside, with_numbers_in_memory
from edgec.schedule.contract.micro_kernel import MicroKernel, named
from edgec.schedule.contract.micro_kernels.fma import FMA
from edgec.schedule.contract.operands import Operands, operands
from edgec.schedule.contract.panels import ELEMENT_CYCLES, PackedBlocks, in_panels, packed_blocks, packing_cycles
from edgec.schedule.contract.parts import LONG, Parts, parts_of_long
from edgec.schedule.contract.passes import tasks_of_pass
from edgec.schedule.contract.step import Step, step_of, sum_of
from edgec.schedule.contract.tiles import chunk_of, decided_tile, tile_costs, tile_shape, tiles_of_one_vector
from edgec.schedule.flat import Flat, Weights, evaluate_over, is_constant, with_contiguous_weights
from edgec.schedule.program import BlockSchedule, Buffer
from edgec.schedule.storage import bytes_along, exact_dtype, narrow_dtype

#: Rows up to which a product waits for its weights, so that reading them in the 16 bits that hold them exactly pays.
FEW_ROWS = 8
#: Most bytes of a panel of L that is packed at run time.
PACK_LIMIT_BYTES = 1 << 20


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
        return 4 * (self.panel_floats + self.together * self.waiting)

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
        return self.tile_chunk * self.rows * self.width

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
    def tiles(self) -> Extent:
        return X.plain(-(-self.m_extent // self.rows))

    @property
    def chunks(self) -> Extent:
        return X.plain(-(-self.tiles // self.tile_chunk))


def contract(flat: Flat, device: Device, weights: Weights) -> Contract | None:
    """The schedule of ``flat`` as a contraction, with L not packed yet; None when it is not a contraction.

    Where panels would be packed at run time, and are too large for that or cost more, lanes run along a factor that is
    constant or contiguous, and results are stored lane by lane.
    """
    taken = decisions.read(flat.decided)
    if taken is None:
        return None
    if taken.gathered is None and not taken.swapped:
        found = _cheaper(flat, device, weights)
    else:
        o = operands(flat, taken.gathered is not False, taken.swapped)
        is_it = o is not None and taken.gathered in (None, o.mode == "gathered")
        found = _contract(o, device, weights) if o is not None and is_it else None
    if found is None or not flat.decided:
        return found
    chunk = min(taken.chunk or found.tile_chunk, upper(found.tiles))
    first = found.panel_first if taken.panel_first is None else taken.panel_first
    unrolled = taken.unroll or found.unrolled
    return replace(found, tile_chunk=chunk, panel_first=first, unrolled=unrolled, decided=flat.decided)


def _cheaper(flat: Flat, device: Device, weights: Weights) -> Contract | None:
    """The contraction with the less predicted time: gathered, or with its results stored lane by lane."""
    o = operands(flat)
    found = _contract(o, device, weights) if o is not None else None
    if o is None or o.mode != "gathered":
        return found
    across = operands(flat, can_gather=False)
    scattered = _contract(across, device, weights) if across is not None else None
    if found is None or scattered is None:
        return found or scattered
    if not is_constant(o.s) and most(found.n) < 2 * device.vector_lanes <= most(scattered.n):
        return scattered  # the taps of one channel leave most of a panel empty
    return min(found, scattered, key=lambda c: cycles_of_contract(c, device))


def cycles_of_contract(c: Contract, device: Device) -> float:
    """Predicted cycles of a contraction in its cheapest tile, with what is around its tiles."""
    return prod(map(most, c.outer)) * _tile_costs(c, device)[0][0] + cycles_beside(c)


def cycles_beside(c: Contract) -> float:
    """Predicted cycles to pack panels at run time, and to store results lane by lane."""
    around, found = prod(map(most, c.outer)), 0.0
    if c.l_mode == "gathered":
        panels = prod(map(most, c.panel_outer)) * ceil(most(c.n) / c.width)
        elements = upper(c.k_extent) * c.width * (1 if c.dots is None else c.micro.size)
        found += packing_cycles(c.blocks) * panels * elements
    if coefficient(c.address, c.n) != 1:
        found += ELEMENT_CYCLES * around * most(c.m) * most(c.n)
    return found


def _contract(o: Operands, device: Device, weights: Weights) -> Contract | None:
    around = (o.m, *o.window)
    of = sum_of(device, o.dtype, o.mode, o.k, o.s, o.l, around, (*o.panel_outer, o.n), o.flat.micro_kernels)
    step = step_of(*of, o.mode, around) if of is not None else None
    if of is None or step is None:
        return None
    if o.magnitudes is not None:  # a vector of L loses its signs between its load and the step
        step = Step(named("fma"), None, of[0].s, of[0].k)
    micro, dots, s, k = step
    fp16 = in_fp16(of[0], o.panel_outer, o.n, micro.order is not None, weights) if micro.in_fp16 else None
    steps = prod(map(most, k)) if dots is None else prod(map(most, k[:-1])) * dots.count
    rows, vectors = _tile(o, s, steps, device, micro)
    if o.mode == "gathered" and vectors * device.vector_lanes * steps * 4 > PACK_LIMIT_BYTES:
        return None
    epilogue, bias = o.epilogue, None
    if o.mode == "packed" and micro.has_starts:
        epilogue, bias = with_bias_inside(epilogue, o.accumulator, {*o.panel_outer, o.n})
    epilogue = with_contiguous_weights(epilogue, o.flat.loops, o.n, weights)
    if micro.has_starts:
        epilogue = with_numbers_in_memory(epilogue, weights)
    store, address = o.flat.store, o.flat.address
    if fp16 is not None and fp16.is_whole:
        end = fp16_epilogue(epilogue, o.accumulator, fp16.powers, o.panel_outer, o.n, store, address, weights)
        fp16 = replace(fp16, end=end)
    panel_dtype = "f32"
    if o.mode == "packed":
        is_plain = dots is None and fp16 is None and micro.order is None and least(extent(o.m)) <= FEW_ROWS
        panel_dtype = micro.panel or narrow_dtype(device) or (exact_dtype(o.l) if is_plain else "f32")
    return swept(Contract(
        o.outer, o.panel_outer, o.m, o.n, k, s, o.l, o.mode, None, epilogue, o.accumulator, store, address, rows,
        vectors, device.vector_lanes, 1, False, micro.name, dots, o.window, device.unroll, fp16, panel_dtype,
        bias, parts_of_long([*map(most, k)]) if micro.rounds_sums and micro.order is None else None,
        magnitudes=o.magnitudes, ahead=ahead_of(s, k, device) if micro is FMA and fp16 is None else 0,
    ), device)  # fmt: skip


def _tile(o: Operands, s: Expr, steps: int, device: Device, micro: MicroKernel) -> tuple[int, int]:
    """(rows, vectors) of the register tile: those of ``--tile``, or those with the least predicted time."""
    m, columns, sums = most(o.m), ceil(most(o.n) / micro.columns), prod(map(most, o.window))
    if o.flat.tile is not None:
        decided = (o.flat.tile[0], ceil(o.flat.tile[1] / micro.columns))
        if o.magnitudes is not None:  # panels are as wide as those of the weights elsewhere: one copy serves both
            return min(decided[0], m), min(decided[1], ceil(columns / device.vector_lanes))
        rows, vectors = decided_tile(decided, m, columns, device, sums)
    else:
        row_step = max((bytes_along(e, o.m) for e in X.loads(s)), default=0)
        far = o.mode == "direct" and steps >= LONG
        rows, vectors = tile_shape(m, columns, steps, device, row_step, sums, micro, far)
    return rows, vectors * micro.columns


def swept(c: Contract, device: Device) -> Contract:
    """The contraction with row tiles of a task, and their loop, by its tile: what is swept again stays in cache."""
    steps, step_bytes = _steps(c), DTYPES[c.panel_dtype].itemsize
    tiles, panels = ceil(most(c.m) / c.rows), ceil(most(c.n) / c.width)
    panel_bytes, weight_bytes = c.width * steps * step_bytes, most(c.n) * steps * step_bytes
    fits = weight_bytes * prod(map(most, c.panel_outer)) <= device.l2_bytes // 4
    is_far = panel_bytes > device.l2_bytes // 2 or (most(c.m) * steps * 4 <= weight_bytes and not fits)
    is_far = is_far or c.l_mode == "gathered"
    by_rows = fits and not is_far and 4 * most(c.m) * most(c.n) > device.l2_bytes
    chunk = chunk_of(tiles, c.rows * c.sums, steps, panels, prod(map(most, c.outer)), by_rows)
    found = replace(c, tile_chunk=chunk, panel_first=is_far, together=0)
    return replace(found, together=_together(found, device))


def _together(c: Contract, device: Device) -> int:
    """Tasks that parts of a long sum pass over, where L is no constant; 0 where a tile is all there is."""
    if c.long is None or c.l_mode == "packed" or c.window or not is_fixed(*c.outer, c.m, c.n, *c.k):
        return 0
    of_panel = upper(c.chunks) * prod(most(v) for v in c.outer if v not in c.panel_outer)
    tasks = of_panel * upper(c.panels) * prod(map(most, c.panel_outer))
    found = tasks_of_pass(4 * c.waiting, tasks, of_panel if c.l_mode == "gathered" else 1, device.l2_bytes)
    return found * (found * c.tile_chunk > 1)


def _steps(c: Contract) -> int:
    """Steps of a sum."""
    return prod(map(most, c.k)) if c.dots is None else prod(map(most, c.k[:-1])) * c.dots.count


def _tile_costs(c: Contract, device: Device) -> list[tuple[float, int, int, int, int]]:
    """The costs that `tile_costs` gives for a contraction, the least first."""
    row_step = max((bytes_along(e, c.m) for e in X.loads(c.s)), default=0)
    columns = ceil(most(c.n) / c.micro.columns)
    sums, in_place = prod(map(most, c.window)), c.l_mode == "direct" and c.long is not None
    return sorted(tile_costs(most(c.m), columns, _steps(c), device, row_step, sums, c.micro, in_place))


def tiles_for(c: Contract, device: Device) -> list[tuple[int, int]]:
    """All possible (rows, vectors) of a contraction's register tile, by predicted time."""
    if (alone := tiles_of_one_vector(most(c.m), device, prod(map(most, c.window)), c.micro)) is not None:
        return [alone]
    return list(tile_cycles(c, device))


def tile_cycles(c: Contract, device: Device) -> dict[tuple[int, int], float]:
    """Predicted cycles of every (rows, vectors) that registers hold, the least first."""
    m, found = most(c.m), dict[tuple[int, int], float]()
    for cycles, *_, rows, vectors in _tile_costs(c, device):
        found.setdefault((ceil(m / ceil(m / rows)), vectors * c.micro.columns), cycles)
    return found
