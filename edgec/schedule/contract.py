"""Sums of products as register-tiled kernels: matrix products and convolutions of every kind.

After flattening, a contraction is ``out[.., m, n] = f(sum over k of S[m, k] * L[k, n])``: one factor (L) gives the
lanes, the other (S) is broadcast. A tile of MR x NV vectors accumulates in registers while k runs. A convolution is
the same thing: its S has one stride along the output pixel and one along every loop of k, so no im2col buffer exists.
Constant L is packed at build time as [.., panel, k, NV * lanes]. Of bytes, a step of k takes four (``products.py``), of
bf16 two (``pairs.py``), or as many as an instruction for matrices does, of two rows at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil, prod
from typing import ClassVar

import numpy as np

from edgec.device.facts import Device
from edgec.errors import UsageError
from edgec.ir import expr as X
from edgec.ir.expr import Expr, Extent
from edgec.ir.index import upper
from edgec.ir.nest import coefficient, extent, is_fixed, mergeable, most, used_as_values
from edgec.ir.types import DTYPES
from edgec.ir.vector import is_vectorizable, vector_lanes, vector_registers
from edgec.schedule.epilogue import around_sum, over_lanes
from edgec.schedule.flat import Flat, Weights, evaluate_over, is_constant, with_contiguous_weights
from edgec.schedule.pairs import packed_pairs, pairs_of
from edgec.schedule.products import Words, packed_words, with_bias_inside, with_numbers_in_memory, words_of
from edgec.schedule.program import Buffer
from edgec.schedule.record import Record
from edgec.schedule.storage import half_of, memory_type

#: A panel of runtime-packed L is at most this large, so that it stays in the first-level cache's neighborhood.
PACK_LIMIT_BYTES = 1 << 20
#: Rows of a tile whose sums lie in registers of integers, four a row: with a third, there are not enough.
BLOCK_ROWS = 2


@dataclass(frozen=True)
class Contract(Record):
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
    packed: Buffer | None
    epilogue: Expr  # over ``accumulator``
    accumulator: Expr
    store: Buffer
    address: Expr
    rows: int  # MR
    vectors: int  # NV
    lanes: int  # lanes of one vector
    tile_chunk: int  # row tiles one task takes
    panel_first: bool  # panels outside row chunks (weights stay near), or the other way round
    words: Words | None = None  # of bytes or pairs: k ends in a loop over words of them, S is the first of one
    window: tuple[Expr, ...] = ()  # loops of S over sums that are one result: ``epilogue`` combines as many of them
    in_order: bool = False  # what a turn reads is loaded between the multiply-adds of the one before
    loads_beside: bool = False  # those loads start beside multiply-adds, otherwise beside inserts alone
    unrolled: int = 16  # most rounds of the innermost loop of a sum that compilers are asked to unroll

    @property
    def bodies(self) -> list[Expr]:
        return [self.s, self.epilogue, *([self.l] if self.l_mode != "packed" else [])]

    @property
    def at_store(self) -> list[Expr]:
        return [self.epilogue]

    @property
    def tables(self) -> list[Buffer]:
        return [self.packed] if self.packed is not None else []

    @property
    def scratch_bytes(self) -> int:
        return upper(self.k_extent) * self.width * 4 if self.l_mode == "gathered" else 0

    @property
    def sums(self) -> int:
        """How many sums are one result."""
        return prod(map(most, self.window))

    @property
    def m_extent(self) -> Extent:
        return extent(self.m)

    @property
    def n_extent(self) -> Extent:
        return extent(self.n)

    @property
    def k_extent(self) -> Extent:
        """How many rows of lanes a panel has, what accumulators start at included."""
        if self.words is not None:
            return X.plain(prod(map(extent, self.k[:-1])) * self.words.count * self.words.rows + self.words.are_bytes)
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
    """Schedule ``flat`` as a contraction; None when it is not one."""
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
    each, words = k, None
    multiplied = prod(map(most, (m, *window)))
    found = words_of(device, k, scalar_factor, lane_factor, multiplied) if dtype == "i32" else None
    if dtype == "i32" and found is None:
        return None
    if dtype == "f32" and mode == "packed":
        found = pairs_of(device, k, scalar_factor, multiplied)
    if found is not None:
        words, scalar_factor, k = found
    lanes = vector_lanes(device)
    m_extent, n_extent = most(m), most(n)
    steps = prod(map(most, k)) if words is None else prod(map(most, k[:-1])) * words.count
    row_step = max((_bytes_along(e, m) for e in X.loads(scalar_factor)), default=0)
    sums = prod(map(most, window))
    in_order = _is_for_in_order(device, mode, k, scalar_factor, words, (m, *window))
    nr, nv = tile_shape(m_extent, n_extent, steps, device, row_step, sums, words, in_order)
    if flat.tile is not None:
        nr, nv = decided_tile(flat.tile, m_extent, n_extent, device, sums)
    outer = tuple(v for v in flat.loops if v is not m and v is not n)
    panel_outer = tuple(v for v in outer if v in X.free_variables(lane_factor))
    outer = panel_outer + tuple(v for v in outer if v not in panel_outer)
    packed = None
    if mode == "gathered" and nv * lanes * steps * 4 > PACK_LIMIT_BYTES:
        return None
    if mode == "packed" and words is not None and words.are_bytes:
        epilogue, bias = with_bias_inside(epilogue, accumulator, {*panel_outer, n})
        packed = weights.add(packed_words(lane_factor, words, panel_outer, each, n, nv * lanes, bias))
    elif mode == "packed" and words is not None:
        packed = weights.add(packed_pairs(lane_factor, words, panel_outer, each, n, nv * lanes))
    elif mode == "packed":
        packed = _pack(lane_factor, panel_outer, k, n, nv * lanes, half_of(device) or "f32", weights)
    epilogue = with_contiguous_weights(epilogue, flat.loops, n, weights)
    if words is not None and words.are_bytes:
        epilogue = with_numbers_in_memory(epilogue, weights)
    tiles = ceil(m_extent / nr)
    step_bytes = 4 if packed is None else DTYPES[packed.dtype].itemsize
    panel_bytes = nv * lanes * steps * step_bytes
    chunk = _chunk(tiles, nr * prod(map(most, window)), steps, ceil(n_extent / (nv * lanes)), prod(map(most, outer)))
    row_bytes = m_extent * steps * 4
    weight_bytes = n_extent * steps * step_bytes
    # Whichever side is swept repeatedly should be the one that stays in cache.
    fits = weight_bytes * prod(map(most, panel_outer)) <= device.l2_bytes // 4
    panel_first = mode == "gathered" or panel_bytes > device.l2_bytes // 2 or (row_bytes <= weight_bytes and not fits)
    return Contract(
        outer, panel_outer, m, n, k, scalar_factor, lane_factor, mode, packed, epilogue, accumulator,
        flat.store, flat.address, nr, nv, lanes, chunk, panel_first, words, window, in_order, device.loads_beside,
        device.unroll,
    )  # fmt: skip


def _is_for_in_order(
    device: Device, mode: str, k: tuple[Expr, ...], s: Expr, words: Words | None, around: tuple[Expr, ...]
) -> bool:
    """Can loads stand between multiply-adds: a panel of L, pairs of S beside one another, eight or more in a loop?"""
    if not device.in_order or device.arch != "aarch64" or mode == "direct" or half_of(device):
        return False
    if not k or not is_fixed(*k) or s.op != "load" or k[-1].op != "var":
        return False
    if any(coefficient(s.args[0], v) is None for v in (*k, *around) if v.op == "var"):
        return False
    if prod(map(most, k[-walked_as_one(s, k) :])) < (1 if words is not None and words.are_blocks else 8):
        return False
    step = coefficient(s.args[0], k[-1])
    if words is None:
        return memory_type(s) == "f32" and step == 1
    if words.rest or words.column_offset or words.are_matrices or not words.are_bytes:
        return False
    return words.are_blocks or (words.step == 1 and device.has("dotprod"))


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


def _pack(
    l: Expr, outer: tuple[Expr, ...], k: tuple[Expr, ...], n: Expr, width: int, dtype: str, weights: Weights
) -> Buffer:
    """[outer.., panel, k.., width], zero where the last panel reaches beyond n."""
    values = evaluate_over(l, (*outer, *k, n))
    sizes = [v.value.extent for v in outer], prod(v.value.extent for v in k), n.value.extent
    values = values.reshape(prod(sizes[0]), sizes[1], sizes[2])
    panels = ceil(sizes[2] / width)
    padded = np.zeros((values.shape[0], sizes[1], panels * width), DTYPES[dtype])
    padded[:, :, : sizes[2]] = values
    return weights.add(padded.reshape(values.shape[0], sizes[1], panels, width).transpose(0, 2, 1, 3))


def _bytes_along(load: Expr, loop: Expr) -> int:
    """How far a step of ``loop`` moves a load."""
    step = coefficient(load.args[0], loop) if loop.op == "var" and load.args else 0
    return abs(step or 0) * DTYPES[memory_type(load)].itemsize


def tile_shape(
    m: int, n: int, k: int, device: Device, row_step: int = 0, sums: int = 1, words: Words | None = None,
    in_order: bool = False,
) -> tuple[int, int]:  # fmt: skip
    """(rows, vectors) of the register tile with the least predicted time for M x N x K; a row may be several ``sums``.

    Per step of k a tile of r x v issues r*v multiply-adds (two a cycle, four cycles of latency each) and r + v loads
    (two a cycle); accumulators, one row of L and one broadcast must fit the registers. Where products take a factor
    from one lane of a register (64-bit Arm), compilers load a step's column of S before they use it: it must fit too;
    ``words`` of bytes are spread there by the units that multiply, but for those of instructions for matrices, of which
    a register has two rows. A panel beyond the first-level cache
    streams from the second at about half a line a cycle, for every tile anew. ``row_step`` is how many bytes of S lie
    between rows. For cores that run ``in_order``, ``in_order_step`` says what a step takes.
    """
    if words is not None and words.are_blocks:
        return _rows_of_blocks(m, device, sums, in_order), 1
    *_, rows, vectors = min(tile_costs(m, n, k, device, row_step, sums, words, in_order))
    return ceil(m / ceil(m / rows)), vectors  # as even as can be, so that threads have shares of one size


def tiles_for(c: Contract, device: Device) -> list[tuple[int, int]]:
    """All (rows, vectors) that a contraction could have, the least predicted time first."""
    steps = prod(map(most, c.k)) if c.words is None else prod(map(most, c.k[:-1])) * c.words.count
    row_step = max((_bytes_along(e, c.m) for e in X.loads(c.s)), default=0)
    m, sums = most(c.m), prod(map(most, c.window))
    if c.words is not None and c.words.are_blocks:
        return [(_rows_of_blocks(m, device, sums, c.in_order), 1)]
    found = sorted(tile_costs(m, most(c.n), steps, device, row_step, sums, c.words, c.in_order))
    return list(dict.fromkeys((ceil(m / ceil(m / rows)), vectors) for *_, rows, vectors in found))


def _rows_of_blocks(m: int, device: Device, sums: int, in_order: bool) -> int:
    """Rows of a tile by blocks, of one vector: four sums of a row, and its block of S, lie in registers.

    Beside them are a block of each column and two products of bytes; in order, products of every row.
    """
    registers = vector_registers(device)
    room = BLOCK_ROWS if device.has("mve") else (registers - 4) // 6 if in_order else (registers - 6) // 5
    return ceil(m / ceil(m / max(1, min(room // sums, m))))


def tile_costs(
    m: int, n: int, k: int, device: Device, row_step: int = 0, sums: int = 1, words: Words | None = None,
    in_order: bool = False,
) -> list[tuple[float, int, int, int, int]]:  # fmt: skip
    """Every tile that registers hold: its predicted cycles, what decides between equal ones, rows and vectors."""
    lanes = vector_lanes(device)
    each = lanes // min(device.lanes(4), lanes)  # registers of a vector: where there are none, one a lane
    # RISC-V has no products of bytes: what they are made of wants registers, too.
    registers = device.vector_registers - (12 if words is not None and words.are_bytes and device.has("v") else 0)
    takes_lanes = device.arch == "aarch64"
    tall = words.tall if words is not None else 1
    # What units that multiply do for a row of S besides: SVE's loads broadcast, but two rows are put together there.
    spread = (tall - 1) / 2 if device.has("sve") else float(takes_lanes and words is not None and tall == 1)
    # Rows a page apart share the sets of the first-level cache: more of them than it has ways push one another out.
    tallest = 8 if row_step and row_step % 4096 == 0 else 30
    found: list[tuple[float, int, int, int, int]] = []
    vectors_needed = ceil(n / lanes)
    for v in range(1, min(vectors_needed, 8) + 1):
        stream = 2.2 * v if k * v * lanes * 4 > device.l1d_bytes // 2 else 0.0
        for r in range(1, min(m, tallest) + 1):
            if in_order and v == 1 and vectors_needed > 1:
                continue
            ready = 5 if in_order else v  # vectors of L that are held, and one for the compiler
            column = ceil(r * sums / tall) if takes_lanes else 1
            if (_even(r * sums, tall) * v + ready * tall) * each + column > registers and r * v > 1:
                continue
            full_panels, last = divmod(vectors_needed, v)
            cost = 0.0
            for width, panels in ((v, full_panels), (last, 1)):
                for height, tiles in ((r, m // r), (m % r, 1)):
                    if width and height and panels and tiles:
                        of_s = _even(height * sums, tall)
                        held = of_s * width
                        latency = 4 if held < 8 else 0
                        dots = of_s * (width + spread)
                        step = max(dots / 2, (of_s + tall * width) / 2, latency, stream)
                        if in_order:
                            step = in_order_step(height * sums, width)
                        cost += panels * tiles * (k * step + 10 + held * 1.5)
            found.append((cost, -r * v, -v, r, v))
    return found


def _even(rows: int, tall: int) -> int:
    """Rows that sums are held for where so many are multiplied at once."""
    return ceil(rows / tall) * tall


def walked_as_one(s: Expr, k: tuple[Expr, ...]) -> int:
    """How many of the innermost loops of a sum S walks as if they were one; panels are always walked so."""
    count = 1
    for outer, inner in reversed([*pairwise(k)]):
        if coefficient(s.args[0], outer) != (coefficient(s.args[0], inner) or 0) * most(inner):
            break
        count += 1
    return count


def in_order_step(rows: int, vectors: int) -> float:
    """Cycles of a step of k where one multiply-add starts in a cycle, and one other instruction beside it.

    A vector is three others (its halves, and joining them): of L for a step, of S for four. The loop is five. Half of
    the vectors are counted as cycles, which is between cores: none where loads start beside multiply-adds, else all.
    """
    others = 3 * (vectors + rows / 4) + 1.25
    return max(rows * vectors, others, 4) + (vectors + rows / 4) / 2


def decided_tile(tile: tuple[int, int], m: int, n: int, device: Device, sums: int = 1) -> tuple[int, int]:
    """A tile that somebody decided, no larger than the product; raises UsageError where registers do not hold it."""
    rows, vectors = min(tile[0], m), min(tile[1], ceil(n / vector_lanes(device)))
    registers = vector_registers(device)
    needed = rows * sums * vectors + vectors + 1
    if needed > registers and rows * vectors > 1:
        raise UsageError(
            f"a tile of {rows} rows x {vectors} vectors needs {needed} registers",
            hint=f"'{device.name}' has {registers}",
        )
    return rows, vectors


def _chunk(tiles: int, rows: int, k: int, panels: int, outer: int) -> int:
    """Row tiles per task: enough work to be worth a task, enough tasks to share out."""
    if panels * outer >= 16:
        target = max(1, (256 * 1024) // max(1, rows * k * 4))
    else:
        target = ceil(tiles / ceil(16 / (panels * outer)))
    return max(1, min(tiles, target))
