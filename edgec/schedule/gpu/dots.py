"""int8 matrix products in OpenCL: four products are one step, and one instruction where the device has it.

Blocks are kept in registers, as in `registers`. L is constant and packed as [.., panel, 1 + dots of k, columns of the
panel] in dots of four elements, rows padded with zeros; the first row of a panel holds initial accumulators (zero
points, a bias). S is read in dots where its elements are neighbors and aligned, else one by one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, prod
from typing import ClassVar

import numpy as np

from edgec.device.device import Device
from edgec.ir import expr as X
from edgec.ir import index, positions
from edgec.ir.expr import Expr
from edgec.ir.nest import coefficient, most
from edgec.ir.types import DTYPES
from edgec.schedule.contract.int8_dot import WORD
from edgec.schedule.flat import Flat, Weights, evaluate_over, is_constant, with_contiguous_weights
from edgec.schedule.gpu.integer import factors, started
from edgec.schedule.gpu.kernel import has_lanes, widths
from edgec.schedule.gpu.product import Product, product_of
from edgec.schedule.gpu.registers import GpuBlocked, inner_last, tile_of
from edgec.schedule.program import Buffer


@dataclass(frozen=True)
class GpuDots(GpuBlocked):
    """An int8 matrix product in registers; ``accumulator`` is a float or an integer."""

    template: ClassVar[str] = "dots"
    s_dots: bool  # four elements of S are one word in memory
    types: tuple[str, str]  # i8 or u8 of S and L
    store_lanes: bool  # neighbors along n are computed and stored at once

    @property
    def factors(self) -> list[Expr]:
        """Expressions other than the epilogue."""
        read = [X.load(self.s, (self.s_place,), self.types[0]), X.load(self.l, (self.l_place,), "i32")]
        return [*read, *([X.load(self.edge, (X.const(0),), self.types[0])] if self.edge is not None else [])]

    @property
    def describe(self) -> str:
        kinds = " x ".join(self.types)
        return f"{self.sizes}, {self.tile_rows} rows of {self.vectors} x {self.lanes} in registers, four {kinds} a step"


def dots(flat: Flat, device: Device, weights: Weights, variant: str | None = None) -> GpuDots | None:
    """Schedule an int8 matrix product with constants, in blocks called ``variant`` or the cheapest ones.

    None where ``flat`` is none.
    """
    product = product_of(flat, "i32")
    if product is None or not product.k:
        return None
    if not is_constant(product.l) and is_constant(product.s):  # the result is stored transposed, one by one
        product = replace(product, s=product.l, l=product.s, m=product.n, n=product.m)
    p = inner_last(product)
    found = factors(p.s, p.l)
    if found is None or not is_constant(p.l) or p.k[-1].op != "var":
        return None
    s = _even(found.s, p.k[-1])
    if s is None:
        return None
    buffer, place, step, inside, fill = s
    epilogue, accumulator, start = p.epilogue, p.accumulator, X.const(0, "i32")
    parts = started(epilogue, accumulator)
    if parts is not None and is_constant(parts[0]) and X.free_variables(parts[0]) <= {*p.batch, *p.n}:
        start, epilogue, accumulator = parts
    last = p.n[-1] if p.n else X.const(0)
    epilogue = with_contiguous_weights(epilogue, (*p.batch, *p.m, *p.n), last, weights)
    stored = X.substitute(epilogue, {accumulator: X.load("accumulator", (last,), "f32")})
    rows, columns = prod(map(most, p.m)), prod(map(most, p.n))
    whole = accumulator.dtype == "f32" and last.op == "var" and most(last) == columns
    fitting = [w for w in widths(device) if whole and has_lanes(stored, p.store, p.address, last, w)]
    lanes = (fitting or widths(device))[0]
    tile_rows, vectors = tile_of(prod(map(most, p.batch)) * rows, columns, lanes, False, device, False, variant)
    panel = X.fresh(ceil(columns / (vectors * lanes)))
    l, l_place = _packed(p, found.l, start, found.offset, vectors * lanes, panel, weights)
    edge = None
    if inside is not None:
        edge = weights.add(np.full(step * (most(p.k[-1]) - 1) + WORD, fill, DTYPES[found.types[0]]))
    return GpuDots(
        p.store, p.address, p.batch, p.m, p.n, p.k, buffer, place, step, inside, edge, l, l_place, panel, epilogue,
        accumulator, lanes, tile_rows, vectors, device.gpu.group_items, _in_dots(place, step), found.types,
        bool(fitting),
    )  # fmt: skip


def _even(e: Expr, inner: Expr) -> tuple[Buffer, Expr, int, Expr | None, int] | None:
    """(buffer, place where ``inner`` is 0, step along it, condition or None, number elsewhere) of bytes in memory."""
    inside, fill = None, 0
    if e.op == "select" and e.args[2].op == "const" and not X.loads(e.args[0]):
        inside, fill, e = e.args[0], int(e.args[2].value), e.args[1]
        if inner in X.free_variables(inside):
            return None
    if e.op != "load" or not isinstance(e.value, Buffer) or e.value.dtype != e.dtype:
        return None
    step = coefficient(e.args[0], inner)
    if step is None or step < 0:
        return None
    return e.value, X.substitute(e.args[0], {inner: X.const(0)}), step, inside, fill


def _in_dots(place: Expr, step: int) -> bool:
    terms, constant = index.linear(place)
    return step == 1 and constant % WORD == 0 and all(k % WORD == 0 for k in terms.values())


def _packed(
    p: Product, l: Expr, start: Expr, offset: int, width: int, panel: Expr, weights: Weights
) -> tuple[Buffer, Expr]:
    """L in dots after the initial accumulators; ``offset`` is the constant part of S."""
    outer = tuple(v for v in p.batch if v in X.free_variables(l) | X.free_variables(start))
    depth, columns = most(p.k[-1]), prod(map(most, p.n))
    values = evaluate_over(l, (*outer, *p.k, *p.n)).astype(np.int64)
    values = values.reshape(prod(map(most, outer)), -1, depth, columns)
    begin = np.broadcast_to(evaluate_over(start, (*outer, *p.n)), (*map(most, outer), *map(most, p.n)))
    begin = begin.reshape(len(values), 1, columns) + offset * values.sum(axis=(1, 2))[:, None, :]
    dots, panels = ceil(depth / WORD), ceil(columns / width)
    padded = np.zeros((len(values), values.shape[1], dots * WORD, panels * width), np.uint8)
    padded[:, :, :depth, :columns] = values.astype(np.uint8)  # of a signed byte, its bits
    padded = padded.reshape(len(values), -1, dots, WORD, panels, width).transpose(0, 4, 1, 2, 5, 3)
    packed = np.ascontiguousarray(padded).view("<u4").reshape(len(values), panels, -1, width)
    row = np.zeros((len(values), 1, panels * width), np.int64)
    row[:, :, :columns] = begin
    first = row.reshape(len(values), 1, panels, width).transpose(0, 2, 1, 3)
    every = np.concatenate([first.astype(np.int32), packed.astype(np.uint32).view(np.int32)], axis=2)
    place = positions.linearize((*outer, panel), (*map(most, outer), panels)) * (every.shape[2] * width)
    return weights.add(np.ascontiguousarray(every)), place
