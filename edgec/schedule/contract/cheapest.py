"""The contraction of a block with the least predicted time: its factors as lanes take them, and its register tile."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, prod

from edgec.device.device import Device
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.index import least, upper
from edgec.ir.nest import coefficient, extent, most
from edgec.schedule.contract import decisions
from edgec.schedule.contract.ahead import ahead_of
from edgec.schedule.contract.contract import Contract, swept, tile_costs_of
from edgec.schedule.contract.fp16_epilogue import fp16_epilogue
from edgec.schedule.contract.fp16_sums import in_fp16
from edgec.schedule.contract.int8_dot import with_bias_inside, with_numbers_in_memory
from edgec.schedule.contract.micro_kernel import MicroKernel, named
from edgec.schedule.contract.micro_kernels.fma import FMA
from edgec.schedule.contract.operands import Operands, operands
from edgec.schedule.contract.panels import ELEMENT_CYCLES, is_far_apart, packing_cycles, reads_far
from edgec.schedule.contract.parts import parts_of_long
from edgec.schedule.contract.step import Step, step_of, sum_of
from edgec.schedule.contract.tiles import decided_tile, tile_shape
from edgec.schedule.flat import Flat, Weights, is_constant, with_contiguous_weights
from edgec.schedule.storage import bytes_along, exact_dtype, narrow_dtype

#: Rows up to which a product waits for its weights, so that reading them in the 16 bits that hold them exactly pays.
FEW_ROWS = 8
#: Bytes of a line of the cache.
LINE = 64
#: Most bytes of a panel of L that is packed at run time.
PACK_LIMIT_BYTES = 1 << 20


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
        o = operands(flat, taken.gathered is not False, taken.swapped, taken.gathered is True)
        is_it = o is not None and taken.gathered in (None, o.mode == "gathered")
        found = _contract(o, device, weights) if o is not None and is_it else None
    if found is None or not flat.decided:
        return found
    chunk = min(taken.chunk or found.tile_chunk, upper(found.tiles))
    first = found.panel_first if taken.panel_first is None else taken.panel_first
    unrolled = taken.unroll or found.unrolled
    return replace(found, tile_chunk=chunk, panel_first=first, unrolled=unrolled, decided=flat.decided)


def _cheaper(flat: Flat, device: Device, weights: Weights) -> Contract | None:
    """The contraction with the least predicted time: L as it lies in memory, packed at run time, or with results
    stored lane by lane.

    Rows of L that lie far apart are packed where that costs less; but not where a vector is a whole line of the cache:
    a step multiplies it by so many rows that the second level keeps up, and prefetches reach the next panel.
    """
    o = operands(flat)
    found = _contract(o, device, weights) if o is not None else None
    packs = 4 * device.vector_lanes < LINE
    if packs and o is not None and found is not None and o.mode == "direct" and is_far_apart(found.l, found.k, device):
        packed = operands(flat, packs=True)
        other = _contract(packed, device, weights) if packed is not None else None
        return min((c for c in (found, other) if c is not None), key=lambda c: cycles_of_contract(c, device))
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
    return prod(map(most, c.outer)) * tile_costs_of(c, device)[0][0] + cycles_beside(c)


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
    found = swept(Contract(
        o.outer, o.panel_outer, o.m, o.n, k, s, o.l, o.mode, None, epilogue, o.accumulator, store, address, rows,
        vectors, device.vector_lanes, 1, False, micro.name, dots, o.window, device.unroll, fp16, panel_dtype,
        bias, parts_of_long([*map(most, k)]) if micro.rounds_sums and micro.order is None else None,
        magnitudes=o.magnitudes, ahead=ahead_of(s, k, device) if micro is FMA and fp16 is None else 0,
    ), device, o.flat.threads)  # fmt: skip
    return found if 4 * found.panel_floats <= PACK_LIMIT_BYTES else None


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
        far = o.mode == "direct" and reads_far(o.l, o.k, device)
        around = prod(map(most, o.outer))
        rows, vectors = tile_shape(m, columns, steps, device, row_step, sums, micro, far, o.flat.threads, around)
    return rows, vectors * micro.columns
