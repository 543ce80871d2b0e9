"""Matrix products with a block of the result in the registers of each work-item.

They are for CPUs, and for GPUs whose local memory is no faster than global memory (Mali).

The matrices are those of `contract`; a work-item computes ``rows`` x ``vectors`` vectors of the result, without
barriers. L is read as vectors along n: packed at build time as [.., panel, k, n of the panel] where it is constant, in
place where it is contiguous. S is read element by element, with a fixed stride along the innermost loop of k; padding
is read from a row of zeros, so that no loop tests bounds.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from math import ceil, prod
from typing import ClassVar

import numpy as np

from edgec.device.device import Device
from edgec.ir import expr as X
from edgec.ir import positions
from edgec.ir.expr import Expr
from edgec.ir.nest import coefficient, most
from edgec.ir.types import DTYPES
from edgec.schedule.flat import Weights, evaluate_over, is_constant, with_contiguous_weights
from edgec.schedule.gpu.kernel import LANES, GpuProduct, has_lanes, packed_as, widths
from edgec.schedule.gpu.product import Product
from edgec.schedule.program import Buffer

#: fp16 products that are added up in fp16 before the sum joins an fp32 one; its rounding stays below that of factors.
FP16_STEPS = 16


@dataclass(frozen=True)
class GpuBlocked(GpuProduct):
    """A matrix product blocked in registers.

    ``s_place`` and ``l_place`` are positions of elements over batch and their loops; the stride of S along the
    innermost loop of k is ``s_step``.
    """

    s: Buffer
    s_place: Expr
    s_step: int
    inside: Expr | None  # where it does not hold, S is read from ``edge``
    edge: Buffer | None
    l: Buffer
    l_place: Expr  # of the first vector of a panel
    panel: Expr  # number of the panel of columns
    epilogue: Expr  # over ``accumulator``
    accumulator: Expr
    lanes: int
    tile_rows: int
    vectors: int
    items: int  # work-items of a work-group

    @property
    def variant(self) -> str:
        return block_name(self.tile_rows, self.vectors)

    @property
    @abstractmethod
    def factors(self) -> list[Expr]:
        """Expressions other than the epilogue."""

    @property
    def bodies(self) -> list[Expr]:
        return [*self.factors, self.epilogue]

    @property
    def at_store(self) -> list[Expr]:
        return [self.epilogue]

    @property
    def row_tiles(self) -> int:
        return ceil(self.rows / self.tile_rows)

    @property
    def panels(self) -> int:
        return ceil(self.columns / (self.vectors * self.lanes))

    @property
    def tasks(self) -> int:
        return self.batches * self.row_tiles * self.panels


@dataclass(frozen=True)
class GpuRegisters(GpuBlocked):
    """An fp32 product; ``edge`` holds zeros, and the stride of L along the innermost loop of k is ``l_step``."""

    template: ClassVar[str] = "registers"
    l_step: int
    l_image: bool  # L is read as an image of four columns a texel
    fp16_steps: int  # steps of the innermost loop of k that are added up in fp16 before fp32; or 0

    @property
    def factors(self) -> list[Expr]:
        """Expressions other than the epilogue."""
        read = [(self.s, self.s_place), (self.l, self.l_place)]
        read += [(self.edge, X.const(0))] if self.edge is not None else []
        return [X.load(buffer, (place,), "f32") for buffer, place in read]

    @property
    def describe(self) -> str:
        fp16 = f", sums of {self.fp16_steps} in fp16" * (self.fp16_steps > 0)
        image = ", weights as an image" * self.l_image
        return f"{self.sizes}, {self.tile_rows} rows of {self.vectors} x {self.lanes} in registers{fp16}{image}"


def registers(product: Product, device: Device, weights: Weights, variant: str | None = None) -> GpuRegisters | None:
    """Schedule a product for a device that blocks in registers, in blocks called ``variant`` or the cheapest ones.

    None where its operands have no fixed strides.
    """
    p = inner_last(product)
    if not p.k or not p.n or p.n[-1].op != "var":
        return None
    inner, last = p.k[-1], p.n[-1]
    s = _even(p.s, inner)
    constant = is_constant(p.l)
    if s is None or not (constant or len(p.n) == 1):
        return None
    epilogue = with_contiguous_weights(p.epilogue, (*p.batch, *p.m, *p.n), last, weights)
    stored = X.substitute(epilogue, {p.accumulator: X.load("accumulator", (last,), "f32")})
    fitting = [w for w in widths(device) if has_lanes(stored, p.store, p.address, last, w)]
    rows, columns = prod(map(most, p.m)), prod(map(most, p.n))
    if not fitting or (most(last) != columns):
        return None
    lanes = fitting[0]
    fp16_sums = "cl_khr_fp16" in device.gpu.opencl_extensions and s[0].dtype == packed_as(device) == "f16"
    tall = prod(map(most, p.batch)) * rows
    tile_rows, vectors = tile_of(tall, columns, lanes, not constant, device, fp16_sums, variant)
    width = vectors * lanes
    panel = X.fresh(ceil(columns / width))
    if constant:
        l, l_place, l_step = _packed(p, width, panel, weights, packed_as(device))
    else:
        found = _even(p.l, inner)
        fp16_sums = fp16_sums and found is not None and found[0].dtype == "f16"
        if found is None or found[3] is not None or coefficient(found[1], last) != 1:
            return None
        l, l_place, l_step, _ = found
        l_place = X.substitute(l_place, {last: panel * width})
    buffer, place, step, inside = s
    zeros = weights.add(np.zeros(step * (most(inner) - 1) + 1, DTYPES[buffer.dtype])) if inside is not None else None
    return GpuRegisters(
        p.store, p.address, p.batch, p.m, p.n, p.k, buffer, place, step, inside, zeros, l, l_place, panel, epilogue,
        p.accumulator, lanes, tile_rows, vectors, device.gpu.group_items, l_step,
        device.gpu.weights_as_images and constant and lanes == LANES, FP16_STEPS if fp16_sums else 0,
    )  # fmt: skip


def inner_last(p: Product) -> Product:
    """The product with a loop of k innermost that padding does not depend on, so that rows are inside or outside."""
    inside = X.free_variables(p.s.args[0]) if p.s.op == "select" else frozenset()
    inner = next((v for v in reversed(p.k) if v not in inside), None)
    return p if inner is None else replace(p, k=(*(v for v in p.k if v is not inner), inner))


def _even(e: Expr, inner: Expr) -> tuple[Buffer, Expr, int, Expr | None] | None:
    """(buffer, position where ``inner`` is 0, stride along it, condition or None) of a factor: a load, or zero."""
    inside = None
    if e.op == "select" and e.args[2].op == "const" and e.args[2].value == 0 and not X.loads(e.args[0]):
        inside, e = e.args[0], e.args[1]
        if inner in X.free_variables(inside):
            return None
    if e.op != "load" or not isinstance(e.value, Buffer) or e.value.dtype not in ("f32", "f16"):
        return None
    step = coefficient(e.args[0], inner)
    if step is None or step < 0:
        return None
    return e.value, X.substitute(e.args[0], {inner: X.const(0)}), step, inside


def _packed(p: Product, width: int, panel: Expr, weights: Weights, dtype: str) -> tuple[Buffer, Expr, int]:
    """Constant L as [batch.., panel, k, columns of the panel], padded with zeros."""
    outer = tuple(v for v in p.batch if v in X.free_variables(p.l))
    depth, columns = prod(map(most, p.k)), prod(map(most, p.n))
    values = evaluate_over(p.l, (*outer, *p.k, *p.n)).astype(np.float32).reshape(-1, depth, columns)
    panels = most(panel) if panel.op == "var" else 1
    padded = np.zeros((len(values), depth, panels * width), DTYPES[dtype])
    padded[:, :, :columns] = values
    buffer = weights.add(padded.reshape(len(values), depth, panels, width).transpose(0, 2, 1, 3))
    strides = [prod(map(most, p.k[i + 1 :])) * width for i in range(len(p.k))]
    place = positions.linearize((*outer, panel), (*map(most, outer), panels)) * (depth * width)
    for v, stride in zip(p.k[:-1], strides):
        place = place + v * stride
    return buffer, place, strides[-1]


def tile_of(
    rows: int, columns: int, lanes: int, whole: bool, device: Device, fp16_sums: bool, name: str | None = None
) -> tuple[int, int]:
    """(rows, vectors) of a work-item: the block called ``name``, else the one with the least predicted cycles."""
    found = tiles_of(rows, columns, lanes, whole, device, fp16_sums)
    return next((tile for tile in found if block_name(*tile) == name), found[0])


def block_name(rows: int, vectors: int) -> str:
    return f"{rows}x{vectors}"


def tiles_of(
    rows: int, columns: int, lanes: int, whole: bool, device: Device, fp16_sums: bool
) -> list[tuple[int, int]]:
    """(rows, vectors) that fit the registers of a work-item, by predicted cycles for each step of k.

    ``whole``: no last panel is narrower than the others. fp16 sums (``fp16_sums``) need half a register each, in
    addition to the fp32 sums they join.
    """
    slots = device.cores if device.gpu.group_items == 1 else device.gpu.multiprocessors * device.gpu.group_items
    found: list[tuple[float, tuple[int, int]]] = []
    for vectors in range(1, 5):
        if whole and columns % (vectors * lanes):
            continue
        for tall in range(1, 15):
            if tall * vectors * (1.5 if fp16_sums else 1) + vectors + 1 > device.vector_registers:
                break
            # Two multiply-adds or two loads a cycle; each sum has a latency of four cycles.
            cycles = max(tall * vectors / 2, (tall + vectors) / 2, 4) + 0.5
            tasks = ceil(rows / tall) * ceil(columns / (vectors * lanes))
            found.append((ceil(tasks / slots) * cycles, (tall, vectors)))
    return [tile for _, tile in sorted(found, key=lambda priced: priced[0])]
