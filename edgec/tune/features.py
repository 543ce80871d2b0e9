"""Features that a ranking of variants learns from: numbers of a record, and the terms of its predicted cycles."""

from __future__ import annotations

from math import ceil, log2, prod

from edgec.device.device import Device
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.index import upper
from edgec.ir.nest import coefficient, most
from edgec.ir.types import DTYPES
from edgec.schedule.candidates import Candidate
from edgec.schedule.contract.contract import Contract
from edgec.schedule.contract.sparse import IN_FLIGHT
from edgec.schedule.contract.winograd import Winograd
from edgec.schedule.storage import bytes_along, memory_type

#: A page, whose multiples rows of S share cache sets at.
PAGE = 4096

Features = dict[str, float]


def features(candidate: Candidate, device: Device) -> Features:
    """Numbers by their names, all of them for every candidate. Sizes, counts and cycles are logarithms to base 2."""
    record = candidate.record
    found = _of_contract(record, device) if isinstance(record, Contract) else _of_winograd(record, device)
    kinds = ("winograd", "sparse", "swapped", "gathered", "scattered")
    words = set(candidate.variant.split())
    found |= {kind: float(kind in words) for kind in kinds}
    found |= {"cycles": _log(candidate.cycles), "beside": candidate.beside / max(candidate.cycles, 1.0)}
    return {name: found.get(name, 0.0) for name in NAMES}


#: The names, in the order in which a model sees them.
NAMES = (
    "cycles", "arithmetic", "loads", "stream", "tiles", "stores", "beside",  # terms, as shares of the cycles
    "rows", "vectors", "held", "reuse", "registers", "lanes", "idle_rows", "idle_lanes",
    "m", "n", "k", "around", "panels", "row_tiles", "tasks", "chunk",
    "panel_first", "outside_bytes", "inside_bytes", "panel_bytes", "chunk_bytes", "swept_bytes",
    "row_step", "page_step", "store_step", "column_step", "sum_step", "sum_loops", "innermost", "unrolled",
    "window", "parts", "direct", "packed", "constant_bytes",
    "step", "near_bytes", "traffic", "code",
    "winograd", "sparse", "swapped", "gathered", "scattered", "points", "block",
)  # fmt: skip


def _of_contract(c: Contract, device: Device) -> Features:
    costs, m, n, k = device.costs.register_tile, most(c.m), most(c.n), upper(c.k_extent)
    around, sums = prod(map(most, c.outer)), c.sums
    panels, tiles, height = upper(c.panels), upper(c.tiles), c.rows * c.sums
    each = around * panels * tiles
    size = DTYPES[c.panel_dtype].itemsize
    panel, weights = k * c.width * size, k * n * size
    chunks = upper(c.chunks)
    of_s = max((DTYPES[memory_type(e)].itemsize for e in X.loads(c.s)), default=4)
    rows_bytes = m * sums * k * of_s
    is_far = panel > device.l1d_bytes // 2
    terms = {
        "arithmetic": each * k * height * c.vectors / 2,
        "loads": each * k * (height + c.vectors) / 2,
        "stream": each * k * c.vectors * costs.l2_vector if is_far else 0.0,
        "tiles": each * costs.tile,
        "stores": each * height * c.vectors * costs.store,
    }
    whole = sum(terms.values())
    outside, inside = (weights, rows_bytes) if c.panel_first else (rows_bytes, weights)
    times = panels if c.panel_first else chunks
    row_step = max((bytes_along(e, c.m) for e in X.loads(c.s)), default=0)
    innermost = c.k[-1] if c.k else X.const(0)
    rounds, held = most(innermost), height * c.vectors
    swept = around * (outside + inside * times)
    step = max(held, height + c.vectors, IN_FLIGHT) / 2  # cycles: of arithmetic, of loads, or of waiting for sums
    return {
        **{name: cycles / whole for name, cycles in terms.items()},
        **_tile(c.rows * sums, c.vectors, c.lanes, device),
        "idle_rows": 1 - m / (tiles * c.rows), "idle_lanes": 1 - n / (panels * c.width),
        "m": _log(m), "n": _log(n), "k": _log(k), "around": _log(around), "panels": _log(panels),
        "row_tiles": _log(tiles), "tasks": _log(around * panels * chunks), "chunk": _log(c.tile_chunk),
        "panel_first": float(c.panel_first), "outside_bytes": _log(outside), "inside_bytes": _log(inside),
        "panel_bytes": _log(panel / max(1, device.l1d_bytes)),
        "chunk_bytes": _log(c.tile_chunk * height * k * of_s / max(1, device.l1d_bytes)),
        "swept_bytes": _log(swept), "traffic": _log(swept / max(1, each * k * held)),
        "step": _log(step / held),
        "near_bytes": _log((panel + height * k * of_s) / max(1, device.l1d_bytes)),
        "code": _log(held * (rounds if rounds <= c.unrolled else 1)),
        "row_step": _log(row_step), "page_step": float(row_step > 0 and row_step % PAGE == 0),
        "store_step": _log(abs(_step(c.address, c.m)) * DTYPES[c.store.dtype].itemsize),
        "column_step": _log(abs(_step(c.address, c.n))),
        "sum_step": _log(max((bytes_along(e, innermost) for e in X.loads(c.s)), default=0)),
        "sum_loops": float(len(c.k)), "innermost": _log(rounds),
        "unrolled": float(rounds <= c.unrolled), "window": _log(sums), "parts": float(c.parts is not None),
        "direct": float(c.l_mode == "direct"), "packed": float(c.l_mode == "packed"),
        "constant_bytes": _log(weights * prod(map(most, c.panel_outer)) / max(1, device.l2_bytes)),
    }  # fmt: skip


def _of_winograd(w: Winograd, device: Device) -> Features:
    m, n, k = w.tiles, most(w.n), w.k_extent
    width = w.vectors * w.lanes
    panels, tiles = ceil(n / width), ceil(min(w.block, m) / w.rows)
    each = panels * tiles * w.blocks * w.points
    terms = {"arithmetic": each * k * w.rows * w.vectors / 2, "loads": each * k * (w.rows + w.vectors) / 2}
    whole = sum(terms.values())
    return {
        **{name: cycles / whole for name, cycles in terms.items()},
        **_tile(w.rows, w.vectors, w.lanes, device),
        "idle_lanes": 1 - n / (panels * width), "m": _log(m), "n": _log(n), "k": _log(k), "panels": _log(panels),
        "row_tiles": _log(tiles), "tasks": _log(w.blocks), "packed": 1.0,
        "panel_bytes": _log(k * width * 4 / max(1, device.l1d_bytes)),
        "chunk_bytes": _log(w.block * w.points * (w.k_stride + n) * 4 / max(1, device.l2_bytes)),
        "constant_bytes": _log(n * k * w.points * 4 / max(1, device.l2_bytes)),
        "points": float(w.points), "block": _log(w.block),
    }  # fmt: skip


def _tile(rows: int, vectors: int, lanes: int, device: Device) -> Features:
    """Of a register tile: how many sums it holds, and how often it uses what it has read."""
    return {
        "rows": float(rows), "vectors": float(vectors), "held": float(rows * vectors),
        "reuse": rows * vectors / (rows + vectors), "lanes": _log(lanes),
        "registers": (rows * vectors + vectors + 1) / max(1, device.vector_registers),
    }  # fmt: skip


def _step(address: Expr, loop: Expr) -> int:
    return (coefficient(address, loop) or 0) if loop.op == "var" else 0


def _log(value: float) -> float:
    """Of 0: 0 like that of 1, but for fractions."""
    return log2(value) if value > 0 else 0.0
