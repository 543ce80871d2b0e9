"""Contractions whose constant factor is mostly zero: only the vectors of weights that hold something are multiplied.

The weights of ``out[.., m, n] = f(sum over k of S[m, k] * L[k, n])`` are cut into panels of whole vectors along n. Of a
panel, a row k is kept as it is or left out as a whole (vector sparsity, V x 1 with V the width of a panel): the kept
rows lie one behind the other, and beside each the offset in S of what it is multiplied with. So the inner loop is that
of a dense tile but for one load of an index, and a convolution's taps are offsets like any other. Of bytes a row is a
word of four along k (V x 4).

Rows of a panel are padded to a whole number of steps of the inner loop (the strided format of Li, Osawa and Hoefler,
"Efficient quantized sparse matrix operations on tensor cores", SC 2022). No mark says that a network was pruned: zeros
in the constants are enough, whoever put them there, and the price decides.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import product
from math import ceil, prod
from typing import ClassVar

import numpy as np

from edgec.device.device import Device
from edgec.ir import expr as X
from edgec.ir.expr import Extent
from edgec.ir.nest import coefficient, is_fixed, most
from edgec.ir.types import DTYPES
from edgec.schedule.added import Added
from edgec.schedule.contract.contract import Contract
from edgec.schedule.flat import Flat, Weights
from edgec.schedule.offer import SparseOffer
from edgec.schedule.program import Buffer

#: Accumulators that hide the latency of a multiply-add.
IN_FLIGHT = 8
#: Sparse has to be this much cheaper by the model before it is taken.
MARGIN = 0.1
#: Weights with fewer zeros than this share, or fewer elements, are not looked at.
FEWEST, SMALLEST = 0.2, 256
#: Weights that are counted in one go.
_COUNTED = 1 << 16
#: Where more vectors than this are kept, nothing is left out that would be worth an index.
FULL = 0.95


@dataclass(frozen=True, kw_only=True)
class Sparse(Contract):
    """A contraction by kept rows. ``packed`` is [kept, width] (of bytes: one row of starts before those of a panel).

    ``index`` is the offset in S of every kept row, ``starts`` which rows are a panel's ([outer.., panels] + 1);
    ``stride`` rows are one step of the inner loop, ``group`` panels are swept for every tile of rows.
    """

    template: ClassVar[str] = "sparse"
    index: Buffer
    starts: Buffer
    stride: int
    group: int

    @property
    def added(self) -> tuple[Added, ...]:
        """No order is told: that of stored rows is another one for each panel."""
        return ()

    @property
    def variant(self) -> str:
        return f"sparse {self.rows}x{self.vectors}"

    @property
    def describe(self) -> str:
        kept = f"{self.index.elements} rows of weights kept, {self.stride} a step"
        tile = f"tile {self.rows} rows x {self.vectors} vectors of {self.lanes}"
        return f"sparse M={self.m_extent} N={self.n_extent}, {kept}, {tile}"

    @property
    def tables(self) -> list[Buffer]:
        return [*super().tables, self.index, self.starts]

    @property
    def groups(self) -> Extent:
        return X.plain(-(-self.panels // self.group))


def has_zeros(flat: Flat) -> bool:
    """Are so many weights zero that a look at where they lie may pay?"""
    constants = {e.value for e in X.loads(flat.body) if isinstance(e.value, Buffer) and e.value.data is not None}
    return any(b.data is not None and is_sparse(b.data) for b in constants)


def is_sparse(weights: np.ndarray) -> bool:
    """Are there so many zeros in so many weights that a look at where they lie may pay?"""
    if weights.size < SMALLEST:
        return False
    flat, dense, found = weights.reshape(-1), weights.size * (1 - FEWEST), 0
    for begin in range(0, flat.size, _COUNTED):
        found += int(np.count_nonzero(flat[begin : begin + _COUNTED]))
        if found >= dense:
            return False
    return True


def sparse(
    dense: Contract, dense_cycles: float | None, device: Device, weights: Weights
) -> tuple[Sparse | None, SparseOffer] | None:
    """The sparse form of a contraction where it is cheaper, and what was compared; None where it cannot be had.

    ``dense_cycles`` is what the sum takes by fewer products (`winograd.cycles_of`), where that is how it is done dense.
    """
    form = form_of(dense)
    if form is None:
        return None
    price = dense_cycles * device.costs.sparse.winograd if dense_cycles is not None else _dense(dense, device)
    cycles, height, vectors = form.tiles(device)[0]
    kept = _kept(form.rows, vectors)
    none = _cycles(dense, np.zeros_like(kept), form.offsets, height, vectors, device)
    every = _cycles(dense, np.ones_like(kept), form.offsets, height, vectors, device)
    share = min(max((price * (1 - MARGIN) - none) / max(every - none, 1.0), 0.0), 1.0)
    taken = bool(cycles < price * (1 - MARGIN) and kept.mean() <= FULL)
    offer = SparseOffer(form.zeros, float(kept.mean()), vectors * dense.lanes, price, cycles, 1 - share, taken)
    return (form.packed(height, vectors, weights, device) if taken else None), offer


@dataclass(frozen=True)
class Form:
    """A contraction that can be had without its zeros: ``rows`` [outer, vectors of a row, k, lanes] of weights, and
    the ``offsets`` in S of what they are multiplied with."""

    dense: Contract
    rows: np.ndarray
    offsets: np.ndarray

    @property
    def zeros(self) -> float:
        """The share of weights that are zero; lanes beyond the last output are none."""
        _, vectors, _, lanes = self.rows.shape
        real = self.rows.size * int(self.dense.n_extent) / (vectors * lanes)
        return 1 - float(np.count_nonzero(self.rows) / real)

    def tiles(self, device: Device) -> list[tuple[float, int, int]]:
        """(predicted cycles, rows, vectors) of every tile that registers hold, the cheapest first."""
        found = []
        for vectors in (1, 2, 4):
            kept = _kept(self.rows, vectors)
            for height in _heights(self.dense, vectors, device):
                cycles = _cycles(self.dense, kept, self.offsets, height, vectors, device)
                found.append((cycles, height, vectors))
        return sorted(found)

    def packed(self, height: int, vectors: int, weights: Weights, device: Device) -> Sparse:
        """The record of tiles of so many rows and vectors."""
        return _packed(self.dense, self.rows, self.offsets, height, vectors, weights, device)


def form_of(dense: Contract) -> Form | None:
    """A contraction as it would be without its zeros; None where that cannot be had."""
    rows = _rows_of(dense) if not dense.window else None
    offsets = _offsets(dense)
    return Form(dense, rows, offsets) if rows is not None and offsets is not None and rows.size else None


def _rows_of(dense: Contract) -> np.ndarray | None:
    """[outer, vectors of a row, k, lanes] of constant weights, as they are packed; None where they are not constant."""
    dots = dense.dots
    if dense.l_mode != "packed":
        return None
    if dense.panel_dtype != "f32" and not dense.micro.is_four_bytes:
        return None  # of 16 bits, or of several rows a step
    if dots is not None and (dots.rest or dots.step != 1 or dots.column_offset or dots.inner.op != "var"):
        return None
    if not is_fixed(*dense.panel_outer, *dense.k) or not isinstance(dense.n_extent, int):
        return None
    steps = _steps(dense)
    data = dense.panels_of_l.reshape(-1, int(dense.panels), steps + _extra(dense), dense.vectors, dense.lanes)
    rows = data[:, :, _extra(dense) :].transpose(0, 1, 3, 2, 4).reshape(len(data), -1, steps, dense.lanes)
    return rows[:, : ceil(dense.n_extent / dense.lanes)]


def _starts_of(dense: Contract) -> np.ndarray:
    """[outer, n] of what the sums of bytes start at."""
    data = dense.panels_of_l.reshape(-1, int(dense.panels), _steps(dense) + 1, dense.width)
    return data[:, :, 0].reshape(len(data), -1)[:, : int(dense.n_extent)]


def _extra(dense: Contract) -> int:
    return 0 if dense.dots is None else 1


def _steps(dense: Contract) -> int:
    """Rows of a panel without what accumulators start at."""
    if dense.dots is not None:
        return prod(most(v) for v in dense.k[:-1]) * dense.dots.count
    return prod(most(v) for v in dense.k)


def _offsets(dense: Contract) -> np.ndarray | None:
    """Offsets from S's first element at every step of the sum, in the order of the panels' rows."""
    s = dense.s
    if s.op != "load":
        return None
    address = s.args[0]
    loops = [v for v in (*dense.k, dense.m) if v.op == "var"]
    if any(coefficient(address, v) is None for v in loops):
        return None
    total = np.zeros((1,), np.int64)
    for v in dense.k:
        step = coefficient(address, v) if v.op == "var" else 0
        total = (total[:, None] + (step or 0) * np.arange(most(v))).reshape(-1)
    if total.size != _steps(dense) or np.abs(total).max(initial=0) >= 1 << 31:
        return None
    return total


def _kept(rows: np.ndarray, vectors: int) -> np.ndarray:
    """[outer, panels, k]: does a panel of so many vectors hold anything in a row?"""
    some = np.asarray(rows.any(axis=-1))
    missing = -some.shape[1] % vectors
    some = np.pad(some, ((0, 0), (0, missing), (0, 0)))
    return np.asarray(some.reshape(len(some), -1, vectors, some.shape[-1]).any(axis=2))


# ---- prices


def _dense(dense: Contract, device: Device) -> float:
    """Cycles of the dense kernel: two multiply-adds a cycle, or its weights from where they lie."""
    vectors = ceil(most(dense.n) / dense.lanes)
    outputs = prod(most(v) for v in dense.outer) * most(dense.m)
    steps = outputs * _steps(dense) * vectors
    height = min(most(dense.m), dense.rows)
    busy = max(height * dense.vectors / 2, (height + dense.vectors) / 2, 4.0 if height * dense.vectors < 8 else 0.0)
    size = _steps(dense) * vectors * dense.lanes * 4
    return steps * busy / (height * dense.vectors) / device.costs.sparse.dense_share + _far(size, device)


def _far(size: float, device: Device) -> float:
    """Cost of reading packed weights once: nothing if the second-level cache holds them."""
    return size / device.costs.sparse.far_bytes if size > max(device.l2_bytes // 2, 1) else 0.0


def _heights(dense: Contract, vectors: int, device: Device) -> list[int]:
    """Rows that a tile may have: accumulators, one row of weights and a broadcast in registers."""
    most_rows = (device.vectors_in_registers - vectors - 1) // vectors
    step = _bytes_between_rows(dense)
    # Rows a page apart share the sets of the first-level cache.
    most_rows = min(most_rows, 8) if step and step % 4096 == 0 else most_rows
    return list(range(1, max(1, min(most_rows, most(dense.m))) + 1))


def _bytes_between_rows(dense: Contract) -> int:
    step = coefficient(dense.s.args[0], dense.m) if dense.m.op == "var" else 0
    return abs(step or 0) * DTYPES[dense.s.dtype].itemsize


def ways_of(height: int, vectors: int, stride: int = IN_FLIGHT) -> int:
    """Partial sums of every element, so that enough multiply-adds are under way; a power of two."""
    ways = 1
    while height * vectors * ways < IN_FLIGHT and ways < stride:
        ways *= 2
    return ways


def _cycles(dense: Contract, kept: np.ndarray, offsets: np.ndarray, height: int, vectors: int, device: Device) -> float:
    """Predicted time of tiles of this height and width."""
    m, costs = most(dense.m), device.costs.sparse
    stored, panels = float(kept.sum()) / len(kept), kept.shape[1]
    around = prod(most(v) for v in dense.outer)
    density = max(float(kept.mean()), 1e-3)
    size = DTYPES[dense.s.dtype].itemsize * (4 if dense.dots is not None else 1)
    reach = int(offsets.max() - offsets.min()) * DTYPES[dense.s.dtype].itemsize
    cycles = 0.0
    for h, tiles in ((height, m // height), (m % height, 1)):
        if not h or not tiles:
            continue
        touched = min(h * len(offsets) * size, reach + h * _bytes_between_rows(dense))
        missed = h / max(1.0, 64 / size * density) * costs.cache_line if touched > device.l1d_bytes * 3 // 4 else 0.0
        step = max(h * vectors / 2 / costs.dense_share, h * costs.broadcast + vectors / 2) + costs.index + missed
        cycles += tiles * (stored * step + panels * (costs.tile + costs.store * h * vectors))
    return around * cycles + _far(stored * len(kept) * (vectors * dense.lanes * 4 + 4), device)


# ---- the format


def _packed(
    dense: Contract,
    rows: np.ndarray,
    offsets: np.ndarray,
    height: int,
    vectors: int,
    weights: Weights,
    device: Device,
) -> Sparse:
    """The record, with its weights in the strided format."""
    kept = _kept(rows, vectors)
    width = vectors * dense.lanes
    outer, panels, steps = kept.shape
    wide = np.zeros((outer, panels * vectors, steps, dense.lanes), rows.dtype)
    wide[:, : rows.shape[1]] = rows
    wide = wide.reshape(outer, panels, vectors, steps, dense.lanes).transpose(0, 1, 3, 2, 4)
    m = most(dense.m)
    stride = max(ways_of(h, vectors) for h in (min(height, m), m % height or height) if h)
    order = np.argsort(offsets, kind="stable")
    first = _starts_of(dense) if dense.dots is not None else None
    values: list[np.ndarray] = []
    places: list[np.ndarray] = []
    starts = [0]
    for a, p in product(range(outer), range(panels)):
        mine = order[kept[a, p, order]]
        fill = -len(mine) % stride
        last = mine[-1:].repeat(fill)
        places.append(offsets[np.concatenate([mine, last])])
        if first is not None:
            start = np.zeros((1, width), rows.dtype)
            there = first[a, p * width : (p + 1) * width]
            start[0, : len(there)] = there
            values.append(start)
        values += [wide[a, p, mine].reshape(-1, width), np.zeros((fill, width), rows.dtype)]
        starts.append(starts[-1] + len(mine) + fill)
    packed = np.concatenate(values) if starts[-1] or first is not None else np.zeros((1, width), rows.dtype)
    index = np.concatenate(places) if starts[-1] else np.zeros(1, np.int64)
    s = X.substitute(dense.s, {v: X.const(0) for v in dense.k if v.op == "var"})
    tiles = ceil(m / height)
    group = max(1, min(panels, int(device.l2_bytes // 2 // max(packed.nbytes // panels, 1)) or 1))
    around = prod(most(v) for v in dense.outer) * ceil(panels / group)
    chunk = max(1, ceil(tiles / ceil(16 / around)))
    shared = {f.name: getattr(dense, f.name) for f in fields(Contract)}
    base = {
        **shared, "k": (), "s": s, "packed": weights.add(packed), "rows": height, "vectors": vectors,
        "tile_chunk": min(chunk, tiles), "panel_first": True,
    }  # fmt: skip
    return Sparse(
        **base,
        index=weights.add(index.astype(np.int32)),
        starts=weights.add(np.array(starts, np.int32)),
        stride=stride,
        group=group,
    )
