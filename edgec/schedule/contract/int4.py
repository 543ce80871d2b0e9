"""Contractions by weights of four bits: codes that become floats in registers, with a scale for a group of the sum.

A panel holds group after group: a row of scales, a row of what code 0 stands for (left out where that is -8 scales
everywhere), then dots of eight codes a lane, in order. `codes` reads them off the formula of the weights.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import ceil, prod
from typing import ClassVar

import numpy as np

from edgec.device.device import Device
from edgec.ir import expr as X
from edgec.ir.expr import Expr, Extent
from edgec.ir.nest import coefficient, most
from edgec.schedule.contract.codes import Codes, codes_of
from edgec.schedule.contract.contract import Contract
from edgec.schedule.flat import Weights

#: Codes of a word, and what code 0 is in scales where nothing else is said.
CODES, MIDDLE = 8, 8
#: Fewer weights are not worth a look.
SMALLEST = 1 << 10


@dataclass(frozen=True, kw_only=True)
class Int4(Contract):
    """A contraction whose k is three loops: groups, dots of a group, codes of a word."""

    template: ClassVar[str] = "int4_weights"
    group: int
    is_symmetric: bool

    @property
    def variant(self) -> str | None:
        return None

    @property
    def describe(self) -> str:
        sizes = f"M={self.m_extent} N={self.n_extent} K={most(self.k[0]) * self.group}, groups of {self.group}"
        return f"weights of 4 bits {sizes}, tile {self.rows} rows x {self.vectors} vectors of {self.lanes}"

    @property
    def k_extent(self) -> Extent:
        """Number of rows of a panel."""
        groups, dots, _ = (most(v) for v in self.k)
        return groups * (dots + (1 if self.is_symmetric else 2))


def int4(dense: Contract, device: Device, weights: Weights) -> Int4 | None:
    """The contraction by codes of four bits; None where its weights are none."""
    dots = dense.dots
    if dense.l_mode != "packed" or len(dense.k) != 1 or dense.window or dense.micro.has_starts:
        return None
    k = dots.inner if dots is not None else dense.k[0]
    if k.op != "var" or not isinstance(k.value.extent, int) or dense.n.op != "var" or dense.s.op != "load":
        return None
    outer = dense.panel_outer
    if prod(most(v) for v in (*outer, k, dense.n)) < SMALLEST:
        return None
    found = codes_of(dense.l, outer, k, dense.n)
    shifted = _of_four_bits(found) if found is not None else None
    if found is None or shifted is None:
        return None
    codes, base = shifted
    is_symmetric = bool((base == -MIDDLE * found.scale).all())
    group = codes.shape[2]
    loops = X.fresh(k.value.extent // group), X.fresh(group // CODES), X.fresh(CODES)
    rows, vectors = _tile(dense, device)
    place = loops[0] * group + loops[1] * CODES + loops[2]
    shared = {f.name: getattr(dense, f.name) for f in fields(Contract)}
    panels = _packed(codes, found.scale, None if is_symmetric else base, vectors * dense.lanes)
    changed = {
        **shared, "k": loops, "s": _read_at(dense, place), "micro_kernel": "fma", "dots": None, "fp16": None,
        "rows": rows, "vectors": vectors,
        "packed": weights.add(panels), "panel_first": True,
        "tile_chunk": max(1, dense.tile_chunk * dense.rows // rows),
    }  # fmt: skip
    return Int4(**changed, group=group, is_symmetric=is_symmetric)


def _read_at(dense: Contract, place: Expr) -> Expr:
    """S at a place of the sum."""
    (k,), address = dense.k, dense.s.args[0]
    first = X.substitute(address, {k: X.const(0)})
    step = dense.dots.step if dense.dots is not None else coefficient(address, k)
    assert step is not None
    return X.load(dense.s.value, (first + place * step,), dense.s.dtype)


def _tile(dense: Contract, device: Device) -> tuple[int, int]:
    """Rows and vectors of a tile: dots, scales and bases of its vectors lie in registers beside accumulators."""
    vectors = min(dense.vectors, 4 if most(dense.m) == 1 else 2)
    room = max(1, (device.vectors_in_registers - 2 - 5 * vectors) // vectors)
    tiles = ceil(most(dense.m) / min(room, 14))
    return ceil(most(dense.m) / tiles), vectors


def _of_four_bits(found: Codes) -> tuple[np.ndarray, np.ndarray] | None:
    """Codes 0..15, and what code 0 is; None where there are others."""
    low = min(int(found.codes.min()), 0)
    codes = found.codes.astype(np.int16) - low
    if codes.max() >= 2 * CODES:
        return None
    base = found.scale * low if found.base is None else found.scale * low + found.base
    return codes.astype(np.uint32), base


def _packed(codes: np.ndarray, scale: np.ndarray, base: np.ndarray | None, width: int) -> np.ndarray:
    """[outer, panel, groups, rows of a group, width] in 32 bits a lane."""
    around, groups, group, columns = codes.shape
    panels = -(-columns // width)

    def wide(rows: np.ndarray) -> np.ndarray:
        padded = np.zeros((*rows.shape[:-1], panels * width), rows.dtype)
        padded[..., :columns] = rows
        return padded

    shifts = (4 * np.arange(CODES, dtype=np.uint32))[:, None]
    dots = codes.reshape(around, groups, group // CODES, CODES, columns)
    dots = np.bitwise_or.reduce(dots << shifts, axis=3).astype(np.uint32)
    parts = [scale, *([] if base is None else [base])]
    rows = [wide(p.astype(np.float32)[:, :, None]).view(np.uint32) for p in parts]
    whole = np.concatenate([*rows, wide(dots)], axis=2)
    split = whole.reshape(around, groups, -1, panels, width).transpose(0, 3, 1, 2, 4)
    return np.ascontiguousarray(split).view(np.int32)
