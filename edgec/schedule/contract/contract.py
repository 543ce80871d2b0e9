"""Sums of products as register-tiled kernels: matrix products and convolutions of every kind.

After flattening, a contraction is ``out[.., m, n] = f(sum over k of S[m, k] * L[k, n])``: one factor (L) gives the
lanes, the other (S) is broadcast. A tile of MR x NV vectors accumulates in registers while k runs. A convolution is
the same thing: its S has one stride along the output pixel and one along every loop of k, so no im2col buffer exists.
Constant L is packed at build time as [.., panel, k, NV * lanes], once a contraction is taken (`packed_into`). A step of
k is that of a micro-kernel (`micro_kernel`): one element, or several of int8 (`int8_dot`) or bf16 (`bf16_dot`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from math import ceil, prod
from typing import ClassVar

import numpy as np

from edgec.device.device import Device
from edgec.ir import expr as X
from edgec.ir.expr import Expr, Extent
from edgec.ir.index import upper
from edgec.ir.nest import coefficient, extent, is_fixed, mergeable, most, used_as_values
from edgec.ir.types import DTYPES
from edgec.ir.vector import is_vectorizable
from edgec.schedule.contract.bf16_dot import packed_pairs
from edgec.schedule.contract.epilogue import around_sum, over_lanes, scaled
from edgec.schedule.contract.fp16_epilogue import fp16_epilogue
from edgec.schedule.contract.fp16_sums import Fp16Accumulation, in_fp16
from edgec.schedule.contract.int8_dot import DotGroup, packed_dots, with_bias_inside, with_numbers_in_memory
from edgec.schedule.contract.micro_kernel import MicroKernel, named
from edgec.schedule.contract.step import step_of, sum_of
from edgec.schedule.contract.tiles import chunk_of, decided_tile, tile_costs, tile_shape, tiles_of_one_vector
from edgec.schedule.flat import Flat, Weights, evaluate_over, is_constant, with_contiguous_weights
from edgec.schedule.program import BlockSchedule, Buffer
from edgec.schedule.storage import half_of, memory_type

#: A panel of runtime-packed L is at most this large, so that it stays in the first-level cache's neighborhood.
PACK_LIMIT_BYTES = 1 << 20


@dataclass(frozen=True)
class Contract(BlockSchedule):
    """Everything the template needs; loops carry their expressions so that addresses can be printed."""

    template: ClassVar[str] = "contract"
    outer: tuple[Expr, ...]  # loops around the tiles
    panel_outer: tuple[Expr, ...]  # those of them the L factor depends on
    m: Expr  # tiled over rows (extent 1: a constant 0)
    n: Expr  # the lanes
    k: tuple[Expr, ...]  # innermost last
    s: Expr  # value of the broadcast factor
    l: Expr  # value of the lane factor
    l_mode: str  # packed: constant, laid out at build time; direct: contiguous in memory; gathered: packed at run time
    packed: Buffer | None  # a constant L in panels; None before `packed_into`
    epilogue: Expr  # over ``accumulator``
    accumulator: Expr
    store: Buffer
    address: Expr
    rows: int  # MR
    vectors: int  # NV
    lanes: int  # lanes of one vector
    tile_chunk: int  # row tiles one task takes
    panel_first: bool  # panels outside row chunks (weights stay near), or the other way round
    micro_kernel: str = "fma"  # by name
    dots: DotGroup | None = None  # where it takes several elements of the sum: k ends in a loop over its steps
    window: tuple[Expr, ...] = ()  # loops of S over sums that are one result: ``epilogue`` combines as many of them
    unrolled: int = 16  # most rounds of the innermost loop of a sum that compilers are asked to unroll
    fp16: Fp16Accumulation | None = None  # products are added up in fp16, some at a time; ``vectors`` is even
    panel_dtype: str = "f32"  # of a packed L
    bias: Expr | None = None  # of bytes: constants that accumulators start at

    @property
    def micro(self) -> MicroKernel:
        return named(self.micro_kernel)

    @property
    def variant(self) -> str | None:
        return f"{self.rows}x{self.vectors}"

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
    def tables(self) -> list[Buffer]:
        return [self.packed] if self.packed is not None else []

    @property
    def scratch_bytes(self) -> int:
        return upper(self.k_extent) * self.width * 4 if self.l_mode == "gathered" else 0

    @cached_property
    def panels_of_l(self) -> np.ndarray:
        """A constant L in panels, [outer, panel, k, width], in the type of a panel."""
        if self.dots is None:
            values = evaluate_over(self.l, (*self.panel_outer, *self.k, self.n))
            values = values.reshape(-1, prod(map(most, self.k)), most(self.n))
            if self.fp16 is not None:
                values = values.astype(np.float64) / self.fp16.powers[:, None]
            return _in_panels(values, self.width, self.panel_dtype)
        k = (*self.k[:-1], self.dots.inner) if self.dots.inner.op == "var" else self.k[:-1]
        size = self.micro.size
        if self.micro.has_starts:
            return packed_dots(self.l, self.dots, size, self.panel_outer, k, self.n, self.width, self.bias)
        return packed_pairs(self.l, self.dots, size, self.panel_outer, k, self.n, self.width)

    def packed_into(self, weights: Weights) -> Contract:
        """The same contraction with a constant L among ``weights``."""
        if self.l_mode != "packed" or self.packed is not None:
            return self
        return replace(self, packed=weights.add(self.panels_of_l))

    @property
    def sums(self) -> int:
        """Number of accumulators for one result."""
        return prod(map(most, self.window))

    @property
    def m_extent(self) -> Extent:
        return extent(self.m)

    @property
    def n_extent(self) -> Extent:
        return extent(self.n)

    @property
    def k_extent(self) -> Extent:
        """Number of rows of lanes of a panel, initial accumulators included."""
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
    """Decide how to schedule ``flat`` as a contraction, without packing its L; None when it is not one."""
    taken = around_sum(flat.body)
    if taken is None or taken.sum.dtype not in ("f32", "i32"):
        return None
    epilogue, accumulator, dtype, window = taken.epilogue, taken.accumulator, taken.sum.dtype, taken.window
    k, product = X.opened(taken.sum)
    chosen = _choose_lanes(flat, product.args[0], product.args[1], window)
    if chosen is None:
        return None
    lane_factor, scalar_factor, n = chosen
    if _is_depthwise(flat, product.args, n):
        return None
    mine = X.free_variables(lane_factor) | X.free_variables(scalar_factor)
    rows = [v for v in flat.loops if v not in X.free_variables(lane_factor)]
    own_rows = [v for v in rows if v in mine]
    if not is_vectorizable(over_lanes(epilogue, n), n):
        return None
    flat, scalar_factor, epilogue, m = _merge_rows(flat, scalar_factor, epilogue, own_rows)
    mode = _lane_mode(lane_factor, n)
    if mode == "packed" and not is_fixed(*X.free_variables(lane_factor)):
        mode = "gathered"
    k, scalar_factor, lane_factor = _merge_sum(k, scalar_factor, lane_factor, mode)
    outer = tuple(v for v in flat.loops if v is not m and v is not n)
    panel_outer = tuple(v for v in outer if v in X.free_variables(lane_factor))
    outer = panel_outer + tuple(v for v in outer if v not in panel_outer)
    taken_sum = sum_of(device, dtype, mode, k, scalar_factor, lane_factor, (m, *window), (*panel_outer, n))
    step = step_of(*taken_sum, mode, (m, *window)) if taken_sum is not None else None
    if taken_sum is None or step is None:
        return None
    micro, dots, scalar_factor, k = step
    fp16 = bias = None
    if "fp16" in micro.factors[:1]:
        fp16 = in_fp16(taken_sum[0], panel_outer, n, micro.order is not None, weights)
    lanes = device.vector_lanes
    m_extent, n_extent = most(m), most(n)
    steps = prod(map(most, k)) if dots is None else prod(map(most, k[:-1])) * dots.count
    row_step = max((_bytes_along(e, m) for e in X.loads(scalar_factor)), default=0)
    sums = prod(map(most, window))
    columns = ceil(n_extent / micro.columns)
    nr, nv = tile_shape(m_extent, columns, steps, device, row_step, sums, micro)
    if flat.tile is not None:
        nr, nv = decided_tile((flat.tile[0], ceil(flat.tile[1] / micro.columns)), m_extent, columns, device, sums)
    nv *= micro.columns
    if mode == "gathered" and nv * lanes * steps * 4 > PACK_LIMIT_BYTES:
        return None
    if mode == "packed" and micro.has_starts:
        epilogue, bias = with_bias_inside(epilogue, accumulator, {*panel_outer, n})
    panel_dtype = micro.panel or half_of(device) or "f32" if mode == "packed" else "f32"
    epilogue = with_contiguous_weights(epilogue, flat.loops, n, weights)
    if micro.has_starts:
        epilogue = with_numbers_in_memory(epilogue, weights)
    if fp16 is not None and fp16.is_whole:
        end = fp16_epilogue(epilogue, accumulator, fp16.powers, panel_outer, n, flat.store, flat.address, weights)
        fp16 = replace(fp16, end=end)
    tiles = ceil(m_extent / nr)
    step_bytes = DTYPES[panel_dtype].itemsize
    panel_bytes = nv * lanes * steps * step_bytes
    chunk = chunk_of(tiles, nr * prod(map(most, window)), steps, ceil(n_extent / (nv * lanes)), prod(map(most, outer)))
    row_bytes = m_extent * steps * 4
    weight_bytes = n_extent * steps * step_bytes
    # Whichever side is swept repeatedly should be the one that stays in cache.
    fits = weight_bytes * prod(map(most, panel_outer)) <= device.l2_bytes // 4
    panel_first = mode == "gathered" or panel_bytes > device.l2_bytes // 2 or (row_bytes <= weight_bytes and not fits)
    return Contract(
        outer, panel_outer, m, n, k, scalar_factor, lane_factor, mode, None, epilogue, accumulator,
        flat.store, flat.address, nr, nv, lanes, chunk, panel_first, micro.name, dots, window, device.unroll, fp16,
        panel_dtype, bias,
    )  # fmt: skip


def _choose_lanes(flat: Flat, left: Expr, right: Expr, window: tuple[Expr, ...] = ()) -> tuple[Expr, Expr, Expr] | None:
    """(lane factor, scalar factor, lane loop): contiguous in the result if possible, then as long as possible.

    What a ``window`` is taken of has no lanes: its sums are rows of a tile.
    """
    best: tuple[tuple[int, int, int, int], tuple[Expr, Expr, Expr]] | None = None
    for lane, scalar in ((left, right), (right, left)):
        mine, other = X.free_variables(lane), X.free_variables(scalar)
        for v in () if mine & {*window} else flat.loops:
            if v in mine and v not in other:
                contiguous = int(coefficient(flat.address, v) == 1)
                ready = 2 if is_constant(lane) else int(_lane_mode(lane, v) == "direct")
                score = (contiguous, ready, int(is_fixed(v)), most(v))
                if best is None or score > best[0]:
                    best = (score, (lane, scalar, v))
    return best[1] if best else None


def _is_depthwise(flat: Flat, factors: tuple[Expr, ...], n: Expr) -> bool:
    """Both factors share the loop that is contiguous in the result: lanes belong there, and nothing is broadcast."""
    shared = X.free_variables(factors[0]) & X.free_variables(factors[1])
    contiguous = [v for v in flat.loops if coefficient(flat.address, v) == 1]
    return n not in contiguous and any(v in shared and most(v) >= 4 for v in contiguous)


def _lane_mode(factor: Expr, n: Expr) -> str:
    if is_constant(factor):
        return "packed"
    if factor.op == "load" and factor.dtype == "f32" and coefficient(factor.args[0], n) == 1:
        return "direct"
    return "gathered"


def _merge_rows(flat: Flat, scalar: Expr, epilogue: Expr, rows: list[Expr]) -> tuple[Flat, Expr, Expr, Expr]:
    """Join the row loops that step through every buffer as one; the longest result is tiled."""

    def addresses() -> list[Expr]:
        return [flat.address, *(e.args[0] for x in (scalar, epilogue) for e in X.loads(x) if e.args)]

    again = True
    while again:
        again = False
        fixed = used_as_values(scalar) | used_as_values(epilogue)
        for outer in rows:
            for inner in rows:
                if outer is inner or outer in fixed or inner in fixed or not mergeable(outer, inner, addresses()):
                    continue
                joined = X.fresh(outer.value.extent * inner.value.extent)
                change = {outer: X.const(0), inner: joined}
                scalar, epilogue = X.substitute(scalar, change), X.substitute(epilogue, change)
                loops = tuple(joined if v is inner else v for v in flat.loops if v is not outer)
                flat = replace(flat, loops=loops, address=X.substitute(flat.address, change))
                rows = [joined if v is inner else v for v in rows if v is not outer]
                again = True
                break
            if again:
                break
    if not rows:
        return flat, scalar, epilogue, X.const(0)
    # Short steps in the result keep a tile within few cache lines.
    tiled = max(rows, key=lambda v: (min(most(v), 8), -(coefficient(flat.address, v) or 0)))
    return flat, scalar, epilogue, tiled


def _merge_sum(k: tuple[Expr, ...], s: Expr, l: Expr, mode: str) -> tuple[tuple[Expr, ...], Expr, Expr]:
    """Order the loops of the sum by their step through S and merge those that S (and an unpacked L) walks as one."""
    first = X.loads(s)[0].args[0] if X.loads(s) else X.const(0)
    loops = sorted(k, key=lambda v: -abs(coefficient(first, v) or 0))
    plain = used_as_values(s) if mode == "packed" else used_as_values(s) | used_as_values(l)
    again = True
    while again:
        again = False
        for outer, inner in pairwise(loops):
            where = [e.args[0] for e in X.loads(s)]
            if mode != "packed":
                where += [e.args[0] for e in X.loads(l)]
            if outer in plain or inner in plain or not mergeable(outer, inner, where):
                continue
            each = inner.value.extent
            joined = X.fresh(outer.value.extent * each)
            s = X.substitute(s, {outer: X.const(0), inner: joined})
            change = {outer: joined // each, inner: joined % each} if mode == "packed" else {
                outer: X.const(0), inner: joined}  # fmt: skip
            l = X.substitute(l, change)
            loops = [joined if v is inner else v for v in loops if v is not outer]
            again = True
            break
    return tuple(loops), s, l


def _in_panels(values: np.ndarray, width: int, dtype: str) -> np.ndarray:
    """[outer, panel, k, width] of [outer, k, n], zero where the last panel reaches beyond n."""
    around, steps, columns = values.shape
    panels = ceil(columns / width)
    padded = np.zeros((around, steps, panels * width), DTYPES[dtype])
    padded[:, :, :columns] = values
    return padded.reshape(around, steps, panels, width).transpose(0, 2, 1, 3)


def _bytes_along(load: Expr, loop: Expr) -> int:
    """Bytes between the elements of a load in consecutive steps of ``loop``."""
    step = coefficient(load.args[0], loop) if loop.op == "var" and load.args else 0
    return abs(step or 0) * DTYPES[memory_type(load)].itemsize


def tiles_for(c: Contract, device: Device) -> list[tuple[int, int]]:
    """All (rows, vectors) that a contraction could have, the least predicted time first."""
    steps = prod(map(most, c.k)) if c.dots is None else prod(map(most, c.k[:-1])) * c.dots.count
    row_step = max((_bytes_along(e, c.m) for e in X.loads(c.s)), default=0)
    m, sums = most(c.m), prod(map(most, c.window))
    if (alone := tiles_of_one_vector(m, device, sums, c.micro)) is not None:
        return [alone]
    columns = ceil(most(c.n) / c.micro.columns)
    found = sorted(tile_costs(m, columns, steps, device, row_step, sums, c.micro))
    return list(dict.fromkeys((ceil(m / ceil(m / rows)), vectors * c.micro.columns) for *_, rows, vectors in found))
