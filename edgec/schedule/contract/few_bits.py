"""Contractions by weights of few bits: codes with a scale for a group of the sum, decoded in registers.

Without ``planes``, codes become fp32 and are multiplied by S. With dot products of bytes, S becomes integers first, a
scale for each group: ``planes`` bytes each, of which three are as exact as fp32. Every word of weights is then a few
integer dot products for each plane, and what is left to do in fp32 happens once a group.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from math import ceil, prod
from typing import ClassVar

import numpy as np

from edgec.device.device import Device
from edgec.ir import expr as X
from edgec.ir.expr import Expr, Extent
from edgec.ir.index import upper
from edgec.ir.nest import coefficient, extent, most
from edgec.ir.types import DTYPES, dtype_name
from edgec.rewrite.rule import Numeric
from edgec.schedule.added import Added
from edgec.schedule.contract.code_panels import packed_codes
from edgec.schedule.contract.codes import Codes, Numbers, codes_of
from edgec.schedule.contract.contract import Contract
from edgec.schedule.contract.matrix_unit import BLOCK, LEAST_ROWS, MatrixUnit, matrix_unit
from edgec.schedule.flat import Weights
from edgec.schedule.storage import memory_type

#: Fewer weights are not worth it.
SMALLEST = 1 << 10
#: Bytes of S for one weight: of integers as exact as fp32, and where approximations are allowed.
PLANES: dict[Numeric, int] = {"exact": 0, "reassociates": 3, "approximates": 1}
#: Instruction sets with dot products of bytes.
DOTS = ("avx2", "avx512bw", "dotprod")
#: Most bytes of S that a task makes integers of at a time, so that they stay in a near cache.
ROUNDED_BYTES = 1 << 17


@dataclass(frozen=True)
class Row:
    """How scales or offsets are stored: their type, and that of a factor for ``span`` groups (none: "")."""

    dtype: str
    factor: str = ""
    span: int = 1

    @staticmethod
    def of(numbers: Numbers) -> Row:
        if numbers.factor is None:
            return Row(dtype_name(numbers.codes.dtype))
        return Row(dtype_name(numbers.codes.dtype), dtype_name(numbers.factor.dtype), numbers.span)


@dataclass(frozen=True, kw_only=True)
class FewBits(Contract):
    """A contraction whose k is two loops: groups, and what is inside them."""

    template: ClassVar[str] = "few_bits"
    bits: int
    group: int
    zero: int
    scale: Row
    base: Row | None
    has_points: bool  # is ``base`` a zero point?
    planes: int
    signed: bool  # codes of 8 bits are stored as signed bytes, as the instruction takes them
    panel_words: int
    low: int  # what a code 0 of a panel is in the formula of the weights
    place: Expr  # where that formula's codes lie, over ``k`` and ``n``
    unit: MatrixUnit | None = None  # for many rows

    @property
    def added(self) -> tuple[Added, ...]:
        """No order is told: sums are those of decoded planes."""
        return ()

    @property
    def numbers(self) -> list[tuple[str, Row]]:
        """Scales and offsets, in the order in which a panel has them."""
        return [("scale", self.scale), *([("base", self.base)] if self.base is not None else [])]

    @property
    def span(self) -> int:
        """Groups that share a factor of scales or offsets; 1 where they have none."""
        return max(row.span for _, row in self.numbers)

    def words(self, dtype: str) -> int:
        """Words of a row of one number for each column."""
        return self.width * DTYPES[dtype].itemsize // 4

    @property
    def number_words(self) -> int:
        """Words of the scales and offsets of a group."""
        return sum(self.words(row.dtype) for _, row in self.numbers)

    @property
    def group_words(self) -> int:
        """Words of a group."""
        return self.number_words + self.group * self.bits // 32 * self.width

    @property
    def factor_words(self) -> int:
        """Words of the factors that groups share."""
        return sum(self.words(row.factor) for _, row in self.numbers if row.factor)

    @property
    def variant(self) -> str | None:
        return None

    @property
    def describe(self) -> str:
        sizes = f"M={self.m_extent} N={self.n_extent} K={most(self.k[0]) * self.group}, groups of {self.group}"
        of = {0: "fp32", 1: "8-bit integers"}.get(self.planes, f"{8 * self.planes - 1}-bit integers")
        tile = f"tile {self.rows} rows x {self.vectors} vectors of {self.lanes}"
        unit = f", many rows in {8 * self.unit.parts} bits of bf16 tiles" if self.unit else ""
        return f"weights of {self.bits} bits {sizes}, times {of}, {tile}{unit}"

    @property
    def uses_tiles(self) -> bool:
        return self.unit is not None

    @property
    def k_extent(self) -> Extent:
        return most(self.k[0]) * self.group

    @property
    def scratch_bytes(self) -> int:
        """For each row of a task: its integers, and a scale and a sum for each group and plane; or its tiles."""
        return max(self.rounded_rows * self.row_bytes, self.unit.scratch_bytes if self.unit else 0)

    @property
    def row_bytes(self) -> int:
        """Bytes of the integers, scales and sums of a row."""
        return most(self.k[0]) * (self.planes * self.group + 4 + 4 * self.planes)

    @property
    def rounded_rows(self) -> int:
        """Rows that a task makes integers of."""
        return self.rows * min(self.tile_chunk, upper(self.tiles)) if self.planes else 0


def few_bits(dense: Contract, device: Device, weights: Weights, numeric: Numeric) -> FewBits | None:
    """The contraction by codes of few bits; None where its weights are none."""
    if dense.l_mode != "packed" or dense.window or dense.micro.has_starts or dense.s.op != "load":
        return None
    parts = _loops_of_sum(dense)
    outer, length = dense.panel_outer, prod(map(most, parts))
    if dense.n.op != "var" or not all(isinstance(extent(v), int) for v in parts):
        return None
    if prod(map(most, (*outer, dense.n))) * length < SMALLEST or device.vector_lanes not in (4, 8, 16):
        return None
    k = X.fresh(length)
    found = codes_of(X.substitute(dense.l, _at(parts, k)), outer, k, dense.n)
    if found is None:
        return None
    count, group = found.codes.shape[1:3]
    loops = X.fresh(count), X.fresh(group)
    s, step = _read_at(dense, loops[0] * group + loops[1], loops[1])
    bits = found.bits
    planes = PLANES[numeric] if step == 1 and memory_type(s) == "f32" and any(map(device.has, DOTS)) else 0
    unit = matrix_unit(device, numeric, most(dense.m), count * group, group * _span(found)) if planes else None
    rows, vectors = _tile(dense, device, planes, unit)
    if vectors * dense.lanes != BLOCK:
        unit = None
    is_signed = bool(planes) and bits == 8 and device.has("neon") and not device.has("i8mm")
    if is_signed:
        found = replace(found, codes=found.codes ^ np.uint8(128), zero=found.zero - 128)
    panels = packed_codes(found, vectors * dense.lanes, bits)
    chunk = max(1, dense.tile_chunk * dense.rows // rows)
    if planes:
        chunk = max(1, min(ROUNDED_BYTES // (planes * rows * count * group), ceil(most(dense.m) / rows)))
    shared = {f.name: getattr(dense, f.name) for f in fields(Contract)}
    changed = {
        **shared, "k": loops, "s": s, "micro_kernel": "fma", "dots": None, "fp16": None, "rows": rows,
        "vectors": vectors, "packed": weights.add(panels), "panel_first": not planes, "tile_chunk": chunk,
    }  # fmt: skip
    return FewBits(
        **changed, bits=bits, group=group, zero=found.zero, scale=Row.of(found.scale),
        base=None if found.base is None else Row.of(found.base), has_points=found.has_points, planes=planes,
        signed=is_signed, panel_words=panels.shape[2], low=found.low,
        place=X.substitute(found.place, dict(zip(found.k, loops))), unit=unit,
    )  # fmt: skip


def _span(found: Codes) -> int:
    """Groups that share a factor."""
    return max(x.span for x in (found.scale, found.base) if x is not None)


def _read_at(dense: Contract, place: Expr, inner: Expr) -> tuple[Expr, int]:
    """S at a place of the sum, and its stride along ``inner``; 0 where it has none."""
    address = dense.s.args[0]
    if dense.dots is None:
        address = X.substitute(address, _at(dense.k, place))
    else:
        last = dense.dots.inner
        parts = _at((*dense.k[:-1], last), place)
        address = X.substitute(address, {**parts, dense.k[-1]: X.const(0)}) + parts[last] * dense.dots.step
    return X.load(dense.s.value, (address,), dense.s.dtype), coefficient(address, inner) or 0


def _loops_of_sum(dense: Contract) -> tuple[Expr, ...]:
    """The loops of the sum, element by element, innermost last."""
    return dense.k if dense.dots is None else (*dense.k[:-1], dense.dots.inner)


def _at(loops: tuple[Expr, ...], place: Expr) -> dict[Expr, Expr]:
    """The loops of the sum at one place of it."""
    found, below = {}, 1
    for v in reversed(loops):
        found[v] = place // below % most(v)
        below *= most(v)
    return found


def _tile(dense: Contract, device: Device, planes: int, unit: MatrixUnit | None) -> tuple[int, int]:
    """Rows and vectors of a tile: accumulators of every plane and in fp32, and what is decoded, lie in registers.

    Where the matrix unit multiplies many rows, a panel has as many columns as its block.
    """
    registers, n = device.vectors_in_registers, most(dense.n)
    m = min(most(dense.m), LEAST_ROWS - 1) if unit and not isinstance(dense.m_extent, int) else most(dense.m)
    most_vectors = min(-(-n // dense.lanes), 4 if m == 1 and registers > 16 else 2)
    if unit:
        vectors = most_vectors
        room = max(1, (registers - 4 - 2 * vectors) // (vectors * (planes + 1)))
    elif planes:
        # Panels that fill their columns, in even numbers, so that two threads share them equally.
        found = {v: -(-n // (v * dense.lanes)) for v in range(1, most_vectors + 1)}
        vectors = min(found, key=lambda v: (found[v] * v, found[v] % 2 and found[v] < 64, -v))
        room = max(1, (registers - 4 - 2 * vectors) // (vectors * (planes + 1)))
    else:
        vectors = min(dense.vectors, most_vectors)
        room = max(1, (registers - 2 - 5 * vectors) // vectors)
    tiles = ceil(m / min(room, 14))
    return ceil(m / tiles), vectors
