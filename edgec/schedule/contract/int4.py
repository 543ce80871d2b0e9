"""Contractions by weights of four bits: codes that become floats in registers, with a scale for a group of the sum.

Weights that take at most sixteen evenly spaced values in every group along k are four bits, whoever wrote them:
MatMulNBits, DequantizeLinear with blocks, or edgec's own rounding. A panel holds group after group: a row of scales, a
row of what code 0 stands for (left out where that is -8 scales everywhere), then dots of eight codes a lane, in
order.
The formula of the weights is what is looked at, so that scales and zero points may be spelled in any way, and rules
may have moved factors of whole columns into them.
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
from edgec.schedule.contract.contract import Contract
from edgec.schedule.flat import Weights, evaluate_over

#: Codes of a word, and what code 0 is in scales where nothing else is said.
CODES, MIDDLE = 8, 8
#: Groups that are looked for, the longest first.
GROUPS = (256, 128, 64, 32, 16)
#: Columns that are looked at before all are.
SAMPLE = 16
#: Fewer weights are not worth a look.
SMALLEST = 1 << 10
#: Gaps below this share of a group's range are none; how far from a whole number of steps a weight may be, and from
#: what its code gives, of the largest weight: weights were rounded to fp32, more than once.
SLACK, ROUGHLY, EXACT = 2e-3, 3e-2, 1e-5


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


@dataclass(frozen=True)
class Codes:
    """[outer, groups, group, n] whole numbers 0..15, of which a weight is ``scale * code + base``."""

    codes: np.ndarray
    scale: np.ndarray  # [outer, groups, n]
    base: np.ndarray
    is_symmetric: bool  # is every base -8 scales?


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
    found = _codes(dense.l, outer, k, dense.n)
    if found is None:
        return None
    group = found.codes.shape[2]
    loops = X.fresh(k.value.extent // group), X.fresh(group // CODES), X.fresh(CODES)
    rows, vectors = _tile(dense, device)
    place = loops[0] * group + loops[1] * CODES + loops[2]
    shared = {f.name: getattr(dense, f.name) for f in fields(Contract)}
    base = {
        **shared, "k": loops, "s": _read_at(dense, place), "micro_kernel": "fma", "dots": None, "fp16": None,
        "rows": rows, "vectors": vectors,
        "packed": weights.add(_packed(found, vectors * dense.lanes)), "panel_first": True,
        "tile_chunk": max(1, dense.tile_chunk * dense.rows // rows),
    }  # fmt: skip
    return Int4(**base, group=group, is_symmetric=found.is_symmetric)


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


def _codes(l: Expr, outer: tuple[Expr, ...], k: Expr, n: Expr) -> Codes | None:
    """The codes of constant weights; None where they are of more than four bits."""
    few = X.substitute(l, {**{v: X.const(0) for v in outer}, n: (part := X.fresh(min(SAMPLE, most(n))))})
    sample = evaluate_over(few, (k, part)).astype(np.float64)[None]
    groups = [g for g in GROUPS if sample.shape[1] % g == 0 and _coded(sample, g) is not None]
    if not groups:
        return None
    values = evaluate_over(l, (*outer, k, n)).astype(np.float64).reshape(-1, *sample.shape[1:2], most(n))
    found = (_coded(values, g) for g in groups)
    return next((c for c in found if c is not None), None)


def _coded(values: np.ndarray, group: int) -> Codes | None:
    """[outer, k, n] in groups of so many along k, each evenly spaced; None where one is not."""
    around, extent, columns = values.shape
    v = values.reshape(around, extent // group, group, columns)
    low, high = v.min(2), v.max(2)
    gaps = np.diff(np.sort(v, 2), axis=2)
    gaps[gaps <= (high - low)[:, :, None] * SLACK] = np.inf
    least = gaps.min(2)
    least = np.where(np.isfinite(least), least, np.where(low == 0, 1.0, np.abs(low)))
    plain, centered = np.full(least.shape, np.nan), np.full(least.shape, np.nan)
    for parts in range(1, CODES):  # the least gap may be of several steps
        spaces = np.rint((high - low) / (least / parts))
        step = np.where(spaces > 0, (high - low) / np.maximum(spaces, 1), least / parts)
        off = np.remainder((v - low[:, :, None]) / step[:, :, None] + 0.5, 1) - 0.5
        fits = (np.abs(off).max(2) < ROUGHLY) & (spaces < 2 * CODES)
        first, last = np.rint(low / step), np.rint(high / step)
        fits_whole = fits & (np.abs(low / step - first) < ROUGHLY)
        for sign in (1, -1):  # scales may be negative: the largest weight is -8 of them
            reach = (first >= -MIDDLE, last < MIDDLE) if sign > 0 else (first > -MIDDLE, last <= MIDDLE)
            centered = np.where(np.isnan(centered) & fits_whole & reach[0] & reach[1], sign * step, centered)
        plain = np.where(np.isnan(plain) & fits, step, plain)
        if not np.isnan(centered).any():
            break
    is_symmetric = not np.isnan(centered).any()
    scale, base = (centered, -MIDDLE * centered) if is_symmetric else (plain, low)
    if np.isnan(scale).any():
        return None
    codes = np.rint((v - base[:, :, None]) / scale[:, :, None])
    back = codes * scale[:, :, None] + base[:, :, None]
    if np.abs(back - v).max(initial=0) > EXACT * np.abs(v).max(initial=0):
        return None
    return Codes(codes.astype(np.uint32), scale, base, is_symmetric)


def _packed(found: Codes, width: int) -> np.ndarray:
    """[outer, panel, groups, rows of a group, width] in 32 bits a lane."""
    around, groups, group, columns = found.codes.shape
    panels = -(-columns // width)

    def wide(rows: np.ndarray) -> np.ndarray:
        padded = np.zeros((*rows.shape[:-1], panels * width), rows.dtype)
        padded[..., :columns] = rows
        return padded

    shifts = (4 * np.arange(CODES, dtype=np.uint32))[:, None]
    dots = found.codes.reshape(around, groups, group // CODES, CODES, columns)
    dots = np.bitwise_or.reduce(dots << shifts, axis=3).astype(np.uint32)
    parts = [found.scale, *([] if found.is_symmetric else [found.base])]
    rows = [wide(p.astype(np.float32)[:, :, None]).view(np.uint32) for p in parts]
    whole = np.concatenate([*rows, wide(dots)], axis=2)
    split = whole.reshape(around, groups, -1, panels, width).transpose(0, 3, 1, 2, 4)
    return np.ascontiguousarray(split).view(np.int32)
